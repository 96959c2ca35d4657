"""A dataset's table in PostgreSQL: one publishing transaction, whose side rows are locked first.

A write deletes, inserts and measures in that transaction, and sets the side rows in one compare-and-set before it
commits. No statement in it waits for the client; between statements the server takes it back after IDLE_SECONDS.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from backfill_core.errors import BackfillError, ChangedError, FencedError, HeldError, TargetError
from backfill_core.target import IDLE_SECONDS, WAIT_SECONDS, Audited, Expected, Measured, Side
from backfill_core.target import postgres_sql as sql
from backfill_core.target.binding import runs_of
from backfill_core.target.figures import canonical_number, digest
from backfill_core.target.session import CHANGED_MEANWHILE, LOCK_NOT_AVAILABLE, Session, sqlstate
from backfill_core.target.sides import staging_name, why_fenced
from backfill_core.target.statement import POSTGRES, parse_name, query, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from backfill_core.dataset import Dataset
    from backfill_core.target import Fence, Finding

_TEXTUAL = (25, 705, 1042, 1043)  # text, unknown, char and varchar, as the driver tells the types of a query
_NUMBERS = ("smallint", "integer", "bigint", "numeric")
FLOATS = ("real", "double precision")
_ALREADY_MADE = ("23505", "42P06", "42P07", "42710")  # by somebody else, at this very moment


class PostgresTarget:
    """A table in PostgreSQL, and its side rows.

    connect: opens a connection, of psycopg or psycopg2; it may be called more than once.
    first: one that is open already.
    """

    def __init__(self, dataset: Dataset, connect: Callable[[], Any], first: Any = None) -> None:
        self.dataset = dataset
        self.name = dataset.name
        self._connect = connect
        self._idle = [] if first is None else [Session(first, dataset.name)]
        self._place: tuple[str, str, str] | None = None
        parse_name(dataset.table.table)

    def check(self) -> Sequence[Finding]:
        """Look the table over; say by name what can't be guarded, or what should be known."""
        from backfill_core.target.postgres_check import findings

        with self.session() as session, session.transaction(self.settings(), read_only=True):
            return findings(self, session)

    def look(self, keys: Sequence[str]) -> Mapping[str, Side]:
        """Return the side rows that there are."""
        with self.session() as session:
            return self._look(session, keys)

    def fence(
        self, fences: Mapping[str, Fence], ledger: str, wait: float, *, former: frozenset[str] = frozenset()
    ) -> Mapping[str, Side]:
        """Raise each key's fence, never lower it; make the side row where there is none; return all of them."""
        raised = {key: Expected(fence.number, None) for key, fence in fences.items()}
        with self.session() as session:
            self.make_rows(session, list(fences), wait)
            with session.transaction(self.settings(wait)):
                sides = self._locked(session, list(fences))
                for key, side in sides.items():
                    if side.ledger not in (None, ledger) and side.ledger not in former:
                        raise FencedError(
                            self._fenced(key, f"was last written under another ledger, {side.ledger}"), sides
                        )
                session.run(self._said(session, sql.RAISE_FENCES), self._given(session, raised, ledger))
            return self._look(session, list(fences))

    def mark(self, mark: str | None, expected: Mapping[str, Expected], ledger: str, wait: float) -> frozenset[str]:
        """Set the seal's mark, or take it away, at each key that is as expected; return these keys."""
        with self.session() as session:
            if not self._is_there(session):
                return frozenset()
            given = {**self._given(session, expected, ledger), "mark": mark}
            with session.transaction(self.settings(wait)):
                self._locked(session, list(expected))
                done = session.rows(self._said(session, sql.MARK), given)
            return frozenset(key for (key,) in done)

    def measure(self, keys: Sequence[str], *, digest: bool) -> Mapping[str, Measured]:
        """Measure what the partitions hold: a scan of them."""
        with self.session() as session, session.transaction(self.settings(), read_only=True):
            return self.measured(session, self.statements(session), keys, with_digest=digest)

    def adopt(
        self,
        token: str,
        expected: Mapping[str, Expected],
        measured: Mapping[str, Measured],
        ledger: str,
        *,
        former: frozenset[str] = frozenset(),
    ) -> Mapping[str, str]:
        """Put a token beside what the partitions hold, all of them or none; return the target's clock by key."""
        keys = sorted(expected)
        with_digest = any(measured[key].digest for key in keys)
        with self.session() as session:
            self.make_rows(session, keys, WAIT_SECONDS)
            with session.transaction(self.settings()):
                self._locked(session, keys)
                now = self.measured(session, self.statements(session), keys, with_digest=with_digest)
                for key in keys:
                    if now[key] != measured[key]:
                        raise ChangedError(self._fenced(key, "holds something else than was measured"))
                return self.publish(session, expected, token, {ledger, *former}, ledger)

    def ask(self, select: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        """Run a query that only reads, once for each span of the keys; return its rows."""
        runs, found = runs_of(select, POSTGRES, self.dataset.column, keys), []
        with self.session() as session, session.transaction(self.settings(), read_only=True):
            for run in runs:
                found += session.rows(*sql.bound(select, self.dataset, runs, run, "0"))
        return found

    def keyless(self) -> tuple[int, str]:
        """Count the rows of the table that belong to no key, with an example."""
        column = self.dataset.column
        if not column.name:
            return 0, ""
        name, table = quoted(column.name), None
        with self.session() as session, session.transaction(self.settings(), read_only=True):
            table = self.table(session)
            if column.has_days and column.format is None:
                found = session.rows(f"SELECT count(*) FROM {table} WHERE {name} IS NULL OR NOT isfinite({name})")
                return int(found[0][0]), "NULL" if found[0][0] else ""
            values = session.rows(f"SELECT {name}::text, count(*) FROM {table} GROUP BY {name}")
        strange = [(value, count) for value, count in values if value is None or not column.has(value)]
        example = next(("NULL" if value is None else value for value, _ in strange), "")
        return sum(count for _, count in strange), example

    @contextmanager
    def writing(self, keys: Sequence[str], token: str, *, staged: bool) -> Iterator[PostgresWrite]:
        """Begin a write; what it staged goes with the block, and is never what stops another writer."""
        with self.session() as session:
            self.make_rows(session, keys, WAIT_SECONDS)
            write = PostgresWrite(self, session, keys, token)
            try:
                if staged:
                    write.stage()
                yield write
            finally:
                write.end()

    def sweep(self, tokens: Sequence[str]) -> None:
        """Drop what attempts that were settled or overtaken left staged."""
        with self.session() as session:
            for token in tokens:
                self.drop(session, token)

    def close(self) -> None:
        """Let the database go."""
        while self._idle:
            self._idle.pop().close()

    # What a write, and `check`, need of it.

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Give a connection that nobody else uses."""
        session = self._idle.pop() if self._idle else None
        if session and not session.answers:
            session.close()
            session = None
        session = session or Session(self._connect(), self.name)
        try:
            yield session
        finally:
            session.roll_back()
            if session.is_lost:
                session.close()
            else:
                self._idle.append(session)

    def drop(self, session: Session, token: str) -> None:
        """Drop what an attempt staged, if it did."""
        with session.transaction(self.settings()):
            session.run(f"DROP TABLE IF EXISTS {self.beside(session, staging_name(token))}")

    def settings(self, wait: float = WAIT_SECONDS) -> dict[str, str]:
        """Return what holds for the session in a transaction of ours."""
        return {
            "TimeZone": self.dataset.timezone,
            "DateStyle": "ISO, YMD",
            "IntervalStyle": "iso_8601",
            "extra_float_digits": "1",
            "bytea_output": "hex",
            "standard_conforming_strings": "on",
            "row_security": "off",
            "lock_timeout": f"{max(1, round(wait * 1000))}ms",
            "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
        }

    def place(self, session: Session) -> tuple[str, str, str]:
        """Return the table's schema, its name, and the schema of what is ours."""
        if self._place is None:
            names = parse_name(self.dataset.table.table)
            if len(names) > 2:
                raise TargetError(f"{self.name}: {self.dataset.table.table} names a database; write schema.table")
            schema = names[0] if len(names) == 2 else str(session.rows("SELECT current_schema()")[0][0])
            self._place = schema, names[-1], self.dataset.table.schema or schema
        return self._place

    def table(self, session: Session) -> str:
        """Return the table's name as it stands in SQL."""
        schema, table, _ = self.place(session)
        return f"{quoted(schema)}.{quoted(table)}"

    def beside(self, session: Session, name: str) -> str:
        """Return the name of a table of ours as it stands in SQL."""
        return f"{quoted(self.place(session)[2])}.{quoted(name)}"

    def shape(self, session: Session) -> sql.Shape:
        """Return the table's columns as they are just now."""
        table = self.table(session)
        columns = tuple(sql.Column(*row) for row in session.rows(sql.COLUMNS, {"name": table}))
        if not columns:
            raise TargetError(
                f"{self.name}: there is no table {self.dataset.table.table} that can be read; names are taken as they"
                " are written, capitals too"
            )
        key = self.dataset.column.name
        if key and key not in {column.name for column in columns}:
            raise TargetError(f"{self.name}: the table has no column {key}")
        return sql.Shape(columns, *session.rows(sql.ABOUT, {"name": table})[0])

    def statements(self, session: Session) -> sql.Statements:
        """Return the statements about the table as it is just now.

        Raises:
            TargetError: a measure is a float's, and no tolerance is said for it.
        """
        shape = self.shape(session)
        types, nothing = self.measure_types(session)
        for measure, kind in types.items():
            if kind in FLOATS and measure not in self.dataset.tolerance:
                raise TargetError(
                    f"{self.name}: {measure} is a float, so it isn't the same twice; say a tolerance for it, or measure"
                    f" ({self.dataset.measures[measure]})::numeric of a numeric column"
                )
        return sql.Statements(self.dataset, self.table(session), shape, types, nothing)

    def measure_types(self, session: Session) -> tuple[dict[str, str], dict[str, str | None]]:
        """Return of which type each measure is, and what it is of no rows."""
        measures = self.dataset.measures
        listed = [f"pg_typeof({expression})::text, ({expression})::text" for expression in measures.values()]
        found = session.rows(f"SELECT {', '.join(['count(*)', *listed])} FROM {self.table(session)} WHERE false")[0]
        return dict(zip(measures, found[1::2], strict=True)), dict(zip(measures, found[2::2], strict=True))

    def measured(
        self, session: Session, statements: sql.Statements, keys: Sequence[str], *, with_digest: bool
    ) -> dict[str, Measured]:
        """Measure what partitions hold, inside a transaction."""
        runs = self.dataset.column.spans(keys)
        places = sql.Places(self.dataset.column, runs)
        text, given = statements.looking(runs, places, with_digest=with_digest)
        columns = statements.digest_columns if with_digest else ()
        engine = f"postgresql {statements.shape.version} rows 1"

        def hashed(count: int, total: str | None) -> str | None:
            return digest(engine, columns, count, int(total or 0)) if with_digest else None

        found = {key: Measured(0, statements.of_nothing, hashed(0, None)) for key in keys}
        for place, count, *figures, total in session.rows(text, {**given, **places.given(text)}):
            measures = {
                name: canonical_number(value) if statements.measure_types[name] in _NUMBERS else value
                for name, value in zip(statements.names, figures, strict=True)
            }
            if key := places.key_at(place):
                found[key] = Measured(count, measures, hashed(count, total))
        return found

    def make_rows(self, session: Session, keys: Sequence[str], wait: float) -> None:
        """Make the side rows that are missing, and the side table, in a transaction of their own."""
        if set(self._look(session, keys)) >= set(keys):
            return
        self._make_table(session)
        with session.transaction(self.settings(wait)):
            given = {"relation": self.relation(session), "keys": sorted(set(keys))}
            session.run(self._said(session, sql.MAKE_ROWS), given)

    def publish(
        self, session: Session, expected: Mapping[str, Expected], token: str, ledgers: Collection[str], ledger: str
    ) -> dict[str, str]:
        """Set the side rows in one compare-and-set, inside a transaction.

        Raises:
            FencedError: a side row is not as it has to be.
        """
        given = {**self._given(session, expected, ledger, ledgers), "token": token}
        done = dict(session.rows(self._said(session, sql.PUBLISH), given))
        if missing := sorted(set(expected) - set(done)):
            sides = self._look(session, missing)
            why = why_fenced(sides.get(missing[0]), expected[missing[0]], ledgers)
            raise FencedError(self._fenced(missing[0], why), sides)
        return done

    def lock(self, session: Session, keys: Sequence[str]) -> None:
        """Lock the side rows of a write, without waiting.

        Raises:
            HeldError: somebody else has one.
        """
        given = {"relation": self.relation(session), "keys": sorted(keys)}
        try:
            session.run(f"{self._said(session, sql.LOCK)} NOWAIT", given)
        except session.error as error:
            if sqlstate(error) not in (LOCK_NOT_AVAILABLE, CHANGED_MEANWHILE):
                raise
            raise HeldError(
                f"{self.name}: another publication of {_several(keys)} is under way just now, its transaction is open;"
                " run again when it has ended"
            ) from None

    def relation(self, session: Session) -> str:
        """Return what our side rows call the table."""
        return self.table(session)

    def _fenced(self, key: str, why: str) -> str:
        return f"{self.name}: {key} {why}; nothing was changed"

    def _is_there(self, session: Session) -> bool:
        with session.in_words():
            return session.rows("SELECT to_regclass(:name)", {"name": self.beside(session, sql.SIDE)}) != [(None,)]

    def _look(self, session: Session, keys: Sequence[str]) -> dict[str, Side]:
        with session.in_words():
            if not self._is_there(session):
                return {}
            given = {"relation": self.relation(session), "keys": sorted(keys)}
            return {key: Side(*side) for key, *side in session.rows(self._said(session, sql.LOOK), given)}

    def _locked(self, session: Session, keys: Sequence[str]) -> dict[str, Side]:
        given = {"relation": self.relation(session), "keys": sorted(keys)}
        return {key: Side(*side) for key, *side in session.rows(self._said(session, sql.LOCK), given)}

    def _make_table(self, session: Session) -> None:
        if self._is_there(session):
            return
        with session.in_words():
            try:
                session.run(self._said(session, sql.CREATE_SIDE))
            except session.error as error:
                if sqlstate(error) not in _ALREADY_MADE:
                    raise

    def _said(self, session: Session, statement: str) -> str:
        return statement.replace("{side}", self.beside(session, sql.SIDE))

    def _given(
        self, session: Session, expected: Mapping[str, Expected], ledger: str, ledgers: Collection[str] = ()
    ) -> dict[str, Any]:
        keys = sorted(expected)
        return {
            "relation": self.relation(session),
            "keys": keys,
            "numbers": [expected[key].number for key in keys],
            "tokens": [expected[key].token for key in keys],
            "marks": [expected[key].mark for key in keys],
            "ledger": ledger,
            "ledgers": sorted(ledgers or {ledger}),
        }


class PostgresWrite:
    """One write of a set of keys. Its transaction begins with the first row, and ends with the block or `publish`."""

    def __init__(self, target: PostgresTarget, session: Session, keys: Sequence[str], token: str) -> None:
        self._target = target
        self._session = session
        self._keys = sorted(set(keys))
        self.staging = staging_name(token)
        self._token = token
        self._is_staged = False
        self._with_digest = False
        self._selects: list[str] = []
        self._audited: Audited | None = None

    def stage(self) -> None:
        """Make the table that the caller fills: of the columns that rows come with, seen by everybody at once."""
        target, session = self._target, self._session
        with session.in_words():
            table, place = target.table(session), target.beside(session, self.staging)
            made_by_database = [
                f"DROP COLUMN {quoted(column.name)}"
                for column in target.shape(session).columns
                if column.is_generated or column.is_identity
            ]
            self._is_staged, self.staging = True, place  # from here on it may be there
            with session.transaction(target.settings()):
                session.run(f"CREATE UNLOGGED TABLE {place} (LIKE {table} INCLUDING DEFAULTS)")
                if made_by_database:
                    session.run(f"ALTER TABLE {place} {', '.join(made_by_database)}")

    def fill(self, select: str) -> None:
        """Add the rows of a query; it is run by `audit`, in the transaction that publishes them."""
        if self._is_staged or self._audited:
            raise TargetError(f"{self._target.name}: this write has its rows already; begin another")
        query(select, POSTGRES)
        self._selects.append(select)

    def audit(self, *, digest: bool) -> Audited:
        """Put the rows in the place of those that the partitions have, unseen by anybody, and measure both."""
        if self._audited is None:
            if not (self._is_staged or self._selects):
                raise TargetError(f"{self._target.name}: nothing was put there yet; fill it first")
            session, target = self._session, self._target
            with session.in_words():
                # Whoever still writes to what is staged waits from here on, and writes in vain.
                session.begin(target.settings(), one_moment=True, locked=self.staging if self._is_staged else None)
                target.lock(session, self._keys)
                session.run("SAVEPOINT before")
                self._with_digest = digest
                self._audited = self._replace(self._keys)
        return self._audited

    def publish(self, expected: Mapping[str, Expected], token: str, ledger: str) -> Mapping[str, str]:
        """Set the side rows and commit; keys that are not expected to be anything stay as they are."""
        session = self._session
        if self._audited is None or not session.in_transaction:
            raise TargetError(f"{self._target.name}: there is nothing audited to publish")
        try:
            with session.in_words():
                if set(expected) < set(self._keys):
                    session.run("ROLLBACK TO SAVEPOINT before")
                    self._compare(self._replace(sorted(expected)), self._audited, expected)
                done = self._target.publish(session, expected, token, (ledger,), ledger)
                session.commit()
        finally:
            session.roll_back()
        return done

    def end(self) -> None:
        """Undo what was not published, and take away what was staged; the first error is the one to tell."""
        self._session.roll_back()
        if self._is_staged:
            with suppress(BackfillError):
                self._target.drop(self._session, self._token)
                return
            with suppress(BackfillError):  # else by another connection
                self._target.sweep([self._token])

    def _replace(self, keys: Sequence[str]) -> Audited:
        """Take the rows of these keys away, put the others in, and say what went and came."""
        target, session, runs = self._target, self._session, self._target.dataset.column.spans(keys)
        statements = target.statements(session)
        places = sql.Places(target.dataset.column, runs)
        source, given, names = self._source(statements, keys, runs)
        before = target.measured(session, statements, keys, with_digest=self._with_digest)
        deleting, own = statements.deleting(runs)
        gone = session.run(deleting, own).touched
        if gone != sum(measured.rows for measured in before.values()):
            raise ChangedError(f"{target.name}: a trigger or a rule kept rows from going; nothing was changed")
        inserting = statements.inserting(names, source)
        if statements.shape.has_triggers:  # which may put rows there too: their number alone doesn't tell
            came, others = self._told(statements, inserting, given, places)
        else:
            came, others = session.run(inserting, given).touched, {"strange": (0, ""), "keyless": (0, "")}
        session.run("SET CONSTRAINTS ALL IMMEDIATE")
        partitions = target.measured(session, statements, keys, with_digest=self._with_digest)
        found = sum(measured.rows for measured in partitions.values())
        repeated = self._repeated(statements, runs, places, found)
        if came != found and not statements.shape.has_triggers:
            session.run("ROLLBACK TO SAVEPOINT before")
            session.run(*statements.deleting(runs))
            _, others = self._told(statements, inserting, given, places)
        return Audited(partitions, before, repeated=repeated, **others)

    def _repeated(
        self, statements: sql.Statements, runs: Sequence[Sequence[str]], places: sql.Places, rows: int
    ) -> tuple[int, str]:
        """Count what is there more than once in a partition; of a number of rows."""
        if not self._target.dataset.unique:
            return 0, ""
        text, own = statements.different(runs, places)
        if self._session.rows(text, {**own, **places.given(text)}) == [(rows,)]:
            return 0, ""
        text, own = statements.repeats(runs, places)
        count, example = self._session.rows(text, {**own, **places.given(text)})[0]
        return int(count), str(example) if count else ""

    def _told(
        self, statements: sql.Statements, inserting: str, given: Mapping[str, Any], places: sql.Places
    ) -> tuple[int, dict[str, tuple[int, str]]]:
        """Put rows into the table and have them tell where they belong: their number, and which are of no key here."""
        came, others = 0, {"strange": (0, ""), "keyless": (0, "")}
        text = statements.telling(inserting, places)
        for place, count, example in self._session.rows(text, {**given, **places.given(text)}):
            came += count
            if place is None:
                others["keyless"] = (count, "NULL")
            elif places.key_at(place) is None:
                others["strange"] = (others["strange"][0] + count, example)
        return came, others

    def _source(
        self, statements: sql.Statements, keys: Sequence[str], runs: Sequence[Sequence[str]]
    ) -> tuple[str, dict[str, Any], Sequence[str]]:
        """Return the query of what comes in, its parameters, and the columns that it has."""
        if self._selects:
            return self._selected(statements, keys)
        columns = self._columns_of(f"TABLE {self.staging}\n", {}, statements)
        given: dict[str, Any] = {}
        source = f"SELECT {', '.join(columns.values())} FROM {self.staging} AS rows"
        if keys != self._keys:
            condition, given = statements.rows_of(runs, "rows.")
            source = f"{source} WHERE {condition}"
        return source, given, list(columns)

    def _selected(self, statements: sql.Statements, keys: Sequence[str]) -> tuple[str, dict[str, Any], Sequence[str]]:
        """Return the same of queries; each is run once for each span."""
        names: list[str] = []
        pieces: list[str] = []
        given: dict[str, Any] = {}
        column, condition = self._target.dataset.column, "true"
        for number, select in enumerate(self._selects):
            runs = runs_of(select, POSTGRES, column, keys)
            if column.values and keys != self._keys:  # it may be one that tells by itself which keys it is about
                condition, own = statements.rows_of(runs, "rows.")
                given.update(own)
            for at, run in enumerate(runs):
                text, values = sql.bound(select, self._target.dataset, runs, run, f"{number}_{at}")
                columns = self._columns_of(text, values, statements)
                names = names or list(columns)
                if set(names) != set(columns):
                    raise TargetError(f"{self._target.name}: the selects have different columns; give each the same")
                listed = ", ".join(columns[name] for name in names)
                pieces.append(f"SELECT {listed} FROM (\n{text}) AS rows WHERE {condition}")
                given.update(values)
        return " UNION ALL ".join(pieces), given, names

    def _columns_of(self, text: str, given: Mapping[str, Any], statements: sql.Statements) -> dict[str, str]:
        """Return the columns of a query, each with the expression that fits the table's column of that name."""
        found = self._session.run(f"SELECT * FROM (\n{text}) AS looked LIMIT 0", given).columns
        types = {column.name: column for column in statements.shape.columns}
        columns: dict[str, str] = {}
        for name, kind in found:
            where = f"{self._target.name}: the rows to put there have"
            if name not in types:
                raise TargetError(f"{where} a column {name}, which the table doesn't have; leave it out, or name it AS")
            if types[name].is_generated:
                raise TargetError(f"{where} a column {name}, which the database itself computes; leave it out")
            if name in columns:
                raise TargetError(f"{where} two columns {name}; name each once")
            cast = f"::{types[name].full_type}" if kind in _TEXTUAL and types[name].type not in _TEXTS else ""
            columns[name] = f"rows.{quoted(name)}{cast}"
        if not columns:
            raise TargetError(f"{self._target.name}: the rows to put there have no columns")
        return columns

    def _compare(self, now: Audited, then: Audited, keys: Collection[str]) -> None:
        """Refuse what is no longer what was audited."""
        for key in keys:
            if (now.partitions[key], now.before[key]) != (then.partitions[key], then.before[key]):
                raise ChangedError(
                    f"{self._target.name}: {key} came out differently after it was audited; nothing was changed, run"
                    " again"
                )
        if now.strange[0] or now.keyless[0]:
            raise ChangedError(f"{self._target.name}: rows of other keys came after the audit; nothing was changed")


_TEXTS = ("text", "character varying", "character")


def _several(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{keys[0]} … {keys[-1]}"
