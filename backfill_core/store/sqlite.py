"""The store in a SQLite file: opening it, its transactions, and its errors in words."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import ExitStack, closing, contextmanager, suppress

from backfill_core.errors import NoStoreError, StoreError
from backfill_core.store import sql
from backfill_core.store.tables import Tables

try:
    import fcntl
except ImportError:  # not a POSIX system: SQLite's own busy timeout has to do
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

BUSY_SECONDS = 60
"""How long to wait for a lock that somebody else holds."""
_NAP_SECONDS = 0.25  # of that at a time inside SQLite, where no signal is heard
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")  # in a URI, unlike the rest


def create(path: str) -> list[str]:
    """Make the file, its folders and the five tables where they are missing; return the tables' names.

    Raises:
        StoreError: the place can't be written, or holds something else.
    """
    folder = os.path.dirname(path) or "."
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the folder {folder} can't be made: {error.strerror}") from None
    with (
        _in_words(path),
        closing(_Line(path)) as line,
        line.turn(),
        closing(_connect(path, "rwc")) as connection,
    ):
        # A readers' view never blocks the writer, and a durable commit costs a fifth. The mode stays with the file.
        _patiently(connection, "PRAGMA journal_mode = WAL")
        with _transaction(connection, "BEGIN IMMEDIATE"):
            for statement in sql.CREATE:
                connection.execute(statement)
    return list(sql.TABLES)


class SqliteStore:
    """An open SQLite store; a context manager that closes it.

    Raises:
        NoStoreError: the file is missing, or not all five tables are in it.
        StoreError: it can't be read.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise NoStoreError(f"there is no state store at {path}; make one with `init`, or set BACKFILL_DB") from None
        except OSError as error:
            raise StoreError(f"the state store {path} can't be reached: {error.strerror}") from None
        with ExitStack() as opened, _in_words(path):
            self._line = opened.enter_context(closing(_Line(path)))
            self._connection = opened.enter_context(closing(_connect(path, "rw")))
            tables = {name for (name,) in _patiently(self._connection, "SELECT name FROM sqlite_master")}
            if missing := [name for name in sql.TABLES if name not in tables]:
                raise NoStoreError(f"{path} is no state store, it has no table {missing[0]}; make it with `init`")
            self._opened = opened.pop_all()

    @contextmanager
    def reading(self) -> Iterator[Tables]:
        """One transaction that sees one moment and changes nothing."""
        with _in_words(self._path), _transaction(self._connection, "BEGIN"):
            yield Tables(self._execute)

    @contextmanager
    def writing(self) -> Iterator[Tables]:
        """One transaction that is alone in writing, durable when the block ends, undone when it raises."""
        # IMMEDIATE: a transaction that reads first and writes later can't be refused half way.
        with _in_words(self._path), self._line.turn(), _transaction(self._connection, "BEGIN IMMEDIATE"):
            yield Tables(self._execute)

    def _execute(self, statement: str, parameters: Mapping[str, str | int]) -> sqlite3.Cursor:
        return _patiently(self._connection, statement, parameters)

    def close(self) -> None:
        """Let the file go."""
        self._opened.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _connect(path: str, mode: str) -> sqlite3.Connection:
    name = "".join(
        chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in os.fsencode(os.path.join(os.getcwd(), path))
    )
    connection = sqlite3.connect(f"file://{name}?mode={mode}", uri=True, timeout=_NAP_SECONDS, isolation_level=None)
    try:
        _patiently(connection, "PRAGMA synchronous = FULL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _patiently(
    connection: sqlite3.Connection, statement: str, parameters: Mapping[str, str | int] | tuple[()] = ()
) -> sqlite3.Cursor:
    """Execute a statement, and again while others hold a lock; a signal is heard in between."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return connection.execute(statement, parameters)
        except sqlite3.OperationalError as error:
            if str(error) != "database is locked" or time.monotonic() > deadline:
                raise


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    _patiently(connection, begin)
    try:
        yield
        _patiently(connection, "COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # the first error is the one to tell
                connection.execute("ROLLBACK")
        raise


class _Line:
    """A line to wait in for writing: SQLite's own waiting is a lottery, and a busy writer always wins it.

    It is a lock on the store's folder. (Never on the file: closing a descriptor of that would drop SQLite's locks.)
    Where the file system has no such locks there is no line, and SQLite's busy timeout alone decides.
    """

    def __init__(self, path: str) -> None:
        self._folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until it is our turn, and give it on at the end."""
        if fcntl is None:
            yield
            return
        with suppress(OSError):
            fcntl.flock(self._folder, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(self._folder, fcntl.LOCK_UN)

    def close(self) -> None:
        """Leave the line."""
        os.close(self._folder)


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"the state store {path} can't be used: {error}; what it held is still there") from None
