"""Keys, the windows of days, and formats."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.dataset import Dataset, SqlTable
from backfill_core.errors import UsageError
from backfill_core.keys import Format, KeyColumn, following, keys_between, parse_key, spans, window

SOME_ZONES = sorted(zone for zone in available_timezones() if "/" in zone and not zone.startswith(("posix", "right")))


@pytest.mark.parametrize(
    ("zone", "key", "hours"),
    [
        ("UTC", "2026-02-01", 24),
        ("Europe/Warsaw", "2026-03-29", 23),
        ("Europe/Warsaw", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23),
        ("Atlantic/Azores", "2026-03-29", 23),  # midnight doesn't come
        ("Atlantic/Azores", "2026-10-25", 25),  # midnight comes twice
        ("Asia/Kolkata", "2026-03-29", 24),
        ("America/Toronto", "1919-03-31", 23.5),  # clocks went from 23:30 to 00:30
        ("America/Sao_Paulo", "2018-11-04", 23),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
    ],
)
def test_a_day_has_the_hours_that_its_zone_gives_it(zone: str, key: str, hours: float) -> None:
    start, end = window(key, zone)

    assert end.astimezone(timezone.utc) - start.astimezone(timezone.utc) == timedelta(hours=hours)
    assert start.date() == date.fromisoformat(key)


@given(st.sampled_from(SOME_ZONES), st.dates(date(1900, 1, 2), date(2037, 12, 30)))
def test_days_follow_each_other_without_a_gap_and_begin_at_their_first_instant(zone: str, day: date) -> None:
    key, place = day.isoformat(), ZoneInfo(zone)
    try:
        start, end = window(key, zone)
        after = window(following(key), zone)[0]
    except UsageError as left_out:
        assert "left this day out" in str(left_out)  # noqa: PT017
        return

    assert end == after
    before = (start.astimezone(timezone.utc) - timedelta(seconds=1)).astimezone(place)
    assert start.date() == day
    assert before.date() < day


def test_a_day_that_a_calendar_left_out_is_refused() -> None:
    with pytest.raises(UsageError, match="there was no 2011-12-30 in Pacific/Apia"):
        window("2011-12-30", "Pacific/Apia")


def test_keys_are_dates_in_one_form() -> None:
    assert parse_key("2026-02-01") == "2026-02-01"
    for bad in ("2026-2-1", "20260201", "2026-02-30", "", "all"):
        with pytest.raises(UsageError):
            parse_key(bad)


def test_keys_part_into_runs_without_a_gap() -> None:
    keys = [*keys_between("2026-02-27", "2026-03-02"), "2026-03-04", "2026-02-28"]

    assert spans(keys) == [("2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"), ("2026-03-04",)]


@given(st.dates(date(1, 1, 1), date(9998, 12, 31)), st.sampled_from(["%Y%m%d", "%d.%m.%Y", "dt=%Y-%m-%d", "%Y[%m]%d*"]))
def test_a_format_reads_what_it_writes(day: date, text: str) -> None:
    form = Format(text)

    assert form.read_day(form.write(day)) == day
    assert form.read_day(form.write(day) + "0") is None


@pytest.mark.parametrize("text", ["", "%Y", "%Y%m", "%y%m%d", "%Y%m%d%d", "%Y%m%d%", "plain"])
def test_a_format_that_names_no_day_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="format"):
        Format(text)


def test_a_bound_is_before_every_fraction_of_its_second() -> None:
    form = Format("%Y-%m-%dT%H:%M:%SZ")
    bound = form.write(datetime(2026, 2, 1), bound=True)  # noqa: DTZ001

    assert "2026-01-31T23:59:59.999Z" < bound <= "2026-02-01T00:00:00Z"
    assert bound <= "2026-02-01T00:00:00.001Z"


def test_bounds_have_the_kind_of_the_column() -> None:
    run = ("2026-10-25",)
    warsaw = ZoneInfo("Europe/Warsaw")

    def bounds(kind: str, **more: str) -> tuple[object, ...]:
        return KeyColumn("at", kind, "Europe/Warsaw", **more).bounds(run)

    assert bounds("date") == (date(2026, 10, 25), date(2026, 10, 26))
    assert bounds("integer", written="%Y%m%d") == (20261025, 20261026)
    assert bounds("text", written="%Y%m%d") == ("20261025", "20261026")
    assert bounds("text", written="%d%m%Y") == (None, None)
    assert bounds("instant") == (datetime(2026, 10, 25, tzinfo=warsaw), datetime(2026, 10, 26, tzinfo=warsaw))
    assert bounds("local") == (datetime(2026, 10, 25), datetime(2026, 10, 26))  # noqa: DTZ001
    assert bounds("local", zone="UTC") == (datetime(2026, 10, 24, 22), datetime(2026, 10, 25, 23))  # noqa: DTZ001


def test_local_times_that_dont_say_their_day_are_refused() -> None:
    column = KeyColumn("at", "local", "UTC", zone="Atlantic/Azores")  # there 00:00 UTC is 00:00 in summer
    assert column.bounds(["2026-10-24"]).end == datetime(2026, 10, 25)  # noqa: DTZ001

    column = KeyColumn("at", "local", "Asia/Dubai", zone="America/Sao_Paulo")
    assert column.bounds(["2018-02-17"])

    with pytest.raises(UsageError, match="comes twice"):  # its midnight is 00:00 there for the second time
        KeyColumn("at", "local", "Etc/GMT+5", zone="America/Havana").bounds(["2026-11-01"])


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"digest": "often"}, "digest is 'often'"),
        ({"digest_columns": []}, "of no columns"),
        ({"unique": "order_id"}, r"write \['order_id'\]"),
        ({"timezone": "Europe/Krakow"}, "no time zone"),
        ({"max_shrink": -1}, "max_shrink"),
        ({"tolerance": {"other": 1}}, "no such measure"),
        ({"grain": "hour"}, "grain is .hour.; it is one of day, list, none"),
        ({"table": SqlTable("x", "t", day="d", kind="text")}, "say its format"),
        ({"table": SqlTable("x", "t", day="d", kind="when")}, "the kinds are"),
        ({"table": SqlTable("x", "t", day="d", kind="integer", format="%Y-%m-%d")}, "doesn't write an integer"),
        ({"table": SqlTable("x", "t", day="d", zone="UTC")}, "only a local time"),
        ({"name": " "}, "empty"),
    ],
)
def test_a_dataset_that_cant_be_is_refused_when_it_is_declared(said: dict[str, Any], sentence: str) -> None:
    plain: dict[str, Any] = {"name": "a", "table": SqlTable("x", "t", day="d"), "measures": {"n": "count(*)"}}

    with pytest.raises(UsageError, match=sentence):
        Dataset(**{**plain, **said})


def test_a_dataset_is_shown_without_the_password_of_its_table() -> None:
    dataset = Dataset("a", SqlTable("postgresql://me:secret@host/db", "t", day="d"), measures={"n": "count(*)"})

    assert "secret" not in repr(dataset)
    assert dataset in {dataset}
