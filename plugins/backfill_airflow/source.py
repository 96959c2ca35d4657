"""What makes a dataset's rows: a query, or a function that fills the staging table; and what tells that it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backfill_core.guarded import Guarded, Partition

    Fill = Callable[[Partition], object]
    Fingerprint = str | Callable[[Sequence[str]], Mapping[str, object]]


class Source(NamedTuple):
    """What makes the rows of partitions.

    fill: is called with the partitions of one write. staged: whether it fills their staging table itself.
    fingerprint: tells, by key, what changes when the rows would; None where nothing does.
    """

    fill: Fill
    staged: bool
    fingerprint: Fingerprint | None = None

    def fingerprints(self, guarded: Guarded, keys: Sequence[str]) -> dict[str, str] | None:
        """Return the fingerprint of each key, as text; None where there is none to ask for."""
        if self.fingerprint is None:
            return None
        if isinstance(self.fingerprint, str):
            return guarded.fingerprints(self.fingerprint, keys)
        told = self.fingerprint(keys)
        return {key: str(told[key]) for key in keys if told.get(key) is not None}


def source_of(select: str | None, fill: Fill | None, fingerprint: Fingerprint | None) -> Source | None:
    """Return the source that an operator was given, a query or a function; None for none."""
    if select is not None:
        return Source(lambda partition: partition.fill(select), staged=False, fingerprint=fingerprint)
    return Source(fill, staged=True, fingerprint=fingerprint) if fill is not None else None
