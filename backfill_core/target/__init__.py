"""Where a dataset's partitions are: what every target can do, and what it tells.

A target keeps, with the data, one side row a key. All that the protocol needs of a database is here; it is small on
purpose, so that a third party can write a target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol


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
    digest: `<what it is of>:<value>`: before the last colon the engine, its version and the columns, after it the number
        and the sum of the rows' hashes. Two of them are comparable where the part before is the same. None without.
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


class Finding(NamedTuple):
    """Something that `check` found: what, and what cures it. `refuses` is false for what is only said."""

    refuses: bool
    what: str
    cure: str


if TYPE_CHECKING:

    class Write(Protocol):
        """One write of a set of keys, from its first statement to its commit; nothing is seen before that."""

        staging: str
        """The name of the table to fill, for who fills it by hand."""

        def fill(self, select: str, parameters: Mapping[str, Any]) -> None:
            """Put the rows of a query there. `:start`, `:end` and `:key` are bound by the driver."""

        def audit(self) -> Audited:
            """Measure what is to be published, and what it takes the place of."""

        def publish(
            self, attempts: Mapping[str, int], expected: Mapping[str, str | None], token: str, ledger: str
        ) -> Mapping[str, str]:
            """Put the rows in the place of those that the partitions have: one commit; return `published_at` by key.

            attempts: each key's number; it publishes only if no fence is above it. A key of the write that is not here
                is a quiet one: it stays as it is, with its token.
            expected: each key's token as it must be now; the side row's mark must be none.
            ledger: its id; the side row must have that one, or none yet. It is set with the token.

            Raises:
                FencedError: a fence, a token, a mark or another ledger stands in the way; nothing happened.
                ChangedError: what goes or what came in is not what was audited; nothing happened.
                OutcomeUnknownError: there was no answer to the commit. Every other error means that nothing happened.
            """

    class Target(Protocol):
        """The table of a dataset, and its side rows. Each call is one transaction of its own, but for `writing`.

        Wherever numbers are given, nothing happens at a key whose fence is above its number, and its fence becomes that
        number. Wherever a ledger's id is given, nothing happens at a key that was last written under another.
        A call that gets no answer to its commit raises OutcomeUnknownError.
        """

        def check(self) -> Sequence[Finding]:
            """Look the table over; say by name what can't be guarded, or what should be known."""

        def look(self, keys: Sequence[str]) -> Mapping[str, Side]:
            """Return the side rows that there are."""

        def fence(
            self, numbers: Mapping[str, int], ledger: str, wait: float, *, former: frozenset[str] = frozenset()
        ) -> Mapping[str, Side]:
            """Raise each key's fence to its number, never lower it; make the side row where there is none; look.

            A fence that is above the number already is no error here: it does what it is for.

            wait: for how many seconds to wait for a publication that is just under way.
            former: ids that the ledger had before; a side row with one of these gets the new one.

            Raises:
                FenceTimeoutError: it still was.
                FencedError: a key was last written under another ledger; no fence was raised.
            """

        def mark(
            self, mark: str | None, numbers: Mapping[str, int], tokens: Mapping[str, str], was: str | None, ledger: str
        ) -> frozenset[str]:
            """Set the seal's mark, or take it away, at each key whose token and mark are those; return these keys.

            was: the mark that must be there now, None where it is set.
            """

        def measure(self, keys: Sequence[str]) -> Mapping[str, Measured]:
            """Measure what the partitions hold: a scan of them. A key that has no rows is there with 0."""

        def adopt(
            self,
            token: str,
            numbers: Mapping[str, int],
            was: Mapping[str, str | None],
            ledger: str,
            *,
            former: frozenset[str] = frozenset(),
        ) -> Mapping[str, str]:
            """Put a token beside what a partition holds, at each key whose token is that in `was` and has no mark.

            Return the target's clock as `published_at`, for the keys where it was done.
            """

        def keyless(self) -> tuple[int, str]:
            """Count the rows of the table that belong to no key, with an example."""

        def writing(self, keys: Sequence[str], token: str, *, staged: bool) -> AbstractContextManager[Write]:
            """Begin a write; what it staged goes with the block, and is never what stops another writer.

            staged: true if the caller fills the table `staging` itself.

            Raises:
                HeldError: another publication of one of the keys is just under way (its transaction is open).
            """

        def close(self) -> None:
            """Let the database go."""
