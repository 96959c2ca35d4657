"""Cases from the field: trouble that users of other systems reported, with its values."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from .grader import days, wait_until

if TYPE_CHECKING:
    from .grader import Lab


def write(lab: Lab, dt: str, **orders: int) -> None:
    """Write a partition with one line an order."""
    content = "".join(
        json.dumps({"order_id": name, "dt": dt, "amount": amount, "status": "paid"}) + "\n"
        for name, amount in orders.items()
    )
    lab.write_bytes(dt, content.encode())


def test_a_backfill_replaces_and_never_adds(lab: Lab) -> None:
    day, neighbour = "2024-05-01", "2024-05-09"
    write(lab, day, a=1, b=2)
    write(lab, neighbour, d=10)
    lab.ok("run", neighbour, neighbour, "scheduled")

    lab.ok("run", day, day, "scheduled")
    for _ in range(3):
        lab.ok("run", day, day, "backfill")
    assert lab.daily == {day: (2, 3, "backfill"), neighbour: (1, 10, "scheduled")}
    assert lab.ok("rollup")["amount_total"] == 13

    write(lab, day, a=1, b=2, c=4)
    lab.ok("run", day, day, "backfill")
    assert lab.daily == {day: (3, 7, "backfill"), neighbour: (1, 10, "scheduled")}
    assert lab.ok("rollup")["amount_total"] == 17

    write(lab, day, a=1, c=4)
    lab.ok("run", day, day, "backfill")
    assert lab.daily == {day: (2, 5, "backfill"), neighbour: (1, 10, "scheduled")}
    assert lab.ok("rollup")["amount_total"] == 15


def test_a_day_alone_has_a_rollup_of_its_own_three(lab: Lab) -> None:
    write(lab, "2024-05-01", a=1, b=2)
    for owner in ("scheduled", "backfill", "backfill", "backfill"):
        lab.ok("run", "2024-05-01", "2024-05-01", owner)

    answer = lab.ok("rollup")

    assert (answer["order_total"], answer["amount_total"]) == (2, 3)


def test_the_length_of_a_range_follows_the_calendar(lab: Lab) -> None:
    for dt in ("2024-02-28", "2024-02-29", "2024-03-01", "2023-02-28", "2023-03-01"):
        write(lab, dt, a=1)

    leap = lab.ok("run", "2024-02-28", "2024-03-01", "alice")
    common = lab.ok("run", "2023-02-28", "2023-03-01", "alice")
    one = lab.ok("run", "2024-02-28", "2024-02-28", "alice")
    before = lab.dump()
    backwards = lab("run", "2024-03-01", "2024-02-28", "alice")

    assert leap["done"] == ["2024-02-28", "2024-02-29", "2024-03-01"]
    assert common["done"] == ["2023-02-28", "2023-03-01"]
    assert one["done"] == ["2024-02-28"]
    assert backwards.code == 2
    assert lab.dump() == before


def test_two_backfills_that_overlap_share_no_day(lab: Lab) -> None:
    for dt in days("2024-05-01", 7):
        write(lab, dt, a=1)
    lab.ok("claim", "2024-05-01", "2024-05-05", "A")

    overlapping = lab("run", "2024-05-04", "2024-05-07", "B")
    scheduled = lab("run", "2024-05-05", "2024-05-05", "scheduled")
    lab.ok("run", "2024-05-01", "2024-05-05", "A")
    lab.ok("release", "2024-05-01", "2024-05-05", "A")
    rerun = lab.ok("run", "2024-05-04", "2024-05-05", "B")

    assert overlapping.code == 5
    assert overlapping.json["done"] == ["2024-05-06", "2024-05-07"]
    assert overlapping.json["skipped"] == [["2024-05-04", "claimed_by:A"], ["2024-05-05", "claimed_by:A"]]
    assert scheduled.code == 5
    assert scheduled.json["skipped"] == [["2024-05-05", "claimed_by:A"]]
    assert rerun["done"] == ["2024-05-04", "2024-05-05"]
    assert [owner for _, _, owner in lab.daily.values()] == ["A"] * 3 + ["B"] * 4


def test_a_claim_that_was_freed_is_no_longer_its_old_owners(lab: Lab) -> None:
    day = "2024-05-01"
    write(lab, day, a=1)
    lab.ok("claim", day, day, "A")
    lab.query("DELETE FROM claims WHERE dt = ?", day)
    lab.ok("claim", day, day, "B")

    stale = lab.ok("release", day, day, "A")
    skipped = lab("run", day, day, "A")
    unknown = lab.ok("release", day, day, "nobody")
    assert stale["released"] == unknown["released"] == []
    assert (skipped.code, skipped.json["skipped"]) == (5, [[day, "claimed_by:B"]])
    assert lab.claims == {day: "B"}

    freed = lab.ok("release", day, day, "B")
    again = lab.ok("release", day, day, "B")
    assert freed["released"] == [day]
    assert again["released"] == []
    assert lab.claims == {}


def test_what_was_sealed_stays_as_published_and_is_corrected_beside(lab: Lab) -> None:
    write(lab, "2024-05-01", a=1)
    write(lab, "2024-05-02", x=50, y=30, z=20)
    write(lab, "2024-05-03", a=3)
    lab.ok("run", "2024-05-01", "2024-05-03", "scheduled")
    lab.ok("seal", "2024-05-02", "2024-05-02")
    write(lab, "2024-05-02", x=50, y=30, z=20, w=7)

    backfill = lab("run", "2024-05-01", "2024-05-03", "backfill")
    assert backfill.code == 5
    assert backfill.json["done"] == ["2024-05-01", "2024-05-03"]
    assert backfill.json["skipped"] == [["2024-05-02", "sealed"]]

    correction = lab.ok("amend", "2024-05-02", "w came late")
    again = lab.ok("amend", "2024-05-02", "w came late")
    refused = lab("amend", "2024-05-02", "")
    assert correction == again
    assert (correction["amount_before"], correction["amount_after"]) == (100, 107)
    assert (correction["orders_before"], correction["orders_after"]) == (3, 4)
    assert refused.code == 2
    assert lab.daily["2024-05-02"] == (3, 100, "scheduled")
    assert lab.corrections == [("2024-05-02", 3, 100, 4, 107, "w came late")] * 2


def test_missing_empty_and_cut_are_three_different_things(lab: Lab) -> None:
    day = "2024-05-01"
    write(lab, day, a=1, b=2, c=3)
    lab.ok("run", day, day, "alice")
    whole = lab.path(day).read_bytes()

    lab.path(day).unlink()
    missing = lab.ok("run", day, day, "alice")
    assert missing["skipped"] == [[day, "no_data"]]
    assert lab.daily == {day: (3, 6, "alice")}

    lab.write_bytes(day, whole[:-25])
    cut = lab("run", day, day, "alice")
    assert cut.code == 1
    assert f"dt={day}.jsonl:3: " in cut.json["failed"][0][1]
    assert lab.daily == {day: (3, 6, "alice")}

    lab.write_bytes(day, b"")
    empty = lab.ok("run", day, day, "alice")
    assert empty["done"] == [day]
    assert lab.daily == {day: (0, 0, "alice")}


def test_a_kill_between_delete_and_insert_leaves_every_day_whole(lab: Lab) -> None:
    dates = days("2024-05-01", 14)
    for dt in dates:
        write(lab, dt, a=2)
    lab.hold_all(dates, 1, 1, "scheduled")
    lab.query(never_come_back("AFTER DELETE", "old", dates[5]))

    process = lab.start("run", dates[0], dates[-1], "backfill")
    wait_until(lambda: list(amounts(lab)) == [2] * 5 + [1] * 9, "five days are replaced")
    wait_until(lambda: in_a_transaction_for_long(lab), "the sixth is between delete and insert")
    process.kill()
    process.wait()

    lab.query("DROP TRIGGER stuck")
    assert amounts(lab) == [2] * 5 + [1] * 9
    rerun = lab.ok("run", dates[0], dates[-1], "backfill")
    assert rerun["done"] == dates
    assert amounts(lab) == [2] * 14
    assert lab.ok("rollup")["amount_total"] == 28


def never_come_back(event: str, row: str, dt: str) -> str:
    """SQL of a trigger that counts for ever once the date is touched."""
    return f"""
        CREATE TRIGGER stuck {event} ON daily WHEN {row}.dt = '{dt}' BEGIN
            SELECT count(*) FROM (
                WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT n FROM numbers
            );
        END"""


def amounts(lab: Lab) -> list[int]:
    """The amounts in `daily` by date; a date that is missing or there twice is a failure."""
    values = [amount for _, amount, _ in lab.daily.values()]
    assert len(values) == 14
    return values


def in_a_transaction_for_long(lab: Lab) -> bool:
    """Whether the store is being written to, looked at a thousand times in a row."""
    with closing(sqlite3.connect(lab.db, timeout=0, isolation_level=None)) as db:
        for _ in range(1000):
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                continue
            db.execute("ROLLBACK")
            return False
    return True
