"""Ask the generator for something: a fresh history, an imported one, a recount, or one model day more.

Let the runs of `etl_pipeline` end first, then pause it (a paused DAG's runs never end): a generator that publishes
under a load would give it half a day, so it refuses. A refusal publishes nothing, is not tried again, and is the last
line of its task's log.
"""

from typing import Any

from backfill_airflow.compat import DAG, Param, task
from clickstream_airflow import stand

with DAG(
    dag_id="generator_control",
    schedule=None,
    max_active_runs=1,
    default_args={"retries": 0, "on_failure_callback": stand.say_why},
    params={
        "operation": Param(
            default="backfill",
            enum=["backfill", "import", "check", "next-day"],
            title="Operation",
            description="backfill: a fresh history. import: an artifact's. check: recount. next-day: one day more.",
        ),
        "expected_t_end": Param(
            default=None,
            type=["null", "string"],
            title="Expected end of the history",
            description="next-day: refuse unless it ends there, such as 2026-01-08T00:00:00Z. Empty: wherever.",
        ),
        "t0": Param(
            default="2026-01-01T00:00:00Z", type="string", title="Start", description="backfill: with an offset."
        ),
        "days": Param(
            default=7, type="integer", minimum=1, title="Days", description="backfill: model days of 24 hours."
        ),
        "visits_a_day": Param(default=10_000, type="integer", minimum=1, title="Visits a day", description="backfill."),
        "seed": Param(
            default=1, type="integer", minimum=0, title="Seed", description="backfill: same seed, same bytes."
        ),
        "dirt": Param(
            default=0,
            type="integer",
            minimum=0,
            title="Dirt",
            description="backfill: of 1,000 events, how many go wrong.",
        ),
        "artifact": Param(default="", type="string", title="Artifact", description="import: path of the file."),
    },
    doc_md=__doc__,
    tags=["clickstream"],
):

    @task.branch
    def choose(params: Any = None) -> str:
        """Go on with the verb that was asked for."""
        return str(params["operation"])

    chosen = choose()
    for verb in ("backfill", "import", "check", "next-day"):
        chosen >> task(task_id=verb)(stand.generate)(verb)
