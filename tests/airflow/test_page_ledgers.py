"""A ledger that doesn't answer keeps nobody from the others: who waits for a look at it, and what the rest are told."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from backfill_airflow.page import ledgers as ledgers_module
from backfill_airflow.page.ledgers import Found, Ledgers
from backfill_core.errors import NoStoreError, StoreError

HERE, LOST = Found({"shop.orders": "UTC"}), Found({}, StoreError("no answer"))


class Store:
    """A store that answers when it is let."""

    def __init__(self, answer: Found) -> None:
        self.answer = answer
        self.free = Event()
        self.free.set()
        self.looks = 0

    def look(self, _db: str) -> Found:
        self.looks += 1
        answer = self.answer
        assert self.free.wait(60)
        return answer


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store(HERE)
    monkeypatch.setattr(ledgers_module, "_look_at", made.look)
    return made


def asked_beside(ledgers: Ledgers, told: list[Found]) -> Thread:
    thread = Thread(target=lambda: told.append(ledgers.find("a")))
    thread.start()
    return thread


def test_the_first_who_asks_waits_and_one_look_is_for_all(store: Store) -> None:
    ledgers = Ledgers()
    told: list[Found] = []
    store.free.clear()
    threads = [asked_beside(ledgers, told) for _ in range(3)]
    assert told == []

    store.free.set()
    for thread in threads:
        thread.join(60)

    assert told == [HERE] * 3
    assert store.looks <= 3


def test_a_store_that_was_not_readable_is_not_waited_for_and_comes_back(store: Store) -> None:
    ledgers = Ledgers()
    store.answer = LOST
    assert ledgers.find("a") == LOST
    store.free.clear()
    store.answer = HERE

    assert ledgers.find("a") == LOST  # without an answer: the store stands still

    store.free.set()
    while ledgers.find("a") != HERE:
        pass


def test_a_store_that_stands_still_is_waited_for_shortly_and_what_was_known_is_told(store: Store) -> None:
    ledgers = Ledgers()
    assert ledgers.find("a") == HERE
    store.free.clear()
    store.answer = LOST

    assert [ledgers.find("a"), ledgers.find("a")] == [HERE, HERE]
    assert store.looks == 2

    store.free.set()


def test_a_store_that_is_made_meanwhile_is_found_at_once(store: Store) -> None:
    ledgers = Ledgers()
    store.answer = Found({}, NoStoreError("there is none yet"))
    ledgers.find("a")
    store.answer = HERE

    assert ledgers.find("a") == HERE
