"""The source: a folder with one file of orders a partition, `dt=YYYY-MM-DD.jsonl`, read and checked."""

from __future__ import annotations

import os
import stat
from collections import namedtuple

from backfill_core.errors import PartitionError, SourceError
from backfill_core.lines import MAX_INTEGER, MIN_INTEGER, LineError, amount_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK = 1 << 18
MAX_LINE = 1 << 24
"""The longest line that is read, in bytes: it bounds the memory that a file can claim."""
ATTEMPTS = 10
"""How often a file that changes under its reader is read before that is reported."""
BOM = b"\xef\xbb\xbf"


class Tally(namedtuple("Tally", ("orders", "amount"))):
    """What a partition adds up to: its number of orders, and the sum of their amounts."""

    __slots__ = ()
    orders: int
    amount: int


class Fingerprint(namedtuple("Fingerprint", ("device", "inode", "size", "mtime_ns"))):
    """What changes when a file is written or replaced."""

    __slots__ = ()


class Counted(namedtuple("Counted", ("tally", "fingerprint"))):
    """A tally, and the file it is a tally of."""

    __slots__ = ()
    tally: Tally
    fingerprint: Fingerprint


class EventFolder:
    """A folder of source partitions. Nothing is ever written to it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def file(self, dt: str) -> str:
        """Return the path of the partition's file, whether it exists or not."""
        return os.path.join(self.path, f"dt={dt}.jsonl")

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
            found = os.stat(path)
        except FileNotFoundError:
            self.check()
            return None
        except OSError as error:
            raise PartitionError(f"{path}: {error.strerror}") from None
        if not stat.S_ISREG(found.st_mode):
            raise PartitionError(f"{path}: not a regular file")
        return Fingerprint(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def count(self, dt: str, stop: Callable[[], bool] | None = None) -> Counted | None:
        """Count one partition, whole and as it was at one moment; None where there is no file.

        A file that changes while it is read is read again, at most ten times in all.

        Raises:
            PartitionError: a line breaks the shape, the sum is beyond 64 bits, or the file can't be read.
            Stopped: `stop` answered true before the end.
        """
        for _ in range(ATTEMPTS):
            before = self.fingerprint(dt)
            if before is None:
                return None
            try:
                tally = _count_file(self.file(dt), dt, stop)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise PartitionError(f"{self.file(dt)}: {error.strerror}") from None
            except PartitionError:
                if self.fingerprint(dt) == before:
                    raise
            else:
                if self.fingerprint(dt) == before:
                    return Counted(tally, before)
        raise self.keeps_changing(dt)

    def keeps_changing(self, dt: str) -> PartitionError:
        """Return the error for a file that did not hold still for as long as it takes to count it."""
        return PartitionError(f"{self.file(dt)}: it keeps changing while it is read; run again when its writer is done")


class Stopped(Exception):  # noqa: N818  a request that was heard, not an error
    """The caller asked to stop in the middle of a file."""


def _count_file(path: str, dt: str, stop: Callable[[], bool] | None) -> Tally:
    orders = amount = number = 0
    for chunk in _whole_lines(path):
        if stop is not None and stop():
            raise Stopped
        for line in chunk.split(b"\n"):
            number += 1
            try:
                value = amount_of(line.removeprefix(BOM) if number == 1 else line, dt)
            except LineError as error:
                raise PartitionError(f"{path}:{number}: {error}") from None
            if value is not None:
                orders += 1
                amount += value
    if not MIN_INTEGER <= amount <= MAX_INTEGER:
        raise PartitionError(f"{path}: the amounts add up to {amount}, beyond 64 bits")
    return Tally(orders, amount)


def _whole_lines(path: str) -> Iterator[bytes]:
    """Yield the file in pieces of about a chunk that end just before a newline, or at the end of the file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise PartitionError(f"{path}: not a regular file")
        lines, rest = 0, b""
        while piece := file.read(CHUNK):
            head, newline, tail = piece.rpartition(b"\n")
            if newline:
                whole = rest + head
                yield whole
                lines += whole.count(b"\n") + 1
                rest = tail
            else:
                rest += piece
                if len(rest) > MAX_LINE:
                    raise PartitionError(f"{path}:{lines + 1}: the line is longer than {MAX_LINE} bytes")
        if rest:
            yield rest
