"""Whoever looks beside a generator that is at work sees one whole history, and no fault that isn't there."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, islice
from typing import TYPE_CHECKING

import pytest

from clickstream import broker as broker_module
from clickstream import verbs
from clickstream.errors import RefusedError
from clickstream.look import require_sound
from clickstream.topics import GEO
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, command, held, manifest, outcome, started, until, wait_for
from tests.clickstream.test_next_day import put, spelled

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from clickstream.broker import Broker

LOOKS = 50
"""At one history, which grows meanwhile, and each look with it."""
HISTORIES = 20 if os.environ.get("BACKFILL_FAULTS") == "long" else 1


@contextmanager
def live(broker: Broker, tick_seconds: str) -> Iterator[subprocess.Popen[str]]:
    """A live generator that has committed once; unless it ends before the block, it is ended, well."""
    before = manifest(broker)["t_end"]
    process = started(broker, "continue", "--tick-seconds", tick_seconds, "--speed", "20000")
    try:
        wait_for(
            lambda: process.poll() is not None or manifest(broker)["t_end"] != before, "the live generator's commit"
        )
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            ended = outcome(process)
            assert ended.code == 0, ended.stderr
    finally:
        process.kill()
        process.communicate()


def test_no_look_beside_a_live_generator_sees_a_fault_that_is_not_there(either_broker: Broker, tmp_path: Path) -> None:
    stand = Stand(either_broker)
    seen: set[str] = set()

    def check() -> list[str]:
        answer = verbs.check(stand)
        seen.add(answer["t_end"])
        assert all(topic["records"] == topic["expected_records"] for topic in answer["topics"].values())
        return answer["faults"]

    def precheck() -> list[str]:
        require_sound(either_broker)
        return []

    def export() -> list[str]:
        verbs.export(stand, str(tmp_path / "history.zip"))
        return []

    looks: list[Callable[[], object]] = [check, precheck, lambda: verbs.chain_check(stand)["faults"], precheck, export]
    for _ in range(HISTORIES):
        verbs.clear(stand)
        verbs.backfill(stand, **SMALL, days=2)
        seen.clear()
        with live(either_broker, "0.05"):
            faults = [fault for look in islice(cycle(looks), LOOKS) if (fault := look())]

        assert faults == []
        assert len(seen) > LOOKS // 10  # it moved on all the time
        assert held(either_broker) == until(manifest(either_broker)["t_end"])


def test_the_command_line_looks_beside_a_live_generator_with_its_defaults(broker: Broker) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=2)

    with live(broker, "0.2"):
        results = [command(broker, verb) for verb in ("check", "chain-check") * 3]

    assert [result.code for result in results] == [0] * 6, [result.stdout for result in results]


def test_a_tail_beside_a_live_generator_is_told(broker: Broker) -> None:
    stand = Stand(broker)
    verbs.backfill(stand, **SMALL, days=1)

    with live(broker, "5") as generator:
        put(broker, GEO, b"x", b'{"click_id":"x"}')
        faults = verbs.check(stand)["faults"]
        with pytest.raises(RefusedError, match="a tail of 1"):
            require_sound(broker)
        ended = outcome(generator)  # of itself, at its next commit

    assert any("a tail of 1" in fault for fault in faults)
    assert (ended.code, ended.answer["refused"]) == (4, "tail")


def test_a_day_that_is_being_published_without_transactions_is_no_tail(broker: Broker) -> None:
    plain = replace(broker, transactions=False)
    verbs.backfill(Stand(plain), **SMALL, days=1)
    refusals: list[str] = []

    def look(moment: str) -> None:
        if moment in ("events", "state"):
            try:
                verbs.check(Stand(plain))
            except RefusedError as refusal:
                refusals.append(refusal.reason)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker_module, "OPEN_SECONDS", 0.5)
        verbs.next_day(Stand(plain, progress=look))

    assert refusals == ["generator-running", "generator-running"]
    assert verbs.check(Stand(plain))["faults"] == []


def test_a_day_that_is_being_published_in_a_transaction_is_not_there_yet(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    seen: dict[str, str] = {}

    def look(moment: str) -> None:
        answer = verbs.check(stand)
        assert answer["faults"] == []
        seen[moment] = answer["t_end"]

    verbs.next_day(Stand(stand.broker, progress=look))

    assert seen == dict.fromkeys(["begun", "events", "state", "manifest"], spelled(1)) | {"committed": spelled(2)}
