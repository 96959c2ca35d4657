"""A connection to a DuckDB file for a target: waiting for the file, short transactions again, errors in words."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from backfill_core.errors import BackfillError, FenceTimeoutError, OutcomeUnknownError, TargetError
from backfill_core.target import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")
_NAP = 0.05
_LOCKED = "Could not set lock"


def connect_duckdb(name: str, path: str) -> Any:
    """Open a file that exists; `name` is the dataset's, for sentences.

    Raises:
        TargetError: there is no such file, it can't be opened, or DuckDB isn't installed.
        FenceTimeoutError: another process has it open.
    """
    import os

    duckdb = _driver(name)
    if not os.path.isfile(path):
        raise TargetError(f"{name}: there is no DuckDB file at {path}; make the table there first")
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return duckdb.connect(path)
        except duckdb.IOException as error:
            if _LOCKED not in str(error):
                raise TargetError(f"{name}: {path} can't be opened: {_one_line(error)}") from None
            if time.monotonic() > deadline:
                raise FenceTimeoutError(f"{name}: {_held(error)}") from None
        except duckdb.Error as error:
            raise TargetError(f"{name}: {path} can't be opened: {_one_line(error)}") from None
        time.sleep(_NAP)


class DuckSession:
    """A connection that is ours until it is closed. A session's time zone is the dataset's."""

    def __init__(self, connection: Any, name: str, timezone: str) -> None:
        self._connection = connection
        self._name = name
        self._driver = _driver(name)
        with self.in_words():
            self.run("SET TimeZone = $zone", {"zone": timezone})
            [(file,)] = self.run("SELECT current_database()")
        self.file = str(file)
        """The file's name in SQL."""

    def run(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement; return its rows."""
        rows: list[tuple[Any, ...]] = self._connection.execute(statement, parameters or None).fetchall()
        return rows

    def names(self, query: str, parameters: Mapping[str, Any]) -> list[str]:
        """Return the names of the columns that a query has; of two of one name DuckDB calls the second `name_1`."""
        described = self._connection.execute(f"SELECT * FROM (\n{query}) LIMIT 0", parameters or None).description
        return [column[0] for column in described]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One transaction that sees one moment and can change nothing."""
        with self.in_words():
            self.run("BEGIN TRANSACTION READ ONLY")
            try:
                yield
            finally:
                self._roll_back()

    def change(self, body: Callable[[], T], wait: float = WAIT_SECONDS) -> T:
        """Run `body` in one transaction and commit it; again, for as long as is to be waited, where others get in.

        Two connections of one process may change a file at once: of two that change one row, one is undone.

        Raises:
            FenceTimeoutError: others got in every time.
            OutcomeUnknownError: the commit failed in a way that doesn't tell.
        """
        deadline = time.monotonic() + wait
        while True:
            with self.in_words():
                try:
                    self.run("BEGIN TRANSACTION")
                    found = body()
                    self._commit()
                except self._driver.TransactionException as error:
                    self._roll_back()
                    if time.monotonic() > deadline:
                        raise FenceTimeoutError(
                            f"{self._name}: another connection of this process changes the same rows"
                            f" ({_one_line(error)}); nothing was changed, run again"
                        ) from None
                except BaseException:
                    self._roll_back()
                    raise
                else:
                    return found
            time.sleep(_NAP)

    def _commit(self) -> None:
        try:
            self.run("COMMIT")
        except (self._driver.TransactionException, self._driver.ConstraintException):
            raise  # undone
        except self._driver.Error as error:
            raise OutcomeUnknownError(
                f"{self._name}: the commit failed ({_one_line(error)}), and it is not known yet whether the change was"
                " kept; `settle`, or the next write, finds out"
            ) from None

    def _roll_back(self) -> None:
        with suppress(self._driver.Error):  # there is none, or the error that made it necessary is the one to tell
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Let the file go: as long as a process has it, no other can open it."""
        self._connection.close()

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Put DuckDB's errors into words."""
        try:
            yield
        except BackfillError:
            raise
        except self._driver.Error as error:
            raise TargetError(f"{self._name}: {_words(error)}; what the table held is still there") from None


def _driver(name: str) -> Any:
    try:
        import duckdb
    except ImportError as missing:
        raise TargetError(
            f"{name}: a table in DuckDB needs the package duckdb, and it can't be imported"
            f" ({str(missing).splitlines()[0]}); install the extra `duckdb`"
        ) from None
    return duckdb


def _held(error: Exception) -> str:
    """Say which process has the file, as DuckDB says it."""
    _, _, who = _one_line(error).partition("PID ")
    process = who.partition(")")[0]
    who = f"process {process}" if process.isdigit() else "another process"
    return f"{who} has the DuckDB file open, and only one process can; let it close the file, or end it, and run again"


def _words(error: Exception) -> str:
    said = _one_line(error)
    if "Out of Range" in said and "addition" in said:
        return f"a sum has more digits than DuckDB keeps ({said}); measure parts of it"
    if "parameter" in said.lower() or 'at or near ":"' in said:
        return f"{said}: only :start, :end and :key are given to a select"
    return said


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split("\n\n")[0].split())
