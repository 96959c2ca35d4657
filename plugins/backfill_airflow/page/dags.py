"""Which DAGs write a dataset, and what each is for, as Airflow keeps its DAGs: no DAG file is read or run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from sqlalchemy import func, select

from backfill_airflow.hook import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from sqlalchemy.orm import Session

DAILY_TABLE = "daily"
"""What the runner's table is called among the datasets."""
OURS = {"dataset", "conn_id"}
ONLY_PLAN = "only_plan"
LOOKS = {
    "PlanRangeOperator",
    "SplitRangeOperator",
    "ClaimRangeOperator",
    "ReleaseRangeOperator",
    "FindLateOperator",
    "FindDriftOperator",
    "CheckOperator",
    "RollupOperator",
    "ReleaseStaleClaimsOperator",
    "SettleOperator",
}
"""The operators that change no partition; any other, one of somebody's own too, is taken for one that does."""
FORMS = {"SealRangeOperator": "seal", "UnsealRangeOperator": "unseal", "AmendPartitionOperator": "amend"}
ROLES = ("daily", "range", "seal", "unseal", "amend")


class Place(NamedTuple):
    """A dataset, and the connection in whose store its ledger is."""

    conn_id: str
    dataset: str


class Writer(NamedTuple):
    """A DAG that writes a dataset.

    roles: what a person would start it for; plan: the task that plans, where its form can stop after that.
    """

    dag_id: str
    roles: frozenset[str]
    plan: str | None = None
    paused: bool = False


class Writers:
    """All DAGs that write datasets. What a DAG says is kept until Airflow has another version of it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[datetime, Mapping[Place, Writer]]] = {}

    def read(self, session: Session) -> dict[Place, list[Writer]]:
        """Return the DAGs of each dataset, by their ids; those that Airflow no longer finds in a file are left out."""
        dags = list(
            session.execute(
                select(SerializedDagModel.dag_id, DagModel.is_paused, func.max(SerializedDagModel.last_updated))
                .join(DagModel, DagModel.dag_id == SerializedDagModel.dag_id)
                .where(DagModel.is_stale.is_(False))
                .group_by(SerializedDagModel.dag_id, DagModel.is_paused)
            )
        )
        versions = {dag_id: updated for dag_id, _, updated in dags}
        known = dict(self._known)  # other requests read at the same time
        changed = [dag_id for dag_id, updated in versions.items() if known.get(dag_id, (None,))[0] != updated]
        for row in SerializedDagModel.get_latest_serialized_dags(dag_ids=changed, session=session) if changed else ():
            known[row.dag_id] = versions[row.dag_id], written_by((row.data or {}).get("dag", {}))
        self._known = {dag_id: said for dag_id, said in known.items() if dag_id in versions}
        found: dict[Place, list[Writer]] = {}
        for dag_id, paused, _ in sorted(dags):
            for place, writer in known.get(dag_id, (None, {}))[1].items():
                found.setdefault(place, []).append(writer._replace(paused=bool(paused)))
        return found


def written_by(dag: Mapping[str, Any]) -> dict[Place, Writer]:
    """Return what a DAG, as Airflow keeps it, writes."""
    types: dict[Place, set[str]] = {}
    plans: dict[Place, str] = {}
    for place, kind, task_id in _tasks(dag):
        types.setdefault(place, set()).add(kind)
        if kind == "PlanRangeOperator":
            plans[place] = task_id
    params = {name for name, _ in dag.get("params") or ()}
    by_the_clock = "Null" not in str((dag.get("timetable") or {}).get("__type", ""))
    return {
        place: Writer(
            dag["dag_id"],
            _roles(kinds - LOOKS, params, by_the_clock=by_the_clock),
            plans.get(place) if ONLY_PLAN in params else None,
        )
        for place, kinds in types.items()
        if kinds - LOOKS
    }


def _tasks(dag: Mapping[str, Any]) -> Iterator[tuple[Place, str, str]]:
    for one in dag.get("tasks") or ():
        task = one.get("__var", one)
        if set(task.get("template_fields") or ()) >= OURS:
            said = {**(task.get("partial_kwargs") or {}), **task}
            place = Place(said.get("conn_id") or DEFAULT_CONN_ID, said.get("dataset") or DAILY_TABLE)
            yield place, task.get("task_type", ""), task["task_id"]


def _roles(kinds: set[str], params: set[str], *, by_the_clock: bool) -> frozenset[str]:
    roles = {FORMS[kind] for kind in kinds if kind in FORMS}
    makes = bool(kinds - set(FORMS) - {"AdoptRangeOperator"})
    of_a_range = {"start", "end"} <= params or "keys" in params
    if not of_a_range:
        roles -= {"seal", "unseal"}
    if not {"date", "key"} & params:
        roles -= {"amend"}
    if makes:
        roles |= {"range"} if of_a_range else {"daily"} if by_the_clock else set()
    return frozenset(roles)
