"""Counting a span of a partition file: an engine adds up what it vouches for, the strict parser decides the rest."""

from __future__ import annotations

import os
from collections import namedtuple
from functools import lru_cache

from backfill_core.counting.facts import Fingerprint
from backfill_core.counting.lines import LineError, amount_of
from backfill_core.counting.pieces import BOM, MAX_LINE, LineTooLongError, Piece, open_file, pieces
from backfill_core.errors import Stopped, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from backfill_core.counting.pattern import Sum

    class Engine(Protocol):
        """Adds up the lines of a piece that it is certain of, and hands back the others."""

        size: int

        def add_up(self, piece: Piece, dt: str) -> Sum:
            """Judge each line of the piece."""


class Part(namedtuple("Part", ("lines", "orders", "amount", "fault"))):
    """What a span adds up to; up to its first wrong line, where it has one.

    fault: (number of that line in the span, from 1; what is wrong), or None.
    """

    __slots__ = ()
    lines: int
    orders: int
    amount: int
    fault: tuple[int, str] | None


class FileChanged(Exception):  # noqa: N818  an observation, not an error
    """The file is not the one, or not as, it was when its fingerprint was taken."""


def count_span(
    path: str,
    dt: str,
    fingerprint: Fingerprint,
    start: int,
    end: int,
    engine: Engine,
    stop: Callable[[], bool] | None = None,
) -> Part:
    """Count the lines of one partition's file that begin in the bytes from `start` to before `end`.

    Raises:
        FileChanged: it is not the file of that fingerprint, or no longer.
        Stopped: `stop`, asked before each piece, answered true.
        OSError: it can't be read.
    """
    lines = orders = amount = 0
    fault = None
    with open_file(path) as file:
        if Fingerprint.of(os.fstat(file.fileno())) != fingerprint:
            raise FileChanged
        try:
            for piece in pieces(file, start, end, engine.size):
                if stop is not None and stop():
                    raise Stopped
                part = _count_piece(piece, dt, engine)
                if part.fault is not None:
                    fault = (lines + part.fault[0], part.fault[1])
                    break
                lines, orders, amount = lines + part.lines, orders + part.orders, amount + part.amount
        except LineTooLongError:
            fault = (lines + 1, f"the line is longer than {MAX_LINE} bytes")
        if Fingerprint.of(os.fstat(file.fileno())) != fingerprint:
            raise FileChanged
    return Part(lines, orders, amount, fault)


def count_at_once(
    path: str, dt: str, fingerprint: Fingerprint, engine: Engine, stop: Callable[[], bool] | None = None
) -> Part:
    """Do what `count_span` does, for the whole of a small file."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        found, content = Fingerprint.of(os.fstat(file)), os.read(file, fingerprint.size)
    finally:
        os.close(file)
    if found != fingerprint or len(content) != fingerprint.size:
        raise FileChanged
    if stop is not None and stop():
        raise Stopped
    lines = content.removeprefix(BOM)
    if lines and not lines.endswith(b"\n"):
        lines += b"\n"
    return _count_piece(Piece.of(lines), dt, engine) if lines else Part(0, 0, 0, None)


def _count_piece(piece: Piece, dt: str, engine: Engine) -> Part:
    lines, orders, amount, rest = engine.add_up(piece, dt)
    if rest:
        part = count_strictly(rest.split(b"\n")[:-1], dt)
        if part.fault is not None:
            return count_strictly(piece.lines(), dt)  # again from the start, for the number of the line
        orders, amount = orders + part.orders, amount + part.amount
    return Part(lines, orders, amount, None)


def count_strictly(lines: list[bytes], dt: str) -> Part:
    """Count lines with the strict parser alone, up to the first one that is wrong."""
    orders = amount = 0
    for number, line in enumerate(lines, 1):
        try:
            value = amount_of(line, dt)
        except LineError as error:
            return Part(number, orders, amount, (number, str(error)))
        if value is not None:
            orders += 1
            amount += value
    return Part(len(lines), orders, amount, None)


def check_engine(name: str | None) -> None:
    """Make sure, before anything is done, that an engine that was asked for is there.

    Raises:
        UsageError: numpy is asked for and not installed.
    """
    if name == "numpy":
        from importlib.util import find_spec

        if find_spec("numpy") is None:
            raise UsageError("BACKFILL_ENGINE is numpy, and numpy is not installed; install the extra `fast`")


@lru_cache(maxsize=4)
def load_engine(name: str | None) -> Engine:
    """Return the engine of that name, `python` or `numpy`; None for the fastest that there is.

    Raises:
        UsageError: numpy is asked for and can't be imported.
    """
    if name != "python":
        try:
            from backfill_core.counting.vectors import VectorEngine
        except ImportError as error:
            if name is not None:
                raise UsageError(f"the engine numpy can't be used ({error}); install the extra `fast`") from None
        else:
            return VectorEngine() if name is None else VectorEngine(smallest=0)
    from backfill_core.counting.pattern import PatternEngine

    return PatternEngine()
