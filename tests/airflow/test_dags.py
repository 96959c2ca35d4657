from __future__ import annotations

import ast
import re
import warnings
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from typing import Any

import pytest

from airflow_stand import ROOT, Run, Stand, context_of
from backfill_airflow.compat import DAG, task
from backfill_airflow.hook import BackfillHook
from backfill_airflow.operators import RollupOperator

AIRFLOW_3 = find_spec("airflow.sdk") is not None
FILES = sorted((ROOT / "dags").glob("*.py"))
ONLY_ON_3 = {"daily_partitions_partitioned"}


@pytest.fixture(scope="module")
def dags() -> dict[str, DAG]:
    if AIRFLOW_3:
        from airflow.dag_processing.dagbag import DagBag
    else:
        from airflow.models.dagbag import DagBag  # type: ignore[no-redef]

    with warnings.catch_warnings():
        # Airflow's own; our modules are imported before, where any warning is an error.
        warnings.simplefilter("ignore")
        bag = DagBag(str(ROOT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_each_file_is_one_dag_of_its_name_with_its_documentation(dags: dict[str, DAG]) -> None:
    expected = {file.stem for file in FILES} - (set() if AIRFLOW_3 else ONLY_ON_3)

    assert set(dags) == expected
    assert all(dag.doc_md for dag in dags.values())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_dag_file_is_wiring_only(file: Any) -> None:
    text = file.read_text()
    nodes = list(ast.walk(ast.parse(text)))
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}

    assert len(text.splitlines()) <= 80
    assert not [node for node in nodes if isinstance(node, ast.Import)]
    assert {module.split(".")[0] for module in modules} <= {
        "backfill_airflow",
        "clickstream_airflow",
        "datetime",
        "typing",
        "__future__",
    }


def test_every_way_into_a_day_goes_through_intervals_of_a_day(dags: dict[str, DAG]) -> None:
    daily = dags["daily_partitions"]

    assert type(daily.timetable).__name__ == "CronDataIntervalTimetable"
    assert (daily.catchup, daily.max_active_runs) == (False, 1)


def test_a_day_without_a_file_is_waited_for_and_then_fails(dags: dict[str, DAG]) -> None:
    replace: Any = dags["daily_partitions"].task_dict["replace"]
    waits = [min(replace.retry_delay * 2**n, replace.max_retry_delay) for n in range(replace.retries)]

    assert replace.on_no_data == "retry"
    assert timedelta(hours=3) <= sum(waits, timedelta()) < timedelta(hours=4)


def test_the_range_is_given_back_whatever_happens(dags: dict[str, DAG]) -> None:
    tasks = dags["backfill_range"].task_dict

    assert tasks["claim"].is_setup
    assert tasks["release"].is_teardown
    assert {"plan", "more_than_a_plan", "parts", "claim", "replace", "rollup", "release", "outcome"} == set(tasks)


@pytest.mark.parametrize(
    ("dag_id", "task_id", "params", "rendered"),
    [
        ("backfill_range", "plan", {"start": "2024-02-28", "end": "2024-03-01", "reason": "why"}, {"reason": "why"}),
        ("backfill_range", "claim", {"start": "2024-02-28", "end": "2024-03-01"}, {"end": "2024-03-01"}),
        ("seal_range", "seal", {"start": "2024-02-28", "end": "2024-02-29"}, {"end": "2024-02-29"}),
        (
            "amend_partition",
            "amend",
            {"date": "2024-02-28", "reason": "late"},
            {"date": "2024-02-28", "reason": "late"},
        ),
    ],
)
def test_a_form_reaches_its_task(
    dags: dict[str, DAG], dag_id: str, task_id: str, params: dict[str, str], rendered: dict[str, str]
) -> None:
    task: Any = dags[dag_id].task_dict[task_id]

    task.render_template_fields({"params": params, **context_of(Run())})

    assert {field: getattr(task, field) for field in rendered} == rendered


def test_the_reason_of_a_correction_names_its_run(stand: Stand) -> None:
    from backfill_airflow.operators import ReplacePartitionOperator

    with DAG("a_dag", schedule=None):
        task = ReplacePartitionOperator(task_id="replace", on_sealed="amend")

    task.render_template_fields(context_of(Run(run_id="manual__1")))

    assert task.amend_reason == "late events, found by manual__1"


def test_the_code_of_the_page_makes_dags() -> None:
    page = (ROOT / "docs" / "airflow.md").read_text()
    counts_twice, guarded, own = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    start = datetime(2020, 1, 1, tzinfo=timezone.utc)
    names: dict[str, Any] = {"start": start, "task": task}

    exec(counts_twice.replace("): ...", "): pass"), names)  # noqa: S102
    exec(guarded.replace("…", "start_date=start"), names)  # noqa: S102
    exec("from backfill_airflow.operators import *", names)  # noqa: S102
    with DAG("own", start_date=start, schedule=None) as dag:
        names["your_sql_or_spark_task"] = RollupOperator(task_id="work")
        exec(own, names)  # noqa: S102

    assert set(names["replace"].dag.task_dict) == {"replace", "rollup"}
    assert names["rollup"].upstream_task_ids == {"replace"}
    assert dag.task_dict["release"].is_teardown
    assert dag.task_dict["work"].upstream_task_ids == {"claim"}


def test_the_connection_of_the_page_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "airflow.md").read_text()
    [connection] = re.findall(r"`AIRFLOW_CONN_BACKFILL_DEFAULT='(.*?)'`", page)
    monkeypatch.setenv("AIRFLOW_CONN_BACKFILL_DEFAULT", connection)

    settings = BackfillHook().settings()

    assert (settings.db, settings.events) == ("/srv/backfill/state.db", "/srv/backfill/events")
