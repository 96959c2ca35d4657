"""Counting in several processes: the same answers in the same order, and nobody is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_core import DateRange, EventFolder, create_store
from backfill_core.counting.facts import MUCH, SMALL, Fingerprint
from backfill_core.counting.spans import load_engine
from backfill_core.counting.workers import Question, Workers
from tests.core.sources import order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backfill_core import Backfill
    from tests.core.sources import Source

RUNNER = Path(__file__).parents[2] / "runner.py"
DT = "2026-02-01"
LINE = len(order(DT, 5))


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within two minutes"
        time.sleep(0.01)


def children(process: int) -> list[int]:
    """The processes that this one has started and that still live, by /proc."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == process and state != "Z":
            found.append(int(status.parent.name))
    return found


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def large(source: Source) -> Source:
    """Four days that are worth more than one process, and the small ones between them."""
    lines = 3 * MUCH // 8 // LINE
    for number in (1, 3, 4, 6):
        dt = f"2026-02-0{number}"
        source.file(dt).write_text(order(dt, number) * (lines + number))
    source.put("2026-02-02", 1, 2, 3)
    return source


def ran(large: Source, tmp_path: Path, *flags: str, **environment: str) -> tuple[int, Any]:
    environment |= {"BACKFILL_DB": str(tmp_path / "runs.db"), "BACKFILL_EVENTS": str(large.folder)}
    create_store(environment["BACKFILL_DB"])
    command = [sys.executable, *flags, str(RUNNER), "run", DT, "2026-02-07", "me"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return process.returncode, json.loads(process.stdout)


@pytest.mark.parametrize("engine", ["python", "numpy"])
@pytest.mark.parametrize("workers", ["1", "2", "5"])
def test_a_long_run_answers_the_same_whoever_counts(large: Source, tmp_path: Path, engine: str, workers: str) -> None:
    lines = 3 * MUCH // 8 // LINE

    code, answer = ran(large, tmp_path, BACKFILL_ENGINE=engine, BACKFILL_WORKERS=workers)

    assert code == 0
    assert answer == {
        "owner": "me",
        "done": [f"2026-02-0{number}" for number in (1, 2, 3, 4, 6)],
        "skipped": [["2026-02-05", "no_data"], ["2026-02-07", "no_data"]],
        "orders": 4 * lines + 14 + 3,
        "amount": sum(number * (lines + number) for number in (1, 3, 4, 6)) + 6,
    }


def test_a_long_run_needs_nothing_that_is_not_in_the_standard_library(large: Source, tmp_path: Path) -> None:
    code, answer = ran(large, tmp_path, "-S", BACKFILL_WORKERS="2")

    assert (code, len(answer["done"])) == (0, 5)


@pytest.mark.parametrize("engine", ["python", "numpy"])
def test_a_bad_line_of_a_large_file_is_told_with_its_number(source: Source, tmp_path: Path, engine: str) -> None:
    before = 3 * MUCH // 4 // LINE  # in the second span or later
    source.file(DT).write_text(order(DT, 5) * before + order("2026-02-02", 5) + order(DT, 5) * before + "x")

    code, answer = ran(source, tmp_path, BACKFILL_ENGINE=engine, BACKFILL_WORKERS="2")

    assert code == 1
    assert answer["done"] == []
    [[dt, fault]] = answer["failed"]
    assert dt == DT
    assert fault == f"{source.file(DT)}:{before + 1}: dt is '2026-02-02', and this is the partition of {DT}"


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("BACKFILL_ENGINE", "rust", "BACKFILL_ENGINE is 'rust'; the engines are python and numpy"),
        ("BACKFILL_WORKERS", "0", "BACKFILL_WORKERS is '0'; it is a number of processes, from 1 to 9999"),
        ("BACKFILL_WORKERS", "two", "BACKFILL_WORKERS is 'two'; it is a number of processes, from 1 to 9999"),
    ],
)
def test_a_wrong_setting_is_a_usage_error(
    source: Source, tmp_path: Path, variable: str, value: str, sentence: str
) -> None:
    code, answer = ran(source, tmp_path, **{variable: value})

    assert (code, answer) == (2, {"error": sentence})


def test_numpy_that_is_asked_for_and_missing_is_a_usage_error_before_anything_is_done(
    source: Source, tmp_path: Path
) -> None:
    source.put(DT, 1)

    code, answer = ran(source, tmp_path, "-S", BACKFILL_ENGINE="numpy")

    assert code == 2
    assert answer["error"] == "BACKFILL_ENGINE is numpy, and numpy is not installed; install the extra `fast`"


def test_a_small_range_starts_no_process(source: Source, backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_spawn", None)
    for number in range(1, 10):
        source.put(f"2026-02-0{number}", *range(SMALL // LINE * 2))

    answer = backfill.run(DateRange.parse(DT, "2026-02-09"), "me")

    assert len(answer["done"]) == 9


def test_a_seal_that_comes_during_a_long_run_is_honoured(large: Source, store: Any, backfill: Backfill) -> None:
    def seal_the_sixth(passed: int, dt: str) -> None:
        if passed == 3:
            backfill.seal(DateRange.parse("2026-02-06", "2026-02-06"))

    answer = backfill.run(DateRange.parse(DT, "2026-02-07"), "me", progress=seal_the_sixth)

    assert ["2026-02-06", "sealed"] in answer["skipped"]
    assert "2026-02-06" not in answer["done"]


def test_a_file_that_changes_after_it_was_counted_ahead_is_counted_again(large: Source, backfill: Backfill) -> None:
    def replace_the_sixth(passed: int, dt: str) -> None:
        if passed == 5:
            large.put("2026-02-06", 7)

    backfill.run(DateRange.parse(DT, "2026-02-07"), "me", progress=replace_the_sixth)

    [sixth] = backfill.status(DateRange.parse("2026-02-06", "2026-02-06"))["partitions"]
    assert (sixth["orders"], sixth["amount"]) == (1, 7)


class Asked:
    """Two workers, and one question about a file."""

    def __init__(self, source: Source) -> None:
        self.workers = Workers(2, "python")
        self.path = source.file(DT)
        self.path.write_text(order(DT, 5) * 10)

    def question(self) -> Question:
        found = Fingerprint.of(os.stat(self.path))
        assert found is not None
        return Question(str(self.path), DT, found, 0, found.size)

    def settle(self, *questions: Question) -> None:
        self.workers.ask(questions)

        def all_are_answered() -> bool:
            self.workers.take_in(0.1)
            return all(question.answered for question in questions)

        until(all_are_answered)


@pytest.fixture
def asked(source: Source) -> Iterator[Asked]:
    asked = Asked(source)
    yield asked
    asked.workers.close()
    assert children(os.getpid()) == []


def test_workers_answer_each_question(asked: Asked) -> None:
    questions = [asked.question() for _ in range(20)]

    asked.settle(*questions)

    assert [question.part for question in questions] == [(10, 10, 50, None)] * 20
    assert len(children(os.getpid())) == 2


def test_a_file_that_is_not_the_one_asked_about_is_not_counted(asked: Asked) -> None:
    question, missing = asked.question(), asked.question()
    asked.path.write_text(order(DT, 6) * 10)
    os.utime(asked.path, ns=(1, 1))

    asked.settle(question)
    asked.path.unlink()
    asked.settle(missing)

    assert (question.part, missing.part) == (None, None)


def test_questions_to_workers_that_were_killed_are_left_to_the_one_who_asks(asked: Asked) -> None:
    asked.settle(asked.question(), asked.question())
    for worker in children(os.getpid()):
        os.kill(worker, signal.SIGKILL)
    questions = [asked.question() for _ in range(5)]

    asked.settle(*questions)

    assert [question.part for question in questions] == [None] * 5


def test_workers_do_not_hear_the_ctrl_c_that_reaches_every_process_of_a_terminal(asked: Asked) -> None:
    asked.settle(asked.question(), asked.question())
    for worker in children(os.getpid()):
        os.kill(worker, signal.SIGINT)
    questions = [asked.question() for _ in range(5)]

    asked.settle(*questions)

    assert [question.part for question in questions] == [(10, 10, 50, None)] * 5


def test_where_no_process_can_be_started_the_one_who_asks_counts(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    question = asked.question()

    asked.settle(question)

    assert question.part is None


def test_a_run_whose_workers_are_killed_is_right_all_the_same(large: Source, backfill: Backfill) -> None:
    def kill_the_workers(passed: int, dt: str) -> None:
        for worker in children(os.getpid()):
            os.kill(worker, signal.SIGKILL)

    answer = backfill.run(DateRange.parse(DT, "2026-02-07"), "me", progress=kill_the_workers)

    assert answer["orders"] == 4 * (3 * MUCH // 8 // LINE) + 14 + 3


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
@pytest.mark.parametrize("whole_group", [True, False])
def test_no_worker_outlives_a_run_that_a_signal_ends(
    large: Source, tmp_path: Path, name: str, whole_group: bool
) -> None:
    db = str(tmp_path / "runs.db")
    create_store(db)
    for number in range(7, 10):  # more than is counted while we look
        large.file(f"2026-02-0{number}").write_text(order(f"2026-02-0{number}", 1) * (4 * MUCH // LINE))
    process = subprocess.Popen(
        [sys.executable, RUNNER, "run", DT, "2026-02-09", "me"],
        env={
            "BACKFILL_DB": db,
            "BACKFILL_EVENTS": str(large.folder),
            "BACKFILL_ENGINE": "python",
            "BACKFILL_WORKERS": "2",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: len(children(process.pid)) == 2)
    workers = children(process.pid)

    (os.killpg if whole_group else os.kill)(process.pid, signal.Signals[name])
    out, err = process.communicate()

    until(lambda: not any(is_alive(worker) for worker in workers))
    if name != "SIGKILL":
        assert process.returncode == 130
        assert json.loads(out)["error"] == f"interrupted by {name}; what is listed was done"
        assert "Traceback" not in err


@pytest.mark.parametrize("engine", ["python", "numpy"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_memory_does_not_grow_with_the_file(source: Source, tmp_path: Path, engine: str, workers: str) -> None:
    source.file(DT).write_text(order(DT, 5) * (5 * MUCH // LINE))
    db = str(tmp_path / "runs.db")
    create_store(db)
    environment = {
        "BACKFILL_DB": db,
        "BACKFILL_EVENTS": str(source.folder),
        "BACKFILL_ENGINE": engine,
        "BACKFILL_WORKERS": workers,
    }
    # A process is charged with the memory of whoever started it: so somebody small does.
    small = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )

    largest = subprocess.run(
        [sys.executable, "-S", "-c", small, sys.executable, str(RUNNER), "run", DT, DT, "me"],
        env=environment,
        capture_output=True,
        check=True,
    ).stdout

    assert int(largest) < 80_000  # KiB, of the largest process


def test_the_engine_is_numpy_where_it_is_there() -> None:
    assert type(load_engine(None)).__name__ == "VectorEngine"
    assert type(load_engine("python")).__name__ == "PatternEngine"


def test_one_partition_is_counted_by_itself_with_any_engine(large: Source) -> None:
    tallies = [
        counted.tally
        for engine in (None, "python", "numpy")
        if (counted := EventFolder(str(large.folder), engine).count("2026-02-03")) is not None
    ]

    assert tallies == [tallies[0]] * 3
