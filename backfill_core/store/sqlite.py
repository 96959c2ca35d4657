"""The store in a SQLite file: opening it, its transactions, and its errors in words."""

from __future__ import annotations

import os
import sqlite3
import time

from backfill_core.errors import NoStoreError, Stopped, StoreError
from backfill_core.store import sql
from backfill_core.store.generation import fits, salt_of
from backfill_core.store.tables import Tables

try:
    import fcntl
except ImportError:  # not a POSIX system: SQLite's own busy timeout has to do
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any

BUSY_SECONDS = 60
"""How long to wait for a lock that somebody else holds."""
_NAP_SECONDS = 0.25  # of that at a time inside SQLite, where no signal is heard
_LINE_NAP_SECONDS = 0.001  # between two looks at the line: a few turns long
_FIND_TABLE = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = :table"
SYNC_SECONDS = 0.1
"""In a burst: the commits of how long a power cut may take back."""
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")  # in a URI, unlike the rest


def create(path: str) -> list[str]:
    """Make the file, its folders and the five tables where they are missing; return the tables' names.

    Raises:
        StoreError: the place can't be written, or holds something else.
    """
    from contextlib import closing

    folder = os.path.dirname(path) or "."
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the folder {folder} can't be made: {error.strerror}") from None
    with closing(_Line(path)) as line:
        line.wait()
        _check_log(path)
        with closing(_Connection(path, "rwc")) as connection:
            # A readers' view never blocks the writer, and a durable commit costs a fifth. The mode stays with the file.
            connection.execute("PRAGMA journal_mode = WAL")
            with _Transaction(connection, "BEGIN IMMEDIATE"):
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
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise NoStoreError(f"there is no state store at {path}; make one with `init`, or set BACKFILL_DB") from None
        except OSError as error:
            raise StoreError(f"the state store {path} can't be reached: {error.strerror}") from None
        _check_log(path)
        self._connection = _Connection(path, "rw")
        try:
            self._check_tables(path)
            self._line = _Line(path)
        except BaseException:
            self._connection.close()
            raise
        self._log = _Log(path, self._connection)
        self._reading = _Transaction(self._connection, "BEGIN")
        self._writing = _Writing(self._connection, self._line, self._log)

    def _check_tables(self, path: str) -> None:
        tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
        if missing := [name for name in sql.TABLES if name not in tables]:
            raise NoStoreError(f"{path} is no state store, it has no table {missing[0]}; make it with `init`")

    def reading(self) -> _Transaction:
        """One transaction that sees one moment and changes nothing."""
        return self._reading

    def writing(self, stop: Callable[[], bool] | None = None) -> _Writing:
        """One transaction that is alone in writing, undone when it raises; durable when the block or burst ends."""
        self._writing.stop = stop
        return self._writing

    def burst(self) -> _Log:
        """Let the transactions of a block, each whole and seen at once, become durable together."""
        return self._log

    def make_ledger(self) -> None:
        """Make the ledger's table where it is missing."""
        from backfill_core.ledger.sql import CREATE_CLAIMS

        with self.writing():
            self._connection.execute(CREATE_CLAIMS)

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()
        self._line.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_log(path: str) -> None:
    """Make sure that the write-ahead log beside the file is its own, before SQLite takes it in.

    Raises:
        StoreError: it goes on from another state of the file.
    """
    log = f"{os.path.realpath(path)}-wal"
    for _ in range(3):  # others may move the log into the file in between
        if not salt_of(log) or not os.path.exists(path):
            return
        # What is in the file, not in the log; also where others are half way with moving it from there to here: the
        # first page, which comes first, then tells of pages that follow, and SQLite takes that for damage.
        file = _Connection(path, "ro&immutable=1", "PRAGMA writable_schema = ON")
        try:
            [(number,)] = file.execute("PRAGMA user_version")
        finally:
            file.close()
        if fits(number, log):
            return
    raise StoreError(
        f"the write-ahead log {log} is not of the file beside it: it goes on from another state, as after a backup was"
        f" copied over a store whose log still stood. Nothing was changed; to have the backup as it is, remove {log}"
        f" and {log[:-3]}shm while nobody uses the store (docs/reliability.md, Restoring a backup)"
    )


class _Connection:
    """A connection to the file, whose statements wait for others and fail in words.

    Raises:
        StoreError: the file can't be opened.
    """

    def __init__(self, path: str, mode: str, first: str = "PRAGMA synchronous = FULL") -> None:
        self._path = path
        place = os.fsencode(os.path.join(os.getcwd(), path))
        name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in place)
        try:
            self._connection = sqlite3.connect(
                f"file://{name}?mode={mode}", uri=True, timeout=_NAP_SECONDS, isolation_level=None
            )
        except sqlite3.Error as error:
            raise _unusable(path, error) from None
        try:
            self.execute(first)
        except BaseException:
            self.close()
            raise

    def execute(
        self,
        statement: str,
        parameters: Mapping[str, str | int] | tuple[()] = (),
        stop: Callable[[], bool] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Execute a statement, and again while others hold a lock.

        Raises:
            StoreError: it failed, or others held the lock for too long; what the store held is still there.
            Stopped: `stop`, asked in between, answered true.
        """
        patience = None
        while True:
            try:
                return self._connection.execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                if str(error) != "database is locked":
                    raise _unusable(self._path, error) from None
            patience = patience or _Patience(stop)
            if patience.is_over():
                raise _held(self._path, f"{os.path.realpath(self._path)}-shm")

    def roll_back(self) -> None:
        """Undo the transaction, if there is still one; the error that made it necessary is the one to tell."""
        if self._connection.in_transaction:
            try:  # noqa: SIM105  contextlib would take a fortieth of the time of a one-row command
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                pass

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()


class _Transaction:
    """One transaction: committed when its block ends, undone when that raises."""

    def __init__(self, connection: _Connection, begin: str) -> None:
        self._connection = connection
        self._begin = begin

    def __enter__(self) -> Tables:
        self._connection.execute(self._begin)
        return Tables(self._connection.execute, _FIND_TABLE)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._connection.execute("COMMIT")
        finally:
            self._connection.roll_back()


class _Writing(_Transaction):
    """One that is alone in writing, when it is its turn."""

    def __init__(self, connection: _Connection, line: _Line, log: _Log) -> None:
        # IMMEDIATE: a transaction that reads first and writes later can't be refused half way.
        super().__init__(connection, "BEGIN IMMEDIATE")
        self._line = line
        self._log = log
        self.stop: Callable[[], bool] | None = None

    def __enter__(self) -> Tables:
        self._line.wait(self.stop)
        try:
            self._connection.execute(self._begin, stop=self.stop)
            self._log.begin()
            return Tables(self._connection.execute, _FIND_TABLE)
        except BaseException:
            self._line.leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._line.leave()
        if error is None:
            self._log.committed()


class _Line:
    """A line to wait in for writing: SQLite's own waiting is a lottery, and a busy writer always wins it.

    It is a lock on the store's folder. (Never on the file: closing a descriptor of that would drop SQLite's locks.)
    Whoever waits looks again and again: a turn that the system hands over could go to a process that is stopped. Where
    the file system has no such locks there is no line, and SQLite's busy timeout alone decides.

    Raises:
        StoreError: the folder can't be opened.
    """

    def __init__(self, path: str) -> None:
        self._is_there = fcntl is not None
        self._path = path
        try:
            self._folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)
        except OSError as error:
            raise _unusable(path, error) from None

    def wait(self, stop: Callable[[], bool] | None = None) -> None:
        """Wait until it is our turn.

        Raises:
            StoreError: others had it for too long.
            Stopped: `stop`, asked in between, answered true.
        """
        patience = None
        while self._is_there:
            try:
                fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                patience = patience or _Patience(stop)
                if patience.is_over():
                    raise _held(self._path, self._folder) from None
                time.sleep(_LINE_NAP_SECONDS)
            except OSError:
                self._is_there = False
            else:
                return

    def leave(self) -> None:
        """Give the turn on."""
        if self._is_there:
            fcntl.flock(self._folder, fcntl.LOCK_UN)

    def close(self) -> None:
        """Leave for good."""
        os.close(self._folder)


class _Log:
    """The write-ahead log on its way to the disk; inside its block, the commits of some time go there together.

    Outside, SQLite forces each commit to the disk by itself, and so it does inside where a store has no such log. All
    writers share the log, so what one of them forces to the disk takes all with it that was committed before.
    """

    def __init__(self, path: str, connection: _Connection) -> None:
        self._path = path
        self._place = f"{os.path.realpath(path)}-wal"
        self._connection = connection
        self._file: int | None = None
        self._synced = 0.0
        self._salt: bytes | None = None

    def begin(self) -> None:
        """Be told of a transaction that may write; say in a new log which state of the file it goes on from."""
        salt = salt_of(self._place) if self._file is None else os.pread(self._file, 8, 16)
        if salt != self._salt or not salt:
            self._salt = salt
            [(number,)] = self._connection.execute("PRAGMA user_version")
            self._connection.execute(f"PRAGMA user_version = {(number + 1) % 2**31}")

    def __enter__(self) -> None:
        if self._connection.execute("PRAGMA journal_mode") == [("wal",)]:
            try:
                self._file = os.open(self._place, os.O_RDONLY)
            except OSError:
                return
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._synced = time.monotonic()

    def committed(self) -> None:
        """Be told of a commit; force it to the disk, with those before it, if that was not done for some time."""
        if self._file is not None and time.monotonic() - self._synced >= SYNC_SECONDS:
            self._sync(self._file)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is None:
            return
        try:
            self._sync(self._file)
        finally:
            os.close(self._file)
            self._file = None
            self._connection.execute("PRAGMA synchronous = FULL")

    def _sync(self, file: int) -> None:
        try:
            os.fsync(file)
        except OSError as error:
            raise StoreError(
                f"the state store {self._path} can't be forced to the disk: {error.strerror}; what was done is there"
                " for all to see, but a power cut could take back the last partitions of it, so run again"
            ) from None
        self._synced = time.monotonic()


class _Patience:
    """How long to wait for others; whoever waits asks again and again whether it is over.

    Raises:
        Stopped: `stop` answered true.
    """

    def __init__(self, stop: Callable[[], bool] | None) -> None:
        self._stop = stop
        self._end = time.monotonic() + BUSY_SECONDS

    def is_over(self) -> bool:
        """Return whether we waited for long enough."""
        if self._stop is not None and self._stop():
            raise Stopped
        return time.monotonic() > self._end


def _held(path: str, locked: str | int) -> StoreError:
    """Return the error of a wait for a lock on `locked`, a path or descriptor, that others did not give back."""
    return StoreError(
        f"the state store {path} can't be used: others had the turn to write for {BUSY_SECONDS} seconds"
        f"{_holder(locked)}; what it held is still there, so run again, once they go on or were ended"
    )


def _holder(locked: str | int) -> str:
    """Return who has a lock on it now, in words; the system knows on Linux alone, and nothing of other machines."""
    try:
        found = os.stat(locked)
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        with open("/proc/locks") as locks:
            pids = [line.split()[4] for line in locks if line.split()[3] == "WRITE" and line.split()[5] == place]
        with open(f"/proc/{pids[0]}/stat") as stat:
            state = stat.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
    return f"; now process {pids[0]} has it" + (", which is stopped" if state in "Tt" else "")


def _unusable(path: str, error: Exception) -> StoreError:
    return StoreError(f"the state store {path} can't be used: {error}; what it held is still there")
