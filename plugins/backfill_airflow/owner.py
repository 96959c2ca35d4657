"""In whose name a run claims: its own, or that of a person who reserved the dates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_core import UsageError

if TYPE_CHECKING:
    from backfill_airflow.compat import Context

AIRFLOWS_OWN = re.compile(
    r"(scheduled|manual|backfill|dataset_triggered|asset_triggered|asset_materialization|operator_triggered)__"
)
"""How the run ids begin that Airflow makes itself."""


class Owner(NamedTuple):
    """An owner of claims. `personal` is true for a name that was given, false for the run's own."""

    name: str
    personal: bool


class RunOwner(NamedTuple):
    """The DAG run that an owner's name would be the name of. `certain` is true if nothing else looks like that."""

    dag_id: str
    run_id: str
    certain: bool


def owner_of(context: Context, given: str | None = None) -> Owner:
    """Return the owner: the one given to the operator, else `owner` in the run's conf, else `dag_id/run_id`.

    The run's own name stays the same over all its retries, so a retry claims again with success.

    Raises:
        UsageError: the conf names an owner that isn't text.
    """
    dag_run: Any = context["dag_run"]
    own = f"{dag_run.dag_id}/{dag_run.run_id}"
    name = given or (dag_run.conf or {}).get("owner") or ""
    if not isinstance(name, str):
        raise UsageError(f"the owner in the run's conf is not text: {name!r}")
    name = name.strip() or own
    return Owner(name, personal=name != own)


def run_of(owner: str) -> RunOwner | None:
    """Return the DAG run that the owner's name can be the name of; None for a name that can only be a person's."""
    dag_id, slash, run_id = owner.partition("/")
    if not (slash and dag_id and run_id):
        return None
    return RunOwner(dag_id, run_id, certain=AIRFLOWS_OWN.match(run_id) is not None)
