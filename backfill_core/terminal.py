"""How answers look on a terminal: tables, changes, and text that can't break a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
