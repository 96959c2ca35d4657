"""One meaning: whatever counts a line, it counts what the strict parser makes of it."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import pytest

from backfill_core import EventFolder, PartitionError
from backfill_core.counting.facts import Fingerprint
from backfill_core.counting.pattern import PatternEngine
from backfill_core.counting.pieces import BOM, MAX_LINE, LineTooLongError, Piece, open_file, pieces
from backfill_core.counting.spans import count_span, count_strictly
from backfill_core.counting.vectors import VectorEngine
from tests.core.hostile import DT, compact, disagreement, some_lines, usual_line, verdicts
from tests.core.sources import order

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backfill_core.counting.spans import Engine
    from tests.core.sources import Source

ENGINES = [pytest.param(PatternEngine(), id="pattern"), pytest.param(VectorEngine(smallest=0), id="vectors")]


@pytest.mark.parametrize("oddness", [0, 0.01, 0.3, 1])
def test_the_engines_agree_with_the_strict_parser_on_25_000_lines_of_each_oddness(oddness: float) -> None:
    rng = Random(f"oddness {oddness}")
    engines: list[Engine] = [PatternEngine(), VectorEngine(smallest=0)]
    left = 25_000

    while left > 0:
        lines = some_lines(rng, rng.randrange(1, 120), oddness)
        left -= lines.count(b"\n")

        assert [disagreement(lines, engine) for engine in engines] == [None, None]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("style", [str, compact])
def test_usual_lines_are_recognised_without_the_strict_parser(engine: Engine, style: type[str], newline: bytes) -> None:
    rng = Random(1)
    lines = b"".join(style(usual_line(rng)).encode() + newline for _ in range(1000))

    found = engine.add_up(Piece.of(lines), DT)

    assert (found.orders, found.amount, 0) == verdicts(lines)
    assert found.rest == b""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("inside", [b'"', b"\\", b"\\n", b"\x00", b"\t", b"\r", b"\x1f"])
def test_one_odd_line_is_left_out_and_no_other(engine: Engine, inside: bytes) -> None:
    usual = order(DT, 5).encode()
    odd = usual.replace(b'"x"', b'"' + inside + b'x"')

    found = engine.add_up(Piece.of(usual * 100 + odd + usual * 100), DT)

    assert (found.lines, found.orders, found.amount, found.rest) == (201, 200, 1000, odd)


def test_a_quote_too_few_in_one_line_does_not_make_up_for_one_too_many_in_another() -> None:
    usual = order(DT, 5).encode()
    too_few = usual.replace(b'"x"', b'"')
    too_many = usual.replace(b'"x"', b'"x"x"')

    for engine in (PatternEngine(), VectorEngine(smallest=0)):
        found = engine.add_up(Piece.of(usual + too_few + usual + too_many + usual), DT)

        assert (found.orders, found.rest) == (3, too_few + too_many)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("style", [str, compact])
def test_the_date_counts_in_its_place_only(engine: Engine, style: Callable[[str], str]) -> None:
    usual = style(order(DT, 5)).encode()
    middle = usual[usual.index(b'x"') + 1 : usual.index(b"5,")]
    a_quote_too_few = usual.replace(b'x"', b"").replace(b"5,", b"1235,")
    none = usual.replace(middle, b'",' + b" " * (len(middle) - 2))
    two = usual.replace(middle, middle + b"5" + middle)
    another = usual.replace(DT.encode(), b"2026-02-02")
    odd = [a_quote_too_few, none, two, another, none + two, two + another + none]

    found = [engine.add_up(Piece.of(usual * 50 + lines + usual * 50), DT) for lines in odd]

    assert all(count_strictly(lines.splitlines(), DT).fault for lines in odd)
    for lines, (_, orders, amount, rest) in zip(odd, found, strict=True):
        assert lines in rest
        assert (orders, amount) == (100 - (len(rest) - len(lines)) // len(usual), orders * 5)


def test_vectors_leave_the_bytes_behind_a_piece_as_they_are() -> None:
    piece = Piece.of((order(DT, 5) * 100).encode())
    piece.buffer[piece.end :] = b"x" * (len(piece.buffer) - piece.end)
    before = bytes(piece.buffer)

    found = VectorEngine(smallest=0).add_up(piece, DT)

    assert (found.orders, found.rest, bytes(piece.buffer)) == (100, b"", before)


def test_vectors_do_not_wrap_where_a_sum_leaves_64_bits() -> None:
    lines = order(DT, 99_999_999) * 1000 + order(DT, 10**18 - 1) * 1000 + order(DT, 2**63 - 1) * 1000

    assert disagreement(lines.encode(), VectorEngine(smallest=0)) is None


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\nbc\n\nd\n", [b"a", b"bc", b"", b"d"]),
        (b"a\nlonger line\nb", [b"a", b"longer line", b"b"]),
        (BOM, [b""]),
        (BOM + b"a\n" + BOM + b"b\n", [b"a", BOM + b"b"]),
        (b"\n" * 9, [b""] * 9),
    ],
)
def test_any_spans_of_a_file_hold_each_of_its_lines_once(tmp_path: Path, content: bytes, lines: list[bytes]) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)

    for size in (1, 2, 3, 7, 100):
        for first in range(len(content) + 1):
            for second in range(first, len(content) + 1):
                found = []
                with open_file(str(path)) as file:
                    for start, end in ((0, first), (first, second), (second, len(content))):
                        for piece in pieces(file, start, end, size):
                            found += piece.lines()

                assert found == lines, (size, first, second)


def test_a_line_may_be_as_long_as_the_limit_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "file"

    for length in (MAX_LINE, MAX_LINE + 1):
        for end in (b"", b"\n", b"\n" + b"x" * 100 + b"\n"):
            path.write_bytes(b"1\n" + b"x" * length + end)
            with open_file(str(path)) as file:
                if length > MAX_LINE:
                    with pytest.raises(LineTooLongError):
                        list(pieces(file, 2, path.stat().st_size, 1 << 18))
                else:
                    found = sum(len(piece.lines()) for piece in pieces(file, 2, path.stat().st_size, 1 << 18))
                    assert found == 1 + (len(end) > 1)


class Small:
    """An engine that is given its lines in small pieces, so that all kinds of them end at a border."""

    def __init__(self, engine: Engine, size: int) -> None:
        self.size = size
        self.add_up = engine.add_up


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_has_one_result_however_it_is_cut(source: Source, engine: Engine) -> None:
    rng = Random(2)
    path = source.file(DT)
    folder = EventFolder(str(source.folder))

    def told(cuts: list[int], size: int) -> object:
        found = Fingerprint.of(os.stat(path))
        assert found is not None
        parts = [
            count_span(str(path), DT, found, start, end, Small(engine, size))
            for start, end in zip([0, *cuts], [*cuts, found.size], strict=True)
        ]
        try:
            return folder.counted(DT, found, parts).tally
        except PartitionError as error:
            return str(error)

    for _ in range(150):
        content = rng.choice([b"", b"", BOM]) + some_lines(rng, rng.randrange(1, 60), rng.choice([0, 0, 0.01]))
        path.write_bytes(content[: len(content) - rng.choice([0, 0, 1, 30])])
        content = path.read_bytes().removeprefix(BOM)
        whole = count_strictly(content.split(b"\n"), DT)
        right = f"{path}:{whole.fault[0]}: {whole.fault[1]}" if whole.fault else (whole.orders, whole.amount)
        cuts = sorted(rng.randrange(len(content) + 1) for _ in range(rng.randrange(4)))

        assert told(cuts, rng.choice([1, 64, 300, 5000])) == right


@pytest.mark.parametrize("engine", ["python", "numpy"])
def test_a_partition_is_counted_the_same_by_each_engine(source: Source, engine: str) -> None:
    rng = Random(3)
    lines = some_lines(rng, 20_000, 0)
    source.file(DT).write_bytes(lines)

    counted = EventFolder(str(source.folder), engine).count(DT)

    assert counted is not None
    assert (*counted.tally, 0) == verdicts(lines)
