"""Which partition a DAG run means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pendulum

from backfill_airflow.compat import timetable_zone
from backfill_core import DateRange, UsageError, parse_date

if TYPE_CHECKING:
    from datetime import date, datetime

    from backfill_airflow.compat import Context

MIDNIGHT = "T00:00:00"

ADVICE = (
    'Schedule the DAG with CronDataIntervalTimetable("0 0 * * *", timezone=…), run it with `airflow backfill create`, '
    "or give the operator its date."
)


def partition_of(dag_run: Any, dag: Any) -> date:
    """Return the calendar day whose partition this run replaces.

    It is the run's partition key where there is one, else the day that its data interval covers in the timetable's
    zone. The logical date and the run id are never looked at: which day they carry depends on who started the run.

    Raises:
        UsageError: the run has neither, the key is no date, or the interval is not exactly one local day.
    """
    if key := getattr(dag_run, "partition_key", None):
        return parse_date(key.removesuffix(MIDNIGHT))
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    if start is None or end is None:
        raise UsageError(
            f"the run {dag_run.run_id} has neither a partition key nor a data interval: it names no partition. {ADVICE}"
        )
    return day_of_interval(start, end, timetable_zone(dag))


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


def day_of_interval(start: datetime, end: datetime, zone: Any) -> date:
    """Return the local calendar day that the half-open interval [start, end) covers exactly.

    start, end: instants with an offset. zone: a pendulum zone or its name. A day has 23, 24 or 25 hours; which of
    them is the zone's business.

    Raises:
        UsageError: the interval is empty, or it is not exactly one day of that zone.
    """
    day = pendulum.instance(start).in_timezone(zone).date()
    interval = f"{pendulum.instance(start).isoformat()} to {pendulum.instance(end).isoformat()}"
    if start == end:
        raise UsageError(f"the data interval is empty, {interval}, so it covers no partition. {ADVICE}")
    if (start, end) != (_midnight(day, zone), _midnight(day.add(days=1), zone)):
        name = getattr(zone, "name", zone)
        raise UsageError(
            f"the data interval {interval} is not exactly one day in {name}, the timetable's zone. {ADVICE}"
        )
    return parse_date(day.isoformat())


def _midnight(day: pendulum.Date, zone: Any) -> datetime:
    return pendulum.datetime(day.year, day.month, day.day, tz=zone)
