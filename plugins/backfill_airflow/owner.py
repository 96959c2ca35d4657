"""Who a task is to the claims: a try of a task of a run, which may come in a person's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backfill_core import UsageError
from backfill_core.claims import Caller

if TYPE_CHECKING:
    from backfill_airflow.compat import Context


def caller_of(context: Context, claim_as: str | None = None) -> Caller:
    """Return who comes: this try of this task, in the name of `claim_as`, else of `owner` in the run's conf.

    Raises:
        UsageError: the conf names an owner that isn't text.
    """
    dag_run: Any = context["dag_run"]
    ti: Any = context["ti"]
    run = f"{dag_run.dag_id}/{dag_run.run_id}"
    person = claim_as or (dag_run.conf or {}).get("owner") or ""
    if not isinstance(person, str):
        raise UsageError(f"the owner in the run's conf is not text: {person!r}")
    person = "" if person.strip() == run else person.strip()
    return Caller(run, ti.task_id, ti.map_index, ti.try_number, person, owner=person)


def name_of(caller: Caller) -> str:
    """Return in whose name a run comes: the person's, else its own."""
    return caller.person or caller.run


def reason_of(context: Context, given: str | None = None) -> str:
    """Return why a run writes: what the operator was given, else `reason` in the run's conf, else nothing.

    Raises:
        UsageError: the conf names a reason that isn't text.
    """
    dag_run: Any = context["dag_run"]
    reason = given if given is not None else (dag_run.conf or {}).get("reason") or ""
    if not isinstance(reason, str):
        raise UsageError(f"the reason in the run's conf is not text: {reason!r}")
    return reason.strip()
