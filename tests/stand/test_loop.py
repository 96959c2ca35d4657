"""The whole loop, on a real Kafka, a real warehouse and a real Airflow: only the new model day moves, and once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from airflow_native import ROOT
from backfill_core import Backfill, DateRange, EventFolder, open_store
from clickstream import verbs
from clickstream.etl import MARTS
from stand_native import Run, Stand

if TYPE_CHECKING:
    from collections.abc import Iterator

Moved: TypeAlias = set[tuple[str, str]]


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with Stand(tmp_path_factory.mktemp("stand"), Path(sys.executable).parent) as stand:
        yield stand


def succeeded(run: Run) -> Run:
    assert run.state() == "success", run.tasks()
    return run


def counts(stand: Stand) -> dict[tuple[str, str], tuple[int, int, str]]:
    """Every mart's every day: rows, page views, checksum of all that it says."""
    return {
        (line["mart"], line["event_date"]): (line["rows"], line["page_views"], line["checksum"])
        for line in stand.counts()
    }


def moved(before: dict[Any, Any], after: dict[Any, Any]) -> Moved:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def everywhere(*days: str) -> Moved:
    return {(mart, day) for mart in MARTS for day in days}


def page_views(stand: Stand) -> int:
    return sum(line["page_views"] for line in stand.counts() if line["mart"] == "visits_daily")


def boundaries(stand: Stand) -> int:
    """Look at every boundary of the chain, and return how many there are."""
    answer = verbs.chain_check(verbs.Stand(stand.broker))
    assert answer["faults_found"] == 0, answer
    return len(answer["boundaries"])


def covered(t_end: str) -> list[str]:
    """The calendar dates of the model day that begins at an instant."""
    start = datetime.fromisoformat(t_end.replace("Z", "+00:00")).astimezone(timezone.utc)
    last = start + timedelta(days=1) - timedelta(microseconds=1)
    return sorted({start.date().isoformat(), last.date().isoformat()})


def runner(stand: Stand, *arguments: str) -> Any:
    """The contract's command line on the store of the marts, as a person calls it."""
    called = subprocess.run(
        [sys.executable, str(ROOT / "runner.py"), *arguments],
        env={**os.environ, "BACKFILL_DB": stand.store, "BACKFILL_EVENTS": str(stand.home)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(called.stdout)


def test_the_loop_moves_one_model_day_at_a_time(stand: Stand) -> None:
    # An empty stand has nothing to go on from.
    refused = stand.generate("next-day")
    assert refused.state() == "failed"
    assert said_last(refused, "next-day").startswith("The stand is empty")
    assert refused.tasks()["next-day"] == [("failed", 1)]

    history = succeeded(
        stand.generate("backfill", t0="2026-01-01T00:00:00Z", days=2, visits_a_day=300, seed=3)
    ).receipt("backfill")
    succeeded(stand.load())
    before = counts(stand)
    assert set(before) == everywhere("2026-01-01", "2026-01-02")
    assert page_views(stand) == history["published"]["browser_events"]
    links = boundaries(stand)

    t_end = history["t_end"]
    for day in ("2026-01-03", "2026-01-04"):
        answer = succeeded(stand.generate("next-day", expected_t_end=t_end)).receipt("next-day")
        succeeded(stand.load())
        after = counts(stand)

        assert covered(t_end) == [day]
        assert moved(before, after) == everywhere(day)
        assert (
            page_views(stand)
            == sum(value[1] for key, value in before.items() if key[0] == "visits_daily")
            + (answer["published"]["browser_events"])
        )
        assert boundaries(stand) == links + 1
        before, links, t_end = after, links + 1, answer["t_end"]

    # Loading once more changes nothing, and finds no day to build.
    again = succeeded(stand.load())
    assert again.receipt("days_due") == []
    assert again.receipt("load_stg") == dict.fromkeys(history["published"], 0)
    assert counts(stand) == before

    # The same day can't be asked for twice.
    repeated = stand.generate("next-day", expected_t_end="2026-01-04T00:00:00Z")
    assert repeated.state() == "failed"
    assert said_last(repeated, "next-day").startswith(
        "Expected the history to end at 2026-01-04T00:00:00Z, but it ends at 2026-01-05T00:00:00Z."
    )
    assert boundaries(stand) == links

    # Nor under a load.
    stand.pause("etl_pipeline", paused=False)
    busy = stand.generate("next-day")
    stand.pause("etl_pipeline")
    assert busy.state() == "failed"
    assert said_last(busy, "next-day").startswith("etl_pipeline is not paused")
    assert boundaries(stand) == links
    assert succeeded(stand.generate("check")).receipt("check")["faults"] == []


def test_at_noon_a_model_day_touches_two_dates_and_a_sealed_or_claimed_one_is_left_alone(stand: Stand) -> None:
    verbs.clear(verbs.Stand(stand.broker))
    emptied(stand)
    history = succeeded(
        stand.generate("backfill", t0="2024-02-28T12:00:00Z", days=1, visits_a_day=300, seed=3)
    ).receipt("backfill")
    # What a killed worker left behind holds nobody up.
    runner(stand, "claim", "2024-02-28", "2024-02-28", "etl_pipeline/manual__2024-01-01T00:00:00+00:00")
    succeeded(stand.load())
    before = counts(stand)
    assert {day for _, day in before} == {"2024-02-28", "2024-02-29"}

    runner(stand, "seal", "2024-02-29", "2024-02-29")
    runner(stand, "claim", "2024-03-01", "2024-03-01", "anna")
    answer = succeeded(stand.generate("next-day", expected_t_end=history["t_end"])).receipt("next-day")
    assert covered(history["t_end"]) == ["2024-02-29", "2024-03-01"]
    first = succeeded(stand.load())

    # The sealed day keeps what was published and has its correction; the claimed one waits for its holder.
    assert first.receipt("days_due") == ["2024-02-29", "2024-03-01"]
    assert counts(stand) == before
    correction = first.receipt("rebuild_day", 0)
    published = before["visits_daily", "2024-02-29"][1]
    assert (correction["dt"], correction["orders_before"]) == ("2024-02-29", published)
    assert correction["orders_after"] > published
    assert sorted(first.tasks()["rebuild_day"]) == [("skipped", 1), ("success", 1)]
    assert "2024-03-01 is left alone: claimed_by:anna. The marts say what they said" in first.log("rebuild_day", 1)
    assert first.receipt("validate")["left_alone"] == ["2024-02-29", "2024-03-01"]

    runner(stand, "release", "2024-03-01", "2024-03-01", "anna")
    second = succeeded(stand.load())

    assert moved(before, counts(stand)) == everywhere("2024-03-01")
    assert second.receipt("validate")["left_alone"] == ["2024-02-29"]
    with open_store(stand.store) as store:
        statement = Backfill(store, EventFolder(str(stand.home))).statement(DateRange.parse("2024-02-28", "2024-03-01"))
    published_so_far = history["published"]["browser_events"] + answer["published"]["browser_events"]
    assert statement["orders_corrected"] == published_so_far
    assert [day["corrections"] for day in statement["partitions"]] == [0, 1, 0]


def said_last(run: Run, task_id: str) -> str:
    return run.log(task_id)[-1]


def emptied(stand: Stand) -> None:
    """Empty what the load goes on from, and forget the marts of another test."""
    from clickstream.etl import Etl
    from clickstream.warehouse import Warehouse

    with Warehouse.opened(stand.warehouse_url) as warehouse:
        etl = Etl(warehouse)
        etl.empty("stg", "ods", "dds")
        for day in map(date.fromisoformat, etl.days_due()):
            etl.stage_day(day)
            etl.swap_day(day)
