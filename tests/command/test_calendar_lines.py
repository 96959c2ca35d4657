"""The calendar by itself: which character stands where, and what is told beside it."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest

from backfill_core.calendar_lines import COLOURS, MONTHS, SHAPES, Spot, overview
from backfill_core.states import STATES
from backfill_core.terminal import Screen

PLAIN = Screen()
ALL = ("", "")


def days(first: str, last: str) -> list[str]:
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    return [(start + timedelta(days)).isoformat() for days in range((end - start).days + 1)]


def published(first: str, last: str) -> list[Spot]:
    return [Spot(key, "published") for key in days(first, last)]


def test_each_state_has_a_plain_character_and_a_colour_of_its_own() -> None:
    assert set(SHAPES) == set(COLOURS) == set(STATES)
    assert len(set(SHAPES.values())) == len(STATES)
    assert len(set(COLOURS.values())) == len(STATES)
    assert all(shape.isascii() and shape.isprintable() and len(shape) == 1 for shape in SHAPES.values())


def test_a_day_stands_in_the_line_of_its_month_and_the_column_of_its_number() -> None:
    spots = [Spot("2024-02-01", "sealed"), Spot("2024-02-11", "held", "bob"), Spot("2024-02-29", "drifted")]

    drawn = overview(spots, ALL, PLAIN)

    line = next(line for line in drawn if line.startswith("Feb"))
    assert line == "Feb  #......... =......... ........!"
    head = drawn[drawn.index(line) - 1]
    assert [head.index("2024"), head.index("11"), head.index("21")] == [5, 16, 27]
    assert (line[5], line[16], line[27 + 8]) == ("#", "=", "!")


def test_what_is_before_and_after_the_range_is_left_blank() -> None:
    drawn = overview(published("2026-01-30", "2026-03-02"), ALL, PLAIN)

    assert [line for line in drawn if line[:3] in ("Jan", "Feb", "Mar", "Apr", "Dec")] == [
        "Jan" + " " * 33 + "oo",
        "Feb  oooooooooo oooooooooo oooooooo",
        "Mar  oo",
    ]


def test_ten_years_of_days_stand_in_eighty_columns_with_every_day_in_its_place() -> None:
    keys = days("2016-01-01", "2025-12-31")
    spots = [Spot(key, "sealed" if key == "2020-02-29" else "published") for key in keys]

    drawn = overview(spots, ALL, PLAIN)

    assert max(map(len, drawn)) < 80
    assert len(drawn) < 75
    assert sum(line[5:].count("o") for line in drawn if line[:3] in MONTHS) == len(keys) - 1
    at = next(number for number, line in enumerate(drawn) if line.strip().startswith("2020"))
    assert drawn[at + 2] == "Feb  oooooooooo oooooooooo oooooooo#     oooooooooo oooooooooo oooooooo"
    assert drawn[-1] == "o 3652 published   # 1 sealed"


@pytest.mark.parametrize(("width", "years"), [(20, 1), (72, 1), (74, 2), (80, 2), (109, 2), (110, 3), (400, 4)])
def test_as_many_years_stand_side_by_side_as_there_is_room_for(width: int, years: int) -> None:
    drawn = overview(published("2022-01-01", "2025-12-31"), ALL, Screen(width))

    assert len(drawn[0].split()) == 3 * years
    assert max(map(len, drawn[:13])) <= max(width, 38)


def test_years_in_which_nothing_was_published_are_one_line() -> None:
    spots = [Spot("0001-01-01", "published"), *published("2025-12-30", "2026-01-02"), Spot("9999-12-31", "published")]

    drawn = overview(spots, ALL, PLAIN)

    assert "0002 to 2024: nothing was published" in drawn
    assert "2027 to 9998: nothing was published" in drawn
    assert len(drawn) < 75
    missing = (date.max - date.min).days + 1 - 6
    assert drawn[-1] == f". {missing} missing   o 6 published"


def test_what_needs_a_person_comes_first_in_spans_with_why() -> None:
    spots = [
        *published("2026-02-01", "2026-02-03"),
        *(Spot(key, "held", "bob") for key in days("2026-02-04", "2026-02-06")),
        Spot("2026-02-07", "held", "anna"),
        Spot("2026-02-10", "failed", "the result is empty\n2026-02-01  fine"),
        Spot("2026-02-11", "drifted", "amount 12 -> 13"),
    ]

    drawn = overview(spots, ALL, PLAIN)

    assert [line.split(maxsplit=1) for line in drawn[1:7]] == [
        ["!", "drifted   2026-02-11                1       amount 12 -> 13"],
        ["X", r"failed    2026-02-10                1       the result is empty\n2026-02-01  fine"],
        ["=", "held      2026-02-04 to 2026-02-06  3       bob"],
        ["=", "held      2026-02-07                1       anna"],
        [".", "missing   2026-02-08 to 2026-02-09  2"],
        [],
    ]


def test_of_many_spans_the_newest_are_told_and_the_rest_are_counted() -> None:
    every_other = [Spot(f"2026-02-{number:02}", "published") for number in range(2, 29, 2)]

    drawn = overview(every_other, ALL, PLAIN)

    told = [line.split()[2:] for line in drawn if line.startswith(". missing")]
    assert [line[0] for line in told[:-1]] == [f"2026-02-{n}" for n in (19, 21, 23, 25, 27)]
    assert told[-1] == ["and", "before", "2026-02-19", "8"]


def test_a_range_that_was_asked_for_is_drawn_also_where_nothing_is_known() -> None:
    bounds = ("2026-02-03", "2026-02-06")

    nothing = overview([], bounds, PLAIN)
    some = overview(published("2026-02-01", "2026-02-05"), bounds, PLAIN)

    assert nothing[1].split() == [".", "missing", "2026-02-03", "to", "2026-02-06", "4"]
    assert nothing[-1] == ". 4 missing"
    assert some[1].split() == [".", "missing", "2026-02-06", "1"]
    assert some[-1] == ". 1 missing   o 3 published"


def test_where_nothing_is_known_and_nothing_was_asked_for_there_is_a_sentence() -> None:
    assert overview([Spot("2026-02-01", "missing")], ALL, PLAIN) == ["nothing was published yet"]


def test_keys_that_are_no_days_are_listed_in_spans() -> None:
    hours = [Spot(f"2026-02-01T{hour:02}", "failed" if hour == 5 else "published") for hour in range(24)]

    assert overview(hours, ALL, PLAIN) == [
        "state        partitions                      number",
        "o published  2026-02-01T00 to 2026-02-01T04  5",
        "X failed     2026-02-01T05                   1",
        "o published  2026-02-01T06 to 2026-02-01T23  18",
        "",
        "o 23 published   X 1 failed",
    ]


def test_a_range_of_keys_that_are_no_days_may_be_asked_for_where_nothing_is_known() -> None:
    assert overview([], ("2026-02-01T00", "2026-02-01T23"), PLAIN) == ["nothing was published there yet"]


def test_colours_say_nothing_that_shapes_dont() -> None:
    spots = [*published("2026-02-01", "2026-02-03"), Spot("2026-02-05", "failed", "why")]

    plain = "\n".join(overview(spots, ALL, PLAIN))
    coloured = "\n".join(overview(spots, ALL, Screen(80, colour=True)))

    assert "\033[32mooo\033[0m\033[2m.\033[0m\033[31mX\033[0m" in coloured
    assert re.sub(r"\033\[[0-9;]*m", "", coloured) == plain
