"""A dataset: a named table that is published partition by partition, and what is promised of it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from backfill_core.errors import UsageError
from backfill_core.keys import DAY, GRAINS, LIST, NONE, KeyColumn, ListedKeys, WholeTable
from backfill_core.partition import check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backfill_core.target import Target

_CHOICES = {
    "grain": GRAINS,
    "digest": ("always", "sealed", "never"),
    "on_empty": ("refuse", "allow"),
    "on_drift": ("refuse", "overwrite"),
}


_NAMED = {
    DAY: "its table names the column of a day, so its grain is 'day'",
    LIST: "its table names a key column with a list of values; say grain='list' too",
    NONE: "its table names no key column: name that of the day, day=…, or say grain='none', and the whole table is one"
    " partition",
    "": "its table names the column of a day and another key column; name one of them",
}


@dataclass(frozen=True)
class SqlTable:
    """A table in a database, whose partitions are told by one column, or that is one partition as a whole.

    where: `postgresql://…`, `duckdb://…`, or the path of a file, SQLite's if its name doesn't end in `.duckdb`; in
        Airflow the name of a connection.
    table: `schema.table`, as the database has it, capitals too; a name with a dot in it stands in double quotes.
    day: the key column of a dataset of days.
    key, values: the key column of a dataset whose keys are a list, and the list: `key="country", values=["DE", "PL"]`,
        texts or integers. A row with another value, or without one, belongs to no partition.
    kind: of a key column of days: `date`; `text` or `integer` with a format; `instant` (a time with a zone); `local` (a
        time without one).
    format: how text or an integer writes a day, `%Y%m%d`; in SQLite also how an instant or a local time is written.
    zone: of a local time, if it is another than the dataset's.
    schema: where our side table and what is staged go; the table's own schema by default.
    """

    where: str = field(repr=False)  # a password may be in it
    table: str
    day: str | None = field(default=None, kw_only=True)
    key: str | None = field(default=None, kw_only=True)
    values: Sequence[str | int] = field(default=(), kw_only=True)
    kind: str = field(default="date", kw_only=True)
    format: str | None = field(default=None, kw_only=True)
    zone: str | None = field(default=None, kw_only=True)
    schema: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named table, its partitions, and the limits of a write.

    name: as the ledger knows it, `shop.orders_daily`.
    table: where its partitions are, such as `SqlTable(…)`.
    measures: named, exact figures of a partition, each an SQL expression: `{"orders": "count(*)"}`.
    unique: the columns that together must not be there twice in a partition; empty for no such rule.
    timezone: which instants a day covers.
    grain: what a partition is: a `day`; `list`, one value of a list; or `none`: the whole table, under the key `all`.
    digest: when a partition's rows are hashed too: `always`, `sealed` (when a partition is measured by itself, as for a
        seal or a search for drift), or `never`. Only with `always` a result that is the same publishes nothing.
    digest_columns: what the digest is of; None for all but those that the database fills in.
    on_empty: `refuse` a partition of no rows, or `allow` it.
    max_shrink, max_growth: by which part of what is published a result may be smaller or larger; None for no limit.
    on_drift: `refuse` where the table holds what nobody of ours published, or `overwrite` it.
    tolerance: by the name of a float measure, how far two values of it may be apart and count as the same.

    Raises:
        UsageError: something of it can't be; the sentence says what.
    """

    name: str
    table: Any
    _: KW_ONLY
    measures: Mapping[str, str]
    unique: Sequence[str] = ()
    timezone: str = "UTC"
    grain: str = "day"
    digest: str = "sealed"
    digest_columns: Sequence[str] | None = None
    on_empty: str = "refuse"
    max_shrink: float | None = 0.5
    max_growth: float | None = None
    on_drift: str = "refuse"
    tolerance: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text("dataset's name", self.name)
        for word, choices in _CHOICES.items():
            if getattr(self, word) not in choices:
                raise UsageError(f"{self.name}: {word} is {getattr(self, word)!r}; it is one of {', '.join(choices)}")
        for word in ("unique", "digest_columns"):
            columns = getattr(self, word)
            if isinstance(columns, str):
                raise UsageError(f"{self.name}: {word} is a list of columns; write [{columns!r}]")
            object.__setattr__(self, word, columns if columns is None else tuple(columns))
        if self.digest_columns == ():
            raise UsageError(f"{self.name}: the digest is of no columns; name some, or say digest='never'")
        for word in ("max_shrink", "max_growth"):
            limit = getattr(self, word)
            if limit is not None and not limit >= 0:
                raise UsageError(f"{self.name}: {word} is {limit!r}; write a part such as 0.5, or None for no limit")
        if strange := sorted(set(self.tolerance) - set(self.measures)):
            raise UsageError(f"{self.name}: there is a tolerance for {strange[0]}, and no such measure")
        _ = self.column

    def __str__(self) -> str:
        return self.name

    @property
    def column(self) -> KeyColumn:
        """The key column, and what of it belongs to a key."""
        table = self.table
        named = [grain for grain, column in ((DAY, table.day), (LIST, table.key)) if column] or [NONE]
        if named != [self.grain]:
            raise UsageError(f"{self.name}: {_NAMED[named[0] if len(named) == 1 else '']}")
        if self.grain == DAY:
            return KeyColumn(table.day, table.kind, self.timezone, written=table.format, zone=table.zone)
        if table.kind != "date" or table.format or table.zone:
            raise UsageError(f"{self.name}: kind, format and zone are of a column of days; leave them out")
        if self.grain == LIST:
            return ListedKeys(table.key, table.values, self.timezone)
        return WholeTable(self.timezone)

    def definition(self) -> Mapping[str, Any]:
        """Return what the ledger keeps of it with a version, as values of JSON.

        The list of a dataset's keys isn't among it, so that it may grow.
        """
        table, column = self.table, self.column
        kind = table.kind if column.has_days else column.kind
        return {
            "table": table.table,
            "key": {"column": column.name or None, "kind": kind, "format": table.format, "zone": table.zone},
            "timezone": self.timezone,
            "grain": self.grain,
            "measures": dict(self.measures),
            "unique": list(self.unique),
            "digest_columns": None if self.digest_columns is None else list(self.digest_columns),
            "tolerance": dict(self.tolerance),
        }

    def target(self, connect: Callable[[], Any] | None = None) -> Target:
        """Return the table as a target.

        connect: what opens a connection (psycopg's, psycopg2's or sqlite3's); without it `where` is a URL or a path.
        """
        from backfill_core.target.opening import open_target

        return open_target(self, connect)
