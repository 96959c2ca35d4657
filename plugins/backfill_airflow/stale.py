"""Which claims nobody will give back any more, as Airflow knows its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_airflow.compat import run_states

if TYPE_CHECKING:
    from backfill_core.claims import Claim


class Verdict(NamedTuple):
    """Whether a claim is stale, and why or why not, in words."""

    is_stale: bool
    why: str


class RunStates:
    """What Airflow says of the runs that hold claims; it is asked once for each.

    ti: the task instance through which to ask.
    """

    def __init__(self, ti: Any) -> None:
        self._ti = ti
        self._answers: dict[str, tuple[bool, bool]] = {}

    def verdict(self, claim: Claim) -> Verdict:
        """Judge one claim. Which run made it stands in the ledger; a name is never guessed at.

        A claim by the runner is a person's, and stays; but not in the name of a run that Airflow knows to have ended.
        """
        if claim.run and claim.try_number == 0:
            return Verdict(True, "`airflow tasks test` made it, and Airflow never ends such a run")
        known, alive = self._ask(claim.run or claim.owner)
        if alive:
            return Verdict(False, "its run is queued or running")
        if known:
            return Verdict(True, "its run has ended")
        if claim.run:
            return Verdict(True, "Airflow no longer knows its run")
        return Verdict(False, "a person reserved it")

    def _ask(self, run: str) -> tuple[bool, bool]:
        if run not in self._answers:
            dag_id, _, run_id = run.partition("/")
            self._answers[run] = run_states(self._ti, dag_id, run_id) if run_id else (False, False)
        return self._answers[run]
