"""Reading a range of a file in pieces of whole lines, in memory that does not grow with the file."""

from __future__ import annotations

import os
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO

MAX_LINE = 1 << 23
"""The longest line that is read, in bytes without its newline: it bounds the memory that a file can claim."""
ROOM = 128
"""Bytes of a buffer that are free before and after its lines, so that an engine may look a little past either end."""
BOM = b"\xef\xbb\xbf"
NEWLINE = 0x0A


class Piece(namedtuple("Piece", ("buffer", "begin", "end"))):
    """Some whole lines: `buffer[begin:end]`, at least one, each ended by a newline; the last one's may be added."""

    __slots__ = ()
    buffer: bytearray
    begin: int
    end: int

    @classmethod
    def of(cls, lines: bytes) -> Piece:
        """Put the lines, each ended by a newline, into a buffer of their own."""
        return cls(bytearray(ROOM) + lines + bytes(ROOM), ROOM, ROOM + len(lines))

    def view(self) -> memoryview:
        """Return the lines without copying them."""
        return memoryview(self.buffer)[self.begin : self.end]

    def lines(self) -> list[bytes]:
        """Return each line, without its newline."""
        return bytes(self.view()).split(b"\n")[:-1]


class LineTooLongError(Exception):
    """The line after the last piece is longer than `MAX_LINE` bytes."""


def pieces(file: FileIO, start: int, end: int, size: int) -> Iterator[Piece]:
    """Yield the lines that begin in the bytes from `start` to before `end`, in pieces of about `size` bytes.

    A piece is good until the next one is asked for. A byte order mark at the start of the file is left out.

    Raises:
        LineTooLongError: after the pieces before that line.
    """
    size = max(1, min(size, end - start))
    buffer = bytearray(ROOM + size + ROOM)
    begin = filled = ROOM  # buffer[begin:filled] is the beginning of a line whose end was not read yet
    inside = start > 0  # a line that began before `start`: it is passed over
    position = file.seek(max(0, start - 1))
    while position < end or begin < filled:
        last = position >= end  # what is still to be read is the end of the last line
        wanted = size if last else min(size, end - position)
        if filled + wanted + ROOM > len(buffer):
            buffer = buffer[:filled] + bytearray(wanted + ROOM)
        got = file.readinto(memoryview(buffer)[filled : filled + wanted])
        if not got:  # the end of the file
            if begin < filled and not inside:
                buffer[filled] = NEWLINE
                yield _piece(buffer, begin, filled + 1, first=position - (filled - begin) == 0)
            return
        unread, filled, position = filled, filled + got, position + got
        if inside:
            newline = buffer.find(NEWLINE, unread, filled)
            inside, begin = newline < 0, filled if newline < 0 else newline + 1
        cut = (buffer.find if last else buffer.rfind)(NEWLINE, max(begin, unread), filled) + 1
        if cut > begin:
            yield _piece(buffer, begin, cut, first=position - (filled - begin) == 0)
            if last:
                return
            begin = cut
        elif filled - begin > MAX_LINE:
            raise LineTooLongError
        buffer[ROOM : ROOM + filled - begin] = buffer[begin:filled]
        begin, filled = ROOM, ROOM + filled - begin


def _piece(buffer: bytearray, begin: int, end: int, *, first: bool) -> Piece:
    if end - begin > MAX_LINE and buffer.find(NEWLINE, begin, end) - begin > MAX_LINE:
        raise LineTooLongError
    if first and buffer.startswith(BOM, begin):
        begin += len(BOM)
    return Piece(buffer, begin, end)


def open_file(path: str) -> FileIO:
    """Open a file to read it raw; a pipe that nobody writes to does not make us wait."""
    return open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)
