"""What is known of a partition file: how large it is, what tells it from another, and what it adds up to."""

from __future__ import annotations

import stat
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import stat_result

SMALL = 1 << 16
"""A file of fewer bytes is counted sooner than a worker could be asked or numpy be imported."""
MUCH = 1 << 25
"""From so many bytes on, in files that are not small, workers and numpy gain more than they cost to start."""


class Tally(namedtuple("Tally", ("orders", "amount"))):
    """What a partition adds up to: its number of orders, and the sum of their amounts."""

    __slots__ = ()
    orders: int
    amount: int


class Fingerprint(namedtuple("Fingerprint", ("device", "inode", "size", "mtime_ns"))):
    """What changes when a file is written or replaced."""

    __slots__ = ()
    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, found: stat_result) -> Fingerprint | None:
        """Return a regular file's, None for anything else."""
        if not stat.S_ISREG(found.st_mode):
            return None
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Counted(namedtuple("Counted", ("tally", "fingerprint"))):
    """A tally, and the file it is a tally of."""

    __slots__ = ()
    tally: Tally
    fingerprint: Fingerprint
