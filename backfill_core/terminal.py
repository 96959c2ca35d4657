"""How answers look on a terminal: tables, changes, and text that can't break a line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

WIDTH = 80
"""The columns of what is no terminal, and of a terminal that doesn't say how many it has."""


class Screen(NamedTuple):
    """What answers are shown on: its columns, and whether it shows colours."""

    width: int = WIDTH
    colour: bool = False


def screen_of(stream: TextIO | None, environ: Mapping[str, str]) -> Screen:
    """Return what a stream shows on; colours only on a terminal that has them, and where NO_COLOR doesn't forbid it."""
    if not is_terminal(stream):
        return Screen()
    return Screen(width_of(stream), environ.get("TERM", "dumb") != "dumb" and not environ.get("NO_COLOR"))


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is shown to somebody; a closed one isn't."""
    return stream is not None and not stream.closed and stream.isatty()


def width_of(stream: TextIO | None) -> int:
    """Return the columns of a terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH if stream else WIDTH
    except (OSError, ValueError):
        return WIDTH


def encodable(text: str, stream: TextIO | None) -> str:
    """Write out what the stream has no characters for: a terminal of ASCII shows an accent by its number."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lay out rows under a head in columns; a column that is empty in every row is left out."""
    cells = [[*map(printable, row), *[""] * (len(head) - len(row))] for row in rows]
    columns = [column for column in range(len(head)) if column == 0 or any(row[column] for row in cells)]
    widths = {column: max(len(row[column]) for row in [list(head), *cells]) for column in columns}
    return ["  ".join(row[column].ljust(widths[column]) for column in columns).rstrip() for row in [list(head), *cells]]


def change(before: object, after: object) -> str:
    """Show a value, or what it would move from and to."""
    return shown(before) if after in (None, before) else f"{shown(before)} -> {shown(after)}"


def shown(value: object) -> str:
    """Show a value; nothing is a dash."""
    return "-" if value is None else str(value)


def printable(text: str) -> str:
    """Write out what would break a line or turn its direction."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(text: str) -> str:
    """Show a text of somebody's between quotes, so that it is seen where it ends."""
    escaped = printable(text.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{escaped}"'


def instant(time: str | None) -> str:
    """Show a time of the ledger or a target, `2026-02-01T12:00:00.123456+00:00`, to the second and with its zone."""
    from datetime import datetime, timezone

    try:
        read = datetime.fromisoformat((time or "").replace("Z", "+00:00"))
    except ValueError:
        return printable(time or "")
    if read.tzinfo is None:
        return f"{read:%Y-%m-%d %H:%M:%S}"
    return f"{read.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
