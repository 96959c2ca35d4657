"""Counting the partitions of a run ahead of whoever writes them down, in more processes than this one."""

from __future__ import annotations

import os
from collections import deque, namedtuple

from backfill_core.counting.facts import MUCH, SMALL, Fingerprint
from backfill_core.errors import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from backfill_core.counting.facts import Counted
    from backfill_core.counting.spans import Part
    from backfill_core.counting.workers import Question, Workers
    from backfill_core.events import EventFolder

PARTITIONS = 64
"""How many partitions are looked at ahead: those whose files are not small are asked of the workers."""
SPAN = 1 << 24
"""The bytes of a file that a worker counts at a time."""
MOST_SPANS = 256
"""Of one file; a larger file has larger spans."""
PATIENCE = 0.05
"""Seconds to wait for an answer before asking whether to stop."""


class Ahead:
    """The counts of some partitions, each taken in its turn and worked on before; a context manager.

    partitions: their dates, in the order in which they will be taken.
    """

    def __init__(self, folder: EventFolder, partitions: Iterator[str], stop: Callable[[], bool] | None) -> None:
        self._folder = folder
        self._partitions = partitions
        self._stop = stop
        self._most_workers = _most_workers(folder.workers)
        self._workers: Workers | None = None
        self._bytes = 0
        self._upcoming: deque[_Upcoming] = deque()

    def take(self) -> Counted | None:
        """Count the next partition, and raise what `EventFolder.count` raises.

        Before the count is used, its fingerprint has to be compared with the file's once more.
        """
        self._look_ahead()
        dt, found, questions = self._upcoming.popleft()
        counted = None
        if found is not None:
            parts = self._answers(questions)
            if parts is None:
                counted = self._folder.count_as(dt, found, self._stop)
            elif self._folder.fingerprint(dt) == found:
                return self._folder.counted(dt, found, parts)
        return counted or self._folder.count(dt, self._stop)

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workers is not None:
            self._workers.close()

    def _look_ahead(self) -> None:
        new = []
        while len(self._upcoming) < PARTITIONS and (dt := next(self._partitions, None)) is not None:
            found = self._look_at(dt) if self._most_workers > 1 else None
            self._upcoming.append(upcoming := _Upcoming(dt, found, []))
            if found is not None and found.size >= SMALL:
                self._bytes += found.size
                new.append(upcoming)
        if self._bytes < MUCH:
            return
        if self._workers is None:
            from backfill_core.counting.workers import Workers

            self._workers = Workers(self._most_workers, self._folder.engine)
            new = list(self._upcoming)
        for upcoming in new:
            self._ask(self._workers, upcoming)
        self._workers.take_in(0)

    def _look_at(self, dt: str) -> Fingerprint | None:
        try:
            return Fingerprint.of(os.stat(self._folder.file(dt)))
        except OSError:
            return None  # it is told when it is the partition's turn

    def _ask(self, workers: Workers, upcoming: _Upcoming) -> None:
        from backfill_core.counting.workers import Question

        dt, found, questions = upcoming
        if found is not None and found.size >= SMALL:
            size, path = found.size, self._folder.file(dt)
            span = max(SPAN, -(-size // MOST_SPANS))
            for start in range(0, size, span):
                questions.append(Question(path, dt, found, start, min(start + span, size)))
            workers.ask(questions)

    def _answers(self, questions: list[Question]) -> list[Part] | None:
        """Wait for the answers; None if nothing was asked, or one of them could not be given."""
        if not questions:
            return None
        for question in questions:
            while self._workers is not None and not question.answered:
                if self._stop is not None and self._stop():
                    raise Stopped
                self._workers.take_in(PATIENCE)
        parts = [question.part for question in questions if question.part is not None]
        return parts if len(parts) == len(questions) else None


class _Upcoming(namedtuple("_Upcoming", ("dt", "found", "questions"))):
    """A partition whose turn will come, its file as it was found, and what was asked about it."""

    __slots__ = ()
    dt: str
    found: Fingerprint | None
    questions: list[Question]


def _most_workers(wanted: int | None) -> int:
    if not hasattr(os, "posix_spawn"):
        return 1
    if wanted is not None:
        return wanted
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
