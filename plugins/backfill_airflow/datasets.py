"""A dataset, a table of anybody's, as the operators see it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from backfill_airflow.connections import open_table
from backfill_airflow.hook import BackfillHook
from backfill_airflow.partition import dates_of, interval_end_of
from backfill_airflow.partitions import Corrected, DeniedError, Late, Planned, Written
from backfill_airflow.stale import RunStates
from backfill_core import UsageError
from backfill_core.claims import RESERVATION, enter
from backfill_core.guarded import Guarded
from backfill_core.keys import WHOLE, window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from backfill_airflow.compat import Context
    from backfill_airflow.partitions import Keys
    from backfill_airflow.source import Source
    from backfill_core.answers import Figures, PlannedKey, SealedAnswer, WriteAnswer
    from backfill_core.claims import Caller
    from backfill_core.dataset import Dataset
    from backfill_core.ledger import Ledger
    from backfill_core.protocol.judging import Wish

CLAIMED_BY = "claimed_by:"


def read_keys(given: Keys) -> list[str]:
    """Return keys as an operator is given them: one, a list, or a list as the text of its JSON, as a template makes it.

    Raises:
        UsageError: it is none of these.
    """
    found: object = given
    if isinstance(given, str):
        try:
            found = json.loads(given) if given.startswith("[") else [given]
        except ValueError:
            found = [given]
    if not isinstance(found, list | tuple) or not all(isinstance(one, str | int) for one in found):
        raise UsageError(
            f"the keys {given!r} are no list of keys; in a template write {{{{ params['keys'] | tojson }}}}"
        )
    return list(map(str, found))


def range_of(keys: Sequence[str]) -> str:
    """Say which keys these are."""
    return keys[0] if len(keys) == 1 else f"{keys[0]} to {keys[-1]}"


@contextmanager
def opened_dataset(conn_id: str, dataset: Dataset, ti: Any) -> Iterator[Guarded]:
    """Open a dataset's ledger and table for as long as the block lasts.

    conn_id: the connection of type `backfill` in whose store the ledger is. ti: through which to ask about runs.
    """
    states = RunStates(ti)
    with BackfillHook(conn_id).ledger() as ledger:
        target = open_table(dataset)
        try:
            yield Guarded(dataset, ledger, target, stale=lambda claim: states.verdict(claim).is_stale)
        finally:
            target.close()


class DatasetPartitions:
    """A dataset's partitions over the guarded operations; see `partitions.Partitions`.

    source: what makes the rows; None will do for what reads none.
    """

    def __init__(self, guarded: Guarded, source: Source | None = None) -> None:
        self._guarded = guarded
        self._given_source = source
        self._name = guarded.dataset.name

    @property
    def _source(self) -> Source:
        if self._given_source is None:
            raise UsageError(f"{self._name}: nothing makes the rows: give a select, or a function, fill")
        return self._given_source

    def keys_of(
        self, context: Context, first: object = None, last: object = None, keys: Keys | None = None
    ) -> list[str]:
        """Return the keys that an operator was given; by default the one that its run means.

        Where keys are no days, a run means all of them; or, of a list, its partition key.

        Raises:
            UsageError: as `partition.dates_of`; or the run's interval ends before its day is over for the dataset; or
                days are named where there are none.
        """
        column = self._guarded.dataset.column
        if not (keys is None or (first is None and last is None)):
            raise UsageError(f"{self._name}: the partitions are named twice; give keys, or days")
        if keys is not None:
            return self._guarded.named(read_keys(keys))
        if not column.has_days:
            if not (first is None and last is None):
                raise UsageError(f"{self._name}: its partitions are no days; give keys in place of days")
            run: Any = context["dag_run"]
            meant = getattr(run, "partition_key", None) if column.values else None
            return self._guarded.named([meant] if meant else [*column.values] or [WHOLE])
        days = list(dates_of(context, first, last))
        end = interval_end_of(context) if first is None else None
        zone = self._guarded.dataset.timezone
        if end is not None and (over := window(days[-1], zone)[1]) > end:
            raise UsageError(
                f"{self._name}: the run's interval ends at {end.isoformat()}, and {days[-1]} is over in {zone} only at"
                f" {over.isoformat()}; schedule the DAG in that zone, or give the operator its date"
            )
        return days

    def replace(
        self,
        keys: Sequence[str],
        caller: Caller,
        reason: str,
        wish: Wish,
        stop: Callable[[], bool],  # noqa: ARG002  it is stopped where it is
    ) -> Written:
        """Replace the partitions; a key that is sealed, or held by another, is left alone."""
        source = self._source
        answer = self._guarded.write(
            keys,
            source.fill,
            caller,
            reason,
            wish,
            staged=source.staged,
            fingerprints=source.fingerprints(self._guarded, keys),
        )
        reasons = {key: why for key, why in answer["skipped"]}  # noqa: C416
        return Written(
            answer,
            self._to_announce(answer, caller),
            list(_told(answer)),
            sealed=[key for key, why in reasons.items() if why == "sealed"],
            denied={key: why.removeprefix(CLAIMED_BY) for key, why in reasons.items() if why.startswith(CLAIMED_BY)},
        )

    def _to_announce(self, answer: WriteAnswer, caller: Caller) -> dict[str, Figures]:
        """Return what this run has published: now, or in an earlier try that died before it could say so."""
        measures = {one["key"]: one["after"] or {} for one in answer["published"]}
        kept = {*answer["quiet"], *answer["unchanged"]}
        if kept:
            for row in self._guarded.status(keys=kept)["partitions"]:
                if row["run"] == caller.run:
                    measures[row["key"]] = row["figures"] or {}
        return dict(sorted(measures.items()))

    def plan(self, keys: Sequence[str], caller: Caller, wish: Wish) -> Planned:
        """Tell what a write would do; "not known" where there is no source."""
        source = self._given_source
        plan = self._guarded.plan(
            keys,
            caller,
            source.fill if source else None,
            wish,
            fingerprints=source.fingerprints(self._guarded, keys) if source else None,
            staged=bool(source and source.staged),
        )
        counts = [f"{plan[word]} {word}" for word in ("change", "unchanged", "skipped", "refused")]
        counts.append(f"{plan['unknown']} not known")
        said = [f"{self._name}: {range_of(keys)}, {plan['asked']} partitions: {', '.join(counts)}"]
        return Planned(list(plan["partitions"]), [*said, *map(_planned, plan["partitions"])])

    def denied(self, keys: Sequence[str], caller: Caller, kind: str) -> dict[str, str]:
        """Return who would keep the caller out now, by key."""
        return denied(self._guarded.ledger, self._name, keys[0], keys[-1], caller, kind, keys)

    def claim(self, keys: Sequence[str], caller: Caller) -> dict[str, Any]:
        """Reserve all of the keys, or none."""
        answer = self._guarded.claim(keys, caller, whole=True)
        if answer["denied"]:
            raise DeniedError({key: holder for key, holder in answer["denied"]})  # noqa: C416
        return {**answer, "owner": caller.person or caller.run}

    def release(
        self,
        caller: Caller,
        *,
        claim: str | None = None,
        keys: Sequence[str] | None = None,
        task: str | None = None,
        person: str = "",
    ) -> list[str]:
        """Give back the claim of an id; else what the caller's run, or one task of it, reserved."""
        if claim is not None:
            return self._guarded.release(claim=claim)["released"]
        first, last = (keys[0], keys[-1]) if keys else ("", "")
        reserved = [one for one in self._guarded.ledger.claims(self._name, first, last) if one.kind == RESERVATION]
        ids = {
            one.id
            for one in reserved
            if (one.run == caller.run and task in (None, one.task)) or (person and not one.run and one.owner == person)
        }
        return sorted({key for one in ids for key in self._guarded.release(keys, claim=one)["released"]})

    def sealed(self, keys: Sequence[str]) -> list[str]:
        """Return those of the keys that are sealed."""
        return [row["key"] for row in self._guarded.status(keys=keys)["partitions"] if row["sealed"]]

    def seal(self, keys: Sequence[str], caller: Caller, reason: str) -> SealedAnswer:
        """Declare the partitions as sent."""
        return self._guarded.seal(keys, caller, reason)

    def amend(
        self,
        key: str,
        caller: Caller,
        reason: str,
        wish: Wish,
        *,
        if_late: bool = False,
    ) -> Corrected | None:
        """Write the sealed partition's correction down beside it."""
        source = self._source
        if if_late and not self._guarded.late(source.fill, keys=[key], staged=source.staged)["late"]:
            return None
        answer = self._guarded.amend(key, source.fill, caller, reason, wish, staged=source.staged)
        return Corrected(answer, key, answer["after"] or {}, reason)

    def late(self) -> Late:
        """Find the sealed partitions whose source has moved on."""
        answer = self._guarded.late(self._source.fill, staged=self._source.staged)
        said = [f"{self._name}: {answer['checked']} sealed partitions were measured again"]
        said += [
            f"{late['key']} is late: known {_figures(late['known'])}; now {_figures(late['now'])}"
            for late in answer["late"]
        ]
        return Late(list(answer["late"]), said)

    def free_stale(self, states: RunStates) -> dict[str, list[list[str]]]:
        """Settle the attempts, and free the claims, whose run or try has ended."""
        before = self._guarded.ledger.claims(self._name)
        self._guarded.settle()
        left = {(claim.key, claim.id) for claim in self._guarded.ledger.claims(self._name)}
        receipt: dict[str, list[list[str]]] = {"released": [], "kept": []}
        for claim in before:
            still_there = (claim.key, claim.id) in left
            receipt["kept" if still_there else "released"].append([claim.key, claim.holder, states.verdict(claim).why])
        return receipt


def denied(
    ledger: Ledger, name: str, first: str, last: str, caller: Caller, kind: str, keys: Sequence[str] | None = None
) -> dict[str, str]:
    """Return who would keep the caller out now, by key, between two keys of a dataset, or at some of them."""
    claims: dict[str, list[Any]] = {}
    wanted = None if keys is None else frozenset(keys)
    for claim in ledger.claims(name, first, last):
        if wanted is not None and claim.key not in wanted:
            continue
        claims.setdefault(claim.key, []).append(claim)
    found = {key: enter(on_key, caller, kind).held_by for key, on_key in sorted(claims.items())}
    return {key: held_by.holder for key, held_by in found.items() if held_by is not None}


def _told(answer: WriteAnswer) -> Iterator[str]:
    for one in answer["published"]:
        yield f"{one['key']}: {_figures(one['after'])}; before: {_figures(one['before'])}"
    for key in answer["quiet"]:
        yield f"{key}: as before; nothing was published"
    for key in answer["unchanged"]:
        yield f"{key}: its source is as it was; nothing was computed"


def _planned(partition: PlannedKey) -> str:
    becomes = f": {_figures(partition['before'])} -> {_figures(partition['after'])}"
    told = becomes if partition["action"] in ("change", "refused") else ""
    return f"{partition['key']}  {partition['action']} ({partition['reason']}){told}"


def _figures(figures: Mapping[str, object] | None) -> str:
    if figures is None:
        return "nothing"
    return ", ".join(f"{name} {'none' if value is None else value}" for name, value in figures.items())
