"""`claim` and `release`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .grader import days

if TYPE_CHECKING:
    from .grader import Lab

FIRST, LAST = "2026-02-27", "2026-03-02"
DATES = ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]


def test_free_dates_are_claimed(lab: Lab) -> None:
    answer = lab.ok("claim", FIRST, LAST, "alice")

    assert answer == {"owner": "alice", "claimed": DATES, "denied": []}
    assert lab.claims == dict.fromkeys(DATES, "alice")


def test_claiming_again_is_no_failure(lab: Lab) -> None:
    first = lab.ok("claim", FIRST, LAST, "alice")

    again = lab.ok("claim", FIRST, LAST, "alice")

    assert again == first
    assert lab.claims == dict.fromkeys(DATES, "alice")


def test_a_wider_claim_counts_what_is_already_held(lab: Lab) -> None:
    lab.ok("claim", DATES[1], DATES[1], "alice")

    answer = lab.ok("claim", FIRST, LAST, "alice")

    assert answer["claimed"] == DATES


def test_the_free_dates_are_claimed_even_if_others_are_denied(lab: Lab) -> None:
    lab.ok("claim", DATES[1], DATES[1], "bob")
    lab.ok("claim", DATES[2], DATES[2], "carol")
    lab.ok("claim", DATES[3], DATES[3], "alice")

    answer = lab("claim", FIRST, LAST, "alice")

    assert answer.code == 4
    assert answer.json == {
        "owner": "alice",
        "claimed": [DATES[0], DATES[3]],
        "denied": [[DATES[1], "bob"], [DATES[2], "carol"]],
    }
    assert lab.claims == dict(zip(DATES, ["alice", "bob", "carol", "alice"], strict=True))


def test_a_denied_claim_stays_denied_when_asked_again(lab: Lab) -> None:
    lab.ok("claim", FIRST, LAST, "bob")

    first, again = lab("claim", FIRST, FIRST, "alice"), lab("claim", FIRST, FIRST, "alice")

    assert first.code == again.code == 4
    assert first.json == again.json == {"owner": "alice", "claimed": [], "denied": [[FIRST, "bob"]]}


def test_a_claim_needs_neither_source_nor_result_and_changes_neither(lab: Lab) -> None:
    lab.write(FIRST, 3)
    kept = lab.hold(FIRST, 1, 1)

    lab.ok("claim", FIRST, LAST, "alice")

    assert lab.daily == {FIRST: kept}


def test_release_frees_only_the_owners_own_dates_and_lists_them(lab: Lab) -> None:
    lab.ok("claim", DATES[0], DATES[1], "alice")
    lab.ok("claim", DATES[2], DATES[2], "bob")

    answer = lab.ok("release", FIRST, LAST, "alice")

    assert answer == {"owner": "alice", "released": DATES[:2]}
    assert lab.claims == {DATES[2]: "bob"}


def test_release_frees_only_the_range(lab: Lab) -> None:
    lab.ok("claim", FIRST, LAST, "alice")

    answer = lab.ok("release", DATES[1], DATES[2], "alice")

    assert answer["released"] == DATES[1:3]
    assert lab.claims == {DATES[0]: "alice", DATES[3]: "alice"}


def test_releasing_again_is_harmless(lab: Lab) -> None:
    lab.ok("claim", FIRST, LAST, "alice")
    lab.ok("release", FIRST, LAST, "alice")

    again = lab.ok("release", FIRST, LAST, "alice")

    assert again == {"owner": "alice", "released": []}


def test_a_released_date_can_be_claimed_by_another(lab: Lab) -> None:
    lab.ok("claim", FIRST, LAST, "alice")
    lab.ok("release", FIRST, LAST, "alice")

    answer = lab.ok("claim", FIRST, LAST, "bob")

    assert answer["claimed"] == DATES


def test_a_year_is_claimed_and_released_in_one_call_each(lab: Lab) -> None:
    year = days("2024-01-01", 366)

    claimed = lab.ok("claim", year[0], year[-1], "alice")
    released = lab.ok("release", year[0], year[-1], "alice")

    assert claimed["claimed"] == released["released"] == year
    assert lab.claims == {}


def test_the_edges_of_the_calendar_can_be_claimed(lab: Lab) -> None:
    assert lab.ok("claim", "0001-01-01", "0001-01-02", "alice")["claimed"] == ["0001-01-01", "0001-01-02"]
    assert lab.ok("claim", "9999-12-30", "9999-12-31", "alice")["claimed"] == ["9999-12-30", "9999-12-31"]
