"""The store in a schema of a PostgreSQL database: its URL, its transactions, and its errors in words.

Nothing here outlives a transaction on the server (no prepared statement, no session's setting or lock), so that a
pooler may give every transaction another connection.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from functools import cache
from socket import SHUT_RDWR, socket
from threading import Event, Thread
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from backfill_core.errors import AnswerLostError, BackfillError, NoStoreError, Stopped, StoreError, UsageError
from backfill_core.store import sql
from backfill_core.store.tables import Tables

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.sql import SQL, Identifier, Literal
    from psycopg.types.numeric import IntLoader
except ImportError as missing:
    raise StoreError(
        f"a PostgreSQL store needs psycopg, and it can't be imported ({str(missing).splitlines()[0]}); install the"
        " extra, in a checkout: pip install '.[postgres]', or pip install -r requirements/postgres.txt"
    ) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType
    from typing import Any

    Connection = psycopg.Connection[tuple[Any, ...]]

DEFAULT_SCHEMA = "backfill"
WAIT_SECONDS = 60
"""How long a writer waits for its turn."""
WATCH_SECONDS = 0.1
"""How often a wait is looked at, whether it has to end."""
STOP_SECONDS = 2
"""How long a commit may still take once somebody asked to stop."""
CANCEL_SECONDS = 10
"""How long the server has for cancelling a wait, before the connection is given up."""
IDLE_SECONDS = 30
"""After how long the server takes a turn back from a writer that is not heard of any more."""

CREATE = (
    *(statement.replace("INTEGER", "BIGINT") for statement in sql.CREATE),
    # What every table of SQLite has by itself: here it keeps the order of the corrections.
    "ALTER TABLE corrections ADD COLUMN IF NOT EXISTS rowid BIGINT PRIMARY KEY",
    # The one table without a key, from which rows are deleted: where it is published, a whole row has to name itself.
    "ALTER TABLE daily REPLICA IDENTITY FULL",
)

# Temporary tables, which a pooled connection may have kept from somebody else, come last.
_READ = SQL(
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = {schema}, pg_temp;"
    " SET LOCAL lock_timeout = {wait}"
)
# Writers stand in a line, one a store: a transaction's lock of the database. READ COMMITTED, so that each statement
# after the wait sees what those before us committed; the server's default might look at the moment before the wait.
_WRITE = SQL(
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = {schema}, pg_temp;"
    " SET LOCAL lock_timeout = {wait}; SET LOCAL idle_in_transaction_session_timeout = {idle};"
    " SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';"
    " SELECT pg_advisory_xact_lock(hashtextextended({line}, 0))"
)
_TABLES = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = %s"


def create(url: str) -> list[str]:
    """Make the schema and the five tables where they are missing; return the tables' names.

    Raises:
        UsageError: the URL can't be read.
        NoStoreError: there is no such database; it is not ours to make.
        StoreError: the server can't be reached, or refuses.
    """
    address = Address(url)
    with _in_words(address), closing(_connect(address)) as connection:
        connection.execute(address.statement(_WRITE))
        if _missing(connection, address.schema):
            if not connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [address.schema]).rowcount:
                connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(address.schema)))
            for statement in CREATE:
                connection.execute(statement.encode())
        _commit(connection, address)
    return list(sql.TABLES)


class Address:
    """Where a store is: what to tell the driver, the schema, and a name for both that has no password in it.

    Raises:
        UsageError: the URL can't be read. (What it says is not repeated: a password may be anywhere in it.)
    """

    def __init__(self, url: str) -> None:
        plain, _, query = url.partition("?")
        options = [option for option in query.split("&") if option]
        schemas = [unquote(option[7:]) for option in options if option.startswith("schema=")] or [DEFAULT_SCHEMA]
        others = "&".join(option for option in options if not option.startswith("schema="))
        try:
            given = conninfo_to_dict(f"{plain}?{others}")
        except psycopg.Error:
            raise _unreadable() from None
        host, port, database = (str(given.get(word, "")) for word in ("host", "port", "dbname"))
        if not re.fullmatch(r"[0-9,]*", port) or "@" in host + database:
            raise _unreadable()
        self.schema = schemas[0]
        if len(schemas) > 1 or not 0 < len(self.schema.encode(errors="replace")) < 64 or "\0" in self.schema:
            raise UsageError("BACKFILL_DB has to name one schema, of 1 to 63 bytes")
        defaults = {
            "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT", "10"),
            "keepalives_idle": "30",
            "keepalives_interval": "10",
            "keepalives_count": "3",
            "tcp_user_timeout": "60000",
            "fallback_application_name": "backfill",
        }
        self.conninfo = make_conninfo("", **{**defaults, **given, "client_encoding": "utf8"})
        user = f"{quote(str(given['user']))}@" if "user" in given else ""
        place = f"{host}:{port}" if port else host
        self.name = f"postgresql://{user}{place}/{quote(database)}?schema={quote(self.schema)}"

    def statement(self, statement: SQL) -> bytes:
        """Return one of the statements that begin a transaction in this store."""
        values = {
            "schema": Identifier(self.schema),
            "line": Literal(f"backfill {self.schema}"),
            "wait": Literal(f"{WAIT_SECONDS}s"),
            "idle": Literal(f"{IDLE_SECONDS}s"),
        }
        return statement.format(**values).as_bytes(None)


def _unreadable() -> UsageError:
    return UsageError(
        "BACKFILL_DB is no URL that can be read; write postgresql://user:password@host:5432/database?schema=backfill,"
        " with %3A, %2F, %3F, %23, %40 and %25 for : / ? # @ and % inside a name or a password"
    )


class PostgresStore(AbstractContextManager["PostgresStore"]):
    """An open store in PostgreSQL; a context manager that closes it.

    A connection that was lost while no transaction was open is replaced when the next one begins.

    Raises:
        UsageError: the URL can't be read.
        NoStoreError: the database is missing, or not all five tables are in the schema.
        StoreError: the server can't be reached, or refuses.
    """

    def __init__(self, url: str) -> None:
        self._address = Address(url)
        self._read, self._write = self._address.statement(_READ), self._address.statement(_WRITE)
        self._connection = _connect(self._address)
        with ExitStack() as opened, _in_words(self._address):
            opened.callback(self.close)
            if missing := _missing(self._connection, self._address.schema):
                raise _no_store(self._address, f"it has no table {missing[0]}")
            opened.pop_all()

    @contextmanager
    def reading(self) -> Iterator[Tables]:
        """One transaction that sees one moment and changes nothing."""
        with _in_words(self._address):
            try:
                self._begin(self._read)
                yield Tables(self._execute)
            finally:
                self._roll_back()

    @contextmanager
    def writing(self, stop: Callable[[], bool] | None = None) -> Iterator[Tables]:
        """One transaction that is alone in writing, durable when the block ends, undone when it raises."""
        with _in_words(self._address):
            try:
                self._take_turn(stop)
                yield Tables(self._execute)
            except BaseException:
                self._roll_back()
                raise
            _commit(self._connection, self._address, stop)

    def burst(self) -> AbstractContextManager[None]:
        """Let the transactions of a block become durable one by one, as they do anyway."""
        return nullcontext()

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take_turn(self, stop: Callable[[], bool] | None) -> None:
        if stop is None:
            self._begin(self._write)
            return
        try:
            with Watch(self._connection, stop):
                self._begin(self._write)
        except psycopg.errors.QueryCanceled:
            if stop():
                raise Stopped from None
            raise

    def _begin(self, statement: bytes) -> None:
        try:
            self._connection.execute(statement)
        except psycopg.OperationalError:
            if not self._connection.closed:
                raise
            self._connection = _connect(self._address)
            self._connection.execute(statement)

    def _execute(self, statement: str, parameters: Mapping[str, str | int]) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._connection.execute(_in_dialect(statement), parameters)

    def _roll_back(self) -> None:
        with suppress(psycopg.Error):  # the first error is the one to tell
            self._connection.execute("ROLLBACK")


class Watch:
    """Has the server cancel what the block waits for, as soon as `is_over` says so; a context manager."""

    def __init__(self, connection: Connection, is_over: Callable[[], bool]) -> None:
        self._connection = connection
        self._is_over = is_over
        self._ended = Event()
        self._thread = Thread(target=self._look, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(WATCH_SECONDS):
            if self._is_over():
                with suppress(psycopg.Error):
                    self._connection.cancel_safe(timeout=CANCEL_SECONDS)
                if not self._ended.wait(CANCEL_SECONDS):  # the server doesn't even cancel: the connection has to go
                    with socket(fileno=os.dup(self._connection.fileno())) as line:
                        line.shutdown(SHUT_RDWR)
                return


def _connect(address: Address) -> Connection:
    try:
        connection = psycopg.connect(address.conninfo, autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        # A refused connection comes without a code, so this is the one place that has to read words.
        if re.search(r'database ".*" does not exist|no such database', said):
            raise _no_store(address, "the server has no such database") from None
        raise StoreError(f"the state store {address.name} can't be reached: {said}") from None
    connection.adapters.register_loader("numeric", IntLoader)  # PostgreSQL adds up BIGINTs to a NUMERIC
    return connection


def _commit(connection: Connection, address: Address, stop: Callable[[], bool] | None = None) -> None:
    """Commit, and wait for that no longer than for a turn, or only a moment more once `stop` says so.

    What waits by then is committed, but a standby has not confirmed it: the server takes no more than that back.
    """
    end = time.monotonic() + WAIT_SECONDS
    not_confirmed = False

    def is_over() -> bool:
        nonlocal end
        if stop is not None and stop():
            end = min(end, time.monotonic() + STOP_SECONDS)
        return time.monotonic() > end

    def notice(said: psycopg.errors.Diagnostic) -> None:
        nonlocal not_confirmed
        not_confirmed |= said.source_file == "syncrep.c"  # its words are in the server's language

    connection.add_notice_handler(notice)
    try:
        with Watch(connection, is_over):
            connection.execute("COMMIT")
    except psycopg.Error:
        if not connection.closed:
            raise
        raise AnswerLostError(
            f"the state store {address.name} was lost in the middle of a commit, so it is unknown whether the"
            f" last change was kept; {_UNKNOWN}"
        ) from None
    finally:
        connection.remove_notice_handler(notice)
    if not_confirmed:
        raise AnswerLostError(
            f"the state store {address.name} has committed the last change, but no standby has confirmed it, so it is"
            f" unknown whether it stays if the server is lost; {_UNKNOWN}"
        )


_UNKNOWN = (
    "every partition is whole either way. Running again is safe; only amend and rollup-add would add a second time, so"
    " look at the tables first"
)


def _missing(connection: Connection, schema: str) -> list[str]:
    present = {name for (name,) in connection.execute(_TABLES, [schema])}
    return [name for name in sql.TABLES if name not in present]


@cache
def _in_dialect(statement: str) -> bytes:
    if statement == sql.INSERT_CORRECTION:  # in a store that an earlier version made, the number is an identity
        statement = statement.replace(" VALUES ", " OVERRIDING SYSTEM VALUE VALUES ")
    return re.sub(r":(\w+)", r"%(\1)s", statement.replace("%", "%%")).encode()


_WORDS = {
    "08": "the connection was lost",
    "22021": "the text can't be stored in the database's encoding; make the database with UTF8",
    "22P05": "the text can't be stored in the database's encoding; make the database with UTF8",
    "25006": "it can only be read (a standby, or default_transaction_read_only is on); name the primary server",
    "25P03": f"the server took the transaction back, as nothing was heard of us for {IDLE_SECONDS} seconds",
    "40": "the server undid the transaction because of another; run again",
    "42501": "the role may not do that; docs/postgresql.md lists the grants",
    "53100": "the server's disk is full",
    "53": "the server has run out of something",
    "55000": 'the server isn\'t set up for that; docs/postgresql.md, "Moving a store", has what replication needs',
    "55P03": f"other writers had it for {WAIT_SECONDS} seconds without a break; run again",
    "57014": "the server cancelled the statement (statement_timeout, or an administrator)",
    "57P": "the server is shutting down or starting up, or an administrator closed the connection; run again",
}
"""What went wrong, by SQLSTATE or the beginning of one."""


def _no_store(address: Address, why: str) -> NoStoreError:
    return NoStoreError(f"there is no state store at {address.name}: {why}; make one with `init`, or set BACKFILL_DB")


def _translated(error: psycopg.Error, address: Address) -> BackfillError:
    code, said = error.sqlstate or "", error.diag.message_primary or " ".join(str(error).split())
    if code in ("42P01", "3F000", "3D000"):  # no such table, schema, database
        return _no_store(address, said)
    words = next((_WORDS[code[:length]] for length in (5, 3, 2) if code[:length] in _WORDS), None)
    if not code and isinstance(error, psycopg.OperationalError):  # it is the driver that speaks: the server is away
        words = _WORDS["08"]
    return StoreError(
        f"the state store {address.name} can't be used: {f'{words} ({said})' if words else said};"
        " what it held is still there"
    )


@contextmanager
def _in_words(address: Address) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, address) from None
