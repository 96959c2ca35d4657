"""Events folders and partitions that can't be read, or that change while they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from .grader import RUN_KEYS, days, line, lines, obey_file_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import InTheMiddle
    from .grader import Lab

D, NEXT = "2026-02-01", "2026-02-02"


@pytest.fixture
def kept(lab: Lab) -> tuple[int, int, str]:
    """The earlier result of the date in question; the next date is a good partition."""
    lab.write(NEXT, 4)
    return lab.hold(D, 9, 99)


def assert_only_the_next_is_done(lab: Lab, kept: tuple[int, int, str], **how: object) -> None:
    """Run both dates: the first fails and keeps its result, the second is done."""
    answer = lab("run", D, NEXT, "alice", **how)

    assert answer.code == 1
    assert answer.json.keys() == RUN_KEYS | {"failed"}
    assert answer.json["done"] == [NEXT]
    assert answer.json["skipped"] == []
    [[dt, where]] = answer.json["failed"]
    assert dt == D
    assert f"dt={D}.jsonl" in where
    assert lab.daily == {D: kept, NEXT: (1, 4, "alice")}


def test_a_directory_is_no_partition(lab: Lab, kept: tuple[int, int, str]) -> None:
    lab.path(D).mkdir()

    assert_only_the_next_is_done(lab, kept)


def test_a_fifo_is_no_partition_and_nothing_hangs(lab: Lab, kept: tuple[int, int, str]) -> None:
    os.mkfifo(lab.path(D))

    assert_only_the_next_is_done(lab, kept)


def test_a_link_to_a_fifo_is_no_partition_and_nothing_hangs(lab: Lab, kept: tuple[int, int, str]) -> None:
    os.mkfifo(lab.folder / "fifo")
    lab.path(D).symlink_to(lab.folder / "fifo")

    assert_only_the_next_is_done(lab, kept)


def test_a_link_to_a_device_without_end_is_no_partition(lab: Lab, kept: tuple[int, int, str]) -> None:
    lab.path(D).symlink_to("/dev/zero")

    assert_only_the_next_is_done(lab, kept)


def test_a_link_to_itself_is_no_partition(lab: Lab, kept: tuple[int, int, str]) -> None:
    lab.path(D).symlink_to(lab.path(D))

    assert_only_the_next_is_done(lab, kept)


def test_a_partition_that_may_not_be_read_fails_alone(lab: Lab, kept: tuple[int, int, str]) -> None:
    lab.write(D, 4)
    lab.path(D).chmod(0)

    assert_only_the_next_is_done(lab, kept, before=obey_file_modes)


def test_a_link_to_nowhere_keeps_the_earlier_result(lab: Lab, kept: tuple[int, int, str]) -> None:
    lab.path(D).symlink_to(lab.folder / "nowhere")

    answer = lab("run", D, NEXT, "alice")

    assert answer.code in (0, 1)
    assert answer.json["done"] == [NEXT]
    assert lab.daily[D] == kept


def test_an_events_folder_that_may_not_be_entered_is_no_lack_of_data(lab: Lab, kept: tuple[int, int, str]) -> None:
    lab.write(D, 4)
    lab.events.chmod(0)

    answer = lab("run", D, NEXT, "alice", before=obey_file_modes)

    lab.events.chmod(0o755)
    assert answer.code == 1
    assert str(lab.events) in answer.err + str(answer.json)
    assert not answer.json.get("done")
    assert lab.daily == {D: kept}


@pytest.mark.parametrize("kind", ["missing", "a file", "a link to nowhere"])
def test_without_an_events_folder_every_result_is_kept(lab: Lab, kind: str) -> None:
    kept = lab.hold(D, 9, 99)
    lab.events.rmdir()
    if kind == "a file":
        lab.events.write_text("x")
    elif kind == "a link to nowhere":
        lab.events.symlink_to(lab.folder / "nowhere")

    answer = lab("run", D, NEXT, "alice")

    assert answer.code in (0, 1)
    if answer.code == 0:
        assert answer.json["skipped"] == [[D, "no_data"], [NEXT, "no_data"]]
    else:
        assert str(lab.events) in str(answer.json)
        assert not answer.json.get("done")
    assert lab.daily == {D: kept}


# The source changes while it is read. SLOW is large enough to be still counted when it changes.


def test_a_source_that_is_replaced_while_it_is_read_is_counted_again(in_the_middle: InTheMiddle) -> None:
    lab = in_the_middle.lab

    answer = in_the_middle(lambda _: lab.write(in_the_middle.slow, 70, 7))

    assert answer.code == 0
    assert answer.json["done"] == in_the_middle.dates
    assert lab.daily[in_the_middle.slow] == (2, 77, "alice")


def test_a_source_replaced_by_one_of_the_same_size_and_time_is_counted_again(in_the_middle: InTheMiddle) -> None:
    lab, path = in_the_middle.lab, in_the_middle.lab.path(in_the_middle.slow)

    def replace(_: object) -> None:
        was, content = path.stat(), path.read_bytes()
        lab.write_bytes(in_the_middle.slow, content.replace(b'"amount": 1,', b'"amount": 2,'))
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))

    answer = in_the_middle(replace)

    orders, amount, _ = lab.daily[in_the_middle.slow]
    assert answer.code == 0
    assert amount == 2 * orders


def test_a_source_that_grows_while_it_is_read_is_counted_again(in_the_middle: InTheMiddle) -> None:
    lab, path = in_the_middle.lab, in_the_middle.lab.path(in_the_middle.slow)

    def append(_: object) -> None:
        with path.open("a") as file:
            file.write(line(-3, in_the_middle.slow) + "\n")

    answer = in_the_middle(append)

    count = path.read_bytes().count(b"\n")
    assert answer.code == 0
    assert lab.daily[in_the_middle.slow] == (count, count - 1 - 3, "alice")


def test_a_source_that_is_cut_while_it_is_read_is_counted_again(in_the_middle: InTheMiddle) -> None:
    lab, path = in_the_middle.lab, in_the_middle.lab.path(in_the_middle.slow)
    length = len(path.read_bytes().splitlines(keepends=True)[0])

    answer = in_the_middle(lambda _: os.truncate(path, 1000 * length))

    assert answer.code == 0
    assert lab.daily[in_the_middle.slow] == (1000, 1000, "alice")


@pytest.mark.parametrize("change", ["deleted", "cut in a line", "spoilt"])
def test_a_source_that_is_lost_while_it_is_read_keeps_the_earlier_result(
    in_the_middle: InTheMiddle, change: str
) -> None:
    lab, path = in_the_middle.lab, in_the_middle.lab.path(in_the_middle.slow)
    act: dict[str, Callable[[object], object]] = {
        "deleted": lambda _: path.unlink(),
        "cut in a line": lambda _: os.truncate(path, path.stat().st_size - 20),
        "spoilt": lambda _: lab.write_bytes(in_the_middle.slow, lines(in_the_middle.slow, [1]) + b"oops\n"),
    }

    answer = in_the_middle(act[change])

    assert answer.code in ((0, 1) if change == "deleted" else (1,))
    assert in_the_middle.slow not in answer.json["done"]
    assert in_the_middle.dates[0] in answer.json["done"]
    assert in_the_middle.dates[-1] in answer.json["done"]
    assert lab.daily[in_the_middle.slow] == in_the_middle.earlier


def test_partitions_that_are_replaced_all_the_time_are_never_mixed(lab: Lab) -> None:
    dates = days(D, 3)
    for dt in dates:
        lab.write(dt, *[1] * 3000)
    process = lab.start("run", dates[0], dates[-1], "alice")

    turn = 1
    while process.poll() is None:
        turn += 1
        for dt in dates:
            lab.write(dt, *[turn] * 3000)

    answer = lab.finish(process)
    assert set(answer.json["done"]) | {dt for dt, _ in answer.json.get("failed", [])} == set(dates)
    assert all(amount % 3000 == 0 and orders == 3000 for orders, amount, _ in lab.daily.values())


@pytest.fixture(autouse=True)
def readable_again(lab: Lab) -> Iterator[None]:
    """Give the modes back, so that the temporary folder can be cleared."""
    yield
    for path in (lab.events, *lab.folder.glob("events/*")):
        if path.exists() and not path.is_symlink():
            path.chmod(0o755)
