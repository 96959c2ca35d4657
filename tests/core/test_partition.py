from __future__ import annotations

from datetime import date, datetime

import pytest

from backfill_core import DateRange, UsageError, parse_date
from backfill_core.partition import check_text


@pytest.mark.parametrize(
    ("first", "last", "days"),
    [
        ("2024-02-28", "2024-03-01", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("2023-02-28", "2023-03-01", ["2023-02-28", "2023-03-01"]),
        ("2026-12-31", "2027-01-01", ["2026-12-31", "2027-01-01"]),
        ("0001-01-01", "0001-01-01", ["0001-01-01"]),
        ("9999-12-31", "9999-12-31", ["9999-12-31"]),
    ],
)
def test_a_range_is_inclusive_at_both_ends_and_in_order(first: str, last: str, days: list[str]) -> None:
    dates = DateRange.parse(first, last)

    assert list(dates) == days
    assert len(dates) == len(days)


def test_a_range_that_ends_before_it_starts_can_not_exist() -> None:
    with pytest.raises(UsageError, match="ends before it starts"):
        DateRange.parse("2026-02-02", "2026-02-01")


def test_a_moment_is_not_a_date() -> None:
    with pytest.raises(UsageError, match="made of dates"):
        DateRange(datetime(2026, 2, 1), datetime(2026, 2, 2))  # noqa: DTZ001  the point is its type


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-2-1",
        "20260201",
        "2026-02-30",
        "2025-02-29",
        "2026-02-01 ",
        "2026-02-01\n",
        "\uff12\uff10\uff12\uff16-02-01",
        "0000-01-01",
    ],
)
def test_a_date_is_written_in_one_way(text: str) -> None:
    with pytest.raises(UsageError, match="YYYY-MM-DD"):
        parse_date(text)


def test_a_leap_day_is_a_date() -> None:
    assert parse_date("2024-02-29") == date(2024, 2, 29)


@pytest.mark.parametrize("text", ["", " ", "\t\n", "a\0b", "half \ud800"])
def test_a_text_that_no_store_can_keep_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="the owner is"):
        check_text("owner", text)


@pytest.mark.parametrize("text", ["o'hara", 'say "x"; --', "two\nlines", "שלום", "🙂", "a" * 1_000_000])
def test_any_other_text_is_kept_as_given(text: str) -> None:
    assert check_text("owner", text) is text
