"""The statements that the DuckDB target runs. Parameters are written `$name`; names of tables come in quoted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_core.target.statement import POSTGRES, query, quoted, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backfill_core.keys import KeyColumn

SIDE = "_bf_partitions"
CREATE_SIDE = """
    CREATE TABLE IF NOT EXISTS {side} (
        relation VARCHAR NOT NULL, key VARCHAR NOT NULL, token VARCHAR, fence BIGINT NOT NULL DEFAULT 0, mark VARCHAR,
        ledger VARCHAR, published_at VARCHAR, PRIMARY KEY (relation, key)
    )
"""
LOOK = """
    SELECT key, token, fence, mark, ledger, published_at FROM {side}
    WHERE relation = $relation AND list_contains($keys ::VARCHAR[], key) ORDER BY key
"""
FENCE = """
    INSERT INTO {side} (relation, key, fence, ledger) VALUES ($relation, $key, $number, $ledger)
    ON CONFLICT (relation, key) DO UPDATE SET fence = greatest(fence, excluded.fence), ledger = excluded.ledger
"""
_COMPARED = """
    WHERE relation = $relation AND key = $key AND token IS NOT DISTINCT FROM $was_token AND fence <= $number
    AND list_contains($ledgers ::VARCHAR[], ledger)
"""
PUBLISH = f"""
    UPDATE {{side}} SET token = $token, fence = $number, ledger = $ledger,
        published_at = greatest(coalesce(published_at, ''), $now)
    {_COMPARED} AND mark IS NOT DISTINCT FROM $was_mark RETURNING published_at
"""
MARK = f"""
    UPDATE {{side}} SET mark = $mark, fence = $number
    {_COMPARED} AND (mark IS NOT DISTINCT FROM $was_mark OR mark IS NOT DISTINCT FROM $mark) RETURNING key
"""
COLUMNS = """
    SELECT column_name, data_type, column_default, is_generated = 'ALWAYS', is_nullable = 'NO'
    FROM information_schema.columns WHERE table_catalog = current_database()
    AND table_schema = $schema AND table_name = $table ORDER BY ordinal_position
"""
TYPES = {
    "date": "DATE",
    "text": "VARCHAR",
    "integer": "BIGINT",
    "instant": "TIMESTAMP WITH TIME ZONE",
    "local": "TIMESTAMP",
}
"""How the values of a key column of each kind are given."""


class Column(NamedTuple):
    """A column of the table, as DuckDB declares it."""

    name: str
    type: str
    default: str | None
    is_generated: bool
    is_not_null: bool

    @property
    def is_volatile(self) -> bool:
        """Whether its default is another one each time."""
        return not self.is_generated and self.default is not None and "(" in self.default


class Keys:
    """Keys as a relation `_bf_keys` that a table, called `own`, is joined to by the value, or the window, of a key.

    value: the key column's expression, NULL where the whole table is one partition.
    """

    def __init__(self, column: KeyColumn, keys: Sequence[str]) -> None:
        self.value = f"own.{quoted(column.name)}" if column.name else "NULL"
        self.given: dict[str, Any] = {"_bf_key": list(keys)}
        if not column.name:
            self.joined = "true"
        elif column.has_one_value:
            self.given["_bf_lo"] = [column.value(key) for key in keys]
            exactly = ' COLLATE "C"' if column.kind == "text" else ""  # whatever the column's own says of capitals
            self.joined = f"{self.value}{exactly} = _bf_lo"
        else:
            self.given["_bf_lo"], self.given["_bf_hi"] = zip(*(column.bounds([key]) for key in keys), strict=True)
            self.joined = f"{self.value} >= _bf_lo AND {self.value} < _bf_hi"
        lists = (
            f"unnest(${word} ::{'VARCHAR' if word == '_bf_key' else TYPES[column.kind]}[]) AS {word}"
            for word in self.given
        )
        self.relation = f"(SELECT {', '.join(lists)}) AS _bf_keys"


def hashed(columns: Iterable[tuple[str, str]]) -> str:
    """Return an expression for the sum of rows' hashes, each of the values as they are, whatever a session shows."""
    parts = []
    for name, kind in columns:
        value = f"CAST({quoted(name)} AS VARCHAR)"
        if kind.startswith("timestamp"):
            unit = "epoch_ns" if kind.endswith("_ns") else "epoch_us"
            value = f"CASE WHEN isfinite({quoted(name)}) THEN CAST({unit}({quoted(name)}) AS VARCHAR) ELSE {value} END"
        parts.append(f"coalesce(strlen({value}) || ':' || {value}, 'NULL')")
    return f"coalesce(sum(md5_number_lower({' || '.join(parts)})), 0)"


def one_query(select: str) -> str:
    """Return a query as it can stand in brackets; DuckDB would run several statements one after the other."""
    return query(select, POSTGRES)


def for_duckdb(sql: str, names: Iterable[str]) -> str:
    """Write a statement's parameters, `:name`, as DuckDB has them: `$name`."""
    wanted = {f":{name}" for name in names}
    return "".join(
        f"${token.text[1:]}" if token.kind == "parameter" and token.text in wanted else token.text
        for token in tokens(sql, POSTGRES)
    )
