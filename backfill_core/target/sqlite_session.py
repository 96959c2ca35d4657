"""A connection to a SQLite file for a target: waiting for locks, errors in words, figures that are exact."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager, suppress
from decimal import Context, Decimal, InvalidOperation
from hashlib import blake2b
from typing import TYPE_CHECKING

from backfill_core.errors import FenceTimeoutError, OutcomeUnknownError, TargetError
from backfill_core.target import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_NAP_MILLISECONDS = 250  # at a time inside SQLite, where no signal is heard
_EXACT = Context(prec=10_000)


def connect_sqlite(name: str, path: str) -> sqlite3.Connection:
    """Open a file that exists.

    Raises:
        TargetError: it doesn't, or can't be opened.
    """
    if not os.path.isfile(path):
        raise TargetError(f"{name}: there is no SQLite file at {path}; make the table there first")
    try:
        return sqlite3.connect(path)
    except sqlite3.Error as error:
        raise TargetError(f"{name}: {path} can't be opened: {error}") from None


class SqliteSession:
    """A connection that is ours until it is closed; `name` is the dataset's, for sentences."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self.path = str(connection.execute("PRAGMA database_list").fetchone()[2])
        with self.in_words():
            connection.commit()
            connection.isolation_level = None
            connection.row_factory = None
            connection.execute(f"PRAGMA busy_timeout = {_NAP_MILLISECONDS}")
            self.run("PRAGMA synchronous = FULL")  # which reads the file
            connection.create_aggregate("decimal_sum", 1, _DecimalSum)  # type: ignore[arg-type]
            connection.create_aggregate("_bf_digest", -1, _Digest)  # type: ignore[arg-type]

    def place_by(self, function: Any) -> None:
        """Let statements ask where a row belongs."""
        self._connection.create_function("_bf_place", 1, function, deterministic=True)

    def run(
        self, statement: str, parameters: Mapping[str, Any] | None = None, wait: float = WAIT_SECONDS
    ) -> sqlite3.Cursor:
        """Run a statement, and again while others hold a lock, for as long as is to be waited.

        One that only reads has to wait too: while another commits, and the file has no write-ahead log.
        """
        deadline = time.monotonic() + wait
        while True:
            try:
                return self._connection.execute(statement, parameters or {})
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise

    @property
    def version(self) -> int:
        """A number that is another one once somebody else has written to the file."""
        return int(self.rows("PRAGMA data_version")[0][0])

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""
        return self.run(statement, parameters).fetchall()

    @contextmanager
    def writing(self, wait: float) -> Iterator[None]:
        """One transaction that is alone in writing: committed when its block ends, undone when it raises.

        Raises:
            FenceTimeoutError: others held the file for as long as was to be waited.
            OutcomeUnknownError: the commit failed in a way that doesn't tell.
        """
        with self.in_words():
            try:
                self.run("BEGIN IMMEDIATE", wait=wait)
                yield
            except BaseException:
                self.roll_back()
                raise
            self._commit(wait)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One transaction that sees one moment."""
        with self.in_words():
            self.run("BEGIN")
            try:
                yield
            finally:
                self.roll_back()

    def _commit(self, wait: float) -> None:
        try:
            self.run("COMMIT", wait=wait)
        except sqlite3.Error as error:
            if self._connection.in_transaction:  # a refused commit leaves it open
                self.roll_back()
                raise
            raise OutcomeUnknownError(
                f"{self._name}: the commit failed ({error}), and it is not known yet whether the change was kept;"
                " `settle`, or the next write, finds out"
            ) from None

    def roll_back(self) -> None:
        """Undo the transaction, if there is one; the error that made it necessary is the one to tell."""
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Put SQLite's errors into words."""
        try:
            yield
        except sqlite3.Error as error:
            if isinstance(error, sqlite3.OperationalError) and _is_busy(error):
                raise FenceTimeoutError(f"{self._name}: {self.path} is held by {holders(self.path)}") from None
            raise TargetError(f"{self._name}: {_words(error)}; what the table held is still there") from None


def holders(path: str) -> str:
    """Say which processes hold a lock on a file for writing, and that nobody else can stop one."""
    found = set()
    with suppress(OSError):
        inodes = {os.stat(place).st_ino for place in (path, f"{path}-shm") if os.path.exists(place)}
        with open("/proc/locks", encoding="ascii") as locks:
            for line in locks:
                words = line.split()
                if "POSIX" in words and "WRITE" in words and int(words[5].rpartition(":")[2]) in inodes:
                    found.add(int(words[4]))
    who = (
        ", ".join(f"process {process}" for process in sorted(found)) or "another process (which one can't be told here)"
    )
    return f"{who}, and SQLite has no way to stop it: wait for it or end it, then run again"


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return "locked" in str(error)


def _words(error: sqlite3.Error) -> str:
    said = str(error)
    if "integer overflow" in said:
        return "a sum has more than 64 bits; measure it by decimal_sum(…), which is exact at any size"
    if "decimal_sum" in said or "user-defined" in said:
        return (
            f"{said}: decimal_sum adds integers and texts that are decimal numbers, such as '12.50', and nothing else"
        )
    if "binding" in said.lower():
        return f"{said}: only :start, :end and :key are given to a select"
    return said


class _DecimalSum:
    """SQLite's own sum is of 64 bits or a float; this one is exact."""

    def __init__(self) -> None:
        self._total: Decimal | None = None

    def step(self, value: int | str | float | None) -> None:
        if value is None:
            return
        if isinstance(value, float):
            raise InvalidOperation("a float is no exact number")
        number = Decimal(value)
        if not number.is_finite():
            raise InvalidOperation("not a finite number")
        self._total = number if self._total is None else _EXACT.add(self._total, number)

    def finalize(self) -> str | None:
        return None if self._total is None else f"{self._total:f}"


class _Digest:
    """The sum of the rows' hashes, each of the values as they are, whatever way a connection shows them."""

    def __init__(self) -> None:
        self._total = 0

    def step(self, *values: object) -> None:
        row = b"".join(_canonical(value) for value in values)
        self._total += int.from_bytes(blake2b(row, digest_size=8).digest(), "big", signed=True)

    def finalize(self) -> str:
        return str(self._total)


def _canonical(value: object) -> bytes:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bytes):
        kind, text = "b", value
    else:
        kind, text = type(value).__name__[0], str(value).encode(errors="surrogatepass")
    return f"{kind}{len(text)}:".encode() + text
