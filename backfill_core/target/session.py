"""A connection to PostgreSQL by either of its drivers, psycopg and psycopg2: statements, transactions, errors in words.

Parameters are written `:name` and bound by the driver. Nothing outlives a transaction on the server but what it is
for, so that a pooler may give every transaction another connection.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.errors import FenceTimeoutError, OutcomeUnknownError, TargetError
from backfill_core.target.statement import for_driver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

LOCK_NOT_AVAILABLE, CHANGED_MEANWHILE = "55P03", "40001"
_WORDS = {
    "08": "the connection was lost",
    "22023": "the server doesn't know a setting, such as the time zone",
    "22": "a value can't be kept in its column",
    "23": "a constraint refused the rows",
    "25006": "the database can only be read (a standby, or default_transaction_read_only is on)",
    "25P03": "the server took the transaction back, as nothing was heard of us for too long",
    "40": "the server undid the transaction because of another; run again",
    "42501": "the role may not do that; `check` lists the least grants",
    "53100": "the server's disk is full",
    "53": "the server has run out of something",
    LOCK_NOT_AVAILABLE: "somebody else holds a lock that is needed; run again",
    "57014": "the server cancelled the statement (statement_timeout, or an administrator)",
    "57P": "the server is shutting down or starting up, or an administrator closed the connection; run again",
}
"""What went wrong, by SQLSTATE or the beginning of one."""


class Result(NamedTuple):
    """What a statement brought: its rows, the names and types of its columns, the number of rows it touched."""

    rows: list[tuple[Any, ...]]
    columns: list[tuple[str, int]]
    touched: int


class Session:
    """A connection that is ours until it is closed; `name` is the dataset's, for sentences."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self._name = name
        self.error: type[Exception] = connection.Error
        self.in_transaction = False
        with self.in_words():
            connection.commit()  # a hook may have set something in a transaction of its own
            connection.autocommit = True
            if hasattr(connection, "prepare_threshold"):  # psycopg's; a hook may have chosen rows that are no tuples
                connection.prepare_threshold = None
                connection.row_factory = sys.modules["psycopg.rows"].tuple_row
            else:
                connection.cursor_factory = None

    @property
    def is_lost(self) -> bool:
        """Whether the connection can't be used any more."""
        return bool(self._connection.closed)

    @property
    def answers(self) -> bool:
        """Whether the server is still there."""
        with suppress(self.error):
            return self.rows("SELECT 1") == [(1,)]
        return False

    def run(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Result:
        """Run a statement; return all of its rows, which are few."""
        parameters = parameters or {}
        with self._connection.cursor() as cursor:
            if parameters:
                cursor.execute(for_driver(statement, parameters.keys()), dict(parameters))
            else:
                cursor.execute(statement)
            if cursor.description is None:
                return Result([], [], cursor.rowcount)
            columns = [(column[0], int(column[1])) for column in cursor.description]
            return Result([tuple(row) for row in cursor.fetchall()], columns, cursor.rowcount)

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""
        return self.run(statement, parameters).rows

    @contextmanager
    def transaction(self, settings: Mapping[str, str], *, read_only: bool = False) -> Iterator[None]:
        """One transaction: committed when its block ends, undone when it raises."""
        with self.in_words():
            try:
                self.begin(settings, read_only=read_only)
                yield
            except BaseException:
                self.roll_back()
                raise
            self.commit()

    def begin(
        self,
        settings: Mapping[str, str],
        *,
        read_only: bool = False,
        one_moment: bool = False,
        locked: str | None = None,
    ) -> None:
        """Begin a transaction with these settings.

        one_moment: all its statements see what was committed before it, else each what was committed before itself.
        locked: a table whose writers wait until the transaction ends; what they committed before is seen.
        """
        level = "REPEATABLE READ" if read_only or one_moment else "READ COMMITTED"
        self.run(f"BEGIN ISOLATION LEVEL {level}, READ {'ONLY' if read_only else 'WRITE'}")
        self.in_transaction = True
        if locked:  # before the first statement that looks at anything
            self.run(f"SET LOCAL lock_timeout = '{settings['lock_timeout']}'")
            self.run(f"LOCK TABLE {locked} IN SHARE MODE")
        names = {f"value_{number}": value for number, value in enumerate(settings.values())}
        calls = (f"set_config('{name}', :value_{number}, true)" for number, name in enumerate(settings))
        kept = "current_setting('synchronous_commit')"
        durable = f"CASE {kept} WHEN 'off' THEN 'on' ELSE {kept} END"
        self.run(f"SELECT {', '.join(calls)}, set_config('synchronous_commit', {durable}, true)", names)

    def commit(self) -> None:
        """Commit.

        Raises:
            OutcomeUnknownError: no answer came.
            TargetError: the server undid the transaction.
        """
        self.in_transaction = False
        try:
            with self._connection.cursor() as cursor:
                cursor.execute("COMMIT")
                answer = cursor.statusmessage
        except self.error as error:
            if not self.is_lost:
                raise
            raise OutcomeUnknownError(
                f"{self._name}: the connection was lost in the middle of a commit ({_said(error)}), so it is not known"
                " yet whether the change was kept; `settle`, or the next write, finds out"
            ) from None
        if answer != "COMMIT":
            raise TargetError(f"{self._name}: the server undid the transaction instead of committing it")

    def roll_back(self) -> None:
        """Undo the transaction, if there is one; the error that made it necessary is the one to tell."""
        if self.in_transaction:
            self.in_transaction = False
            with suppress(self.error):
                self.run("ROLLBACK")

    def close(self) -> None:
        """Let the connection go."""
        with suppress(self.error):
            self._connection.close()

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Put the driver's errors into words."""
        try:
            yield
        except self.error as error:
            raise translated(error, self._name) from None


def sqlstate(error: Exception) -> str:
    """Return the server's code for what went wrong, empty if it came from elsewhere."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""


def translated(error: Exception, name: str) -> TargetError:
    """Put an error of either driver into a sentence."""
    code, said = sqlstate(error), _said(error)
    if code == LOCK_NOT_AVAILABLE:
        return FenceTimeoutError(
            f"{name}: another transaction held the key for as long as was waited ({said}); look for it in"
            " pg_stat_activity, or run again"
        )
    words = next((_WORDS[code[:length]] for length in (5, 3, 2) if code[:length] in _WORDS), None)
    if not code:
        words = _WORDS["08"]
    return TargetError(f"{name}: {f'{words} ({said})' if words else said}; what the table held is still there")


def _said(error: Exception) -> str:
    diagnosis = getattr(error, "diag", None)
    primary = getattr(diagnosis, "message_primary", None)
    if primary is None:
        return " ".join(str(error).split())
    detail = getattr(diagnosis, "message_detail", None)
    return f"{primary}: {detail}" if detail else str(primary)
