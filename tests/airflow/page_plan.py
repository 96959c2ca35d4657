"""What a run would do: a range DAG that is asked for its plan alone, as the page asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from page_world import World


def plan(world: World, dag_id: str, start: str, end: str) -> list[dict[str, Any]]:
    """Start the DAG for its plan alone; return what its task said, once the run has ended well."""
    conf = {"start": start, "end": end, "reason": "a plan", "only_plan": True}
    rest, path = world.airflow.rest, f"/dags/{dag_id}/dagRuns"
    run_id = rest("POST", path, {"logical_date": None, "conf": conf})["dag_run_id"]
    run = f"{path}/{run_id}"
    world.airflow.wait("the plan is there", lambda: rest("GET", run)["state"] in ("success", "failed"))
    states = {one["task_id"]: one["state"] for one in rest("GET", f"{run}/taskInstances")["task_instances"]}
    assert states.pop("plan") == states.pop("more_than_a_plan") == "success", states
    assert set(states.values()) == {"skipped"}, states
    found = rest("GET", f"{run}/taskInstances/plan/xcomEntries/return_value?stringify=false")
    planned: list[dict[str, Any]] = found["value"]
    return planned
