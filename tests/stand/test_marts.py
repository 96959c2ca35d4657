"""Where store and marts meet: whatever dies between the two, a sealed day says in the end what was recorded of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import date
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from backfill_airflow.compat import AirflowFailException, AirflowSkipException
from backfill_core import Backfill, DateRange, EventFolder, create_store, open_store
from clickstream.etl import MARTS, Etl
from clickstream.topics import BROWSER, EVENT_TOPICS
from clickstream_airflow import stand
from tests.stand.history import History, by_day
from tests.stand.served import ROOT, Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clickstream.broker import Record
    from clickstream.warehouse import Warehouse

DAY = "2026-01-02"


@pytest.fixture
def store(tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backfill]:
    path = str(tmp_path / "marts.db")
    create_store(path)
    connection = {"conn_type": "backfill", "host": path, "schema": "dds.event"}
    monkeypatch.setenv("AIRFLOW_CONN_BACKFILL_MARTS", json.dumps(connection))
    monkeypatch.setenv("CLICKHOUSE_URL", served.url)
    with open_store(path) as opened:
        yield Backfill(opened, EventFolder("none"))


@pytest.fixture
def etl(warehouse: Warehouse) -> Etl:
    warehouse.create()
    return Etl(warehouse)


def portions() -> list[dict[str, list[Record]]]:
    """The records of the day, but for half of its page views; those, but for one; and that one."""
    history = History(f"{DAY}T00:00:00Z")
    day = history.day()
    views = [record.value for record in day.pop(BROWSER)]
    half = len(views) // 2
    parts = [views[:half], views[half:-1], views[-1:]]
    first, second, third = ({BROWSER: history.records(BROWSER, part)} for part in parts)
    return [{**day, **first}, second, third]


def arrive(etl: Etl, records: dict[str, list[Record]]) -> None:
    """Carry records to DDS."""
    for topic in EVENT_TOPICS:
        etl.stage(topic, records.get(topic, []))
    etl.load_ods()
    etl.load_dds()


def rebuild(run_id: str = "manual__2") -> dict[str, Any]:
    run = SimpleNamespace(dag_id="etl_pipeline", run_id=run_id, conf={})
    ti = SimpleNamespace(task_id="rebuild_day", map_index=0, try_number=1)
    return dict(stand.rebuild_day(DAY, dag_run=run, run_id=run_id, ti=ti))


def rebuild_and_die(moment: str) -> None:
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    command = [sys.executable, str(ROOT / "tests" / "stand" / "dying.py"), DAY, moment]
    died = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr


def said(etl: Etl) -> dict[str, tuple[int, int, str]]:
    """What each mart says of the day."""
    return {mart: of for (mart, day), of in by_day(etl).items() if day == DAY}


def recorded(store: Backfill) -> int | None:
    return store.status(DateRange.parse(DAY, DAY))["partitions"][0]["orders"]


def seal(store: Backfill) -> None:
    store.release(DateRange.parse(DAY, DAY), "etl_pipeline/manual__killed")
    store.seal(DateRange.parse(DAY, DAY))


@pytest.mark.parametrize("moment", MARTS)
def test_a_day_sealed_after_a_death_behind_its_record_is_swapped_from_what_was_built(
    etl: Etl, store: Backfill, moment: str
) -> None:
    first, second, third = portions()
    arrive(etl, first)
    rebuild("manual__1")
    arrive(etl, second)
    expected = etl.facts(date.fromisoformat(DAY)).events

    rebuild_and_die(moment)
    before = said(etl)
    seal(store)
    arrive(etl, third)
    correction = rebuild()

    assert recorded(store) == expected
    assert before["dq_summary"][1] < expected
    assert {views for _, views, _ in said(etl).values()} == {expected}
    assert (correction["orders_before"], correction["orders_after"]) == (expected, expected + 1)
    assert stand.validate() == {"days": 1, "events": expected, "left_alone": [DAY]}


def test_a_sealed_day_whose_built_tables_are_gone_too_is_built_once_more_while_its_events_are_the_same(
    etl: Etl, store: Backfill
) -> None:
    first, second, _ = portions()
    arrive(etl, first)
    rebuild("manual__1")
    arrive(etl, second)
    rebuild_and_die(MARTS[0])
    seal(store)
    etl.drop_day(date.fromisoformat(DAY))

    with pytest.raises(AirflowSkipException, match="left alone: sealed"):
        rebuild()

    assert {views for _, views, _ in said(etl).values()} == {recorded(store)}


def test_a_sealed_day_that_a_person_holds_is_left_alone_until_its_release(etl: Etl, store: Backfill) -> None:
    first, second, _ = portions()
    arrive(etl, first)
    rebuild("manual__1")
    arrive(etl, second)
    rebuild_and_die(MARTS[0])
    before = said(etl)
    seal(store)
    store.claim(DateRange.parse(DAY, DAY), "anna")

    with pytest.raises(AirflowSkipException):
        rebuild()
    held, meanwhile = stand.validate(), said(etl)
    store.release(DateRange.parse(DAY, DAY), "anna")
    with pytest.raises(AirflowSkipException, match="left alone: sealed"):
        rebuild()

    assert held == {"days": 0, "events": 0, "left_alone": [DAY]}
    assert meanwhile == before
    assert {views for _, views, _ in said(etl).values()} == {recorded(store)}


def test_a_day_sealed_after_a_death_before_its_record_stays_as_it_was_sent(etl: Etl, store: Backfill) -> None:
    first, second, _ = portions()
    arrive(etl, first)
    sent = rebuild("manual__1")["orders"]
    before = said(etl)
    arrive(etl, second)

    rebuild_and_die("record")
    seal(store)
    correction = rebuild()

    assert (recorded(store), correction["orders_before"]) == (sent, sent)
    assert said(etl) == before
    assert {row["name"] for row in etl.warehouse.rows("dm", "tables")} == set(MARTS)


def test_a_sealed_day_whose_mart_is_not_what_was_sent_is_told(etl: Etl, store: Backfill) -> None:
    first, second, _ = portions()
    arrive(etl, first)
    rebuild("manual__1")
    seal(store)
    arrive(etl, second)
    etl.warehouse.command(f"ALTER TABLE dm.visits_daily DROP PARTITION '{DAY}'")

    with pytest.raises(AirflowFailException, match=f"visits_daily says 0 .*, {recorded(store)} were sent"):
        stand.validate()


def test_a_stand_that_is_begun_anew_knows_of_no_seal(etl: Etl, store: Backfill, tmp_path: Path) -> None:
    first, second, _ = portions()
    arrive(etl, first)
    rebuild("manual__1")
    seal(store)

    # As docs/OPERATIONS.md says, "To begin really anew".
    etl.empty("stg", "ods", "dds")
    etl.warehouse.command("DROP DATABASE dm")
    for file in tmp_path.glob("marts.db*"):
        file.unlink()
    create_store(str(tmp_path / "marts.db"))  # both as the load's first task does
    etl.warehouse.create()
    arrive(etl, first)
    arrive(etl, second)
    receipt = rebuild("manual__2")

    assert receipt["done"] == [DAY]
    assert {views for _, views, _ in said(etl).values()} == {receipt["orders"]}
    assert stand.validate()["left_alone"] == []
