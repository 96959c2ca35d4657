"""The shape of every answer, ready for JSON. A partition is written YYYY-MM-DD; ranges are in date order.

This module is for type checkers; nothing imports it at run time.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class RunAnswer(TypedDict, total=False):
    """What a run did. `orders` and `amount` add up the partitions in `done`; `failed` is there if any failed."""

    owner: str
    done: list[str]
    skipped: list[list[str]]
    orders: int
    amount: int
    failed: list[list[str]]


class ClaimAnswer(TypedDict):
    """The dates that the owner holds now, and [date, holder] of those that somebody else holds."""

    owner: str
    claimed: list[str]
    denied: list[list[str]]


class ReleaseAnswer(TypedDict):
    """The dates that were freed."""

    owner: str
    released: list[str]


class SealAnswer(TypedDict):
    """The dates that are sealed now."""

    sealed: list[str]


class AmendAnswer(TypedDict):
    """The correction that was written."""

    dt: str
    orders_before: int
    amount_before: int
    orders_after: int
    amount_after: int
    reason: str


class RollupAnswer(TypedDict):
    """The totals that the table holds now."""

    mode: Literal["add", "derive"]
    order_total: int
    amount_total: int


class PlannedPartition(TypedDict):
    """What a run would do with one partition. Values are None where there are none.

    `reason` says why: `new`, `emptied` or `moved` for a change, the run's own for a skip, the fault for a failure.
    """

    dt: str
    action: Literal["change", "unchanged", "skipped", "failed"]
    reason: str
    orders_before: int | None
    amount_before: int | None
    orders_after: int | None
    amount_after: int | None


class _WhereAskedFor(TypedDict, total=False):
    duplicates: int


class PlanAnswer(_WhereAskedFor):
    """A run, told beforehand. asked = change + unchanged + skipped + failed.

    `orders` and `amount` are what the run would answer: the sums over change and unchanged. `duplicates`, where it was
    asked for, is the number of order_ids that occur more than once in the sources of the range.
    """

    owner: str
    first: str
    last: str
    asked: int
    change: int
    unchanged: int
    skipped: int
    failed: int
    orders: int
    amount: int
    partitions: list[PlannedPartition]


class PartitionStatus(TypedDict):
    """What the store holds of one date. `source` is None unless the source was compared."""

    dt: str
    orders: int | None
    amount: int | None
    owner: str | None
    claimed_by: str | None
    sealed: bool
    corrections: int
    source: str | None


class StatusAnswer(TypedDict):
    """The dates asked for, and how many of them agree with their source (None unless it was compared)."""

    partitions: list[PartitionStatus]
    current: int | None


class LatePartition(TypedDict):
    """A sealed date whose source has moved on since what was published or last corrected (`known`)."""

    dt: str
    orders_known: int
    amount_known: int
    orders_now: int
    amount_now: int
    orders_difference: int
    amount_difference: int


class LateAnswer(TypedDict):
    """The sealed dates that are late, those without a source, and those whose source can't be counted."""

    late: list[LatePartition]
    no_data: list[str]
    failed: list[list[str]]


class DuplicateOrder(TypedDict):
    """An order_id that occurs more than once, and [date, how often] of each date that has it."""

    order_id: str
    dts: list[list[str | int]]


class DuplicatesAnswer(TypedDict):
    """The order_ids that occur more than once among all `orders` of the range: how many, and the first of them.

    An order_id can be counted under both `within_a_day` and `across_days`. `failed` are the partitions that couldn't be
    read: what they hold is not in the numbers, or only in part.
    """

    first: str
    last: str
    orders: int
    order_ids: int
    within_a_day: int
    across_days: int
    duplicates: list[DuplicateOrder]
    failed: list[list[str]]


class StatementLine(TypedDict):
    """One date: what was published, and what is right by the last correction. `reason` is that correction's."""

    dt: str
    sealed: bool
    corrections: int
    orders_published: int
    amount_published: int
    orders_corrected: int
    amount_corrected: int
    reason: str | None


class StatementAnswer(TypedDict):
    """What we said and what is right now, by date and in total."""

    first: str
    last: str
    partitions: list[StatementLine]
    orders_published: int
    amount_published: int
    orders_corrected: int
    amount_corrected: int


# Datasets

Figures = dict[str, "int | str | None"]
"""What a partition holds: `rows`, and each measure as exact text; None for the sum of nothing."""


class PublishedPartition(TypedDict):
    """A partition that readers got, when, and what it took the place of."""

    key: str
    published_at: str
    before: Figures | None
    after: Figures | None


class WriteAnswer(TypedDict):
    """What a write, or an adoption, did. asked = published + quiet + unchanged + skipped.

    token: of the attempt; None where there was none.
    quiet: what the target held already; unchanged: the source is as it was.
    skipped: pairs of a key and why, `sealed` or `claimed_by:…`.
    """

    dataset: str
    token: str | None
    published: list[PublishedPartition]
    quiet: list[str]
    unchanged: list[str]
    skipped: list[list[str]]


class ReserveAnswer(TypedDict):
    """A reservation: its id, the keys that it holds, and [key, holder] of those that somebody else holds."""

    dataset: str
    claim: str
    claimed: list[str]
    denied: list[list[str]]


class FreedAnswer(TypedDict):
    """The keys at which a claim was given back."""

    dataset: str
    released: list[str]


class SealedAnswer(TypedDict):
    """The keys that are sealed now, and those of them that weren't before."""

    dataset: str
    sealed: list[str]
    new: list[str]


class UnsealedAnswer(TypedDict):
    """The keys that were sealed and are not any more."""

    dataset: str
    unsealed: list[str]


class CorrectionAnswer(TypedDict):
    """The correction that was written: what was sent under which version of the seal, and what is right."""

    dataset: str
    key: str
    seal: int
    before: Figures | None
    after: Figures | None
    reason: str
    at: str


class SettleAnswer(TypedDict):
    """[key, state] of what was settled, [key, holder] of what is still being written, and keys that were freed."""

    dataset: str
    settled: list[list[str]]
    open: list[list[str]]
    released: list[str]


class RestoredAnswer(TypedDict):
    """By key, what the target holds that the ledger doesn't know."""

    dataset: str
    unknown: dict[str, str]


class DriftAnswer(TypedDict):
    """By key, how the target differs from what was published, and how many rows nobody of ours published.

    keyless: rows of the table that belong to no key, with an example.
    """

    dataset: str
    checked: int
    drift: dict[str, str]
    unknown: dict[str, int]
    keyless: int
    example: str | None


class FindingAnswer(TypedDict):
    """Something that `check` found, and what cures it."""

    refuses: bool
    what: str
    cure: str


Action = Literal["change", "unchanged", "skipped", "refused", "not known"]


class PlannedKey(TypedDict):
    """What a write would do with one key, by what is there and what would come; `not known` where nothing makes rows.

    reason: of a change `new` or `moved`, of a skip `sealed` or `claimed_by:…`, of a refusal its sentence.
    """

    key: str
    action: Action
    reason: str
    before: Figures | None
    after: Figures | None


class DatasetPlan(TypedDict):
    """A write, told beforehand."""

    dataset: str
    asked: int
    change: int
    unchanged: int
    skipped: int
    refused: int
    unknown: int
    partitions: list[PlannedKey]


class KeyStatus(TypedDict):
    """What the ledger says of one key. Times are UTC; `published_at` is the target's clock."""

    key: str
    figures: Figures | None
    published_at: str | None
    owner: str | None
    run: str | None
    reason: str | None
    sealed: bool
    seals: int
    corrections: int
    claimed_by: list[str]
    open: list[str]
    failure: str | None
    failed_at: str | None
    checked_at: str | None
    drift: str | None


class DatasetStatus(TypedDict):
    """The keys asked for."""

    dataset: str
    partitions: list[KeyStatus]


class HistoryLine(TypedDict):
    """One thing that happened to a key. `seconds` from the intent to its confirmation."""

    key: str
    what: str
    token: str | None
    number: int
    owner: str
    run: str
    task: str
    reason: str
    published_at: str | None
    at: str
    seconds: float | None
    before: Figures | None
    after: Figures | None
    said: str | None


class DatasetStatementLine(TypedDict):
    """One key: what was sent or published, and what is right by the last correction; `reason` is that correction's."""

    key: str
    sealed: bool
    published_at: str | None
    published: Figures
    corrections: int
    corrected: Figures
    reason: str | None


class DatasetStatement(TypedDict):
    """What we said and what is right; or what readers saw at a moment."""

    dataset: str
    as_of: str | None
    partitions: list[DatasetStatementLine]


class LateKey(TypedDict):
    """A sealed key whose source has moved on since what was sent or last corrected (`known`)."""

    key: str
    known: Figures | None
    now: Figures | None


class DatasetLate(TypedDict):
    """The sealed keys that are late, and how many were looked at."""

    dataset: str
    checked: int
    late: list[LateKey]
