"""A dataset's table in a SQLite file: the rows are staged and measured first, then published in one short transaction.

One file has one writer. Nobody can stop another that stands still inside a transaction: the sentence names its process.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from contextlib import contextmanager, suppress
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_core.errors import BackfillError, ChangedError, FencedError, TargetError, UsageError
from backfill_core.keys import Bounds, Format
from backfill_core.target import WAIT_SECONDS, Audited, Expected, Measured, Side
from backfill_core.target.binding import asked_of, runs_of
from backfill_core.target.figures import canonical_number, digest
from backfill_core.target.sides import staging_name, why_fenced
from backfill_core.target.sqlite_session import SqliteSession, connect_sqlite
from backfill_core.target.statement import SQLITE, parse_name, query, quoted

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from backfill_core.dataset import Dataset
    from backfill_core.keys import KeyColumn
    from backfill_core.target import Fence, Finding

__all__ = ["SqliteTarget", "connect_sqlite"]

SIDE = "_bf_partitions"
_DIGEST_ENGINE = "sqlite rows 1"
_CREATE_SIDE = f"""
    CREATE TABLE IF NOT EXISTS main.{SIDE} (
        relation TEXT NOT NULL, key TEXT NOT NULL, token TEXT, fence INTEGER NOT NULL DEFAULT 0, mark TEXT,
        ledger TEXT, published_at TEXT, PRIMARY KEY (relation, key)
    )
"""
_LOOK = f"SELECT token, fence, mark, ledger, published_at FROM main.{SIDE} WHERE relation = :relation AND key = :key"
_FENCE = f"""
    INSERT INTO main.{SIDE} (relation, key, fence, ledger) VALUES (:relation, :key, :number, :ledger)
    ON CONFLICT (relation, key) DO UPDATE SET fence = max(fence, excluded.fence), ledger = excluded.ledger
"""
_COMPARED = """
    WHERE relation = :relation AND key = :key AND token IS :was_token AND fence <= :number
    AND ledger IN (SELECT value FROM json_each(:ledgers))
"""
_PUBLISH = f"""
    UPDATE main.{SIDE} SET token = :token, fence = :number, ledger = :ledger,
        published_at = max(coalesce(published_at, ''), strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'))
    {_COMPARED} AND mark IS :was_mark
"""
_MARK = f"UPDATE main.{SIDE} SET mark = :mark, fence = :number {_COMPARED} AND (mark IS :was_mark OR mark IS :mark)"


class Column(NamedTuple):
    """A column of the table, as SQLite declares it."""

    name: str
    type: str
    default: str | None
    is_generated: bool
    is_not_null: bool
    is_primary: bool

    @property
    def is_volatile(self) -> bool:
        """Whether its default is another one each time."""
        return self.default is not None and ("(" in self.default or "CURRENT" in self.default.upper())


class SqliteTarget:
    """A table in a SQLite file, and its side rows.

    connect: opens a connection to the file; it may be called more than once.
    first: one that is open already.
    """

    def __init__(
        self,
        dataset: Dataset,
        connect: Callable[[], sqlite3.Connection],
        first: sqlite3.Connection | None = None,
    ) -> None:
        self.dataset = dataset
        self.name = dataset.name
        self._connect = connect
        self._idle = [] if first is None else [SqliteSession(first, dataset.name)]
        names = parse_name(dataset.table.table)
        if dataset.table.schema or (len(names) > 1 and names[0] != "main"):
            raise UsageError(f"{self.name}: a SQLite file has no schemas; name the table alone")
        self.relation = names[-1]
        self.table = f"main.{quoted(names[-1])}"
        self.values = Values(dataset.column)
        self.key = quoted(dataset.column.name) if dataset.column.name else "NULL"
        self.place = f"_bf_place({self.key})" if dataset.column.name else "1"

    def check(self) -> Sequence[Finding]:
        """Look the table over; say by name what can't be guarded, or what should be known."""
        from backfill_core.target.sqlite_check import findings

        with self.session() as session, session.reading():
            return findings(self, session)

    def look(self, keys: Sequence[str]) -> Mapping[str, Side]:
        """Return the side rows that there are."""
        with self.session() as session, session.reading():
            return self._look(session, keys)

    def fence(
        self, fences: Mapping[str, Fence], ledger: str, wait: float, *, former: frozenset[str] = frozenset()
    ) -> Mapping[str, Side]:
        """Raise each key's fence, never lower it; make the side row where there is none; return all of them."""
        with self.session() as session, session.writing(wait):
            session.run(_CREATE_SIDE)
            sides = self._look(session, list(fences))
            for key, side in sides.items():
                if side.ledger not in (None, ledger) and side.ledger not in former:
                    raise FencedError(self._fenced(key, f"was last written under another ledger, {side.ledger}"), sides)
            for key, fence in fences.items():
                session.run(_FENCE, {"relation": self.relation, "key": key, "number": fence.number, "ledger": ledger})
            return self._look(session, list(fences))

    def mark(self, mark: str | None, expected: Mapping[str, Expected], ledger: str, wait: float) -> frozenset[str]:
        """Set the seal's mark, or take it away, at each key that is as expected; return these keys."""
        with self.session() as session, session.writing(wait):
            if not self._is_there(session):
                return frozenset()
            done = (
                (key, session.run(_MARK, {**self._given(key, one, {ledger}), "mark": mark}).rowcount)
                for key, one in expected.items()
            )
            return frozenset(key for key, count in done if count)

    def measure(self, keys: Sequence[str], *, digest: bool) -> Mapping[str, Measured]:
        """Measure what the partitions hold: a scan of them."""
        with self.session() as session, session.reading():
            return self.measured(session, keys, with_digest=digest)

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
        with_digest = any(measured[key].digest for key in expected)
        with self.session() as session, session.writing(WAIT_SECONDS):
            session.run(_CREATE_SIDE)
            now = self.measured(session, list(expected), with_digest=with_digest)
            for key in expected:
                if now[key] != measured[key]:
                    raise ChangedError(self._fenced(key, "holds something else than was measured"))
            return self.publish(session, expected, token, ledger, {ledger, *former})

    def ask(self, select: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        """Run a query that only reads, once for each span of the keys; return its rows."""
        runs, found = runs_of(select, SQLITE, self.dataset.column, keys), []
        with self.session() as session, session.reading():
            session.run("PRAGMA query_only = on")
            try:
                for run in runs:
                    found += session.rows(*self.bound(select, runs, run))
            finally:
                session.run("PRAGMA query_only = off")
        return found

    def keyless(self) -> tuple[int, str]:
        """Count the rows of the table that belong to no key, with an example."""
        if not self.dataset.column.name:
            return 0, ""
        name = quoted(self.dataset.column.name)
        with self.session() as session, session.reading():
            session.place_by(self.values.has)
            found = session.rows(
                f"SELECT count(*), min(coalesce({name}, 'NULL')) FROM {self.table} WHERE NOT _bf_place({name})"
            )
        return int(found[0][0]), str(found[0][1]) if found[0][0] else ""

    @contextmanager
    def writing(self, keys: Sequence[str], token: str, *, staged: bool) -> Iterator[SqliteWrite]:
        """Begin a write; what it staged goes with the block, and is never what stops another writer."""
        with self.session() as session:
            write = SqliteWrite(self, session, keys, token, in_file=staged)
            try:
                write.stage()
                yield write
            finally:
                write.end()

    def sweep(self, tokens: Sequence[str]) -> None:
        """Drop what attempts that were settled or overtaken left staged."""
        with self.session() as session, session.in_words():
            for token in tokens:
                name = staging_name(token)
                if session.rows("SELECT 1 FROM main.sqlite_master WHERE name = :name", {"name": name}):
                    with session.writing(WAIT_SECONDS):
                        session.run(f"DROP TABLE IF EXISTS main.{name}")

    def close(self) -> None:
        """Let the file go."""
        while self._idle:
            self._idle.pop().close()

    # What a write, and `check`, need of it.

    @contextmanager
    def session(self) -> Iterator[SqliteSession]:
        """Give a connection that nobody else uses."""
        session = self._idle.pop() if self._idle else SqliteSession(self._connect(), self.name)
        try:
            yield session
        finally:
            session.roll_back()
            self._idle.append(session)

    def columns(self, session: SqliteSession) -> list[Column]:
        """Return the table's columns as they are just now."""
        found = session.rows(
            "SELECT name, type, dflt_value, hidden > 1, \"notnull\", pk > 0 FROM pragma_table_xinfo(:name, 'main')"
            " WHERE hidden <> 1",
            {"name": self.relation},
        )
        columns = [Column(*row) for row in found]
        if not columns:
            raise TargetError(f"{self.name}: there is no table {self.relation} in {session.path}")
        key = self.dataset.column.name
        if key and key not in {column.name for column in columns}:
            raise TargetError(f"{self.name}: the table has no column {key}")
        return columns

    def measured(
        self,
        session: SqliteSession,
        keys: Sequence[str],
        *,
        with_digest: bool,
        staging: str | None = None,
        others: dict[str, tuple[int, str]] | None = None,
    ) -> dict[str, Measured]:
        """Measure what partitions hold, or what is staged for them; into `others` what is of none of them."""
        runs = self.dataset.column.spans(keys)
        session.place_by(self.values.place_in(runs))
        hashed = self.digest_columns(session) if with_digest else []
        figures = [self.place, "count(*)", f"min({self.key})", *self.dataset.measures.values()]
        figures.append(f"_bf_digest({', '.join(quoted(name) for name, _ in hashed)})" if with_digest else "NULL")
        condition, given = self.rows_of(runs) if staging is None else ("true", {})
        rows = session.rows(
            f"SELECT {', '.join(figures)} FROM {staging or self.table} WHERE {condition} GROUP BY 1", given
        )
        found = {key: self._of_nothing(session, hashed, with_digest=with_digest) for key in keys}
        ordered = [key for run in runs for key in run]
        for place, count, example, *values, total in rows:
            if place:
                kept = digest(_DIGEST_ENGINE, hashed, count, int(total)) if with_digest else None
                found[ordered[place - 1]] = Measured(count, self._as_text(values), kept)
            elif others is not None:
                others["keyless" if place is None else "strange"] = (count, "NULL" if place is None else str(example))
        return found

    def digest_columns(self, session: SqliteSession) -> list[tuple[str, str]]:
        """Return the columns that a digest is of, with their types."""
        columns = [column for column in self.columns(session) if not column.is_generated]
        types = {column.name: column.type.lower() for column in columns}
        wanted = self.dataset.digest_columns
        if wanted is None:
            return [(column.name, types[column.name]) for column in columns if not column.is_volatile]
        if missing := [name for name in wanted if name not in types]:
            raise UsageError(
                f"{self.name}: the digest is of a column {missing[0]}, which rows of the table don't bring"
            )
        return [(name, types[name]) for name in wanted]

    def rows_of(self, runs: Sequence[Sequence[str]]) -> tuple[str, dict[str, Any]]:
        """Return a condition for the rows of these keys, and its parameters; `place_in` was given the same keys."""
        column = self.key
        given: dict[str, Any] = {}
        if not self.dataset.column.name:
            return "true", given
        if self.dataset.column.has_one_value:
            for number, key in enumerate(key for run in runs for key in run):
                given[f"own_{number}"] = self.values.value(key)
            return f"{column} COLLATE BINARY IN ({', '.join(f':{name}' for name in given)})", given
        ranges = []
        for number, run in enumerate(runs):
            given[f"from_{number}"], given[f"to_{number}"] = self.values.bounds(run)
            ranges.append(f"{column} >= :from_{number} AND {column} < :to_{number}")
        return f"({' OR '.join(ranges)}) AND {self.place} > 0", given

    def publish(
        self,
        session: SqliteSession,
        expected: Mapping[str, Expected],
        token: str,
        ledger: str,
        ledgers: Collection[str],
    ) -> dict[str, str]:
        """Set the side rows, each by a compare-and-set, inside a transaction.

        Raises:
            FencedError: a side row is not as it has to be.
        """
        for key, one in expected.items():
            given = {**self._given(key, one, ledgers), "token": token, "ledger": ledger}
            if not (self._is_there(session) and session.run(_PUBLISH, given).rowcount):
                sides = self._look(session, list(expected))
                raise FencedError(self._fenced(key, why_fenced(sides.get(key), one, ledgers)), sides)
        return {key: str(side.published_at) for key, side in self._look(session, list(expected)).items()}

    def bound(self, select: str, runs: Sequence[Sequence[str]], run: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """Return a query for one of the spans, and what its parameters are bound to.

        Raises:
            UsageError: it asks for a parameter that there can't be.
        """
        text, column, bounds = query(select, SQLITE), self.dataset.column, self.values.bounds(run)
        asked = asked_of(text, SQLITE, self.name, column, runs, bounds)
        values: dict[str, Any] = {"start": bounds.start, "end": bounds.end}
        if "key" in asked:
            values["key"] = self.values.value(run[0])
        return text, {word: values[word] for word in asked}

    def _of_nothing(self, session: SqliteSession, hashed: list[tuple[str, str]], *, with_digest: bool) -> Measured:
        listed = ", ".join(["count(*)", *self.dataset.measures.values()])
        _, *values = session.rows(f"SELECT {listed} FROM {self.table} WHERE false")[0]
        return Measured(0, self._as_text(values), digest(_DIGEST_ENGINE, hashed, 0, 0) if with_digest else None)

    def _as_text(self, values: Sequence[object]) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for name, value in zip(self.dataset.measures, values, strict=True):
            if isinstance(value, float) and name not in self.dataset.tolerance:
                raise TargetError(
                    f"{self.name}: {name} is a float here, so it isn't the same twice; say a tolerance for it, or keep"
                    " integers (of cents), or decimals as text, and measure decimal_sum(…)"
                )
            text = value.hex() if isinstance(value, bytes) else None if value is None else str(value)
            found[name] = canonical_number(text)
        return found

    def _is_there(self, session: SqliteSession) -> bool:
        return bool(session.rows("SELECT 1 FROM main.sqlite_master WHERE name = :name", {"name": SIDE}))

    def _look(self, session: SqliteSession, keys: Sequence[str]) -> dict[str, Side]:
        if not self._is_there(session):
            return {}
        found = ((key, session.rows(_LOOK, {"relation": self.relation, "key": key})) for key in sorted(keys))
        return {key: Side(*rows[0]) for key, rows in found if rows}

    def _given(self, key: str, expected: Expected, ledgers: Collection[str]) -> dict[str, Any]:
        return {
            "relation": self.relation,
            "key": key,
            "number": expected.number,
            "was_token": expected.token,
            "was_mark": expected.mark,
            "ledgers": json.dumps(sorted(ledgers)),
        }

    def _fenced(self, key: str, why: str) -> str:
        return f"{self.name}: {key} {why}; nothing was changed"


class Values:
    """A key column's values as SQLite keeps them: a date, an instant (in UTC) and a local time as text by a format."""

    def __init__(self, column: KeyColumn) -> None:
        self._column = column
        plain = "%Y-%m-%d" if column.kind == "date" else "%Y-%m-%d %H:%M:%S"
        self._format = column.format or Format(plain)
        if column.has_days and not (column.has_one_value or self._format.sorts):
            raise UsageError(f"times of the format of {column.name} don't sort, so a day of them can't be found")
        self._has_fraction = not column.has_one_value
        self._listed = frozenset(column.values.values())

    def value(self, key: str) -> str | int:
        """Return `:key`."""
        return self._written(self._column.value(key))

    def bounds(self, run: Sequence[str]) -> Bounds:
        """Return `:start` and `:end` of a span."""
        start, end = self._column.bounds(run)
        return Bounds(None, None) if start is None or end is None else Bounds(self._written(start), self._written(end))

    def place_in(self, runs: Sequence[Sequence[str]]) -> Callable[[object], int | None]:
        """Return a function that tells which of these keys a value is of: from 1, 0 for another, None for none."""
        keys = [key for run in runs for key in run]
        if self._listed:  # as they are: the text '1' is not the number
            exact = {self.value(key): number for number, key in enumerate(keys, start=1)}
            return lambda value: None if value is None else exact.get(value, 0)  # type: ignore[call-overload]
        if not self._column.name:
            return lambda _: 1
        if self._column.has_one_value:
            places = {str(self.value(key)): number for number, key in enumerate(keys, start=1)}
            return lambda value: None if value is None else places.get(str(value), 0)
        starts, ends = zip(*(self.bounds([key]) for key in keys), strict=True)

        def place(value: object) -> int | None:
            if not self.has(value):
                return None if value is None else 0
            at = bisect_right(starts, str(value))
            return at if at and str(value) < ends[at - 1] else 0

        return place

    def has(self, value: object) -> bool:
        """Return whether a value is of any key."""
        if self._listed:
            return value in self._listed
        return value is not None and self._format.read_day(str(value), fraction=self._has_fraction) is not None

    def _written(self, value: date | str | int) -> str | int:
        if isinstance(value, datetime):
            time = value.astimezone(timezone.utc) if value.tzinfo else value
            return self._format.write(time, bound=True)
        return self._format.write(value) if isinstance(value, date) else value


class SqliteWrite:
    """One write of a set of keys: into a table beside, then in one short transaction into the one that is read."""

    def __init__(
        self, target: SqliteTarget, session: SqliteSession, keys: Sequence[str], token: str, *, in_file: bool
    ) -> None:
        self._target = target
        self._session = session
        self._keys = sorted(set(keys))
        self._in_file = in_file
        self.staging = f"{'main' if in_file else 'temp'}.{staging_name(token)}"
        self._names: list[str] = []
        self._audited: Audited | None = None
        self._audited_at = 0
        self._with_digest = False

    def stage(self) -> None:
        """Make the table that is filled: of the columns that rows come with."""
        columns = [column for column in self._target.columns(self._session) if not column.is_generated]
        declared = ", ".join(
            f"{quoted(one.name)} {one.type}{'' if one.default is None else f' DEFAULT ({one.default})'}"
            for one in columns
        )
        if self._in_file:
            with self._session.writing(WAIT_SECONDS):
                self._session.run(f"CREATE TABLE {self.staging} ({declared})")
        else:
            with self._session.in_words():
                self._session.run(f"CREATE TABLE {self.staging} ({declared})")
        self._names = [column.name for column in columns if self._in_file]

    def fill(self, select: str) -> None:
        """Put the rows of a query beside, run once for each span of the keys."""
        if self._in_file:
            raise TargetError(f"{self._target.name}: the caller fills {self.staging}, no select does")
        runs = runs_of(select, SQLITE, self._target.dataset.column, self._keys)
        with self._session.in_words():
            for run in runs:
                text, given = self._target.bound(select, runs, run)
                names = self._columns_of(text, given)
                if self._names and set(names) != set(self._names):
                    raise TargetError(f"{self._target.name}: the selects have different columns; give each the same")
                self._names = self._names or names
                listed = ", ".join(map(quoted, names))
                self._session.run(f"INSERT INTO {self.staging} ({listed}) SELECT * FROM (\n{text})", given)

    def audit(self, *, digest: bool) -> Audited:
        """Measure what is staged, and what it takes the place of, at one moment."""
        if not self._names:
            raise TargetError(f"{self._target.name}: nothing was put there yet; fill it first")
        others = {"strange": (0, ""), "keyless": (0, "")}
        with self._session.reading():
            self._with_digest = digest
            self._audited_at = self._session.version
            self._audited = Audited(
                self._measured(self._keys, staging=self.staging, others=others),
                self._measured(self._keys),
                repeated=self._repeated(),
                **others,
            )
        return self._audited

    def publish(self, expected: Mapping[str, Expected], token: str, ledger: str) -> Mapping[str, str]:
        """Put the rows in their place, in one short transaction; keys that are not expected to be anything stay."""
        if self._audited is None:
            raise TargetError(f"{self._target.name}: there is nothing audited to publish")
        keys, session, target = sorted(expected), self._session, self._target
        with session.writing(WAIT_SECONDS):
            done = target.publish(session, expected, token, ledger, {ledger})
            if session.version != self._audited_at:  # somebody wrote to the file; where, only another scan tells
                self._require(self._audited.before, keys, "was changed by somebody after it was audited")
            self._replace(keys)
            self._require(self._audited.partitions, keys, "came out differently after it was audited")
        self._audited = None
        return done

    def end(self) -> None:
        """Undo what was not published, and take away what was staged; the first error is the one to tell."""
        self._session.roll_back()
        with suppress(BackfillError), self._session.in_words():
            self._session.run(f"DROP TABLE IF EXISTS {self.staging}")

    def _replace(self, keys: Sequence[str]) -> None:
        """Take the rows of these keys away, and put the staged ones in."""
        session, target, runs = self._session, self._target, self._target.dataset.column.spans(keys)
        session.place_by(target.values.place_in(runs))
        condition, given = target.rows_of(runs)
        session.run(f"DELETE FROM {target.table} WHERE {condition}", given)
        listed = ", ".join(map(quoted, self._names))
        staged = f"SELECT {listed} FROM {self.staging} WHERE {target.place} > 0"
        session.run(f"INSERT INTO {target.table} ({listed}) {staged}")

    def _require(self, audited: Mapping[str, Measured], keys: Sequence[str], why: str) -> None:
        """Refuse what is no longer what was audited."""
        now = self._measured(keys)
        for key in keys:
            if now[key] != audited[key]:
                raise ChangedError(f"{self._target.name}: {key} {why}; nothing was changed, run again")

    def _measured(
        self,
        keys: Sequence[str],
        staging: str | None = None,
        others: dict[str, tuple[int, str]] | None = None,
    ) -> dict[str, Measured]:
        return self._target.measured(self._session, keys, with_digest=self._with_digest, staging=staging, others=others)

    def _repeated(self) -> tuple[int, str]:
        unique = ", ".join(map(quoted, self._target.dataset.unique))
        if not unique:
            return 0, ""
        target = self._target
        self._session.place_by(target.values.place_in(target.dataset.column.spans(self._keys)))
        by = f"{unique}, {target.place}" if target.dataset.column.name else unique
        groups = f"SELECT {unique}, count(*) - 1 AS more FROM {self.staging} GROUP BY {by} HAVING more > 0"
        rows = self._session.rows(f"SELECT *, sum(more) OVER () FROM ({groups}) ORDER BY 1 LIMIT 1")
        if not rows:
            return 0, ""
        *example, _, total = rows[0]
        return int(total), ", ".join(map(str, example))

    def _columns_of(self, text: str, given: Mapping[str, Any]) -> list[str]:
        found = self._session.run(f"SELECT * FROM (\n{text}) LIMIT 0", given).description or ()
        names = [column[0] for column in found]
        known = {column.name: column for column in self._target.columns(self._session)}
        where = f"{self._target.name}: the rows to put there have"
        # Of two columns of one name SQLite calls the second `name:1`.
        if len({name.partition(":")[0] if name not in known else name for name in names}) < len(names):
            raise TargetError(f"{where} two columns of one name; name each once")
        for name in names:
            if name not in known:
                raise TargetError(f"{where} a column {name}, which the table doesn't have; leave it out, or name it AS")
            if known[name].is_generated:
                raise TargetError(f"{where} a column {name}, which the database itself computes; leave it out")
        return names
