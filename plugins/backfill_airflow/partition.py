"""Which partition a DAG run means."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pendulum

from backfill_airflow.compat import has_intervals, timetable_zone
from backfill_core import DateRange, UsageError, parse_date

if TYPE_CHECKING:
    from datetime import datetime

    from backfill_airflow.compat import Context

AT_MIDNIGHT = "T00:00:00"

ADVICE = (
    'Schedule the DAG with CronDataIntervalTimetable("0 0 * * *", timezone=…), run it with `airflow backfill create`, '
    "or give the operator its date."
)


def partition_of(dag_run: Any, dag: Any) -> date:
    """Return the calendar day whose partition this run replaces.

    It is the run's partition key where there is one, else the day that its data interval closes in the timetable's
    zone. The logical date and the run id are never looked at: which day they carry depends on who started the run.

    Raises:
        UsageError: the run has neither, the key is no date, or the interval is not exactly one local day.
    """
    if key := getattr(dag_run, "partition_key", None):
        return parse_date(key.removesuffix(AT_MIDNIGHT))
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    if start is None or end is None:
        raise UsageError(
            f"the run {dag_run.run_id} has neither a partition key nor a data interval: it names no partition. {ADVICE}"
        )
    zone = timetable_zone(dag)
    if start == end and has_intervals(dag):
        start = _start_of_a_lost_interval(end, zone)
    return day_of_interval(start, end, zone)


def dates_of(context: Context, first: object = None, last: object = None) -> DateRange:
    """Return the range that an operator was given, inclusive; by default the one partition that its run means.

    first, last: days as YYYY-MM-DD text or dates. Without `last` the range is the one day `first`.

    Raises:
        UsageError: either is no date, the range ends before it starts, or none was given and the run names none.
    """
    if first is None and last is None:
        run: Any = context["dag_run"]
        day = partition_of(run, context["dag"])
        return DateRange(day, day)
    if first is None:
        raise UsageError(f"the range has an end, {last}, but no start")
    return DateRange.parse(str(first), str(first if last is None else last))


def parts_of(dates: DateRange, most: int) -> list[DateRange]:
    """Return the range in parts of the same length, as short as `most` parts allow; the last may be shorter."""
    days = -(-len(dates) // most)
    last = dates.last.toordinal()
    return [
        DateRange(date.fromordinal(first), date.fromordinal(min(first + days - 1, last)))
        for first in range(dates.first.toordinal(), last + 1, days)
    ]


def interval_end_of(context: Context) -> datetime | None:
    """Return when the interval ends from which the run's partition is taken; None where it is not taken from one."""
    run: Any = context["dag_run"]
    return None if getattr(run, "partition_key", None) else run.data_interval_end


def day_of_interval(start: datetime, end: datetime, zone: Any) -> date:
    """Return the local calendar day that the end of the half-open interval [start, end) closes.

    That is the last day that was over when the interval ended: the day itself where days go from midnight to midnight,
    and the day before where a run at 2 o'clock ends an interval from 2 o'clock to 2 o'clock.

    start, end: instants with an offset. zone: a pendulum zone or its name. From an hour to the same hour of the next
    day there are 23, 24 or 25 hours; which of them is the zone's business.

    Raises:
        UsageError: the interval is empty, or it is not exactly one day of that zone.
    """
    interval = f"{pendulum.instance(start).isoformat()} to {pendulum.instance(end).isoformat()}"
    if start == end:
        raise UsageError(f"the data interval is empty, {interval}, so it covers no partition. {ADVICE}")
    if not _is_one_day(start, end, zone):
        name = getattr(zone, "name", zone)
        raise UsageError(
            f"the data interval {interval} is not exactly one day in {name}, the timetable's zone. {ADVICE}"
        )
    return parse_date(_last_day_over(end, zone).isoformat())


def _start_of_a_lost_interval(end: datetime, zone: Any) -> datetime:
    """Return where the interval of a run by hand began that Airflow gave no length.

    It does so on a day on which the clock skips the schedule's time. There Airflow takes a later time, and from that
    goes back to the same one. What was skipped tells the time of day: it was there the day before.
    """
    instant, after = _local(end, "UTC"), _local(end, zone)
    skipped = _offset(instant, zone) - _offset(instant.subtract(hours=24), zone)
    if skipped <= 0 or _offset(instant.subtract(seconds=skipped), zone) == _offset(instant, zone):
        return end
    missing = after.naive().subtract(seconds=skipped)
    return _at(missing.date().subtract(days=1), missing.time(), zone)


def _is_one_day(start: datetime, end: datetime, zone: Any) -> bool:
    """Return whether the interval goes from a time of day to the same time on the next day.

    Where the clock skips that time, Airflow takes a later one, maybe past midnight: so the time of day is that of the
    start or of the end, and the day may be the one before the start's.
    """
    first, last, interval = _local(start, zone), _local(end, zone), (start.timestamp(), end.timestamp())
    return any(
        (_at(day, time, zone).timestamp(), _at(day.add(days=1), time, zone).timestamp()) == interval
        for day in (first.date(), first.date().subtract(days=1))
        for time in (first.time(), last.time())
    )


def _last_day_over(instant: datetime, zone: Any) -> pendulum.Date:
    """Return the last local day that was over at that instant. A day that the zone left out was none."""
    day = _local(instant, zone).date()
    while (begin := _midnight(day, zone)) > instant.timestamp():
        day = day.subtract(days=1)
    while _midnight(day, zone) == begin:
        day = day.subtract(days=1)
    return day


def _local(instant: datetime, zone: Any) -> pendulum.DateTime:
    return pendulum.instance(instant).in_timezone(zone)


def _offset(instant: datetime, zone: Any) -> int:
    return _local(instant, zone).offset or 0


def _midnight(day: pendulum.Date, zone: Any) -> float:
    return _at(day, pendulum.Time(0), zone).timestamp()


def _at(day: pendulum.Date, time: pendulum.Time, zone: Any) -> pendulum.DateTime:
    """Return when the zone's clock shows that time, as Airflow reads it: of two times the second, of none a later one.

    Compare it by its `timestamp`: for Python a time that a clock shows twice equals no time of another zone (PEP 495).
    """
    return pendulum.datetime(day.year, day.month, day.day, time.hour, time.minute, time.second, tz=zone)
