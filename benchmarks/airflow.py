#!/usr/bin/env python3
"""What one more partition costs in Airflow: 60 days through daily_partitions, and through tasks that do nothing.

    make bench-airflow

Both DAGs have the same shape (two tasks, one asset) and run in the same Airflow, by turns, so that a slow moment of the
machine meets both.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from airflow_native import Airflow, native_airflow  # noqa: E402

FIRST = date(2026, 1, 1)
TURNS, DAYS = 4, 15
LINES = 1000
OURS, NOTHING = "daily_partitions", "nothing"

NOTHING_DAG = """
from datetime import datetime, timezone
from airflow.sdk import DAG, Asset, BaseOperator, CronDataIntervalTimetable


class Nothing(BaseOperator):
    def execute(self, context):
        return None


with DAG(
    "nothing",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
):
    Nothing(task_id="replace", outlets=[Asset("nothing://daily")]) >> Nothing(task_id="rollup")
"""


def main() -> int:
    """Measure, and print one JSON object; the exit code is 1 if ours takes 1.15 times as long or more."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environ = {"BACKFILL_HOME": str(home / "lab"), "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags")}
        _run("runner.py", "init", environ=environ)
        options = ("--start", FIRST.isoformat(), "--days", str(TURNS * DAYS), "--lines", str(LINES))
        _run("gen_events.py", *options, environ=environ)
        (home / "dags").mkdir()
        shutil.copy(ROOT / "dags" / f"{OURS}.py", home / "dags")
        (home / "dags" / f"{NOTHING}.py").write_text(NOTHING_DAG)
        with native_airflow(home / "home", Path(sys.executable).parent, environ) as airflow:
            seconds = _measure(airflow)
    ratio = seconds[OURS] / seconds[NOTHING]
    print(
        json.dumps(
            {"days": TURNS * DAYS, **{dag: round(took, 1) for dag, took in seconds.items()}, "ratio": round(ratio, 3)}
        )
    )
    return 0 if ratio < 1.15 else 1


def _measure(airflow: Airflow) -> dict[str, float]:
    seconds = {OURS: 0.0, NOTHING: 0.0}
    for dag_id in seconds:
        airflow.wait(f"the DAG {dag_id} is known", partial(_get, airflow, f"/dags/{dag_id}"))
        _backfill(airflow, dag_id, date(2025, 12, 1), 2)  # to warm up
    for turn in range(TURNS):
        # Whoever goes second finds the machine warmer, so they take turns in that too.
        for dag_id in (OURS, NOTHING) if turn % 2 else (NOTHING, OURS):
            seconds[dag_id] += _backfill(airflow, dag_id, FIRST + timedelta(days=turn * DAYS), DAYS)
    return seconds


def _backfill(airflow: Airflow, dag_id: str, first: date, days: int) -> float:
    """Backfill some days and return the seconds from Airflow's answer to the end of the last run."""
    last = first + timedelta(days=days - 1)
    body = {
        "dag_id": dag_id,
        "from_date": f"{first}T00:00:00Z",
        "to_date": f"{last}T00:00:00Z",
        "max_active_runs": 4,
    }
    airflow.wait("the backfill is taken", lambda: _post(airflow, "/backfills", body), seconds=300)
    began = time.time()
    query = f"?logical_date_gte={first}T00:00:00Z&logical_date_lte={last}T00:00:00Z&limit=100"

    def ended() -> bool:
        runs = (_get(airflow, f"/dags/{dag_id}/dagRuns{query}") or {"dag_runs": []})["dag_runs"]
        if failed := [run["dag_run_id"] for run in runs if run["state"] == "failed"]:
            raise SystemExit(f"nothing was measured: {dag_id} {failed[0]} failed")
        return len(runs) == days and all(run["state"] == "success" for run in runs)

    airflow.wait(f"{days} runs of {dag_id} have ended", ended, seconds=900)
    return time.time() - began


def _get(airflow: Airflow, path: str) -> Any:
    try:
        return airflow.rest("GET", path)
    except HTTPError:
        return None


def _post(airflow: Airflow, path: str, body: object) -> Any:
    try:
        return airflow.rest("POST", path, body)
    except HTTPError as refusal:
        if refusal.code == 409:  # the earlier backfill is not closed yet
            return None
        raise


def _run(*command: str, environ: dict[str, str]) -> None:
    subprocess.run([sys.executable, *command], cwd=ROOT, env={**environ}, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    sys.exit(main())
