"""How far long work has come: one line on a terminal, with an estimate of the time left, that is gone at the end.

Where nobody looks, nothing is shown, and the work is done as it would be without.
"""

from __future__ import annotations

import sys
import time

from backfill_core.terminal import is_terminal, width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any, TextIO

    from backfill_core.target import Fence, Measured, Side, Target

    Clock = Callable[[], float]

REDRAW_SECONDS = 0.5
BAR = 30
"""The most columns of the bar itself."""
FIRST_PIECES = 64
"""The first piece of a long work is so small a part of it."""
LONG = 0.5
"""A piece that takes fewer seconds is followed by one that is twice as large."""
CLEAR = "\r\033[K"


class Bar:
    """How far work has come, shown while the block lasts; without a stream it shows nothing.

    total: of the steps, 0 while it isn't known.
    """

    def __init__(self, total: int = 0, stream: TextIO | None = None, *, clock: Clock = time.monotonic) -> None:
        self.total = total
        self._stream = stream
        self._clock = clock
        self._began = self._moved = clock()
        self._done = 0.0
        self._what = ""
        self._is_drawn = False
        self._ended: threading.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_shown(self) -> bool:
        """Whether somebody sees it."""
        return self._stream is not None

    def to(self, done: float, what: str = "") -> None:
        """Say how many steps are done, and what is being done now."""
        self._done, self._what, self._moved = done, what, self._clock()
        self._draw()

    def of(self, total: int, done: int, what: str) -> None:
        """Say how many steps there are, how many are done, and what is being done now."""
        self.total = total
        self.to(done, what)

    def more(self, steps: float, what: str = "") -> None:
        """Say that so many more steps are done."""
        self.to(self._done + steps, what)

    def line(self, width: int) -> str:
        """Return what is shown on a terminal of that width; it never fills the line, so it never wraps."""
        now = self._clock()
        told = _left(self._estimate(now)) or _since(now - self._began)
        if not self.total:
            return told[: width - 1]
        at = f"{min(int(self._done) + 1, self.total)}/{self.total}"
        words = f"{at} {self._what}" if self._what else at
        room = min(BAR, width - len(words) - len(told) - 5)
        full = int(room * min(self._done, self.total) / self.total)
        bar = f"[{'#' * full}{'-' * (room - full)}]" if room >= 5 else ""
        return " ".join(filter(None, (words, bar, told)))[: width - 1]

    def _estimate(self, now: float) -> float | None:
        """Return the seconds that are left if it goes on as it went; None where there is nothing to go by yet."""
        took = self._moved - self._began
        if not 0 < self._done < self.total or now - self._began < 1:
            return None
        return max(0.0, took / self._done * (self.total - self._done) - (now - self._moved))

    def _draw(self) -> None:
        if self._stream is not None:
            self._is_drawn = True
            self._put(f"{CLEAR}{self.line(width_of(self._stream))}", self._stream)

    def _put(self, text: str, stream: TextIO) -> None:
        try:
            stream.write(text)
            stream.flush()
        except OSError:  # the terminal is gone; the work isn't
            self._stream = None

    def _tick(self, ended: threading.Event) -> None:
        while not ended.wait(REDRAW_SECONDS):
            self._draw()

    def __enter__(self) -> Bar:
        self._began = self._moved = self._clock()
        if self._stream is not None:
            import threading

            self._ended = threading.Event()
            self._thread = threading.Thread(target=self._tick, args=(self._ended,), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._ended is not None and self._thread is not None:
                self._ended.set()
                self._thread.join()
        finally:
            if self._stream is not None and self._is_drawn:
                self._put(CLEAR, self._stream)


def on_terminal(environ: Mapping[str, str], *, quiet: bool = False) -> TextIO | None:
    """Return where progress is shown: standard error, if it is a terminal that can clear a line; else nowhere."""
    shows = not quiet and is_terminal(sys.stderr) and environ.get("TERM") != "dumb"
    return sys.stderr if shows else None


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"about {_told(seconds)} left"


def _since(seconds: float) -> str:
    return f"{_told(seconds)} so far" if seconds >= 1 else ""


def _told(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def pieces(keys: Sequence[str], bar: Bar, clock: Clock = time.monotonic) -> Iterator[Sequence[str]]:
    """Part what is done at once into pieces, so that a bar moves; all in one where nobody sees it.

    A piece that is twice as large as the one before and takes hardly longer tells that each reads the whole table (no
    index begins with the key column): then the rest goes at once, and the table was read three times in all.
    """
    if not bar.is_shown:
        yield keys
        return
    at, size, smaller = 0, max(1, len(keys) // FIRST_PIECES), 0.0  # smaller: how long half as much took, if it was done
    while at < len(keys):
        began = clock()
        yield keys[at : at + size]
        took = clock() - began
        if smaller and LONG / 4 < took < 1.5 * smaller:
            if rest := keys[at + size :]:
                yield rest
            return
        grows = at == 0 or took < LONG
        at += size
        smaller, size = (took, 2 * size) if grows else (0.0, size)


class Watched:
    """A target whose slow calls move a bar: for what works on many keys in one call.

    counts: the calls that do, of `measure`, `adopt` and `fence`. What is measured is measured in pieces, each a
    transaction of its own; who measures looks afterwards for what was published meanwhile, and passes over it.
    """

    def __init__(self, target: Target, bar: Bar, counts: frozenset[str]) -> None:
        self._target = target
        self._bar = bar
        self._counts = counts
        self._share = 0.5 if "adopt" in counts else 1.0  # what is adopted is measured twice

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def measure(self, keys: Sequence[str], *, digest: bool) -> Mapping[str, Measured]:
        """Measure what the partitions hold, piece by piece."""
        if "measure" not in self._counts:
            return self._target.measure(keys, digest=digest)
        self._bar.total = len(keys)
        found: dict[str, Measured] = {}
        for piece in pieces(keys, self._bar):
            self._bar.more(0, piece[0])
            found.update(self._target.measure(piece, digest=digest))
            self._bar.more(len(piece) * self._share, piece[-1])
        return found

    def adopt(self, token: str, expected: Mapping[str, Any], *rest: Any, **more: Any) -> Mapping[str, str]:
        """Take on what is there, which measures it once more."""
        adopted = self._target.adopt(token, expected, *rest, **more)
        self._bar.more(len(expected) * self._share)
        return adopted

    def fence(self, fences: Mapping[str, Fence], *rest: Any, **more: Any) -> Mapping[str, Side]:
        """Raise fences."""
        sides = self._target.fence(fences, *rest, **more)
        if "fence" in self._counts:
            self._bar.more(len(fences), max(fences, default=""))
        return sides
