"""The statements that the PostgreSQL target runs. Parameters are written `:name`; names of tables come in quoted.

A partition is measured where it is, before and after its rows are replaced, in one transaction that sees one moment and
what it does itself: that costs less than to have each row told by the statement that moves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_core.errors import UsageError
from backfill_core.target.binding import asked_of
from backfill_core.target.statement import POSTGRES, query, quoted, renamed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backfill_core.dataset import Dataset
    from backfill_core.keys import KeyColumn

SIDE = "_bf_partitions"

CREATE_SIDE = """
    CREATE TABLE IF NOT EXISTS {side} (
        relation text NOT NULL, key text NOT NULL, token text, fence bigint NOT NULL DEFAULT 0, mark text,
        ledger text, published_at timestamptz, PRIMARY KEY (relation, key)
    )
"""
MAKE_ROWS = """
    INSERT INTO {side} (relation, key)
    SELECT :relation, key FROM unnest(:keys ::text[]) AS wanted (key)
    WHERE NOT EXISTS (SELECT FROM {side} AS old WHERE old.relation = :relation AND old.key = wanted.key)
    ORDER BY key COLLATE "C" ON CONFLICT DO NOTHING
"""
_TOLD = "to_char(published_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
LOOK = f"""
    SELECT key, token, fence, mark, ledger, {_TOLD} FROM {{side}}
    WHERE relation = :relation AND key = ANY (:keys ::text[]) ORDER BY key COLLATE "C"
"""
LOCK = f"{LOOK} FOR UPDATE"
_GIVEN = """
    FROM unnest(:keys ::text[], :numbers ::bigint[], :tokens ::text[], :marks ::text[])
        AS given (key, number, token, mark)
    WHERE relation = :relation AND side.key = given.key
"""
RAISE_FENCES = f"UPDATE {{side}} AS side SET fence = greatest(fence, number), ledger = :ledger {_GIVEN}"
_COMPARED = f"""
    {_GIVEN} AND side.token IS NOT DISTINCT FROM given.token AND fence <= number
    AND ledger = ANY (:ledgers ::text[])
"""
PUBLISH = f"""
    UPDATE {{side}} AS side SET token = :token, fence = number, ledger = :ledger,
        published_at = greatest(published_at, clock_timestamp())
    {_COMPARED} AND side.mark IS NOT DISTINCT FROM given.mark RETURNING side.key, {_TOLD}
"""
MARK = f"""
    UPDATE {{side}} AS side SET mark = :mark, fence = number
    {_COMPARED} AND (side.mark IS NOT DISTINCT FROM given.mark OR side.mark IS NOT DISTINCT FROM :mark ::text)
    RETURNING side.key
"""

COLUMNS = """
    SELECT attname, format_type(CASE WHEN typtype = 'd' THEN typbasetype ELSE atttypid END, NULL),
           attgenerated <> '', attidentity <> '',
           coalesce(attgenerated = '' AND pg_get_expr(adbin, adrelid) ~ '[(]|CURRENT|LOCAL|SESSION', false),
           attnotnull, format_type(atttypid, atttypmod)
    FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_type ON pg_type.oid = atttypid
    LEFT JOIN pg_catalog.pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
VERSION = "SELECT current_setting('server_version_num')::integer / 10000"
PARTS = "(SELECT :name ::regclass::oid UNION SELECT relid FROM pg_catalog.pg_partition_tree(:name ::regclass))"
ABOUT = f"""
    {VERSION}, EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid IN {PARTS} AND NOT tgisinternal
                       AND tgenabled <> 'D')
"""
_ARRAYS = {"date": "date", "text": "text", "integer": "bigint", "instant": "timestamptz", "local": "timestamp"}


class Column(NamedTuple):
    """A column of the table: its type without and with what is in brackets, and what the database does with it.

    is_volatile: its default is another one each time.
    """

    name: str
    type: str
    is_generated: bool
    is_identity: bool
    is_volatile: bool
    is_not_null: bool
    full_type: str


class Shape(NamedTuple):
    """A table as it is just now."""

    columns: tuple[Column, ...]
    version: int
    has_triggers: bool

    @property
    def told_by_rows(self) -> tuple[str, ...]:
        """The columns that say what a row is: all but those that the database fills in, each time otherwise."""
        fills = {
            column.name for column in self.columns if column.is_identity or column.is_volatile or column.is_generated
        }
        return tuple(column.name for column in self.columns if column.name not in fills)


class Places:
    """How a row's key value tells its key: `place` is an expression, `key_at` reads what it gives."""

    def __init__(self, column: KeyColumn, runs: Sequence[Sequence[str]]) -> None:
        self._kind = column.kind
        keys = [key for run in runs for key in run]
        self.single = keys[0] if len(keys) == 1 else None
        if column.kind in ("text", "none"):
            self._keys = dict(enumerate(keys, start=1))
            self.values: list[Any] = [column.value(key) for key in keys]
        if column.kind == "none":
            return
        self._name = quoted(column.name)
        self._array = f":places ::{_ARRAYS[column.kind]}[]"
        if column.kind == "text":
            return
        starts: dict[Any, str] = {}
        ends = set()
        for key in keys:
            if column.kind == "integer":
                start: Any = column.value(key)
                end: Any = start + 1
            else:
                start, end = column.bounds([key])
            starts[start] = key
            ends.add(end)
        self.values = sorted({*starts, *ends})
        self._keys = {at: starts[value] for at, value in enumerate(self.values, start=1) if value in starts}

    @property
    def place(self) -> str:
        """The expression: NULL for a row without a key."""
        if self._kind == "none":
            return "1"
        if self._kind == "text":
            name = self._name
            return f"CASE WHEN {name} IS NOT NULL THEN coalesce(array_position({self._array}, {name}::text), 0) END"
        kind = "::bigint" if self._kind == "integer" else ""
        return f"width_bucket({self._name}{kind}, {self._array})"

    def given(self, text: str) -> dict[str, Any]:
        """Return the parameter of `place`, where a statement has it."""
        return {"places": self.values} if ":places" in text else {}

    def key_at(self, place: int) -> str | None:
        """Return the key that a place is of, None for rows of other keys."""
        return self._keys.get(place)


class Statements:
    """The statements about one dataset's table, in its shape of just now."""

    def __init__(
        self,
        dataset: Dataset,
        table: str,
        shape: Shape,
        measure_types: Mapping[str, str],
        of_nothing: Mapping[str, str | None],
    ) -> None:
        self._dataset = dataset
        self._column = dataset.column
        self._table = table
        self.shape = shape
        self.of_nothing = of_nothing
        self.measure_types = measure_types
        self.names = tuple(dataset.measures)

    @property
    def digest_columns(self) -> tuple[tuple[str, str], ...]:
        """The columns that a digest is of, with their types."""
        types = {column.name: column.type for column in self.shape.columns}
        wanted = self._dataset.digest_columns
        if wanted is None:
            wanted = self.shape.told_by_rows
        if missing := [name for name in wanted if name not in types]:
            raise UsageError(
                f"{self._dataset.name}: the digest is of a column {missing[0]} that the table doesn't have"
            )
        return tuple((name, types[name]) for name in wanted)

    def rows_of(self, runs: Sequence[Sequence[str]], name: str = "") -> tuple[str, dict[str, Any]]:
        """Return a condition for the rows of these keys, and its parameters."""
        if self._column.kind == "none":
            return "true", {}
        column = f"{name}{quoted(self._column.name)}"
        if self._column.kind in ("text", "integer"):
            values = [self._column.value(key) for run in runs for key in run]
            if len(values) == 1:
                return f"{column} = :own", {"own": values[0]}
            return f"{column} = ANY (:own ::{_ARRAYS[self._column.kind]}[])", {"own": values}
        ranges, given = [], {}
        for number, run in enumerate(runs):
            given[f"from_{number}"], given[f"to_{number}"] = self._column.bounds(run)
            ranges.append(f"{column} >= :from_{number} AND {column} < :to_{number}")
        return f"({' OR '.join(ranges)})", given

    def inserting(self, names: Sequence[str], source: str) -> str:
        """Return the statement that puts rows into the table."""
        listed = ", ".join(quoted(name) for name in names)
        identity = {column.name for column in self.shape.columns if column.is_identity}
        overriding = "OVERRIDING SYSTEM VALUE " if identity & set(names) else ""
        return f"INSERT INTO {self._table} ({listed}) {overriding}{source}"

    def telling(self, inserting: str, places: Places) -> str:
        """Return the same statement, which tells where its rows belong."""
        column = quoted(self._column.name or "key")
        told = f'{places.place}, count(*), min({column}::text COLLATE "C")'
        returning = column if self._column.name else f"'' AS {column}"
        return f"WITH moved AS ({inserting} RETURNING {returning}) SELECT {told} FROM moved GROUP BY 1"

    def deleting(self, runs: Sequence[Sequence[str]]) -> tuple[str, dict[str, Any]]:
        """Return the statement that takes rows from the table."""
        condition, given = self.rows_of(runs)
        return f"DELETE FROM {self._table} WHERE {condition}", given

    def looking(
        self, runs: Sequence[Sequence[str]], places: Places, *, with_digest: bool
    ) -> tuple[str, dict[str, Any]]:
        """Return the statement that measures partitions where they are."""
        condition, given = self.rows_of(runs)
        measures = [f"({expression})::text" for expression in self._dataset.measures.values()]
        digest = "NULL"
        if with_digest:
            # A record's hash adds up those of its columns, so values that change places among rows would leave the sum
            # of them as it was: hence a hash of the hash.
            digest = f"sum(hashint4extended(1, hash_record_extended(ROW({', '.join(self._hashed())}), 0)))::text"
        place, grouped = ("1", "") if places.single else (places.place, "GROUP BY 1")
        figures = ", ".join([place, "count(*)", *measures, digest])
        return f"SELECT {figures} FROM {self._table} WHERE {condition} {grouped}", given

    def different(self, runs: Sequence[Sequence[str]], places: Places) -> tuple[str, dict[str, Any]]:
        """Return the statement that counts values of `unique`: no fewer than rows where there is no repeat, else maybe.

        To sort numbers is far cheaper than to group by columns. Two values may have one hash, and NULL isn't counted.
        """
        condition, given = self.rows_of(runs)
        types = {column.name: column.type for column in self.shape.columns}
        names = list(self._dataset.unique)
        if len(names) == 1 and types.get(names[0]) in _INTEGERS and places.single:
            value = quoted(names[0])
        else:
            hashed = [_hashed(name, types.get(name, "")) for name in names]
            row = ", ".join(hashed if places.single else [*hashed, places.place])
            value = f"hash_record_extended(ROW({row}), 0)"
        return f"SELECT count(DISTINCT {value}) FROM {self._table} WHERE {condition}", given

    def repeats(self, runs: Sequence[Sequence[str]], places: Places) -> tuple[str, dict[str, Any]]:
        """Return the statement that counts what is there more than once in a partition, with an example."""
        condition, given = self.rows_of(runs)
        unique = ", ".join(quoted(name) for name in self._dataset.unique)
        of_key = "" if places.single else f", {places.place}"
        groups = (
            f"SELECT count(*) - 1 AS more, ROW({unique})::text AS example FROM {self._table} WHERE {condition}"
            f" GROUP BY {unique}{of_key} HAVING count(*) > 1"
        )
        return f"SELECT coalesce(sum(more), 0)::bigint, min(example) FROM ({groups}) AS repeats", given

    def _hashed(self) -> list[str]:
        return [_hashed(name, kind) for name, kind in self.digest_columns]


def _hashed(name: str, kind: str) -> str:
    return quoted(name) if kind in _HASHED else f"{quoted(name)}::text"


_INTEGERS = ("smallint", "integer", "bigint")
_HASHED = frozenset(
    {
        "smallint", "integer", "bigint", "numeric", "boolean", "date", "text", "character varying", "character",
        "timestamp without time zone", "timestamp with time zone", "time without time zone", "uuid", "bytea",
        "real", "double precision", "jsonb",
    }
)  # fmt: skip
"""Types whose hash depends on the value alone, however a session writes it; others are hashed as text."""


def bound(
    select: str, dataset: Dataset, runs: Sequence[Sequence[str]], run: Sequence[str], suffix: str
) -> tuple[str, dict[str, Any]]:
    """Return a query for one of a write's spans: its parameters under names of their own, and what they are bound to.

    Raises:
        UsageError: it asks for a parameter that there can't be.
    """
    text, column = query(select, POSTGRES), dataset.column
    bounds = column.bounds(run)
    asked = asked_of(text, POSTGRES, dataset.name, column, runs, bounds)
    values = {"start": bounds.start, "end": bounds.end}
    if "key" in asked:
        values["key"] = column.value(run[0])
    names = {word: f"{word}_{suffix}" for word in asked}
    return renamed(text, POSTGRES, names), {names[word]: values[word] for word in asked}
