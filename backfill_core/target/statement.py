"""SQL as its writer means it: which words are parameters, where a statement ends, which names it has.

A parameter is a colon and a name, `:start`, outside strings, quoted names, comments and `::` casts. A driver binds it;
nothing is ever pasted into the text. Two dialects are read: PostgreSQL's, and SQLite's where it differs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

POSTGRES, SQLITE = "postgres", "sqlite"

_COMMON = r"""
    (?P<comment> --[^\n]* )
  | (?P<block> /\* )
  | (?P<cast> :: )
  | (?P<parameter> :(?P<name>[A-Za-z_]\w*) )
  | (?P<quoted> "(?:[^"]|"")*" )
"""
_PATTERNS = {
    POSTGRES: re.compile(
        _COMMON
        + r"""
  | (?P<string> (?<![\w$])[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' )
  | (?P<dollar> (?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$ )
  | (?P<word> (?![eE]')[^\W\d][\w$]* )
  | (?P<open> [eE]?' | " | (?<![\w$])\$(?:[^\W\d]\w*)?\$ )
  | (?P<other> \d[\w.]* | . )
        """,
        re.VERBOSE | re.DOTALL,
    ),
    SQLITE: re.compile(
        _COMMON
        + r"""
  | (?P<string> '(?:[^']|'')*' )
  | (?P<bracket> \[[^\]]*\] | `(?:[^`]|``)*` )
  | (?P<word> [^\W\d][\w$]* )
  | (?P<open> ["'`\[] )
  | (?P<other> \d[\w.]* | . )
        """,
        re.VERBOSE | re.DOTALL,
    ),
}


class Token(NamedTuple):
    """A piece of SQL: its kind (a group of the pattern) and its text; all of them together are the statement."""

    kind: str
    text: str


@lru_cache(maxsize=256)
def tokens(sql: str, dialect: str) -> tuple[Token, ...]:
    """Part SQL into its pieces.

    Raises:
        UsageError: a string, a quoted name or a comment doesn't end.
    """
    return tuple(_scan(sql, dialect))


def _scan(sql: str, dialect: str) -> Iterator[Token]:
    at = 0
    while at < len(sql):
        found = _PATTERNS[dialect].match(sql, at)
        assert found is not None  # noqa: S101  the last alternative takes any character
        kind, end = _kind(found), found.end()
        if kind == "open":
            raise UsageError(f"the SQL has a {found.group()} at character {at + 1} that is never closed")
        if kind == "block":
            end = _end_of_comment(sql, at, nested=dialect == POSTGRES)
        yield Token(kind, sql[at:end])
        at = end


def _kind(found: re.Match[str]) -> str:
    return next(kind for kind, text in found.groupdict().items() if text is not None and kind not in ("name", "tag"))


def _end_of_comment(sql: str, start: int, *, nested: bool) -> int:
    depth = 0
    for mark in re.finditer(r"/\*|\*/", sql[start:]):
        if mark.group() == "/*":
            depth += 1 if nested or not depth else 0
        elif depth == 1:
            return start + mark.end()
        else:
            depth -= 1
    raise UsageError(f"the SQL has a /* at character {start + 1} that is never closed")


def query(sql: str, dialect: str) -> str:
    """Return one query that can stand in brackets: without its semicolon, on a line of its own at the end.

    Raises:
        UsageError: it is empty, or there is more than one statement.
    """
    pieces = list(tokens(sql, dialect))
    while pieces and (pieces[-1].kind in ("comment", "block") or pieces[-1].text.isspace() or pieces[-1].text == ";"):
        pieces.pop()
    if any(piece == Token("other", ";") for piece in pieces):
        raise UsageError("the select has more than one statement; give one query")
    text = "".join(piece.text for piece in pieces)
    if not any(piece.kind not in ("comment", "block") and not piece.text.isspace() for piece in pieces):
        raise UsageError("the select is empty; give one query")
    return f"{text}\n"


def parameters(sql: str, dialect: str, names: Collection[str]) -> frozenset[str]:
    """Return which of these parameters a statement has."""
    return frozenset(token.text[1:] for token in tokens(sql, dialect) if _is_parameter(token, names))


def renamed(sql: str, dialect: str, names: Mapping[str, str]) -> str:
    """Give parameters other names."""
    return "".join(
        f":{names[token.text[1:]]}" if _is_parameter(token, names) else token.text for token in tokens(sql, dialect)
    )


def words(sql: str, dialect: str) -> frozenset[str]:
    """Return every name that might be a column's, as the database reads it."""
    return frozenset(_as_read(token) for token in tokens(sql, dialect) if token.kind in ("word", "quoted", "bracket"))


def _as_read(token: Token) -> str:
    if token.kind == "word":
        return token.text.lower()
    quote = token.text[-1]
    return token.text[1:-1].replace(quote * 2, quote)


def for_driver(sql: str, names: Collection[str]) -> str:
    """Write a statement of PostgreSQL's as its drivers want it: `%(name)s` for these parameters, and `%%` for `%`."""
    return "".join(
        f"%({token.text[1:]})s" if _is_parameter(token, names) else token.text.replace("%", "%%")
        for token in tokens(sql, POSTGRES)
    )


def _is_parameter(token: Token, names: Collection[str]) -> bool:
    return token.kind == "parameter" and token.text[1:] in names


def quoted(name: str) -> str:
    """Return a name as it stands in SQL, whatever it is made of.

    Raises:
        UsageError: it is empty, or has a character that no name has.
    """
    if not name or "\0" in name:
        raise UsageError(f"{name!r} is no name of a table or a column")
    return '"' + name.replace('"', '""') + '"'


def parse_name(text: str) -> tuple[str, ...]:
    """Part `shop.orders` into its names. They are taken as they are, capitals too; a name with a dot is quoted.

    Raises:
        UsageError: it is no such name.
    """
    pieces = re.findall(r'("(?:[^"]|"")+"|[^".]+)(\.|$)', text)
    if not pieces or "".join(piece + dot for piece, dot in pieces) != text or pieces[-1][1]:
        raise UsageError(f'{text!r} is no name of a table; write schema.table, and "…" around a name that has a dot')
    return tuple(piece[1:-1].replace('""', '"') if piece.startswith('"') else piece for piece, _ in pieces)
