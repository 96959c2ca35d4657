"""`run`: what is done, what is skipped and why, and what is then in `daily`."""

from __future__ import annotations

import contextlib
import datetime
import os
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from .grader import LARGEST, RUN_KEYS, SMALLEST, days, lines

if TYPE_CHECKING:
    from .grader import Lab

D = "2026-02-01"
MAX = datetime.date.max.toordinal()


def test_a_regular_run_is_a_range_of_one_day(lab: Lab) -> None:
    lab.write(D, 10, 20, -5)

    answer = lab.ok("run", D, D, "alice")

    assert answer == {"owner": "alice", "done": [D], "skipped": [], "orders": 3, "amount": 25}
    assert lab.daily == {D: (3, 25, "alice")}


def test_a_range_is_inclusive_at_both_ends_and_in_date_order(lab: Lab) -> None:
    for dt in reversed(days("2026-01-30", 5)):
        lab.write(dt, 1)

    answer = lab.ok("run", "2026-01-31", "2026-02-02", "alice")

    assert answer["done"] == ["2026-01-31", "2026-02-01", "2026-02-02"]
    assert list(lab.daily) == answer["done"]


@pytest.mark.parametrize(
    ("start", "end", "count"),
    [
        ("2024-02-28", "2024-03-01", 3),
        ("2023-02-28", "2023-03-01", 2),
        ("2000-02-28", "2000-03-01", 3),
        ("1900-02-28", "1900-03-01", 2),
        ("2026-12-31", "2027-01-01", 2),
        ("2026-04-30", "2026-05-01", 2),
        ("2024-02-29", "2024-02-29", 1),
        ("0001-01-01", "0001-01-02", 2),
        ("0999-12-31", "1000-01-01", 2),
        ("9999-12-30", "9999-12-31", 2),
        ("9999-12-31", "9999-12-31", 1),
        ("2026-01-01", "2026-12-31", 365),
        ("2024-01-01", "2024-12-31", 366),
        ("2025-06-15", "2026-07-19", 400),
    ],
)
def test_every_date_of_a_range_is_run_once(lab: Lab, start: str, end: str, count: int) -> None:
    expected = days_between(start, end)
    for n, dt in enumerate(expected):
        lab.write(dt, n, -1)

    answer = lab.ok("run", start, end, "alice")

    assert len(expected) == count
    assert answer["done"] == expected
    assert answer["orders"] == 2 * count
    assert answer["amount"] == count * (count - 1) // 2 - count
    assert lab.daily == {dt: (2, n - 1, "alice") for n, dt in enumerate(expected)}


def days_between(start: str, end: str) -> list[str]:
    """Dates from start to end, both included."""
    first, last = datetime.date.fromisoformat(start), datetime.date.fromisoformat(end)
    return [datetime.date.fromordinal(n).isoformat() for n in range(first.toordinal(), last.toordinal() + 1)]


@pytest.mark.parametrize("seed", range(8))
def test_random_ranges_of_random_partitions_are_counted_right(lab: Lab, seed: int) -> None:
    chance = random.Random(seed)
    first = chance.randint(1, MAX - 40)
    dates = [datetime.date.fromordinal(first + n).isoformat() for n in range(chance.randint(1, 40))]
    amounts = {
        dt: [
            chance.choice((1, -1)) * chance.randint(1, 10 ** chance.randint(1, 12))
            for _ in range(chance.randint(0, 30))
        ]
        for dt in dates
        if chance.random() < 0.8
    }
    for dt, some in amounts.items():
        lab.write(dt, *some)
    start, end = sorted(chance.choices(range(len(dates)), k=2))
    asked = dates[start : end + 1]

    answer = lab.ok("run", asked[0], asked[-1], "alice")

    done = [dt for dt in asked if dt in amounts]
    assert answer == {
        "owner": "alice",
        "done": done,
        "skipped": [[dt, "no_data"] for dt in asked if dt not in amounts],
        "orders": sum(len(amounts[dt]) for dt in done),
        "amount": sum(sum(amounts[dt]) for dt in done),
    }
    assert lab.daily == {dt: (len(amounts[dt]), sum(amounts[dt]), "alice") for dt in done}


def test_running_again_changes_nothing(lab: Lab) -> None:
    for dt in days(D, 5):
        lab.write(dt, 5, 6, -2)
    first = lab.ok("run", D, "2026-02-05", "alice")
    before = lab.query("SELECT * FROM daily ORDER BY dt")

    again = lab.ok("run", D, "2026-02-05", "alice")

    assert again == first
    assert lab.query("SELECT * FROM daily ORDER BY dt") == before


def test_a_day_at_a_time_gives_what_the_whole_range_gives(lab: Lab) -> None:
    dates = days("2026-02-26", 6)
    for n, dt in enumerate(dates):
        lab.write(dt, *range(1, n + 2))
    lab.ok("run", dates[0], dates[-1], "alice")
    whole = lab.daily
    lab.query("DELETE FROM daily")

    for dt in dates:
        lab.ok("run", dt, dt, "alice")

    assert lab.daily == whole


def test_a_new_result_replaces_all_old_rows_of_its_date(lab: Lab) -> None:
    lab.write(D, 4)
    for _ in range(3):
        lab.hold(D, 1, 1)
    kept = lab.hold("2026-02-02", 9, 9)

    lab.ok("run", D, D, "alice")

    assert lab.daily == {D: (1, 4, "alice"), "2026-02-02": kept}


def test_the_row_carries_the_owner_that_ran_last(lab: Lab) -> None:
    lab.write(D, 4)
    lab.ok("run", D, D, "alice")

    lab.ok("run", D, D, "bob")

    assert lab.daily == {D: (1, 4, "bob")}


def test_numbers_are_stored_as_integers_and_dates_as_text(lab: Lab) -> None:
    lab.write(D, 4)

    lab.ok("run", D, D, "alice")

    kinds = lab.query("SELECT typeof(dt), typeof(orders), typeof(amount), typeof(owner) FROM daily")
    assert kinds == [("text", "integer", "integer", "text")]


def test_only_files_of_the_exact_name_are_partitions(lab: Lab) -> None:
    for name in ("dt=2026-2-1.jsonl", "dt=2026-02-01.json", "dt=2026-02-01.jsonl.tmp", "2026-02-01.jsonl"):
        (lab.events / name).write_bytes(lines(D, [1]))

    answer = lab.ok("run", D, D, "alice")

    assert answer["skipped"] == [[D, "no_data"]]


def test_a_link_to_a_partition_is_a_partition(lab: Lab) -> None:
    real = lab.folder / "elsewhere.jsonl"
    real.write_bytes(lines(D, [3, 4]))
    lab.path(D).symlink_to(real)

    lab.ok("run", D, D, "alice")

    assert lab.daily == {D: (2, 7, "alice")}


def test_progress_on_a_terminal_leaves_the_answer_one_json_object(lab: Lab) -> None:
    dates = days(D, 100)
    for dt in dates:
        lab.write(dt, 1)
    terminal, end = os.openpty()
    process = lab.start("run", dates[0], dates[-1], "alice", before=partial(os.dup2, end, 2), inherit=[end])
    os.close(end)

    shown = read_terminal(terminal)

    answer = lab.finish(process)
    assert answer.json["done"] == dates
    assert b"Traceback" not in shown


def read_terminal(terminal: int) -> bytes:
    """Everything that is shown until the last writer has gone."""
    shown = b""
    with contextlib.suppress(OSError), open(terminal, "rb", buffering=0) as file:
        while more := file.read(4096):
            shown += more
    return shown


# Skipping


def test_a_sealed_partition_is_left_alone(lab: Lab) -> None:
    lab.write(D, 4)
    kept = lab.hold(D, 1, 1)
    lab.ok("seal", D, D)

    answer = lab("run", D, D, "alice")

    assert answer.code == 5
    assert answer.json == {"owner": "alice", "done": [], "skipped": [[D, "sealed"]], "orders": 0, "amount": 0}
    assert lab.daily == {D: kept}


def test_a_partition_claimed_by_another_is_skipped_and_the_holder_named(lab: Lab) -> None:
    lab.write(D, 4)
    kept = lab.hold(D, 1, 1)
    lab.ok("claim", D, D, "bob")

    answer = lab("run", D, D, "alice")

    assert answer.code == 5
    assert answer.json["done"] == []
    assert answer.json["skipped"] == [[D, "claimed_by:bob"]]
    assert lab.daily == {D: kept}


def test_dates_the_owner_claimed_are_run_and_stay_claimed(lab: Lab) -> None:
    lab.write(D, 4)
    lab.ok("claim", D, D, "alice")

    answer = lab.ok("run", D, D, "alice")

    assert answer["done"] == [D]
    assert lab.claims == {D: "alice"}


def test_owners_are_compared_as_they_are_written(lab: Lab) -> None:
    lab.write(D, 4)
    lab.ok("claim", D, D, "Alice")

    for other in ("alice", "Alice ", " Alice", "ALICE", "Alic\u00e9"):
        answer = lab("run", D, D, other)
        assert answer.json["skipped"] == [[D, "claimed_by:Alice"]]


def test_no_data_is_no_failure_and_keeps_the_earlier_result(lab: Lab) -> None:
    kept = lab.hold(D, 3, 30)

    answer = lab.ok("run", D, D, "alice")

    assert answer == {"owner": "alice", "done": [], "skipped": [[D, "no_data"]], "orders": 0, "amount": 0}
    assert lab.daily == {D: kept}


def test_an_empty_file_is_a_partition_of_no_orders(lab: Lab) -> None:
    lab.hold(D, 3, 30)
    lab.write_bytes(D, b"")

    answer = lab.ok("run", D, D, "alice")

    assert answer == {"owner": "alice", "done": [D], "skipped": [], "orders": 0, "amount": 0}
    assert lab.daily == {D: (0, 0, "alice")}


BAD = b"not JSON\n"


@pytest.mark.parametrize("source", [None, b"", BAD, lines(D, [4])], ids=["none", "empty", "bad", "good"])
@pytest.mark.parametrize("claimed_by", [None, "alice", "bob"])
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "open"])
def test_sealed_goes_before_claimed_and_claimed_before_no_data(
    lab: Lab, source: bytes | None, claimed_by: str | None, sealed: bool
) -> None:
    if source is not None:
        lab.write_bytes(D, source)
    if claimed_by:
        lab.query("INSERT INTO claims (dt, owner) VALUES (?, ?)", D, claimed_by)
    if sealed:
        lab.query("INSERT INTO seals (dt) VALUES (?)", D)

    answer = lab("run", D, D, "alice")

    code, reason = expected_verdict(source, claimed_by, sealed)
    assert answer.code == code
    assert answer.json["skipped"] == ([[D, reason]] if reason else [])
    assert ("failed" in answer.json) == (code == 1)


def expected_verdict(source: bytes | None, claimed_by: str | None, sealed: bool) -> tuple[int, str | None]:
    """Exit code and reason, in the contract's order of precedence."""
    if sealed:
        return 5, "sealed"
    if claimed_by == "bob":
        return 5, "claimed_by:bob"
    if source is None:
        return 0, "no_data"
    return (1, None) if source == BAD else (0, None)


def test_orders_and_amount_add_up_what_is_done_only(lab: Lab) -> None:
    dates = days(D, 5)
    for dt in dates[:4]:
        lab.write(dt, 100, 1)
        lab.hold(dt, 7, 7)
    lab.ok("seal", dates[1], dates[1])
    lab.ok("claim", dates[2], dates[2], "bob")

    answer = lab("run", dates[0], dates[-1], "alice")

    assert answer.code == 5
    assert answer.json == {
        "owner": "alice",
        "done": [dates[0], dates[3]],
        "skipped": [[dates[1], "sealed"], [dates[2], "claimed_by:bob"], [dates[4], "no_data"]],
        "orders": 4,
        "amount": 202,
    }


def test_failed_stands_beside_done_and_skipped_and_goes_before_5(lab: Lab) -> None:
    dates = days(D, 5)
    for n, dt in enumerate(dates[:4]):
        lab.write(dt, n)
    kept = lab.hold(dates[1], 7, 7)
    lab.write_bytes(dates[1], lines(dates[1], [1, 2]) + b"{\n" + lines(dates[1], [3]))
    lab.ok("seal", dates[2], dates[2])

    answer = lab("run", dates[0], dates[-1], "alice")

    assert answer.code == 1
    assert answer.json.keys() == RUN_KEYS | {"failed"}
    assert answer.json["done"] == [dates[0], dates[3]]
    assert answer.json["skipped"] == [[dates[2], "sealed"], [dates[4], "no_data"]]
    assert (answer.json["orders"], answer.json["amount"]) == (2, 3)
    [[dt, where]] = answer.json["failed"]
    assert dt == dates[1]
    assert f"dt={dates[1]}.jsonl:3: " in where
    assert lab.daily == {dates[0]: (1, 0, "alice"), dates[1]: kept, dates[3]: (1, 3, "alice")}


def test_every_bad_partition_of_a_range_is_reported(lab: Lab) -> None:
    dates = days(D, 3)
    for n, dt in enumerate(dates):
        lab.write_bytes(dt, lines(dt, range(n)) + BAD)

    answer = lab("run", dates[0], dates[-1], "alice")

    assert answer.code == 1
    assert answer.json["done"] == []
    assert [dt for dt, _ in answer.json["failed"]] == dates
    assert all(f"dt={dt}.jsonl:{n}: " in where for n, (dt, where) in enumerate(answer.json["failed"], 1))


# 64 bits


@pytest.mark.parametrize(
    "amounts",
    [
        [LARGEST],
        [SMALLEST],
        [LARGEST, SMALLEST],
        [LARGEST - 1, 1],
        [SMALLEST + 1, -1],
        [LARGEST, -1, 1],
        [LARGEST, 5, -5],
    ],
    ids=repr,
)
def test_sums_up_to_the_last_of_64_bits_are_exact(lab: Lab, amounts: list[int]) -> None:
    lab.write(D, *amounts)

    answer = lab.ok("run", D, D, "alice")

    assert answer["amount"] == sum(amounts)
    assert lab.daily == {D: (len(amounts), sum(amounts), "alice")}


@pytest.mark.parametrize(
    "amount",
    [LARGEST + 1, SMALLEST - 1, 2**64, 10**30, -(10**30), 10**5000],
    ids=lambda n: f"{n.bit_length()} bits" if n else "",
)
def test_an_amount_beyond_64_bits_is_refused_by_its_line(lab: Lab, amount: int) -> None:
    digits = "1" + "0" * 5000 if amount.bit_length() > 10_000 else str(amount)
    status = "refund" if amount < 0 else "paid"
    huge = f'{{"order_id": "o", "dt": "{D}", "amount": {digits}, "status": "{status}"}}\n'
    lab.write_bytes(D, lines(D, [1, 2, 3]) + huge.encode() + lines(D, [4]))
    kept = lab.hold(D, 1, 1)

    answer = lab("run", D, D, "alice")

    assert answer.code == 1
    assert f"dt={D}.jsonl:4: " in answer.json["failed"][0][1]
    assert lab.daily == {D: kept}


@pytest.mark.parametrize(
    "amounts", [[LARGEST, 1], [SMALLEST, -1], [LARGEST] * 3, [SMALLEST] * 4, [2**62] * 4], ids=repr
)
def test_a_sum_beyond_64_bits_refuses_the_partition_and_never_wraps(lab: Lab, amounts: list[int]) -> None:
    lab.write(D, *amounts)
    lab.write("2026-02-02", 5)
    kept = lab.hold(D, 1, 1)

    answer = lab("run", D, "2026-02-02", "alice")

    assert answer.code == 1
    [[dt, where]] = answer.json["failed"]
    assert dt == D
    assert f"dt={D}.jsonl" in where
    assert answer.json["done"] == ["2026-02-02"]
    assert lab.daily == {D: kept, "2026-02-02": (1, 5, "alice")}


def test_the_answers_amount_is_exact_beyond_64_bits_too(lab: Lab) -> None:
    for dt in days(D, 3):
        lab.write(dt, LARGEST)

    answer = lab.ok("run", D, "2026-02-03", "alice")

    assert answer["amount"] == 3 * LARGEST


# Owners


OWNERS: dict[str, Any] = {
    "single quotes": "O'Brien ''",
    "double quotes": 'say "hi"',
    "a backslash": "back\\slash \\n",
    "newlines": "two\nlines\r\n",
    "emoji": "👩‍👩‍👧‍👦 🙂",
    "right to left": "\u202eدخل\u202c שלום",
    "SQL": "x'); DROP TABLE daily; --",
    "a placeholder": "? :owner %s {0} $1",
    "a number": "007",
    "an option": "--owner",
    "the reason's own word": "claimed_by:bob",
    "a control character": "\x01\x1b[31mred",
    "100 kB": "x" * 100_000,
    "combining marks": "e\u0301 is not \u00e9",
    "line separators": "a\u2028b\u2029c\x85",
    "Korean": "정기 실행",
}


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_any_text_can_be_an_owner(lab: Lab, owner: str) -> None:
    lab.write(D, 4)

    claimed = lab.ok("claim", D, D, owner)
    again = lab.ok("claim", D, D, owner)
    denied = lab("claim", D, D, "bob")
    skipped = lab("run", D, D, "bob")
    ran = lab.ok("run", D, D, owner)
    released = lab.ok("release", D, D, owner)

    assert claimed == again == {"owner": owner, "claimed": [D], "denied": []}
    assert denied.json["denied"] == [[D, owner]]
    assert skipped.json["skipped"] == [[D, f"claimed_by:{owner}"]]
    assert ran["owner"] == owner
    assert released == {"owner": owner, "released": [D]}
    assert lab.daily == {D: (1, 4, owner)}


def test_a_blank_owner_is_refused_or_an_owner_like_any_other(lab: Lab) -> None:
    answer = lab("claim", D, D, " ")

    assert answer.code in (0, 2)
    assert lab.claims == ({D: " "} if answer.code == 0 else {})


@pytest.mark.parametrize("owner", [b"caf\xe9", b"\xff\xfe", b"\xed\xa0\x80"], ids=repr)
def test_an_owner_that_is_not_utf8_is_refused_or_kept_apart(lab: Lab, owner: bytes) -> None:
    lab.write(D, 4)

    claimed = lab("claim", D, D, owner)

    assert claimed.code in (0, 2)
    if claimed.code == 0:
        assert lab.ok("claim", D, D, owner)["claimed"] == [D]
        assert lab("claim", D, D, "bob").code == 4
        assert lab.ok("run", D, D, owner)["done"] == [D]
        assert lab.ok("release", D, D, owner)["released"] == [D]
