"""The ledger: who holds what, what is sealed, what was published when, by whom and why; of many datasets.

Its rules are in `backfill_core.protocol`. A ledger locks the rows of some keys, shows them as a `Page`, and keeps what
was written on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Protocol, TypeVar

    from backfill_core.claims import Caller, Claim
    from backfill_core.ledger.page import Page
    from backfill_core.target import Measured

    T = TypeVar("T")

OPEN, CONFIRMED, WITHDRAWN = "open", "confirmed", "withdrawn"
PUBLISH, ADOPT, SEAL, UNSEAL = "publish", "adopt", "seal", "unseal"
REFUSED, AMEND = "refused", "amend"
CLAIM, RELEASE = "claim", "release"


class KeyRow(NamedTuple):
    """What the ledger says of one key now. All of it is changed by confirmed intents, but for `number` and failures.

    number: the highest attempt number that was given.
    token, measured, fingerprint: of what is published; `version` is that of the dataset's definition then.
    published_at: when readers got it, by the target's clock; confirmed_at: when the ledger noted it, by the ledger's.
    owner, run, reason: who published it, in which run, and why.
    seal: the version of the seal that is on it, 0 for none; `seals` were made so far. mark: the seal's in the target.
    failure, failed_at: the last refusal or fault since the last publication.
    checked_at, drift: when the target was last compared, and what differed; None for nothing.
    compared_at, late: when a sealed key's source was last compared with what was said, and what differed.
    """

    key: str
    number: int = 0
    token: str | None = None
    measured: Measured | None = None
    fingerprint: str | None = None
    version: int = 0
    published_at: str | None = None
    confirmed_at: str | None = None
    owner: str | None = None
    run: str | None = None
    reason: str | None = None
    seal: int = 0
    seals: int = 0
    mark: str | None = None
    failure: str | None = None
    failed_at: str | None = None
    checked_at: str | None = None
    drift: str | None = None
    compared_at: str | None = None
    late: str | None = None


class Glance(NamedTuple):
    """The little of a key's row that a calendar shows, of all keys at once. measured: rows and measures."""

    key: str
    is_published: bool
    measured: Mapping[str, str | int | None]
    published_at: str | None
    owner: str | None
    run: str | None
    seal: int
    has_failed: bool
    has_drifted: bool
    is_late: bool


class Intent(NamedTuple):
    """What an attempt is about to do to one key in the target, noted before; never overwritten, never deleted.

    token: of what it publishes; for a seal its mark. A set of keys shares it.
    kind: PUBLISH, ADOPT, SEAL or UNSEAL; state: OPEN, CONFIRMED or WITHDRAWN.
    owner, run, task, map_index, try_number: whose it is. Its claim has the token for an id.
    before: the token that is published, which must be there still.
    measured, fingerprint: what is published; replaced: what the target held before.
    drift: what the target held instead of what was published, in words, where that is overwritten.
    """

    token: str
    key: str
    number: int
    kind: str
    state: str
    owner: str
    run: str
    task: str
    map_index: int
    try_number: int
    reason: str
    before: str | None
    measured: Measured | None
    fingerprint: str | None
    replaced: Measured | None
    drift: str | None
    version: int
    noted_at: str

    @property
    def holder(self) -> str:
        """Say whose it is: the owner, and the run and task that came in that name."""
        return ", ".join(filter(None, (self.owner, self.run if self.run != self.owner else "", self.task)))


class Entry(NamedTuple):
    """One line of a key's history: an intent that was confirmed, a refusal, or a correction. Lines are only ever added.

    what: PUBLISH, ADOPT, SEAL, UNSEAL, REFUSED or AMEND; `number`, `token`, `owner`, … are the intent's.
        Or CLAIM or RELEASE, where a person said why.
    published_at: when readers got it, by the target's clock; at: when it was noted, by the ledger's.
    seconds: from the intent to its confirmation.
    measured, replaced: what was published, and what was there before; of a correction, what is right and what was sent.
    said: a refusal's sentence; or what was overwritten, where that was not what was published.
    """

    key: str
    what: str
    number: int
    token: str | None
    before: str | None
    owner: str
    run: str
    task: str
    reason: str
    published_at: str | None
    at: str
    seconds: float | None
    measured: Measured | None
    replaced: Measured | None
    said: str | None
    version: int


class SealRow(NamedTuple):
    """One version of a key's seal: what was sent. It stays when the seal is taken away."""

    key: str
    version: int
    mark: str
    token: str
    measured: Measured | None
    sealed_at: str
    sealed_by: str
    reason: str
    unsealed_at: str | None = None
    unsealed_by: str | None = None
    unsealed_why: str | None = None


class Unsealed(NamedTuple):
    """When, by whom and why a version of a key's seal was taken away."""

    key: str
    version: int
    unsealed_at: str
    unsealed_by: str
    unsealed_why: str


class Correction(NamedTuple):
    """What is right now of a sealed key, beside what was sent; a key's corrections are only ever added to."""

    key: str
    seal: int
    before: Measured
    after: Measured
    reason: str
    owner: str
    at: str


class Counts(NamedTuple):
    """A dataset at a glance.

    newest, oldest: the last and the first key that is published; sealed_up_to: the last that is sealed.
    latest_at, latest_by: the last time that any was published, and by whom.
    checked_at: the last time that any key was compared with its target or its source.
    """

    dataset: str
    keys: int
    published: int
    held: int
    sealed: int
    failed: int
    drifted: int
    late: int
    newest: str | None
    latest_at: str | None
    latest_by: str | None
    checked_at: str | None
    oldest: str | None
    sealed_up_to: str | None


if TYPE_CHECKING:

    class Ledger(Protocol):
        """An open ledger. Each call is one transaction; none is left open.

        Raises, from every call:
            StoreError: it failed; nothing was kept.
            AnswerLostError: there was no answer to the commit; what was written may be kept or not.
        """

        def change(
            self,
            dataset: str,
            keys: Sequence[str],
            step: Callable[[Page], T],
            *,
            token: str = "",
            caller: Caller | None = None,
        ) -> T:
            """Lock the keys' rows, made where missing, in key order; keep what `step` writes on their page.

            The page shows the keys' rows, claims and open intents. When `step` raises, nothing is kept. It may do
            nothing else: neither ask the target, nor wait.

            token: show all intents of it, too.
            caller: show the claims of its task on other keys, too, and the latest try of it at each key.
            """

        def define(self, dataset: str, fixed: Mapping[str, Any], measures: Mapping[str, Any]) -> int:
            """Keep a dataset's definition; return its version: a new one where the measures are others than the last.

            Raises:
                UsageError: what is fixed is not as it was.
            """

        def renew(self) -> str:
            """Give the ledger a new id, after it came from a backup; return it. The former ones are kept."""

        def rows(self, dataset: str, first: str = "", last: str = "") -> Sequence[KeyRow]:
            """Return the rows of the keys from `first` to `last`, inclusive, in key order; of all without these."""

        def claims(self, dataset: str, first: str = "", last: str = "") -> Sequence[Claim]:
            """Return the claims on the keys."""

        def intents(self, dataset: str, first: str = "", last: str = "") -> Sequence[Intent]:
            """Return the open intents of the keys."""

        def find(self, dataset: str, token: str) -> Sequence[Intent]:
            """Return the intents of a token, open or not."""

        def history(self, dataset: str, first: str = "", last: str = "") -> Sequence[Entry]:
            """Return the history of the keys, each key's oldest line first."""

        def as_of(self, dataset: str, moment: str, first: str = "", last: str = "") -> Sequence[Entry]:
            """Return of each key the line of what readers saw at a moment, by the target's clock."""

        def seals(self, dataset: str, first: str = "", last: str = "") -> Sequence[SealRow]:
            """Return the versions of the keys' seals, each key's oldest first."""

        def corrections(self, dataset: str, first: str = "", last: str = "") -> Sequence[Correction]:
            """Return the keys' corrections, each key's oldest first."""

        def counts(self) -> Sequence[Counts]:
            """Return every dataset at a glance, by name."""

        def forget(self, dataset: str, before: str) -> int:
            """Drop the history from before a moment, but each key's last publication and no token; count the lines."""

        def close(self) -> None:
            """Let the database go."""

        def __enter__(self) -> Ledger: ...

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None: ...
