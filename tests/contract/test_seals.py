"""`seal` and `amend`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .grader import LARGEST, days, lines

if TYPE_CHECKING:
    from .grader import Lab

D = "2026-02-02"


def test_seal_lists_and_stores_every_date_of_the_range(lab: Lab) -> None:
    answer = lab.ok("seal", "2024-02-28", "2024-03-01")

    assert answer == {"sealed": ["2024-02-28", "2024-02-29", "2024-03-01"]}
    assert lab.seals == answer["sealed"]


def test_sealing_again_is_success_and_adds_nothing(lab: Lab) -> None:
    lab.ok("seal", D, D)

    again = lab.ok("seal", "2026-02-01", "2026-02-03")

    assert again.keys() == {"sealed"}
    assert {"2026-02-01", "2026-02-03"} <= set(again["sealed"]) <= set(days("2026-02-01", 3))
    assert lab.seals == days("2026-02-01", 3)


def test_seal_changes_nothing_else(lab: Lab) -> None:
    kept = lab.hold(D, 3, 30)
    lab.ok("claim", D, D, "alice")

    lab.ok("seal", D, D)

    assert lab.daily == {D: kept}
    assert lab.claims == {D: "alice"}
    assert lab.corrections == []


def test_a_sealed_date_can_still_be_claimed_and_released(lab: Lab) -> None:
    lab.ok("seal", D, D)

    claimed = lab.ok("claim", D, D, "alice")
    released = lab.ok("release", D, D, "alice")

    assert claimed["claimed"] == released["released"] == [D]


def test_amend_writes_the_correction_beside_and_leaves_daily(lab: Lab) -> None:
    lab.write(D, 10, 20)
    lab.ok("run", D, D, "alice")
    lab.ok("seal", D, D)
    lab.write(D, 10, 20, -7)

    answer = lab.ok("amend", D, "a late refund")

    assert answer == {
        "dt": D,
        "orders_before": 2,
        "amount_before": 30,
        "orders_after": 3,
        "amount_after": 23,
        "reason": "a late refund",
    }
    assert lab.corrections == [(D, 2, 30, 3, 23, "a late refund")]
    assert lab.daily == {D: (2, 30, "alice")}


def test_every_amend_adds_a_row(lab: Lab) -> None:
    lab.write(D, 10)
    lab.ok("seal", D, D)

    lab.ok("amend", D, "once")
    lab.ok("amend", D, "once")
    lab.write(D, 10, 1)
    lab.ok("amend", D, "and again")

    assert lab.corrections == [(D, 0, 0, 1, 10, "once"), (D, 0, 0, 1, 10, "once"), (D, 0, 0, 2, 11, "and again")]


def test_amend_without_a_row_in_daily_starts_from_nothing(lab: Lab) -> None:
    lab.write(D, 10)
    lab.ok("seal", D, D)

    answer = lab.ok("amend", D, "never published")

    assert (answer["orders_before"], answer["amount_before"]) == (0, 0)
    assert lab.daily == {}


def test_amend_to_an_empty_file_is_a_correction_to_nothing(lab: Lab) -> None:
    lab.hold(D, 3, 30)
    lab.write_bytes(D, b"")
    lab.ok("seal", D, D)

    answer = lab.ok("amend", D, "all of it was a test")

    assert (answer["orders_after"], answer["amount_after"]) == (0, 0)
    assert lab.corrections == [(D, 3, 30, 0, 0, "all of it was a test")]


def test_amend_does_not_mind_who_claimed_the_date(lab: Lab) -> None:
    lab.write(D, 10)
    lab.ok("seal", D, D)
    lab.ok("claim", D, D, "bob")

    lab.ok("amend", D, "late")

    assert lab.claims == {D: "bob"}


@pytest.mark.parametrize("source", [None, lines(D, [10])], ids=["without a source", "with a source"])
def test_amend_on_a_date_that_is_not_sealed_is_refused(lab: Lab, source: bytes | None) -> None:
    if source is not None:
        lab.write_bytes(D, source)
    lab.ok("seal", "2026-02-01", "2026-02-01")
    before = lab.dump()

    answer = lab("amend", D, "late")

    assert answer.code == 6
    assert D in answer.json["error"]
    assert lab.dump() == before


def test_amend_without_a_source_is_an_error_and_writes_nothing(lab: Lab) -> None:
    lab.hold(D, 3, 30)
    lab.ok("seal", D, D)
    before = lab.dump()

    answer = lab("amend", D, "late")

    assert answer.code == 1
    assert answer.json.keys() == {"error"}
    assert f"dt={D}.jsonl" in answer.json["error"]
    assert lab.dump() == before


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (lines(D, [1, 2]) + b"oops\n", f"dt={D}.jsonl:3: "),
        (lines(D, [1]) + lines("2026-02-03", [1]), f"dt={D}.jsonl:2: "),
        (lines(D, [LARGEST, 1]), f"dt={D}.jsonl"),
    ],
    ids=["not JSON", "another date", "a sum beyond 64 bits"],
)
def test_amend_refuses_a_bad_source_and_writes_nothing(lab: Lab, source: bytes, place: str) -> None:
    lab.write_bytes(D, source)
    lab.hold(D, 3, 30)
    lab.ok("seal", D, D)
    before = lab.dump()

    answer = lab("amend", D, "late")

    assert answer.code == 1
    assert answer.json.keys() == {"error"}
    assert place in answer.json["error"]
    assert lab.dump() == before


@pytest.mark.parametrize(
    "reason",
    [
        "it's late",
        'a "late" line',
        "two\nlines",
        "👩‍👩‍👧 late",
        "\u202eمتأخر",
        "'); DROP TABLE corrections; --",
        "r" * 100_000,
        "늦게 온 줄",
    ],
    ids=["quote", "quotes", "newline", "emoji", "right to left", "SQL", "100 kB", "Korean"],
)
def test_any_text_can_be_a_reason(lab: Lab, reason: str) -> None:
    lab.write(D, 10)
    lab.ok("seal", D, D)

    answer = lab.ok("amend", D, reason)

    assert answer["reason"] == reason
    assert lab.corrections == [(D, 0, 0, 1, 10, reason)]


def test_a_reason_that_is_not_utf8_makes_no_traceback(lab: Lab) -> None:
    lab.write(D, 10)
    lab.ok("seal", D, D)

    answer = lab("amend", D, b"caf\xe9")

    assert answer.code in (0, 2)
    assert len(lab.query("SELECT dt FROM corrections")) == (answer.code == 0)
