"""A run that is interrupted says what was done, leaves whole partitions and answers 130."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .grader import PATIENCE, RUN_KEYS, days, wait_until

if TYPE_CHECKING:
    from .conftest import InTheMiddle
    from .grader import Answer, Lab

both_signals = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)


def assert_it_says_what_was_done(answer: Answer, lab: Lab, dates: list[str], new: tuple[int, int, str]) -> None:
    """Compare an interrupted run's answer with the store, in which each date has its earlier or its new row."""
    assert answer.code == 130
    assert answer.json.keys() >= RUN_KEYS
    assert answer.json["owner"] == "alice"
    assert answer.json["done"] == [dt for dt in dates if lab.daily[dt][2] == "alice"]
    assert answer.json["orders"] == sum(lab.daily[dt][0] for dt in answer.json["done"])
    assert answer.json["amount"] == sum(lab.daily[dt][1] for dt in answer.json["done"])
    assert all(lab.daily[dt] in (new, (9, 99, "earlier")) for dt in dates)


@both_signals
def test_a_signal_while_a_partition_is_counted_leaves_that_one_as_it_was(
    in_the_middle: InTheMiddle, number: signal.Signals
) -> None:
    lab = in_the_middle.lab

    answer = in_the_middle(lambda process: process.send_signal(number))

    assert_it_says_what_was_done(answer, lab, in_the_middle.dates, (1, 1, "alice"))
    assert answer.json["done"] == in_the_middle.dates[:1]
    assert lab.ok("run", in_the_middle.dates[0], in_the_middle.dates[-1], "alice")["done"] == in_the_middle.dates


@both_signals
def test_a_second_signal_changes_nothing(in_the_middle: InTheMiddle, number: signal.Signals) -> None:
    def twice(process: subprocess.Popen[bytes]) -> None:
        process.send_signal(number)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)

    answer = in_the_middle(twice)

    assert_it_says_what_was_done(answer, in_the_middle.lab, in_the_middle.dates, (1, 1, "alice"))


@both_signals
@pytest.mark.parametrize("until", [1, 40, 200])
def test_a_signal_between_partitions_is_answered_with_exactly_what_was_done(
    lab: Lab, number: signal.Signals, until: int
) -> None:
    dates = days("2026-01-01", 300)
    for dt in dates:
        lab.write(dt, 3, 4)
    lab.hold_all(dates, 9, 99)
    process = lab.start("run", dates[0], dates[-1], "alice")
    wait_until(lambda: replaced(lab) >= until or process.poll() is not None, f"{until} dates are replaced")

    process.send_signal(number)

    answer = lab.finish(process)
    if answer.code == 0:  # it was faster
        assert answer.json["done"] == dates
    else:
        assert_it_says_what_was_done(answer, lab, dates, (2, 7, "alice"))
        assert until <= len(answer.json["done"])


def replaced(lab: Lab) -> int:
    """How many dates have alice's row."""
    [(count,)] = lab.query("SELECT count(*) FROM daily WHERE owner = 'alice'")
    return int(count)


@both_signals
def test_a_signal_while_the_store_is_locked_by_another_is_answered_too(
    in_the_middle: InTheMiddle, number: signal.Signals
) -> None:
    lab = in_the_middle.lab
    process = in_the_middle.start()

    with closing(sqlite3.connect(lab.db, timeout=PATIENCE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        process.send_signal(number)
        other.execute("COMMIT")

    answer = lab.finish(process)
    if answer.code:
        assert_it_says_what_was_done_at_all(answer, in_the_middle)


def assert_it_says_what_was_done_at_all(answer: Answer, in_the_middle: InTheMiddle) -> None:
    """Compare `done` with the store, whatever the large partition's count."""
    daily = in_the_middle.lab.daily
    assert answer.code == 130
    assert answer.json["done"] == [dt for dt in in_the_middle.dates if daily[dt] != in_the_middle.earlier]


def test_an_interrupted_run_names_what_failed_and_was_skipped_before(in_the_middle: InTheMiddle) -> None:
    lab = in_the_middle.lab
    lab.write("2026-02-27", 1)
    lab.query("INSERT INTO claims (dt, owner) VALUES ('2026-02-27', 'bob')")
    lab.write_bytes("2026-02-28", b"oops\n")
    process = lab.start("run", "2026-02-27", in_the_middle.dates[-1], "alice")
    wait_until(lambda: in_the_middle.row(in_the_middle.dates[0]) != in_the_middle.earlier, "the first is replaced")

    process.send_signal(signal.SIGTERM)

    answer = lab.finish(process)
    assert answer.json["skipped"] == [["2026-02-27", "claimed_by:bob"]]
    assert [dt for dt, _ in answer.json["failed"]] == ["2026-02-28"]
    assert answer.code == 130 or answer.json["done"] == in_the_middle.dates


def has_open(process: subprocess.Popen[bytes], path: Path) -> bool:
    with suppress(OSError):  # what is closed meanwhile has no target any more
        return path.resolve() in {entry.readlink() for entry in Path(f"/proc/{process.pid}/fd").iterdir()}
    return False


def test_a_run_that_waits_for_a_lock_ends_at_a_second_signal(lab: Lab) -> None:
    dates = days("2026-02-01", 3)
    for dt in dates:
        lab.write(dt, 1)

    with closing(sqlite3.connect(lab.db, isolation_level=None)) as operator:
        operator.execute("BEGIN IMMEDIATE")
        process = lab.start("run", dates[0], dates[-1], "alice")
        wait_until(lambda: has_open(process, lab.db), "the run waits for the store")
        started = time.monotonic()
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
            assert time.monotonic() - started < PATIENCE, "the run hears no signal"
        operator.execute("ROLLBACK")

    assert process.returncode in (-signal.SIGINT, 130)
    assert lab.daily == {}
