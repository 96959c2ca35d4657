from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pendulum
import pytest
from airflow.timetables.base import TimeRestriction
from airflow.timetables.trigger import CronTriggerTimetable

from airflow_stand import Run
from backfill_airflow.compat import DAG, Asset, CronDataIntervalTimetable
from backfill_airflow.partition import day_of_interval, partition_of
from backfill_core import UsageError
from zones import changes

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        # The midnight at its end occurs twice; the one at its begin did so.
        ("America/Havana", "2024-11-02T04:00", "2024-11-03T05:00", 25, "2024-11-02"),
        ("America/Havana", "2024-11-03T05:00", "2024-11-04T05:00", 24, "2024-11-03"),
        # The next day was left out by the zone.
        ("Pacific/Apia", "2011-12-29T10:00", "2011-12-30T10:00", 24, "2011-12-29"),
        # Other times of day: the day that was over when the interval ended.
        ("UTC", "2025-06-28T02:00", "2025-06-29T02:00", 24, "2025-06-28"),
        ("UTC", "2025-06-28T23:59", "2025-06-29T23:59", 24, "2025-06-28"),
        ("America/New_York", "2026-03-07T07:00", "2026-03-08T07:00", 24, "2026-03-07"),
        ("America/New_York", "2026-03-08T07:00", "2026-03-09T06:00", 23, "2026-03-08"),
        # 23:30 does not exist on the day of the start: Airflow takes half past midnight.
        ("America/Nuuk", "2024-03-31T01:30", "2024-04-01T00:30", 23, "2024-03-30"),
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
        ("UTC", "2025-06-28T12:00", "2025-06-29T00:00", "not exactly one day in UTC"),
        ("UTC", "2025-06-28T02:00", "2025-06-30T02:00", "not exactly one day in UTC"),
        ("UTC", "2025-06-29T00:00", "2025-06-28T00:00", "not exactly one day in UTC"),
        # Four in the morning of a zone is no midnight, but it is its own: 24 hours later, in summer time, it is five.
        ("Europe/Warsaw", "2026-03-28T03:00", "2026-03-29T03:00", "not exactly one day in Europe/Warsaw"),
        ("America/Havana", "2024-11-03T04:00", "2024-11-03T05:00", "not exactly one day in America/Havana"),
        # 24 hours are no day when the day has 23.
        ("Europe/Warsaw", "2026-03-28T23:00", "2026-03-29T23:00", "not exactly one day in Europe/Warsaw"),
    ],
)
def test_any_other_interval_is_refused_with_both_instants(zone: str, start: str, end: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refusal:
        day_of_interval(instant(start), instant(end), zone)

    assert f"{start}:00+00:00 to {end}:00+00:00" in str(refusal.value)


@pytest.mark.parametrize(
    ("cron", "first", "last"),
    [("0 0 * * *", 1970, 2037), ("0 2 * * *", 2024, 2026), ("30 23 * * *", 2024, 2026), ("0 12 * * *", 2024, 2024)],
)
def test_every_day_that_is_not_24_hours_long_is_found_by_airflows_own_intervals(
    cron: str, first: int, last: int
) -> None:
    wrong = []
    jumps = changes(first, last)
    for zone, jump in jumps:
        dag: Any = SimpleNamespace(timetable=CronDataIntervalTimetable(cron, timezone=zone), timezone="UTC")
        for start, end in intervals_around(dag.timetable, jump):
            expected = last_day_over(end, zone)
            try:
                found: Any = partition_of(Run(data_interval_start=start, data_interval_end=end), dag)
            except UsageError as refusal:
                found = str(refusal)
            if found != expected:
                wrong.append((zone, start.isoformat(), end.isoformat(), expected, found))

    assert len(jumps) > 40 * (last - first + 1)
    assert wrong == []


def intervals_around(timetable: Any, jump: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the intervals that Airflow makes of the days before and after a jump: by hand, then by schedule."""
    restriction = TimeRestriction(earliest=None, latest=None, catchup=True)
    by_hand = timetable.infer_manual_data_interval(run_after=pendulum.instance(jump))
    yield by_hand
    info = timetable.next_dagrun_info(last_automated_data_interval=by_hand, restriction=restriction)
    yield info.data_interval
    yield timetable.infer_manual_data_interval(run_after=info.data_interval.end)


def last_day_over(end: datetime, zone: str) -> date:
    """Return the last day over at an instant, found by going back by the hour until the zone shows another date."""
    own, before = ZoneInfo(zone), end
    while before.astimezone(own).date() == end.astimezone(own).date():
        before -= timedelta(hours=1)
    return before.astimezone(own).date()


def dag_in(zone: str) -> DAG:
    start = datetime(2020, 1, 1, tzinfo=timezone.utc)
    return DAG("a_dag", start_date=start, schedule=CronDataIntervalTimetable("0 0 * * *", timezone=zone))


def test_the_zone_is_the_timetables() -> None:
    run = Run(data_interval_start=instant("2026-03-28T23:00"), data_interval_end=instant("2026-03-29T22:00"))

    assert partition_of(run, dag_in("Europe/Warsaw")) == date(2026, 3, 29)


def nested_timetables(zone: str) -> list[Any]:
    """Return the timetables of this line of Airflow that hold another one, in that zone."""
    inner: Any = CronDataIntervalTimetable("0 0 * * *", timezone=zone)
    if find_spec("airflow.sdk"):
        from airflow.sdk import AssetOrTimeSchedule, MultipleCronTriggerTimetable

        several = MultipleCronTriggerTimetable("0 0 * * *", "0 12 * * *", timezone=zone)
        return [AssetOrTimeSchedule(assets=[Asset("test://any")], timetable=inner), several]
    from airflow.timetables.datasets import DatasetOrTimeSchedule

    return [DatasetOrTimeSchedule(datasets=[Asset("test://any")], timetable=inner)]


@pytest.mark.parametrize(
    "timetable", nested_timetables("Europe/Warsaw"), ids=lambda timetable: type(timetable).__name__
)
def test_the_zone_of_a_timetable_within_another_counts(timetable: Any) -> None:
    dag: Any = SimpleNamespace(timetable=timetable, timezone="UTC")
    midnight = instant("2026-03-28T23:00")

    with pytest.raises(UsageError, match="in Europe/Warsaw, the timetable's zone"):
        partition_of(Run(data_interval_start=midnight, data_interval_end=instant("2026-03-29T23:00")), dag)
    run = Run(data_interval_start=midnight, data_interval_end=instant("2026-03-29T22:00"))
    assert partition_of(run, dag) == date(2026, 3, 29)


def test_a_schedule_without_intervals_is_refused_on_a_day_without_a_midnight_too() -> None:
    skipped = instant("2024-04-25T22:00")
    dag: Any = SimpleNamespace(timetable=CronTriggerTimetable("0 0 * * *", timezone="Africa/Cairo"), timezone="UTC")

    with pytest.raises(UsageError, match="is empty"):
        partition_of(Run(data_interval_start=skipped, data_interval_end=skipped), dag)


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
