from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from backfill_core import EventFolder, PartitionError, SourceError, Stopped
from backfill_core.counting.pattern import PatternEngine
from backfill_core.counting.pieces import MAX_LINE
from tests.core.sources import Source, order

if TYPE_CHECKING:
    from pathlib import Path

DT = "2026-02-01"
ONE = order(DT, 5).encode()


def counted(source: Source) -> tuple[int, int]:
    found = EventFolder(str(source.folder)).count(DT)
    assert found is not None
    return found.tally


@pytest.mark.parametrize(
    ("content", "tally"),
    [
        (b"", (0, 0)),
        (b"\n\n", (0, 0)),
        (b"\xef\xbb\xbf", (0, 0)),
        (ONE, (1, 5)),
        (ONE[:-1], (1, 5)),
        (ONE + b"\n" + ONE, (2, 10)),
        (ONE.replace(b"\n", b"\r\n") * 2, (2, 10)),
        (b"\xef\xbb\xbf" + ONE, (1, 5)),
        (ONE * 10_000, (10_000, 50_000)),
        (ONE[:-2] + b', "more": "' + b"x" * (3 * PatternEngine.size) + b'"}\n' + ONE, (2, 10)),
    ],
)
def test_a_file_adds_up_to_its_orders_and_their_amounts(source: Source, content: bytes, tally: tuple[int, int]) -> None:
    source.file(DT).write_bytes(content)

    assert counted(source) == tally


@pytest.mark.parametrize("before", [0, 1, 2, 2999, 3000, 50_000])
def test_a_bad_line_is_told_with_its_number(source: Source, before: int) -> None:
    source.file(DT).write_bytes(ONE * before + b"{}\n" + ONE * 10)

    with pytest.raises(PartitionError, match=rf"dt={DT}\.jsonl:{before + 1}: the field order_id is missing"):
        counted(source)


def test_a_blank_line_has_a_number_too(source: Source) -> None:
    source.file(DT).write_bytes(b"\n\r\n" + ONE + b"{}")

    with pytest.raises(PartitionError, match=r"jsonl:4: "):
        counted(source)


def test_a_mark_of_byte_order_stands_at_the_start_only(source: Source) -> None:
    source.file(DT).write_bytes(ONE + b"\xef\xbb\xbf" + ONE)

    with pytest.raises(PartitionError, match=r"jsonl:2: "):
        counted(source)


def test_a_sum_beyond_64_bits_refuses_the_partition(source: Source) -> None:
    source.put(DT, 2**63 - 1, 1)

    with pytest.raises(PartitionError, match=f"add up to {2**63}, beyond 64 bits"):
        counted(source)


def test_a_sum_may_leave_64_bits_on_the_way(source: Source) -> None:
    source.put(DT, 2**63 - 1, 1, -1)

    assert counted(source) == (3, 2**63 - 1)


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(source: Source) -> None:
    with source.file(DT).open("wb") as file:
        file.write(ONE)
        file.truncate(100 * MAX_LINE)

    with pytest.raises(PartitionError, match=r"jsonl:2: the line is longer than"):
        counted(source)


def test_no_file_is_no_tally(source: Source) -> None:
    assert EventFolder(str(source.folder)).count(DT) is None


def test_no_folder_is_an_error_and_not_a_missing_file(tmp_path: Path) -> None:
    folder = EventFolder(str(tmp_path / "nowhere"))

    with pytest.raises(SourceError, match="nowhere can't be read: No such file"):
        folder.check()
    with pytest.raises(SourceError, match="nowhere can't be read"):
        folder.count(DT)


def test_a_folder_a_fifo_and_a_loop_are_no_files(source: Source) -> None:
    source.file("2026-02-01").mkdir()
    os.mkfifo(source.file("2026-02-02"))
    source.file("2026-02-03").symlink_to(source.file("2026-02-03"))

    for dt, fault in (("2026-02-01", "not a regular"), ("2026-02-02", "not a regular"), ("2026-02-03", "symbolic")):
        with pytest.raises(PartitionError, match=fault):
            EventFolder(str(source.folder)).count(dt)


class Meddler:
    """Asked between two chunks whether to stop: does something to the file instead, so many times."""

    def __init__(self, source: Source, times: int) -> None:
        self.file = source.file(DT)
        self.times = times

    def __call__(self) -> bool:
        if self.times:
            self.times -= 1
            self.meddle()
        return False

    def meddle(self) -> None:
        with self.file.open("ab") as file:
            file.write(ONE)


class Truncater(Meddler):
    def meddle(self) -> None:
        os.truncate(self.file, len(ONE) // 2)


class Replacer(Meddler):
    def meddle(self) -> None:
        new = self.file.with_suffix(".new")
        new.write_bytes(ONE * 7)
        new.replace(self.file)


class Toucher(Meddler):
    def meddle(self) -> None:
        os.utime(self.file, ns=(self.times, self.times))


class Remover(Meddler):
    def meddle(self) -> None:
        self.file.unlink()


def test_a_file_that_grows_while_it_is_read_is_counted_as_it_is_at_the_end(source: Source) -> None:
    source.file(DT).write_bytes(ONE * 20_000)

    found = EventFolder(str(source.folder)).count(DT, Meddler(source, times=3))

    assert found is not None
    assert found.tally == (20_003, 100_015)


def test_a_file_that_shrinks_while_it_is_read_is_noticed(source: Source) -> None:
    source.file(DT).write_bytes(ONE * 20_000)

    with pytest.raises(PartitionError, match=r"jsonl:1: not JSON"):
        EventFolder(str(source.folder)).count(DT, Truncater(source, times=1))


def test_a_file_that_is_replaced_while_it_is_read_is_counted_anew(source: Source) -> None:
    source.file(DT).write_bytes(ONE * 20_000)

    found = EventFolder(str(source.folder)).count(DT, Replacer(source, times=1))

    assert found is not None
    assert found.tally == (7, 35)


def test_what_is_wrong_with_a_file_that_is_replaced_meanwhile_is_not_told(source: Source) -> None:
    source.file(DT).write_bytes(ONE + b"half a li")

    found = EventFolder(str(source.folder)).count(DT, Replacer(source, times=1))

    assert found is not None
    assert found.tally == (7, 35)


def test_a_file_that_vanishes_while_it_is_read_is_no_tally(source: Source) -> None:
    source.file(DT).write_bytes(ONE * 20_000)

    assert EventFolder(str(source.folder)).count(DT, Remover(source, times=1)) is None


def test_a_file_that_never_holds_still_is_an_error(source: Source) -> None:
    source.file(DT).write_bytes(ONE)

    with pytest.raises(PartitionError, match="keeps changing"):
        EventFolder(str(source.folder)).count(DT, Toucher(source, times=1_000))


def test_a_count_ends_when_it_is_asked_to(source: Source) -> None:
    source.file(DT).write_bytes(ONE)

    with pytest.raises(Stopped):
        EventFolder(str(source.folder)).count(DT, lambda: True)
