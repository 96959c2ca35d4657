"""A guarded dataset: all that can be done with it, for Airflow, the command line and Python.

with open_ledger(db) as ledger:
    orders = Guarded(orders_daily, ledger, orders_daily.target())
    orders.write(["2026-02-01"], lambda partition: partition.fill(select), Caller(run, person="me"))
"""

from __future__ import annotations

import os
import secrets
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, cast

from backfill_core import dataset_review
from backfill_core.claims import ATTEMPT, Caller
from backfill_core.errors import BackfillError, HeldError, NotSealedError, SealedError, UsageError
from backfill_core.keys import window
from backfill_core.ledger import KeyRow
from backfill_core.partition import check_text
from backfill_core.protocol import Place, comparing, judging, reserving, sealing, settling, taking, writing
from backfill_core.protocol.judging import Wish as Wish
from backfill_core.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from backfill_core import answers
    from backfill_core.claims import Claim
    from backfill_core.dataset import Dataset
    from backfill_core.keys import KeyColumn
    from backfill_core.ledger import Ledger
    from backfill_core.target import Audited, Target, Write

WAIT_SECONDS = 20.0
"""How long a fence waits for a publication that is just under way."""


WHEN_HELD = "wait until it is given back, or, if its holder has died, `settle` it, or `release` a reservation"
"""What to do about keys that others hold."""


def new_id() -> str:
    """Return 128 random bits: a token, a mark or a claim's id."""
    return secrets.token_hex(16)


def nobody_is_stale(_: Claim) -> bool:
    """Say that no run has ended: without Airflow only a person can tell."""
    return False


def _said(reason: str | None) -> str:
    """Return a reason that may be left out, as text that every database can keep."""
    return check_text("reason", reason) if reason else ""


class Partition:
    """The partitions of one write, while they are made.

    keys: in order, without those that are left out; token: of the write.
    staging: the table to fill by hand.
    """

    def __init__(self, dataset: Dataset, keys: Sequence[str], token: str, write: Write) -> None:
        self.keys = list(keys)
        self.token = token
        self._dataset = dataset
        self._write = write

    @property
    def staging(self) -> str:
        """The name of the table to fill by hand."""
        return self._write.staging

    @property
    def start(self) -> datetime:
        """The first instant of the first key, which is a day."""
        return self.spans[0][0]

    @property
    def end(self) -> datetime:
        """The first instant after the last key, which is a day."""
        return self.spans[-1][1]

    @property
    def spans(self) -> list[tuple[datetime, datetime]]:
        """The gapless spans of the keys, `[start, end)` each: one, unless a day between was left out.

        Raises:
            UsageError: the keys are no days.
        """
        column, zone = self._dataset.column, self._dataset.timezone
        if not column.has_days:
            raise UsageError(f"{self._dataset.name}: its keys are no days, so nothing starts or ends; use .keys")
        return [(window(span[0], zone)[0], window(span[-1], zone)[1]) for span in column.spans(self.keys)]

    def fill(self, select: str) -> None:
        """Add the rows of a query; `:start`, `:end` and `:key` are bound by the driver."""
        self._write.fill(select)

    @property
    def write(self) -> Write:
        """The target's own write, for what only that target can do."""
        return self._write


class Guarded:
    """A dataset with its ledger and its target; ranges of keys are inclusive.

    stale: says whether the run or try of a claim has ended; by default nobody's has.
    new_id: makes ids.

    Raises, from every operation:
        UsageError: a key, owner or reason that can't be.
        RefusedError: something stands in the way; nothing changed.
        StoreError: the ledger failed; TargetError: the target failed.
    """

    def __init__(
        self,
        dataset: Dataset,
        ledger: Ledger,
        target: Target,
        *,
        stale: Callable[[Claim], bool] = nobody_is_stale,
        new_id: Callable[[], str] = new_id,
        wait: float = WAIT_SECONDS,
    ) -> None:
        definition = dict(dataset.definition())
        fixed = {word: definition.pop(word) for word in ("key", "timezone", "grain")}
        version = ledger.define(dataset.name, fixed, definition)
        self._place = Place(dataset, version, ledger, target, new_id, stale, wait)
        self.dataset = dataset
        self.ledger = ledger
        self.target = target

    # writing

    def write(
        self,
        keys: Iterable[str],
        fill: Callable[[Partition], object],
        caller: Caller,
        reason: str = "",
        wish: Wish = Wish(),  # noqa: B008  it can't be changed
        *,
        staged: bool = False,
        fingerprints: Mapping[str, str] | None = None,
    ) -> answers.WriteAnswer:
        """Replace partitions by what `fill` makes: all of the keys that may be written, or none.

        Sealed keys, and keys that somebody else holds, are left out and said; so are those whose fingerprint is the
        one that was published, as their source hasn't changed.

        fingerprints: by key, a text that changes when the key's source does.
        """
        keys = self._keys(keys)
        unchanged = self.unchanged(fingerprints) if fingerprints and not wish.always else []
        asked = [key for key in keys if key not in unchanged]
        attempt = taking.take(self._place, asked, _of_a_run(caller), _said(reason)) if asked else None
        if attempt is None or not attempt.numbers:
            return self._written(unchanged, None if attempt is None else writing.Writing(attempt))
        with writing.publishing(self._place, attempt, wish, staged=staged, fingerprints=fingerprints) as done:
            assert done.write is not None  # noqa: S101  for the type checker
            fill(Partition(self.dataset, attempt.keys, attempt.token, done.write))
        return self._written(unchanged, done)

    @contextmanager
    def replacing(
        self,
        keys: Iterable[str],
        caller: Caller,
        reason: str = "",
        wish: Wish = Wish(),  # noqa: B008  it can't be changed
        *,
        staged: bool = True,
    ) -> Iterator[Partition]:
        """Replace partitions by what the block puts into `partition.staging`, when it ends; leave them if it raises.

        Raises:
            SealedError, HeldError: a key is sealed, or somebody else holds it; the block was not run.
        """
        attempt = taking.take(self._place, self._keys(keys), _of_a_run(caller), _said(reason))
        if attempt.left_out:
            taking.give_back(self._place, attempt.token, attempt.keys)
            key, why = attempt.left_out[0]
            if why == "sealed":
                raise SealedError(f"{self.dataset.name}: {key} is sealed; correct it with `amend`, or `unseal` it")
            held = why.replace("claimed_by:", "held by ")
            raise HeldError(f"{self.dataset.name}: {key} is {held}; {WHEN_HELD}")
        with writing.publishing(self._place, attempt, wish, staged=staged) as done:
            assert done.write is not None  # noqa: S101  for the type checker
            yield Partition(self.dataset, attempt.keys, attempt.token, done.write)

    def adopt(self, keys: Iterable[str], caller: Caller, reason: str) -> answers.WriteAnswer:
        """Take partitions on as they are: measured, and entered as published."""
        keys = self._keys(keys)
        return self._written([], writing.adopt(self._place, keys, _of_a_run(caller), check_text("reason", reason)))

    def fingerprints(self, query: str, keys: Iterable[str]) -> dict[str, str]:
        """Return what a query of the table's database says of each key's source: what changes when its rows would.

        query: its first column is the key, the others are what may change; `:start`, `:end` and `:key` are bound as in
            a select. A key that has no row has an empty fingerprint.

        Raises:
            UsageError: the first column holds something that is no key.
        """
        keys, column = self._keys(keys), self.dataset.column
        found: dict[str, list[str]] = {key: [] for key in keys}
        for first, *others in self.target.ask(query, keys):
            key = column.parse(str(first))
            if key in found:
                found[key].append(", ".join(map(str, others)))
        return {key: "; ".join(sorted(rows)) for key, rows in found.items()}

    def unchanged(self, fingerprints: Mapping[str, str]) -> list[str]:
        """Return the keys whose source, and whose definition, is as it was when they were published."""
        rows = self._rows(fingerprints)
        return [
            key
            for key, row in rows.items()
            if row.token and row.version == self._place.version and row.fingerprint == fingerprints[key]
        ]

    def _written(self, unchanged: Sequence[str], done: writing.Writing | None) -> answers.WriteAnswer:
        published = done.published if done else {}
        audited = done.audited if done else None
        rows = self._rows(published)
        return {
            "dataset": self.dataset.name,
            "token": done.attempt.token if done else None,
            "published": [
                {
                    "key": key,
                    "published_at": at,
                    "before": dataset_review.figures(audited.before[key]) if audited else None,
                    "after": dataset_review.figures(audited.partitions[key] if audited else rows[key].measured),
                }
                for key, at in sorted(published.items())
            ],
            "quiet": sorted(done.quiet) if done else [],
            "unchanged": sorted(unchanged),
            "skipped": [list(pair) for pair in done.attempt.left_out] if done else [],
        }

    # claims

    def claim(
        self, keys: Iterable[str], caller: Caller, reason: str = "", *, whole: bool = False
    ) -> answers.ReserveAnswer:
        """Reserve the keys that nobody else holds, under one id; with `whole` all of them, or none.

        With a reason the history has it, too.
        """
        made = reserving.reserve(
            self.ledger, self.dataset.name, self._place.new_id(), self._keys(keys), caller, reason, whole=whole
        )
        return {
            "dataset": self.dataset.name,
            "claim": made.claim,
            "claimed": made.keys,
            "denied": [list(pair) for pair in made.denied],
        }

    def release(
        self, keys: Iterable[str] | None = None, *, claim: str | None = None, owner: str | None = None
    ) -> answers.FreedAnswer:
        """Give claims back: the one of an id, or those of an owner; at the keys, or wherever they are."""
        if (claim is None) == (owner is None):
            raise UsageError("release takes either a claim's id or an owner")
        wanted = None if keys is None else set(self._keys(keys))
        found = [
            one
            for one in self.ledger.claims(self.dataset.name)
            if (one.id == claim or one.owner == owner) and (wanted is None or one.key in wanted)
        ]
        if attempts := sorted({one.id for one in found if one.kind == ATTEMPT}):
            with suppress(BackfillError):  # before the claim goes, by which the tables would be found
                self.target.sweep(attempts)
        ids = {one.id for one in found}
        freed = reserving.release(self.ledger, self.dataset.name, {one.key for one in found}, ids) if found else []
        return {"dataset": self.dataset.name, "released": freed}

    # seals

    def seal(self, keys: Iterable[str], caller: Caller, reason: str = "") -> answers.SealedAnswer:
        """Declare partitions as sent: nothing of ours changes them any more. Sealing again is success."""
        keys = self._keys(keys)
        return {
            "dataset": self.dataset.name,
            "sealed": keys,
            "new": sealing.seal(self._place, keys, caller, _said(reason)),
        }

    def unseal(self, keys: Iterable[str], caller: Caller, reason: str) -> answers.UnsealedAnswer:
        """Take the seal away; what was sent stays in the ledger as a version of the seal."""
        check_text("reason", reason)
        return {
            "dataset": self.dataset.name,
            "unsealed": sealing.unseal(self._place, self._keys(keys), caller, reason),
        }

    def amend(
        self,
        key: str,
        fill: Callable[[Partition], object],
        caller: Caller,
        reason: str,
        wish: Wish = Wish(),  # noqa: B008  it can't be changed
        *,
        staged: bool = False,
    ) -> answers.CorrectionAnswer:
        """Measure a sealed partition's source again and write the result down beside what was sent, which stays.

        Raises:
            NotSealedError: it is not sealed: write it again instead.
            AuditError, LimitError: what a write would be refused for; limits are held against what was last said.
        """
        [key] = self._keys([key])
        check_text("reason", reason)
        row = self._rows([key])[key]
        if not row.seal:
            raise NotSealedError(
                f"{self.dataset.name}: {key} is not sealed, so there is nothing to correct; write it again"
            )
        audited = self._audit([key], fill, staged=staged)
        said = dataset_review.last_said(row, self.ledger.corrections(self.dataset.name, key, key))
        if refusal := judging.judge_correction(self.dataset, said, audited, wish):
            raise refusal
        made = sealing.amend(self._place, key, audited.partitions[key], row.seal, caller, reason)
        return {
            "dataset": self.dataset.name,
            "key": key,
            "seal": made.seal,
            "before": dataset_review.figures(made.before),
            "after": dataset_review.figures(made.after),
            "reason": reason,
            "at": made.at,
        }

    def _audit(self, keys: list[str], fill: Callable[[Partition], object], *, staged: bool) -> Audited:
        """Measure what a write would publish, and publish nothing."""
        token = self._place.new_id()
        with self.target.writing(keys, token, staged=staged) as write:
            fill(Partition(self.dataset, keys, token, write))
            return write.audit(digest=self.dataset.digest == "always")

    # what became of it

    def settle(self, keys: Iterable[str] | None = None, *, force: bool = False) -> answers.SettleAnswer:
        """Find out what became of attempts that left something open: fence, look, confirm or withdraw.

        Only where their claim is gone, or their run has ended; or, with `force`, as a person says so.
        """
        wanted = None if keys is None else set(self._keys(keys))
        found = settling.settle_dead(self._place, wanted, force=force)
        return {
            "dataset": self.dataset.name,
            "settled": [list(pair) for pair in found.settled],
            "open": [list(pair) for pair in found.open],
            "released": found.released,
        }

    def restored(self, keys: Iterable[str] | None = None) -> answers.RestoredAnswer:
        """Look at keys, or at all that the ledger knows, after it was put back from a backup.

        `ledger.renew()` says that it was, once for all datasets; from then on nothing is written at a key until this
        looked at it. What it finds unknown stays stopped until it is adopted, or sealed anew.
        """
        known = [row.key for row in self.ledger.rows(self.dataset.name)] if keys is None else self._keys(keys)
        return {"dataset": self.dataset.name, "unknown": comparing.look_after_restore(self._place, known)}

    def drift(self, keys: Iterable[str] | None = None) -> answers.DriftAnswer:
        """Measure what the target holds, and tell where it isn't what was published: a scan."""
        names = [row.key for row in self.ledger.rows(self.dataset.name)] if keys is None else self._keys(keys)
        found = comparing.find_drift(self._place, names)
        count, example = self.target.keyless()
        return {
            "dataset": self.dataset.name,
            "checked": len(names),
            "drift": dict(found.differ),
            "unknown": dict(found.unknown),
            "keyless": count,
            "example": example or None,
        }

    def check(self) -> list[answers.FindingAnswer]:
        """Look the table over: what can't be guarded, and what should be known."""
        return [{"refuses": one.refuses, "what": one.what, "cure": one.cure} for one in self.target.check()]

    # reading only

    def plan(
        self,
        keys: Iterable[str],
        caller: Caller,
        fill: Callable[[Partition], object] | None = None,
        wish: Wish = Wish(),  # noqa: B008  it can't be changed
        *,
        fingerprints: Mapping[str, str] | None = None,
        staged: bool = False,
    ) -> answers.DatasetPlan:
        """Tell what a write would do, key by key, and publish nothing; `not known` where nothing makes the rows."""
        rows = self._rows(self._keys(keys))
        left_out = reserving.kept_out(self._place, rows, _of_a_run(caller))
        unchanged = self.unchanged(fingerprints) if fingerprints and not wish.always else []
        asked = [key for key in rows if key not in left_out and key not in unchanged]
        audited = self._audit(asked, fill, staged=staged) if fill and asked else None
        return dataset_review.plan(self.dataset, self._place.version, rows, left_out, unchanged, audited, wish)

    # From `first` to `last`, or of all that the ledger knows; or of the named `keys` alone.

    def status(self, first: str = "", last: str = "", *, keys: Iterable[str] | None = None) -> answers.DatasetStatus:
        """Tell what the ledger says of the keys."""
        return dataset_review.status(self._read(keys), self.dataset.name, first, last)

    def look(self, first: str = "", last: str = "", *, keys: Iterable[str] | None = None) -> list[dataset_review.Seen]:
        """Return what the ledger says of the keys, each with the state that it is in."""
        return dataset_review.look(self._read(keys), self.dataset.name, first, last)

    def history(
        self, first: str = "", last: str = "", *, keys: Iterable[str] | None = None
    ) -> list[answers.HistoryLine]:
        """Tell what was published, adopted, sealed, corrected and refused, by whom and why, each key's oldest first."""
        return dataset_review.history(self._read(keys), self.dataset.name, first, last)

    def statement(
        self, first: str = "", last: str = "", as_of: str | None = None, *, keys: Iterable[str] | None = None
    ) -> answers.DatasetStatement:
        """Tell what was sent and what is right now; or what readers saw at a moment, by the target's clock."""
        return dataset_review.statement(self._read(keys), self.dataset.name, first, last, as_of)

    def late(
        self,
        fill: Callable[[Partition], object],
        first: str = "",
        last: str = "",
        *,
        keys: Iterable[str] | None = None,
        staged: bool = False,
    ) -> answers.DatasetLate:
        """Find the sealed keys whose source doesn't agree any more with what was sent or last corrected.

        When that was done, and what differed, is kept, as by `drift`.
        """
        rows = [row for row in self._read(keys).rows(self.dataset.name, first, last) if row.seal]
        answer = dataset_review.late(
            self.ledger, self.dataset, rows, lambda keys: self._audit(keys, fill, staged=staged).partitions
        )
        comparing.note_late(self._place, rows, {one["key"]: dataset_review.moved(one) for one in answer["late"]})
        return answer

    # keys

    def _keys(self, keys: Iterable[str]) -> list[str]:
        column = self.dataset.column
        made = sorted({self._parsed(column, key) for key in keys})
        if not made:
            raise UsageError(f"{self.dataset.name}: no key was named")
        return made

    def _parsed(self, column: KeyColumn, key: str) -> str:
        try:
            return column.parse(key)
        except UsageError as error:
            raise error if column.has_days else UsageError(f"{self.dataset.name}: {error}") from None

    def named(self, keys: Iterable[str]) -> list[str]:
        """Return these keys in order, each once.

        Raises:
            UsageError: there is no such key, or none was named.
        """
        return self._keys(keys)

    def keys_between(self, first: str, last: str) -> list[str]:
        """Return the keys from `first` to `last`, inclusive, in order; of a list or of a whole table one key."""
        return self.dataset.column.between(first, last)

    def _read(self, keys: Iterable[str] | None) -> Ledger:
        """Return the ledger, or what it says of the named keys alone."""
        return self.ledger if keys is None else cast("Ledger", dataset_review.Only(self.ledger, keys))

    def _rows(self, keys: Iterable[str]) -> dict[str, KeyRow]:
        wanted = sorted(keys)
        if not wanted:
            return {}
        found = {row.key: row for row in self.ledger.rows(self.dataset.name, wanted[0], wanted[-1])}
        return {key: found.get(key, KeyRow(key)) for key in wanted}


def _of_a_run(caller: Caller) -> Caller:
    if not caller.run:
        raise UsageError("whoever writes has a run: `dag/run` in Airflow, elsewhere an id of the process's own")
    return caller


@contextmanager
def replacing(
    dataset: Dataset,
    first: str,
    last: str = "",
    *,
    owner: str,
    reason: str = "",
    db: str = "",
    wish: Wish | None = None,
) -> Iterator[Partition]:
    """Replace partitions by what the block puts into `partition.staging`, when it ends; leave them if it raises.

    first, last: the keys, inclusive; one key without `last`. Of a list it is one key, of a whole table it is `all`.
    db: where the ledger is; that of BACKFILL_DB without it.

    Raises:
        SealedError, HeldError: a key is sealed, or somebody else holds it; the block was not run.
        RefusedError, TargetError, StoreError: nothing was published, or the sentence says what is known of it.
    """
    from backfill_core.ledger.opening import open_ledger

    caller = Caller(f"by hand {secrets.token_hex(4)}", person=owner, owner=check_text("owner", owner))
    target = dataset.target()
    with closing(target), open_ledger(db or Settings.from_env(os.environ).db) as ledger:
        guarded = Guarded(dataset, ledger, target)
        keys = guarded.keys_between(first, last or first)
        with guarded.replacing(keys, caller, reason, wish or Wish()) as partition:
            yield partition
