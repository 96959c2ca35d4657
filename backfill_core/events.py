"""The source: a folder with one file of orders a partition, `dt=YYYY-MM-DD.jsonl`, read and checked."""

from __future__ import annotations

import os

from backfill_core.counting.facts import MUCH, SMALL, Counted, Fingerprint, Tally
from backfill_core.errors import PartitionError, SourceError
from backfill_core.guard import fits_64_bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from backfill_core.counting.ahead import Ahead
    from backfill_core.counting.spans import Part

ATTEMPTS = 10
"""How often a file that changes under its reader is read before that is reported."""


class EventFolder:
    """A folder of source partitions. Nothing is ever written to it.

    engine: `python` or `numpy`, what recognises the lines; None for numpy where there is much to count and it is there.
    workers: the most processes that count a long range, at least 1; None for as many as there are cores for us.
    """

    def __init__(self, path: str, engine: str | None = None, workers: int | None = None) -> None:
        self.path = path
        self._start = os.path.join(path, "dt=")
        self.engine = engine
        self.workers = workers
        self._counted_bytes = 0

    def file(self, dt: str) -> str:
        """Return the path of the partition's file, whether it exists or not."""
        return f"{self._start}{dt}.jsonl"

    def check(self) -> None:
        """Make sure that the folder can be read, so that no missing folder looks like missing data.

        Raises:
            SourceError: it is missing, not a folder, or not readable.
        """
        try:
            os.scandir(self.path).close()
        except OSError as error:
            raise SourceError(
                f"the events folder {self.path} can't be read: {error.strerror}; is BACKFILL_EVENTS right?"
            ) from None

    def fingerprint(self, dt: str) -> Fingerprint | None:
        """Return the fingerprint of the partition's file as it is now, None where there is no file.

        Raises:
            PartitionError: there is something, but not a file that can be looked at.
            SourceError: the whole folder is gone.
        """
        path = self.file(dt)
        try:
            found = Fingerprint.of(os.stat(path))
        except FileNotFoundError:
            self.check()
            return None
        except OSError as error:
            raise PartitionError(f"{path}: {error.strerror}") from None
        if found is None:
            raise PartitionError(f"{path}: not a regular file")
        return found

    def count(self, dt: str, stop: Callable[[], bool] | None = None) -> Counted | None:
        """Count one partition, whole and as it was at one moment; None where there is no file.

        A file that changes while it is read is read again, at most ten times in all.

        Raises:
            PartitionError: a line breaks the shape, the sum is beyond 64 bits, or the file can't be read.
            Stopped: `stop` answered true before the end.
        """
        for _ in range(ATTEMPTS):
            found = self.fingerprint(dt)
            if found is None:
                return None
            counted = self.count_as(dt, found, stop)
            if counted is not None and self.fingerprint(dt) == found:
                return counted
        raise self.keeps_changing(dt)

    def count_as(self, dt: str, found: Fingerprint, stop: Callable[[], bool] | None = None) -> Counted | None:
        """Count one partition as it was when it had that fingerprint; None where it has it no more.

        A file that changes while it is read makes a wrong count: whoever uses it has to look at the file again. Of
        what is wrong with it, that is made sure here.

        Raises:
            PartitionError, Stopped: as from `count`.
        """
        from backfill_core.counting.spans import FileChanged, count_at_once, count_span, load_engine

        path, size = self.file(dt), found.size
        try:
            if size < SMALL:
                part = count_at_once(path, dt, found, load_engine(self.engine or "python"), stop)
            else:
                self._counted_bytes += size
                engine = load_engine("python" if self.engine is None and self._counted_bytes < MUCH else self.engine)
                part = count_span(path, dt, found, 0, size, engine, stop)
        except (FileNotFoundError, FileChanged):
            return None
        except OSError as error:
            raise PartitionError(f"{path}: {error.strerror}") from None
        try:
            return self.counted(dt, found, [part])
        except PartitionError:
            if self.fingerprint(dt) != found:
                return None
            raise

    def count_ahead(self, partitions: Iterable[str], stop: Callable[[], bool] | None = None) -> Ahead:
        """Return a context manager whose `take` counts one partition after the other, as `count` does.

        If there is much to count, worker processes are ahead of whoever takes: partitions, and spans of large files,
        are counted by several at a time. The order of the counts is that of `partitions`.

        Raises:
            UsageError: numpy is asked for and not installed.
        """
        from backfill_core.counting.ahead import Ahead
        from backfill_core.counting.spans import check_engine

        check_engine(self.engine)
        return Ahead(self, iter(partitions), stop)

    def counted(self, dt: str, fingerprint: Fingerprint, parts: Iterable[Part]) -> Counted:
        """Put together what the spans of a file add up to.

        parts: each span's, in the order of the file.

        Raises:
            PartitionError: there is a wrong line, or the sum is beyond 64 bits.
        """
        lines = orders = amount = 0
        for part in parts:
            if part.fault is not None:
                number, what = part.fault
                raise PartitionError(f"{self.file(dt)}:{lines + number}: {what}")
            lines, orders, amount = lines + part.lines, orders + part.orders, amount + part.amount
        if not fits_64_bits(amount):
            raise PartitionError(f"{self.file(dt)}: the amounts add up to {amount}, beyond 64 bits")
        return Counted(Tally(orders, amount), fingerprint)

    def keeps_changing(self, dt: str) -> PartitionError:
        """Return the error for a file that did not hold still for as long as it takes to count it."""
        return PartitionError(f"{self.file(dt)}: it keeps changing while it is read; run again when its writer is done")
