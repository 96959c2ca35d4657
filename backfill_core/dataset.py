"""A dataset: a named table that is published partition by partition, and what is promised of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A named table, its partitions, and the limits of a write.

    name: as the ledger knows it, `shop.orders_daily`.
    table: where its partitions are, such as `SqlTable(…)`.
    measures: named, exact figures of a partition, each an SQL expression: `{"orders": "count(*)"}`.
    unique: the columns that together must not be there twice in a partition; empty for no such rule.
    timezone: which instants a day covers.
    grain: `day`.
    digest: when a partition's rows are hashed too: `always`, `sealed` (for what is to be sealed), or `never`.
    digest_columns: what the digest is of; None for all but the volatile ones.
    on_empty: `refuse` a partition of no rows, or `allow` it.
    max_shrink, max_growth: by which part of what is published a result may be smaller or larger; None for no limit.
    on_drift: `refuse` where the table holds what nobody of ours published, or `overwrite` it.
    tolerance: by the name of a float measure, how far two values of it may be apart and count as the same.
    """

    name: str
    table: Any
    measures: Mapping[str, str]
    unique: tuple[str, ...] = ()
    timezone: str = "UTC"
    grain: str = "day"
    digest: str = "sealed"
    digest_columns: tuple[str, ...] | None = None
    on_empty: str = "refuse"
    max_shrink: float | None = 0.5
    max_growth: float | None = None
    on_drift: str = "refuse"
    tolerance: Mapping[str, float] = field(default_factory=dict)
