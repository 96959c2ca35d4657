"""The example DAGs, a way in each, as they are: Airflow parses and runs them over a real database."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from airflow_stand import ROOT, Run, context_of
from backfill_airflow.compat import AirflowSkipException
from backfill_airflow.datasets import opened_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AIRFLOW_3 = find_spec("airflow.sdk") is not None
DAY, NEXT = "2024-05-01", "2024-05-02"
FORM = {"start": DAY, "end": NEXT, "reason": "the source was rewritten"}


class Examples:
    """The example DAGs in a folder of their own, and the shop that they are about."""

    def __init__(self, postgres: Any, folder: Path) -> None:
        self.sql = postgres.sql
        self.folder = folder
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Airflow's own
            self.bag = dag_bag(folder)

    def order(self, dt: str, amount: int, customer: str = "anna") -> None:
        self.sql(f"insert into orders values ('{dt}', '{customer}', {amount})")

    def published(self) -> dict[str, tuple[int, int]]:
        rows = self.sql("select dt, sum(orders), sum(amount) from orders_daily group by dt order by dt")
        return {str(dt): (int(orders), int(amount)) for dt, orders, amount in rows}

    def execute(self, dag_id: str, task_id: str, params: dict[str, Any] | None = None) -> Any:
        """Render a task of a DAG and execute it, for a run of DAY by the schedule or by a filled in form."""
        task = self.bag.dags[dag_id].task_dict[task_id]
        run = Run(dag_id=dag_id)
        context = {**context_of(run, task_id=task_id), "params": params or {}}
        context["data_interval_start"] = run.data_interval_start
        task.render_template_fields(context)
        try:
            return task.execute(context)
        except AirflowSkipException:
            return context["ti"].xcoms["return_value"]


def dag_bag(folder: Path) -> Any:
    if AIRFLOW_3:
        from airflow.dag_processing.dagbag import DagBag
    else:
        from airflow.models.dagbag import DagBag  # type: ignore[no-redef]
    bag = DagBag(str(folder))
    assert bag.import_errors == {}
    return bag


@pytest.fixture
def examples(postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Examples]:
    shutil.copytree(ROOT / "dags" / "examples", tmp_path / "dags")
    yield from made_examples(postgres, tmp_path / "dags", monkeypatch)


def made_examples(postgres: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Examples]:
    """Make the shop in a schema of its own, and have Airflow read the folder."""
    monkeypatch.syspath_prepend(str(folder))  # as Airflow does with its DAGs folder
    schema = postgres.new_store().rpartition("=")[2]
    postgres.sql(f"create schema {schema}")
    parts = urlsplit(postgres.url)
    shop = {"conn_type": "postgres", "host": parts.hostname, "port": parts.port, "login": parts.username}
    extra = json.dumps({"options": f"-csearch_path={schema}"})
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({**shop, "schema": parts.path[1:], "extra": extra}))
    store = {"conn_type": "backfill", "host": str(folder.parent / "state.db")}
    monkeypatch.setenv("AIRFLOW_CONN_BACKFILL_DEFAULT", json.dumps(store))
    in_schema = InSchema(postgres, schema)
    in_schema.sql("create table orders (dt date, customer text, amount integer)")
    in_schema.sql("create table orders_daily (dt date, customer text, orders integer, amount integer)")
    yield Examples(in_schema, folder)
    sys.modules.pop("shop", None)


class InSchema:
    """A server, seen from one schema of it."""

    def __init__(self, server: Any, schema: str) -> None:
        self._server = server
        self._url = f"{server.url}?options=-c%20search_path%3D{schema}"

    def sql(self, statement: str) -> list[Any]:
        found: list[Any] = self._server.sql(statement, self._url)
        return found


def test_each_way_in_has_its_example(examples: Examples) -> None:
    ways = {"", ".range", ".seal", ".unseal", ".amend", ".late"}
    factory = {f"shop.orders_daily{way}" for way in ways}

    assert set(examples.bag.dags) == {"orders_by_select", "orders_by_function", "orders_range", *factory}
    assert all(dag.doc_md for dag in examples.bag.dags.values())


def test_each_example_can_be_kept_by_airflow_and_is_the_same_at_each_parse(examples: Examples) -> None:
    kept = [serialized(bag) for bag in (examples.bag, dag_bag(examples.folder))]

    assert kept[0] == kept[1]


def serialized(bag: Any) -> dict[str, Any]:
    if AIRFLOW_3:
        from airflow.serialization.serialized_objects import DagSerialization

        to_dict: Any = DagSerialization.to_dict
    else:
        from airflow.serialization import serialized_objects

        to_dict = vars(serialized_objects)["SerializedDAG"].to_dict
    return {dag_id: to_dict(dag) for dag_id, dag in bag.dags.items()}


@pytest.mark.parametrize(
    ("dag_id", "task_id"),
    [("orders_by_select", "replace"), ("orders_by_function", "load"), ("shop.orders_daily", "replace")],
)
def test_a_day_is_replaced_however_its_rows_are_made(examples: Examples, dag_id: str, task_id: str) -> None:
    for dt, amount in ((DAY, 3), (DAY, 4), (NEXT, 5)):
        examples.order(dt, amount)

    receipt = examples.execute(dag_id, task_id)

    assert receipt["published"][0]["after"] == {"rows": 1, "orders": "2", "amount": "7"}
    assert examples.published() == {DAY: (2, 7)}


def test_a_range_is_planned_and_replaced_a_task_a_day(examples: Examples) -> None:
    for dt in ("2024-04-30", DAY, NEXT, "2024-05-03"):
        examples.order(dt, 1)

    plan = examples.execute("orders_range", "plan", FORM)
    mapped = examples.bag.dags["orders_range"].task_dict["replace"]

    assert [(one["key"], one["action"]) for one in plan] == [(DAY, "change"), (NEXT, "change")]
    assert mapped.partial_kwargs["select"] == "sql/orders_daily.sql"
    assert examples.bag.dags["orders_range"].task_dict["release"].is_teardown


def test_the_factorys_dags_replace_seal_correct_and_unseal_by_their_forms(examples: Examples) -> None:
    for dt in (DAY, NEXT):
        examples.order(dt, 1)

    examples.execute("shop.orders_daily.range", "replace", FORM)
    examples.execute("shop.orders_daily.seal", "seal", FORM)
    examples.order(DAY, 7)
    left = examples.execute("shop.orders_daily.range", "replace", FORM)
    [late] = examples.execute("shop.orders_daily.late", "find")
    examples.execute("shop.orders_daily.amend", "amend", {"date": late["key"], "reason": "one more came"})

    assert left["skipped"] == [[DAY, "sealed"], [NEXT, "sealed"]]
    assert examples.published() == {DAY: (1, 1), NEXT: (1, 1)}
    [corrected, _] = statement()
    assert (corrected["published"]["amount"], corrected["corrected"]["amount"]) == ("1", "8")

    examples.execute("shop.orders_daily.unseal", "unseal", FORM)
    examples.execute("shop.orders_daily.range", "replace", FORM)

    assert examples.published() == {DAY: (2, 8), NEXT: (1, 1)}


def statement() -> list[Any]:
    """Return what was said of each day, and what is right."""
    orders_daily = importlib.import_module("shop").orders_daily

    with opened_dataset("backfill_default", orders_daily, context_of(Run())["ti"]) as guarded:
        return guarded.statement()["partitions"]
