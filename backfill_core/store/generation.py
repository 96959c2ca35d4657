"""Whether a write-ahead log goes on from the file that it stands beside; SQLite itself can't tell.

Each log's first writer raises `user_version`, a number in the file's first page, so that page is in the log with one
more than the file under it has. A backup that was copied over the file has another number, unless it is the very state
that the log goes on from: then the two fit.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD, _FRAME_HEAD = 32, 24
_NUMBER_AT = 60
"""Where `user_version` is in the first page."""
_SALT = slice(16, 24)
"""What tells a log from the one before it: in its head, and in each of its frames from byte 8 on."""


def salt_of(log: str) -> bytes:
    """Return what tells this log from all others, nothing where there is none."""
    try:
        with open(log, "rb", buffering=0) as file:
            return file.read(_HEAD)[_SALT]
    except OSError:
        return b""


def fits(number: int, log: str) -> bool:
    """Return whether a log may go on from a file with this number; True where it can't be known."""
    numbers = list(_numbers(log))
    return not numbers or number in (numbers[0] - 1, *numbers)


def _numbers(log: str) -> Iterator[int]:
    """Yield the file's number as each first page in the log has it, oldest first."""
    try:
        with open(log, "rb") as file:
            head = file.read(_HEAD)
            size = int.from_bytes(head[8:12], "big")
            while len(frame := file.read(_FRAME_HEAD)) == _FRAME_HEAD and frame[8:16] == head[_SALT]:
                if int.from_bytes(frame[:4], "big") == 1:
                    page = file.read(size)
                    yield int.from_bytes(page[_NUMBER_AT : _NUMBER_AT + 4], "big")
                else:
                    file.seek(size, os.SEEK_CUR)
    except OSError:
        return
