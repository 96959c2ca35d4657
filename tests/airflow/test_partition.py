from __future__ import annotations

from datetime import date, datetime, timezone
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest

from airflow_stand import Run
from backfill_airflow.compat import DAG, CronDataIntervalTimetable
from backfill_airflow.partition import day_of_interval, partition_of
from backfill_core import UsageError


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("zone", "start", "end", "hours", "partition"),
    [
        ("UTC", "2025-06-28T00:00", "2025-06-29T00:00", 24, "2025-06-28"),
        ("UTC", "2024-02-29T00:00", "2024-03-01T00:00", 24, "2024-02-29"),
        ("Europe/Warsaw", "2026-01-14T23:00", "2026-01-15T23:00", 24, "2026-01-15"),
        ("Europe/Warsaw", "2026-03-28T23:00", "2026-03-29T22:00", 23, "2026-03-29"),
        ("Europe/Warsaw", "2026-10-24T22:00", "2026-10-25T23:00", 25, "2026-10-25"),
        ("America/New_York", "2026-07-04T04:00", "2026-07-05T04:00", 24, "2026-07-04"),
        ("America/New_York", "2026-03-08T05:00", "2026-03-09T04:00", 23, "2026-03-08"),
        ("America/New_York", "2026-11-01T04:00", "2026-11-02T05:00", 25, "2026-11-01"),
        ("Asia/Kolkata", "2026-03-28T18:30", "2026-03-29T18:30", 24, "2026-03-29"),
        # Midnight itself does not exist on this day.
        ("Africa/Cairo", "2024-04-25T22:00", "2024-04-26T21:00", 23, "2024-04-26"),
    ],
)
def test_an_interval_of_one_local_day_is_that_day(zone: str, start: str, end: str, hours: int, partition: str) -> None:
    first, last = instant(start), instant(end)

    assert (last - first).total_seconds() == hours * 3600
    assert day_of_interval(first, last, zone) == date.fromisoformat(partition)


@pytest.mark.parametrize(
    ("zone", "start", "end", "complaint"),
    [
        ("UTC", "2025-06-29T00:10", "2025-06-29T00:10", "is empty"),
        ("UTC", "2025-06-28T00:00", "2025-07-01T00:00", "not exactly one day in UTC"),
        ("UTC", "2025-06-28T00:00", "2025-06-28T12:00", "not exactly one day in UTC"),
        ("UTC", "2025-06-28T00:10", "2025-06-29T00:10", "not exactly one day in UTC"),
        ("UTC", "2025-06-29T00:00", "2025-06-28T00:00", "not exactly one day in UTC"),
        ("Europe/Warsaw", "2026-03-29T00:00", "2026-03-30T00:00", "not exactly one day in Europe/Warsaw"),
        ("Asia/Kolkata", "2026-03-29T00:00", "2026-03-30T00:00", "not exactly one day in Asia/Kolkata"),
        # 24 hours are no day when the day has 23.
        ("Europe/Warsaw", "2026-03-28T23:00", "2026-03-29T23:00", "not exactly one day in Europe/Warsaw"),
    ],
)
def test_any_other_interval_is_refused_with_both_instants(zone: str, start: str, end: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refusal:
        day_of_interval(instant(start), instant(end), zone)

    assert f"{start}:00+00:00 to {end}:00+00:00" in str(refusal.value)


def dag_in(zone: str) -> DAG:
    start = datetime(2020, 1, 1, tzinfo=timezone.utc)
    return DAG("a_dag", start_date=start, schedule=CronDataIntervalTimetable("0 0 * * *", timezone=zone))


def test_the_zone_is_the_timetables() -> None:
    run = Run(data_interval_start=instant("2026-03-28T23:00"), data_interval_end=instant("2026-03-29T22:00"))

    assert partition_of(run, dag_in("Europe/Warsaw")) == date(2026, 3, 29)


def test_a_zone_may_be_pendulums_own() -> None:
    warsaw: Any = SimpleNamespace(timetable=SimpleNamespace(timezone=pendulum.timezone("Europe/Warsaw")))
    run = Run(data_interval_start=instant("2026-03-28T23:00"), data_interval_end=instant("2026-03-29T22:00"))

    assert partition_of(run, warsaw) == date(2026, 3, 29)


@pytest.mark.parametrize("key", ["2026-11-01", "2026-11-01T00:00:00"])
def test_a_partition_key_goes_before_the_interval(key: str) -> None:
    assert partition_of(Run(partition_key=key), dag_in("UTC")) == date(2026, 11, 1)


@pytest.mark.parametrize("key", ["europe", "2026-11-01T05:00:00", "2026-11"])
def test_a_partition_key_that_is_no_date_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="not a date"):
        partition_of(Run(partition_key=key), dag_in("UTC"))


def test_a_run_with_neither_names_no_partition() -> None:
    run = Run(run_id="manual__1", data_interval_start=None, data_interval_end=None)

    with pytest.raises(UsageError, match="manual__1 has neither a partition key nor a data interval"):
        partition_of(run, dag_in("UTC"))
