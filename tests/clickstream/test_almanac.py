"""The world's own clocks and calendars are those of our days."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from clickstream.almanac import MEAN_BUSYNESS, QUARTER, QUARTERS, Almanac, black_friday, local, trend, wait
from clickstream.behaviour import LEVELS, net
from clickstream.catalogue import PLACES, Place
from clickstream.instant import DAY, Instant, parse
from clickstream.people import RETURNS

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize("place", [place for _, place in PLACES], ids=lambda place: place.region)
def test_clocks_show_what_the_time_zone_says(place: Place) -> None:
    begin = parse("2024-01-01T00:00:00Z") // QUARTER
    for quarter in range(begin, begin + 3 * 366 * QUARTERS, 2):
        there = (EPOCH + timedelta(minutes=15 * quarter)).astimezone(ZoneInfo(place.zone)).replace(tzinfo=None)

        day, number = local(place, quarter)

        assert datetime(1970, 1, 1) + timedelta(days=day, minutes=15 * number) == there  # noqa: DTZ001 - local


def test_black_friday_follows_the_fourth_thursday_of_november() -> None:
    days = [date(1970, 1, 1) + timedelta(days=black_friday(year)) for year in range(2023, 2028)]

    assert [day.isoformat() for day in days] == ["2023-11-24", "2024-11-29", "2025-11-28", "2026-11-27", "2027-11-26"]


def test_it_is_as_busy_as_was_asked_for_over_a_year() -> None:
    almanac = Almanac(1, parse("2026-01-01T00:00:00Z"))
    begin = parse("2026-01-01T00:00:00Z")

    busyness = [almanac.tide(Instant(begin + number * QUARTER)).busyness for number in range(365 * QUARTERS)]

    grown = trend(180) / 1000
    assert 0.97 < sum(busyness) / len(busyness) / MEAN_BUSYNESS / grown < 1.1  # campaigns come on top


def test_a_wait_is_exponential() -> None:
    waits = [wait(number * 2**12 + 2**11) / 2**20 for number in range(2**20)]

    mean = sum(waits) / len(waits)
    variance = sum(value * value for value in waits) / len(waits) - mean * mean
    assert mean == pytest.approx(1, abs=0.003)
    assert variance == pytest.approx(1, abs=0.02)


def test_every_table_is_full() -> None:
    assert len(RETURNS) == 2048
    for level in range(LEVELS):
        for hand_held in (False, True):
            for step in net(level, hand_held).values():
                assert step.chances[-1] == 256
    assert DAY == QUARTER * QUARTERS
