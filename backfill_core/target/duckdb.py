"""A dataset's table in a DuckDB file: rows are staged and measured first, then published in one short transaction.

One process has the file at a time, so each step opens it and lets it go again; a write has it until it ends, unless the
caller fills its table. Within a process several connections may change it at once: of two that change one side row
DuckDB undoes one, and that step is done again.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from backfill_core.errors import BackfillError, ChangedError, FencedError, TargetError, UsageError
from backfill_core.target import Audited, Expected, Measured, Side
from backfill_core.target.binding import asked_of, runs_of
from backfill_core.target.duckdb_session import DuckSession, connect_duckdb
from backfill_core.target.duckdb_sql import (
    COLUMNS,
    CREATE_SIDE,
    FENCE,
    LOOK,
    MARK,
    PUBLISH,
    SIDE,
    Column,
    Keys,
    for_duckdb,
    hashed,
    one_query,
)
from backfill_core.target.figures import canonical_number, digest
from backfill_core.target.sides import staging_name, why_fenced
from backfill_core.target.statement import POSTGRES, parse_name, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from backfill_core.dataset import Dataset
    from backfill_core.target import Fence, Finding

__all__ = ["DuckTarget", "connect_duckdb"]

_DIGEST_ENGINE = "duckdb md5 1"
_TABLE = "table_catalog = current_database() AND table_schema = $schema AND table_name = $table"


class DuckTarget:
    """A table in a DuckDB file, and its side rows.

    connect: opens a connection to the file; it is called for each step.
    first: one that is open already.
    """

    def __init__(self, dataset: Dataset, connect: Callable[[], Any], first: Any = None) -> None:
        self.dataset = dataset
        self.name = dataset.name
        self._connect = connect
        self._first = first
        names = parse_name(dataset.table.table)
        if len(names) > 2:
            raise UsageError(f"{self.name}: name the table as schema.table; DuckDB's file is named by itself")
        self.schema, self.relation = names if len(names) > 1 else ("main", names[0])
        self.own_schema = dataset.table.schema or self.schema
        self.table = self.side = self._own = ""  # known once the file is open: its name is a part of them
        self._said = self.relation if self.schema == "main" else f"{self.schema}.{self.relation}"

    def check(self) -> Sequence[Finding]:
        """Look the table over; say by name what can't be guarded, or what should be known."""
        from backfill_core.target.duckdb_check import findings

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
        with self.session() as session:

            def raised() -> Mapping[str, Side]:
                self._make_side(session)
                sides = self._look(session, list(fences))
                for key, side in sides.items():
                    if side.ledger not in (None, ledger) and side.ledger not in former:
                        raise FencedError(
                            self._fenced(key, f"was last written under another ledger, {side.ledger}"), sides
                        )
                for key, fence in fences.items():
                    given = {"relation": self._said, "key": key, "number": fence.number, "ledger": ledger}
                    session.run(FENCE.format(side=self.side), given)
                return self._look(session, list(fences))

            return session.change(raised, wait)

    def mark(self, mark: str | None, expected: Mapping[str, Expected], ledger: str, wait: float) -> frozenset[str]:
        """Set the seal's mark, or take it away, at each key that is as expected; return these keys."""
        with self.session() as session:

            def marked() -> frozenset[str]:
                if not self.is_there(session, self.own_schema, SIDE):
                    return frozenset()
                statement = MARK.format(side=self.side)
                done = (
                    (key, session.run(statement, {**self._given(key, one, {ledger}), "mark": mark}))
                    for key, one in expected.items()
                )
                return frozenset(key for key, rows in done if rows)

            return session.change(marked, wait)

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
        with self.session() as session:

            def adopted() -> Mapping[str, str]:
                now = self.measured(session, list(expected), with_digest=with_digest)
                for key in expected:
                    if now[key] != measured[key]:
                        raise ChangedError(self._fenced(key, "holds something else than was measured"))
                return self.publish(session, expected, token, ledger, {ledger, *former})

            return session.change(adopted)

    def ask(self, select: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        """Run a query that only reads, once for each span of the keys; return its rows."""
        runs, found = runs_of(select, POSTGRES, self.dataset.column, keys), []
        with self.session() as session, session.reading():
            for run in runs:
                found += session.run(*self.bound(select, runs, run))
        return found

    def keyless(self) -> tuple[int, str]:
        """Count the rows of the table that belong to no key, with an example."""
        column = self.dataset.column
        if not column.name:
            return 0, ""
        name, kept = quoted(column.name), "false"
        if column.kind not in ("text", "integer"):
            kept = f"isfinite({name}) AND year({name}) BETWEEN 1 AND 9999"
        with self.session() as session, session.reading():
            found = session.run(
                f'SELECT CAST({name} AS VARCHAR) COLLATE "C", count(*) FROM {self.table} WHERE ({kept}) IS NOT true'
                " GROUP BY 1 ORDER BY 1"
            )
        strange = [
            (value, count) for value, count in found if kept != "false" or value is None or not column.has(value)
        ]
        return sum(count for _, count in strange), (strange[0][0] or "NULL") if strange else ""

    @contextmanager
    def writing(self, keys: Sequence[str], token: str, *, staged: bool) -> Iterator[DuckWrite]:
        """Begin a write; what it staged goes with the block, and is never what stops another writer."""
        with ExitStack() as until_end:
            session = None if staged else until_end.enter_context(self.session())
            write = DuckWrite(self, keys, token, session)
            try:
                write.stage()
                yield write
            finally:
                with suppress(BackfillError):  # the first error is the one to tell
                    write.end()

    def sweep(self, tokens: Sequence[str]) -> None:
        """Drop what attempts that were settled or overtaken left staged."""
        with self.session() as session:

            def swept() -> None:
                for token in tokens:
                    session.run(f"DROP TABLE IF EXISTS {self.staging(token)}")

            session.change(swept)

    def close(self) -> None:
        """Let the file go."""
        if self._first is not None:
            self._first.close()
            self._first = None

    # What a write, and `check`, need of it.

    @contextmanager
    def session(self) -> Iterator[DuckSession]:
        """Open the file for one step."""
        connection, self._first = self._first or self._connect(), None
        try:
            session = DuckSession(connection, self.name, self.dataset.timezone)
            self._own = f"{quoted(session.file)}.{quoted(self.own_schema)}"
            self.table = f"{quoted(session.file)}.{quoted(self.schema)}.{quoted(self.relation)}"
            self.side = f"{self._own}.{SIDE}"
            yield session
        finally:
            connection.close()

    def staging(self, token: str) -> str:
        """Return the name of what an attempt stages, as it stands in SQL once the file is open."""
        return f"{self._own}.{staging_name(token)}"

    def is_there(self, session: DuckSession, schema: str, table: str) -> bool:
        """Return whether there is a table of that name."""
        statement = f"SELECT 1 FROM information_schema.tables WHERE {_TABLE}"
        return bool(session.run(statement, {"schema": schema, "table": table}))

    def columns(self, session: DuckSession) -> list[Column]:
        """Return the table's columns as they are just now."""
        columns = [Column(*row) for row in session.run(COLUMNS, {"schema": self.schema, "table": self.relation})]
        if not columns:
            raise TargetError(f"{self.name}: there is no table {self._said} in the file")
        key = self.dataset.column.name
        if key and key.lower() not in {column.name.lower() for column in columns}:
            raise TargetError(f"{self.name}: the table has no column {key}")
        return columns

    def measured(
        self,
        session: DuckSession,
        keys: Sequence[str],
        *,
        with_digest: bool,
        staging: str | None = None,
        others: dict[str, tuple[int, str]] | None = None,
    ) -> dict[str, Measured]:
        """Measure what partitions hold, or what is staged for them; into `others` what is of none of them."""
        of = Keys(self.dataset.column, sorted(set(keys)))
        columns = self._digest_columns(session) if with_digest else []
        figures = [f"CAST({expression} AS VARCHAR)" for expression in self._measures(session)]
        figures.append(f"CAST({hashed(columns)} AS VARCHAR)" if with_digest else "NULL")
        join = "JOIN" if staging is None else "LEFT JOIN"
        rows = session.run(
            f"SELECT _bf_key, {of.value} IS NULL, count(*), min(CAST({of.value} AS VARCHAR)), {', '.join(figures)}"
            f" FROM {staging or self.table} AS own {join} {of.relation} ON {of.joined} GROUP BY 1, 2",
            of.given,
        )
        nothing = self._of_nothing(session, figures[:-1])
        kept = digest(_DIGEST_ENGINE, columns, 0, 0) if with_digest else None
        found = {key: Measured(0, nothing, kept) for key in keys}
        for key, is_null, count, example, *values, total in rows:
            if key is not None:
                kept = digest(_DIGEST_ENGINE, columns, count, int(total)) if with_digest else None
                found[key] = Measured(count, self._as_text(values), kept)
            elif others is not None:
                others["keyless" if is_null else "strange"] = (count, "NULL" if is_null else str(example))
        return found

    def publish(
        self,
        session: DuckSession,
        expected: Mapping[str, Expected],
        token: str,
        ledger: str,
        ledgers: Collection[str],
    ) -> dict[str, str]:
        """Set the side rows, each by a compare-and-set, inside a transaction.

        Raises:
            FencedError: a side row is not as it has to be.
        """
        now, done = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), {}
        there = self.is_there(session, self.own_schema, SIDE)
        for key, one in expected.items():
            given = {**self._given(key, one, ledgers), "token": token, "ledger": ledger, "now": now}
            rows = session.run(PUBLISH.format(side=self.side), given) if there else []
            if not rows:
                sides = self._look(session, list(expected))
                raise FencedError(self._fenced(key, why_fenced(sides.get(key), one, ledgers)), sides)
            done[key] = str(rows[0][0])
        return done

    def bound(self, select: str, runs: Sequence[Sequence[str]], run: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """Return a query for one of the spans, and what its parameters are bound to.

        Raises:
            UsageError: it asks for a parameter that there can't be.
        """
        column, text, bounds = self.dataset.column, one_query(select), self.dataset.column.bounds(run)
        asked = asked_of(text, POSTGRES, self.name, column, runs, bounds)
        values: dict[str, Any] = {"start": bounds.start, "end": bounds.end}
        if "key" in asked:
            values["key"] = column.value(run[0])
        return for_duckdb(text, asked), {word: values[word] for word in asked}

    def _measures(self, session: DuckSession) -> list[str]:
        """Return the expressions of the measures.

        Raises:
            TargetError: one is a float, for which no tolerance was said.
        """
        measures = self.dataset.measures
        kinds = (
            session.run(
                f"SELECT {', '.join(f'typeof({one})' for one in measures.values())} FROM {self.table} WHERE false"
            )
            if measures
            else [()]
        )
        for name, kind in zip(measures, kinds[0], strict=True):
            if kind in ("FLOAT", "DOUBLE") and name not in self.dataset.tolerance:
                raise TargetError(
                    f"{self.name}: {name} is a float here, so it isn't the same twice; say a tolerance for it, or keep"
                    " integers (of cents), or decimals"
                )
        return list(measures.values())

    def _of_nothing(self, session: DuckSession, figures: Sequence[str]) -> dict[str, str | None]:
        rows = session.run(f"SELECT {', '.join(figures)} FROM {self.table} AS own WHERE false") if figures else [()]
        return self._as_text(rows[0])

    def _as_text(self, values: Sequence[str | None]) -> dict[str, str | None]:
        pairs = zip(self.dataset.measures, values, strict=True)
        return {name: canonical_number(value) for name, value in pairs}

    def _digest_columns(self, session: DuckSession) -> list[tuple[str, str]]:
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

    def _make_side(self, session: DuckSession) -> None:
        if not self.is_there(session, self.own_schema, SIDE):
            session.run(CREATE_SIDE.format(side=self.side))

    def _look(self, session: DuckSession, keys: Sequence[str]) -> dict[str, Side]:
        if not self.is_there(session, self.own_schema, SIDE):
            return {}
        rows = session.run(LOOK.format(side=self.side), {"relation": self._said, "keys": list(keys)})
        return {key: Side(*side) for key, *side in rows}

    def _given(self, key: str, expected: Expected, ledgers: Collection[str]) -> dict[str, Any]:
        return {
            "relation": self._said,
            "key": key,
            "number": expected.number,
            "was_token": expected.token,
            "was_mark": expected.mark,
            "ledgers": sorted(ledgers),
        }

    def _fenced(self, key: str, why: str) -> str:
        return f"{self.name}: {key} {why}; nothing was changed"


class DuckWrite:
    """One write of a set of keys: into a table beside, then in one short transaction into the one that is read.

    session: that of the whole write; None where the caller fills the table, and the file is opened for each step.
    """

    def __init__(self, target: DuckTarget, keys: Sequence[str], token: str, session: DuckSession | None) -> None:
        self._target = target
        self._keys = sorted(set(keys))
        self._by_hand = session is None
        self._session: Callable[[], AbstractContextManager[DuckSession]] = (
            target.session if session is None else lambda: nullcontext(session)
        )
        self._token = token
        self.staging = ""
        self._names: list[str] = []
        self._audited: Audited | None = None
        self._with_digest = False

    def stage(self) -> None:
        """Make the table that is filled: of the columns that rows come with."""
        with self._session() as session:
            self.staging = self._target.staging(self._token)

            def staged() -> list[str]:
                columns = [column for column in self._target.columns(session) if not column.is_generated]
                declared = ", ".join(
                    f"{quoted(one.name)} {one.type}{'' if one.default is None else f' DEFAULT ({one.default})'}"
                    for one in columns
                )
                session.run(f"CREATE TABLE {self.staging} ({declared})")
                return [column.name for column in columns if self._by_hand]

            self._names = session.change(staged)

    def fill(self, select: str) -> None:
        """Put the rows of a query beside, run once for each span of the keys."""
        target = self._target
        runs = runs_of(select, POSTGRES, target.dataset.column, self._keys)
        if self._by_hand:
            raise TargetError(f"{target.name}: the caller fills {self.staging}, no select does")
        with self._session() as session:

            def filled() -> list[str]:
                listed = self._names
                for run in runs:
                    text, given = target.bound(select, runs, run)
                    names = self._columns_of(session, session.names(text, given))
                    if listed and set(names) != set(listed):
                        raise TargetError(f"{target.name}: the selects have different columns; give each the same")
                    listed = listed or names
                    into = ", ".join(map(quoted, names))
                    session.run(f"INSERT INTO {self.staging} ({into}) SELECT * FROM (\n{text})", given)
                return listed

            self._names = session.change(filled)

    def audit(self, *, digest: bool) -> Audited:
        """Measure what is staged, and what it takes the place of, at one moment."""
        if not self._names:
            raise TargetError(f"{self._target.name}: nothing was put there yet; fill it first")
        others = {"strange": (0, ""), "keyless": (0, "")}
        self._with_digest = digest
        with self._session() as session, session.reading():
            self._audited = Audited(
                self._measured(session, self._keys, staging=self.staging, others=others),
                self._measured(session, self._keys),
                repeated=self._repeated(session),
                **others,
            )
        return self._audited

    def publish(self, expected: Mapping[str, Expected], token: str, ledger: str) -> Mapping[str, str]:
        """Put the rows in their place, in one short transaction; keys that are not expected to be anything stay."""
        audited = self._audited
        if audited is None:
            raise TargetError(f"{self._target.name}: there is nothing audited to publish")
        keys, target = sorted(expected), self._target
        with self._session() as session:

            def published() -> Mapping[str, str]:
                done = target.publish(session, expected, token, ledger, {ledger})
                self._require(session, audited.before, keys, "was changed by somebody after it was audited")
                self._replace(session, keys)
                self._require(session, audited.partitions, keys, "came out differently after it was audited")
                return done

            done = session.change(published)
        self._audited = None
        return done

    def end(self) -> None:
        """Take away what was staged."""
        with self._session() as session:
            session.change(lambda: session.run(f"DROP TABLE IF EXISTS {self.staging}"))

    def _replace(self, session: DuckSession, keys: Sequence[str]) -> None:
        """Take the rows of these keys away, and put the staged ones in."""
        table, of = self._target.table, Keys(self._target.dataset.column, keys)
        session.run(f"DELETE FROM {table} AS own USING {of.relation} WHERE {of.joined}", of.given)
        into, listed = (", ".join(f"{before}{quoted(name)}" for name in self._names) for before in ("", "own."))
        staged = f"SELECT {listed} FROM {self.staging} AS own JOIN {of.relation} ON {of.joined}"
        session.run(f"INSERT INTO {table} ({into}) {staged}", of.given)

    def _require(self, session: DuckSession, audited: Mapping[str, Measured], keys: Sequence[str], why: str) -> None:
        """Refuse what is no longer what was audited."""
        now = self._measured(session, keys)
        for key in keys:
            if now[key] != audited[key]:
                raise ChangedError(f"{self._target.name}: {key} {why}; nothing was changed, run again")

    def _measured(
        self,
        session: DuckSession,
        keys: Sequence[str],
        staging: str | None = None,
        others: dict[str, tuple[int, str]] | None = None,
    ) -> dict[str, Measured]:
        return self._target.measured(session, keys, with_digest=self._with_digest, staging=staging, others=others)

    def _repeated(self, session: DuckSession) -> tuple[int, str]:
        unique = [f"own.{quoted(name)}" for name in self._target.dataset.unique]
        if not unique:
            return 0, ""
        of = Keys(self._target.dataset.column, self._keys)
        groups = (
            f"SELECT concat_ws(', ', {', '.join(unique)}) AS example, count(*) - 1 AS more FROM {self.staging} AS own"
            f" LEFT JOIN {of.relation} ON {of.joined} GROUP BY {', '.join(unique)}, _bf_key HAVING count(*) > 1"
        )
        [(total, example)] = session.run(f"SELECT sum(more), min(example) FROM ({groups})", of.given)
        return int(total or 0), str(example or "")

    def _columns_of(self, session: DuckSession, names: list[str]) -> list[str]:
        """Return the table's names of a query's columns; DuckDB doesn't tell capitals apart."""
        known = {column.name.lower(): column for column in self._target.columns(session)}
        where = f"{self._target.name}: the rows to put there have"
        for name in names:
            if name.lower() not in known:
                first, _, number = name.rpartition("_")
                if number.isdigit() and first.lower() in {other.lower() for other in names}:
                    raise TargetError(f"{where} two columns of one name; name each once")
                raise TargetError(f"{where} a column {name}, which the table doesn't have; leave it out, or name it AS")
            if known[name.lower()].is_generated:
                raise TargetError(f"{where} a column {name}, which the database itself computes; leave it out")
        return [known[name.lower()].name for name in names]
