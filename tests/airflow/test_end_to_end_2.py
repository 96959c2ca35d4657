"""Airflow 2.11: its own `airflow dags backfill`, with the library in the plugins folder and not installed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_stand import ROOT, Stand
from backfill_core import DateRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Airflow = Callable[..., str]

COMMANDS = Path(sys.executable).parent
FIRST, LAST = "2026-02-01", "2026-02-03"


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Stand:
    stand = Stand(tmp_path_factory.mktemp("lab"))
    environ = {**os.environ, "BACKFILL_EVENTS": str(stand.events)}
    subprocess.run([sys.executable, str(ROOT / "gen_events.py"), "--days", "3"], env=environ, check=True)
    return stand


@pytest.fixture(scope="module")
def environ(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("airflow2")
    shutil.copytree(ROOT / "dags", home / "dags")
    shutil.copytree(Path(__file__).parent / "dags", home / "dags", dirs_exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return {
        **inherited,
        "PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}",  # the backfill calls `airflow` again for each task
        "PYTHONPATH": str(ROOT),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__METRICS__TIMER_UNIT_CONSISTENCY": "True",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=60",
        "BACKFILL_DB": stand.db,
        "BACKFILL_EVENTS": str(stand.events),
    }


@pytest.fixture(scope="module")
def airflow(environ: dict[str, str]) -> Airflow:
    def airflow(*arguments: str) -> str:
        called = subprocess.run(
            [COMMANDS / "airflow", *arguments], env=environ, capture_output=True, text=True, check=False
        )
        assert called.returncode == 0, called.stdout + called.stderr
        return called.stdout + called.stderr

    airflow("db", "migrate")
    airflow("dags", "reserialize")
    return airflow


def test_a_backfill_of_three_days_run_twice_changes_nothing(airflow: Airflow, stand: Stand) -> None:
    airflow("dags", "backfill", "daily_partitions", "-s", FIRST, "-e", LAST)
    published, totals = stand.published(), stand.totals()

    airflow("dags", "backfill", "daily_partitions", "-s", FIRST, "-e", LAST, "--reset-dagruns", "-y")

    assert list(published) == ["2026-02-01", "2026-02-02", "2026-02-03"]
    assert totals == (sum(n for n, _ in published.values()), sum(amount for _, amount in published.values()))
    assert stand.published() == published
    assert stand.totals() == totals
    assert stand.holders() == {}
    assert set(stand.writers().values()) == {f"daily_partitions/backfill__{dt}T00:00:00+00:00" for dt in published}


def test_a_claim_of_a_run_that_has_ended_is_freed_and_a_persons_is_not(airflow: Airflow, stand: Stand) -> None:
    ended = f"daily_partitions/backfill__{FIRST}T00:00:00+00:00"
    with stand.backfill() as backfill:
        backfill.claim(DateRange.parse(FIRST, FIRST), ended)
        backfill.claim(DateRange.parse(LAST, LAST), "anna")

    said = airflow("tasks", "test", "release_stale_claims", "release", "2026-03-01")

    assert f"Released {FIRST} of {ended}: its run has ended" in said
    assert f"Kept {LAST} of anna: a person reserved it" in said
    assert stand.holders() == {LAST: "anna"}


def test_a_claim_that_a_killed_airflow_tasks_test_left_is_freed(
    airflow: Airflow, environ: dict[str, str], stand: Stand, tmp_path: Path
) -> None:
    dt = "2026-03-04"
    stand.write_big(dt, 3_000_000)
    with (tmp_path / "test.log").open("wb") as log:
        command = [str(COMMANDS / "airflow"), "tasks", "test", "daily_partitions", "replace", "2026-03-05"]
        slow = {**environ, "BACKFILL_ENGINE": "python", "BACKFILL_WORKERS": "1"}
        testing = subprocess.Popen(command, env=slow, stdout=log, stderr=log, start_new_session=True)
    try:
        wait(testing, lambda: dt in stand.holders())
    finally:
        os.killpg(testing.pid, signal.SIGKILL)
        testing.wait()
    assert stand.holders()[dt].startswith("daily_partitions/__airflow_temporary_run_")

    said = airflow("tasks", "test", "release_stale_claims", "release", "2026-03-01")

    assert "replace: `airflow tasks test` made it, and Airflow never ends such a run" in said
    assert dt not in stand.holders()
    assert dt not in stand.published()


def test_the_scheduler_replaces_yesterday_once_a_person_gives_it_back(
    airflow: Airflow, environ: dict[str, str], stand: Stand
) -> None:
    yesterday = (datetime.now(timezone.utc) - timedelta(days=1)).date().isoformat()
    stand.write(yesterday, {"a": 1, "b": 2})
    with stand.backfill() as backfill:
        backfill.claim(DateRange.parse(yesterday, yesterday), "anna")

    with scheduling(environ) as scheduler:
        refusal = f"{yesterday} claimed_by:anna; nothing was written"
        wait(scheduler, lambda: said(environ, "daily_partitions", refusal, attempt=1))
        assert yesterday not in stand.published()

        with stand.backfill() as backfill:
            backfill.release(DateRange.parse(yesterday, yesterday), "anna")
        wait(scheduler, lambda: yesterday in stand.published())

    assert stand.published()[yesterday] == (2, 3)
    assert stand.writers()[yesterday].startswith("daily_partitions/scheduled__")


def test_what_was_written_starts_the_dag_behind_its_dataset_and_what_was_not_does_not(
    airflow: Airflow, environ: dict[str, str], stand: Stand
) -> None:
    dt = "2025-12-22"
    stand.write(dt, {"a": 1, "b": 2})

    with scheduling(environ) as scheduler:
        airflow("dags", "trigger", "producer", "--conf", json.dumps({"date": dt}), "--run-id", "first")
        wait(scheduler, lambda: said(environ, "hears_the_asset", f"[{{'dt': '{dt}', 'orders': 2, 'amount': 3}}]"))

        airflow("dags", "trigger", "producer", "--conf", json.dumps({"date": dt}), "--run-id", "again")
        wait(scheduler, lambda: said(environ, "producer", "its source has not moved on: no correction"))
        wait(scheduler, lambda: states_of(airflow, "producer") == {"first": "success", "again": "success"})

    assert len(states_of(airflow, "hears_the_asset")) == 1


def test_a_range_of_which_one_day_failed_is_failed_and_the_other_is_written(
    airflow: Airflow, environ: dict[str, str], stand: Stand
) -> None:
    good, bad = "2026-01-17", "2026-01-18"
    stand.write(good, {"a": 1})
    stand.write(bad, {"b": 2}).write_text("no order\n")
    form = {"start": good, "end": bad, "owner": None, "reason": "one is broken"}

    with scheduling(environ) as scheduler:
        airflow("dags", "trigger", "backfill_range", "--conf", json.dumps(form), "--run-id", "by_form")
        wait(scheduler, lambda: states_of(airflow, "backfill_range") == {"by_form": "failed"})

    assert said(environ, "backfill_range", "this run is not whole: replace, rollup failed")
    assert stand.published()[good] == (1, 1)
    assert bad not in stand.published()
    assert not {good, bad} & set(stand.holders())


def states_of(airflow: Airflow, dag_id: str) -> dict[str, str]:
    """Return the state of each run of the DAG."""
    answer = airflow("dags", "list-runs", "--dag-id", dag_id, "--output", "json").splitlines()
    [runs] = [json.loads(line) for line in answer if line.startswith("[{")]  # its log goes before
    return {run["run_id"]: run["state"] for run in runs}


def said(environ: dict[str, str], dag_id: str, text: str, attempt: int | str = "*") -> bool:
    """Tell whether a task of the DAG has said this in its log."""
    logs = Path(environ["AIRFLOW_HOME"]) / "logs" / f"dag_id={dag_id}"
    return any(text in file.read_text() for file in logs.rglob(f"attempt={attempt}.log"))


@contextmanager
def scheduling(environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the scheduler for as long as the block lasts."""
    command = [str(COMMANDS / "airflow"), "scheduler", "--skip-serve-logs"]
    with (Path(environ["AIRFLOW_HOME"]) / "scheduler.log").open("ab") as log:
        scheduler = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        yield scheduler
    finally:
        os.killpg(scheduler.pid, signal.SIGTERM)
        scheduler.wait()


def wait(scheduler: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert scheduler.poll() is None, "the scheduler ended"
        assert time.monotonic() < deadline
        time.sleep(0.2)
