"""Where a dataset's partitions are: what every target can do, and what it tells.

A target keeps, with the data, one side row a key. All that the protocol needs of a database is here; it is small on
purpose, so that a third party can write a target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backfill_core.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol


WAIT_SECONDS = 30
"""How long a short transaction of a target waits for others, where nothing else is said."""
IDLE_SECONDS = 60
"""After how long a server takes a publishing transaction back whose client is not heard of.

Waits for the ledger between audit and publish must be shorter.
"""


class Side(NamedTuple):
    """A key's side row in the target.

    token: of what the partition holds, None where nothing of ours was published.
    fence: the lowest attempt number that may still publish.
    mark: of the seal, None where it is not sealed.
    ledger: the id of the ledger that the key was last written under.
    published_at: when readers got what it holds, by the target's clock; never going back for a key. None without token.
    """

    token: str | None
    fence: int
    mark: str | None
    ledger: str | None
    published_at: str | None


class Measured(NamedTuple):
    """What a partition holds, or would hold.

    rows: their number.
    measures: by name, exact, as text that is the same for the same value (`12`, `12.50`); None for a sum of nothing.
    digest: `<what it is of>:<value>`: the engine, its version and the columns, and after the last colon number and sum
        of the rows' hashes. Two of them are comparable where the part before is the same. None without.
    """

    rows: int
    measures: Mapping[str, str | None]
    digest: str | None


class Audited(NamedTuple):
    """What is to be published, as it was measured, and what stands in its way.

    partitions: by key; a key that nothing came for holds 0 rows.
    strange: the number of rows of other keys than the write's, and an example; likewise of rows without a key.
    repeated: the number of repeats of `unique`, and an example.
    before: by key, what the target holds now, measured by the same statement's rules.
    """

    partitions: Mapping[str, Measured]
    before: Mapping[str, Measured]
    strange: tuple[int, str]
    keyless: tuple[int, str]
    repeated: tuple[int, str]


class Expected(NamedTuple):
    """What must be true of a key at a commit: compared with the side row in the statement that changes it.

    number: the attempt's; no fence may be above it. The fence becomes that number.
    token, mark: those that the side row must have now.
    """

    number: int
    token: str | None
    mark: str | None = None


class Fence(NamedTuple):
    """A fence to raise, and whom it stops: for a target whose side row can't tell alone what became of an attempt.

    number: the lowest attempt number that may still publish. token, measured: of an open intent below it, if any.
    """

    number: int
    token: str | None = None
    measured: Measured | None = None


class Finding(NamedTuple):
    """Something that `check` found: what, and what cures it. `refuses` is false for what is only said."""

    refuses: bool
    what: str
    cure: str


class Defaults:
    """What a target may inherit in place of writing it: nothing to check, no queries, nothing to let go."""

    def check(self) -> Sequence[Finding]:
        """Find nothing."""
        return ()

    def ask(self, select: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:  # noqa: ARG002
        """Refuse a query.

        Raises:
            TargetError: always.
        """
        raise TargetError("this target runs no queries that only read; name a function as the fingerprint")

    def close(self) -> None:
        """Let nothing go."""


if TYPE_CHECKING:

    class Write(Protocol):
        """One write of a set of keys, from its first statement to its commit; nothing is seen before that."""

        staging: str
        """The name of the table to fill, for who fills it by hand."""

        def fill(self, select: str) -> None:
            """Add the rows of a query, which is run once for each gapless span of the keys. It may be called again.

            `:start`, `:end` (of the span) and `:key` (where there is one) have the key column's kind, and are bound by
            the driver. The rows may come no sooner than `audit`.
            """

        def audit(self, *, digest: bool) -> Audited:
            """Measure what is to be published, and what it takes the place of; with digests if asked to."""

        def publish(self, expected: Mapping[str, Expected], token: str, ledger: str) -> Mapping[str, str]:
            """Put the rows in the place of those that the partitions have: one commit; return `published_at` by key.

            expected: by key. A key of the write that is not here is a quiet one: it stays as it is, with its token.
            ledger: its id, which the side rows must have; they were made when the attempt's own fence was raised.

            Raises:
                FencedError: a fence, a token, a mark or another ledger stands in the way; nothing happened.
                ChangedError: what goes or what came in is not what was audited; nothing happened.
                OutcomeUnknownError: there was no answer to the commit. Every other TargetError says that nothing
                    happened. What was staged stays while the outcome is unknown.
            """

    class Target(Protocol):
        """The table of a dataset, and its side rows. Each call is one transaction of its own, but for `writing`.

        Wherever a ledger's id is given, nothing happens at a key that was last written under another; it is set where
        there is none. A call that gets no answer to its commit raises OutcomeUnknownError. `wait` says for how many
        seconds to wait for a publication that is just under way; FenceTimeoutError: it still was.
        """

        def check(self) -> Sequence[Finding]:
            """Look the table over; say by name what can't be guarded, or what should be known."""

        def look(self, keys: Sequence[str]) -> Mapping[str, Side]:
            """Return the side rows that there are."""

        def fence(
            self, fences: Mapping[str, Fence], ledger: str, wait: float, *, former: frozenset[str] = frozenset()
        ) -> Mapping[str, Side]:
            """Raise each key's fence, never lower it; make the side row where there is none; return all of them.

            A fence that is above the number already is no error here. The token of a returned side row is what the
            partition holds: it can't become that of an attempt below the fence any more.

            former: ids that the ledger had before; a side row with one of these gets the new one.

            Raises:
                FencedError: a key was last written under another ledger; no fence was raised.
            """

        def mark(self, mark: str | None, expected: Mapping[str, Expected], ledger: str, wait: float) -> frozenset[str]:
            """Set the seal's mark, or take it away, at each key that is as expected; return these keys.

            A key that has the mark already, with the expected token and under no higher fence, counts as done.
            """

        def measure(self, keys: Sequence[str], *, digest: bool) -> Mapping[str, Measured]:
            """Measure what the partitions hold: a scan of them. A key that has no rows is there with 0."""

        def adopt(
            self,
            token: str,
            expected: Mapping[str, Expected],
            measured: Mapping[str, Measured],
            ledger: str,
            *,
            former: frozenset[str] = frozenset(),
        ) -> Mapping[str, str]:
            """Put a token beside what the partitions hold, all of them or none; return the target's clock by key.

            Raises:
                FencedError: as `publish`.
                ChangedError: in this very transaction the rows don't measure the same any more.
            """

        def ask(self, select: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
            """Run a query that only reads, once for each gapless span of the keys, as `fill` would; return its rows."""

        def keyless(self) -> tuple[int, str]:
            """Count the rows of the table that belong to no key, with an example."""

        def writing(self, keys: Sequence[str], token: str, *, staged: bool) -> AbstractContextManager[Write]:
            """Begin a write; what it staged goes with the block, and is never what stops another writer.

            staged: true if the caller fills the table `staging` itself.

            Raises:
                HeldError: another publication of one of the keys is just under way (its transaction is open).
            """

        def sweep(self, tokens: Sequence[str]) -> None:
            """Drop what attempts that were settled or overtaken left staged. Nothing depends on it."""

        def close(self) -> None:
            """Let the database go."""
