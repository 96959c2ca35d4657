"""Datasets without days in Airflow: a whole table, and partitions that are the values of a list."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from airflow_stand import Run, context_of
from backfill_airflow.compat import DAG, AirflowFailException, AirflowSkipException
from backfill_airflow.dataset_operators import AdoptRangeOperator, FindDriftOperator
from backfill_airflow.datasets import opened_dataset, read_keys
from backfill_airflow.decorators import replace_partition
from backfill_airflow.factory import dataset_dags
from backfill_airflow.operators import ClaimRangeOperator, ReplacePartitionOperator, SplitRangeOperator
from backfill_airflow.sensors import PartitionFreeSensor
from backfill_airflow.triggers import PartitionFreeTrigger
from backfill_core.claims import Caller
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.errors import UsageError
from test_datasets import run_in_file

if TYPE_CHECKING:
    from pathlib import Path

ODD = "it's a/b"
BY_KEY = "select country, amount from orders where country = :key"


class Shop:
    """A file with orders and the table that is made of them; its datasets, by country and as a whole."""

    def __init__(self, file: Path) -> None:
        self.sql = partial(run_in_file, file)
        measures = {"amount": "sum(amount)"}
        table = SqlTable("shop", "revenue", key="country", values=["PL", "DE", ODD])
        self.by_country = Dataset("shop.by_country", table, grain="list", measures=measures, digest="always")
        self.whole = Dataset("shop.whole", SqlTable("shop", "totals"), grain="none", measures=measures)
        for name in ("orders", "revenue", "totals"):
            self.sql(f"create table {name} (country text, amount integer)")
        self.sql(f"insert into orders values ('PL', 1), ('DE', 2), ('{ODD.replace(chr(39), chr(39) * 2)}', 3)")

    def revenue(self) -> dict[str, int]:
        return dict(self.sql("select country, sum(amount) from revenue group by 1"))

    def history(self, dataset: Dataset) -> list[tuple[str, str, str]]:
        with opened_dataset("backfill_default", dataset, context_of(Run())["ti"]) as guarded:
            return [(line["key"], line["what"], line["reason"]) for line in guarded.history()]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    store = json.dumps({"conn_type": "backfill", "host": str(tmp_path / "state.db")})
    monkeypatch.setenv("AIRFLOW_CONN_BACKFILL_DEFAULT", store)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "sqlite", "host": str(tmp_path / "shop.db")}))
    return Shop(tmp_path / "shop.db")


def execute(dag: DAG, task_id: str, params: dict[str, Any] | None = None, run: Run | None = None) -> Any:
    """Render a task of a DAG and execute it, for a run by the schedule or by a filled in form."""
    task: Any = dag.task_dict[task_id]
    context: Any = {**context_of(run or Run(dag_id=dag.dag_id), task_id=task_id), "params": params or {}}
    task.render_template_fields(context)
    try:
        return task.execute(context)
    except AirflowSkipException:
        return context["ti"].xcoms["return_value"]


def test_the_scheduled_run_of_a_list_writes_all_of_its_keys_and_the_forms_take_some(shop: Shop) -> None:
    dags = dataset_dags(shop.by_country, select=BY_KEY)

    execute(dags["daily"], "replace")
    first = shop.revenue()
    shop.sql("update orders set amount = 10 * amount")
    form = {"keys": [ODD, "PL"], "reason": "prices were corrected"}
    plan = execute(dags["range"], "plan", form)
    execute(dags["range"], "claim", form)
    execute(dags["range"], "replace", form)

    assert first == {"PL": 1, "DE": 2, ODD: 3}
    assert [(one["key"], one["action"]) for one in plan] == [("PL", "change"), (ODD, "change")]
    assert shop.revenue() == {"PL": 10, "DE": 2, ODD: 30}
    assert ("PL", "publish", "prices were corrected") in shop.history(shop.by_country)


def test_keys_of_a_list_are_sealed_found_late_corrected_and_unsealed_by_forms(shop: Shop) -> None:
    dags = dataset_dags(shop.by_country, select=BY_KEY)
    execute(dags["daily"], "replace")
    execute(dags["seal"], "seal", {"keys": ["DE", ODD], "reason": "sent"})
    shop.sql("update orders set amount = 10 * amount")

    skipped = execute(dags["daily"], "replace")["skipped"]
    late = execute(dags["late"], "find")
    execute(dags["amend"], "amend", {"key": ODD, "reason": "it came late"})
    still = execute(dags["late"], "find")
    execute(dags["unseal"], "unseal", {"keys": ["DE"], "reason": "once more"})
    execute(dags["daily"], "replace")

    assert skipped == [["DE", "sealed"], [ODD, "sealed"]]
    assert [[one["key"] for one in found] for found in (late, still)] == [["DE", ODD], ["DE"]]
    assert shop.revenue() == {"PL": 10, "DE": 20, ODD: 3}
    assert (ODD, "amend", "it came late") in shop.history(shop.by_country)


def test_each_scheduled_run_of_a_whole_table_refreshes_it_and_a_seal_stops_it(shop: Shop) -> None:
    dags = dataset_dags(shop.whole, select="select * from orders")

    execute(dags["daily"], "replace")
    execute(dags["seal"], "seal", {"keys": ["all"], "reason": "sent"})
    shop.sql("delete from orders where country = 'PL'")
    sealed = execute(dags["daily"], "replace")["skipped"]
    kept = shop.sql("select count(*) from totals")
    execute(dags["amend"], "amend", {"key": "all", "reason": "one left"})
    execute(dags["unseal"], "unseal", {"keys": ["all"], "reason": "once more"})
    execute(dags["range"], "replace", {"keys": ["all"], "reason": "again"})

    assert (sealed, kept) == ([["all", "sealed"]], [(3,)])
    assert shop.sql("select count(*) from totals") == [(2,)]


def test_a_runs_partition_key_is_a_key_of_the_list(shop: Shop) -> None:
    dags = dataset_dags(shop.by_country, select=BY_KEY)

    execute(dags["daily"], "replace", run=Run(partition_key="DE"))

    assert shop.revenue() == {"DE": 2}
    with pytest.raises(AirflowFailException, match="there is no key 'XX'"):
        execute(dags["daily"], "replace", run=Run(partition_key="XX"))


def test_a_form_has_a_field_for_each_key_that_there_is(shop: Shop) -> None:
    dags = dataset_dags(shop.by_country, select=BY_KEY)
    whole = dataset_dags(shop.whole, select="select * from orders")

    fields = {name: dag.params.get_param(name).schema for dag, name in ((dags["seal"], "keys"), (dags["amend"], "key"))}
    assert (fields["keys"]["examples"], fields["key"]["enum"]) == (["PL", "DE", ODD], ["PL", "DE", ODD])
    assert (whole["range"].params["keys"], whole["amend"].params["key"]) == (["all"], "all")


def test_a_function_fills_the_keys_that_it_is_mapped_over(shop: Shop, tmp_path: Path) -> None:
    @replace_partition(dataset=shop.by_country)
    def load(partition: Any, keys: Any = None) -> None:
        for key in partition.keys:
            rows = f"select * from orders where country = '{key.replace(chr(39), chr(39) * 2)}'"
            run_in_file(tmp_path / "shop.db", f"insert into {partition.staging} {rows}")

    with DAG("a_dag", schedule=None) as dag:
        load.override(task_id="some")(keys=[ODD, "DE"])
        load.override(task_id="all")()

    some = execute(dag, "some")
    execute(dag, "all")

    assert [one["key"] for one in some["published"]] == ["DE", ODD]
    assert shop.revenue() == {"PL": 1, "DE": 2, ODD: 3}


def test_what_waits_looks_at_its_own_keys_and_not_at_those_between(shop: Shop, tmp_path: Path) -> None:
    with opened_dataset("backfill_default", shop.by_country, context_of(Run())["ti"]) as guarded:
        guarded.claim(["PL"], Caller("", person="anna"))
    sensor = PartitionFreeSensor(task_id="wait", dataset=shop.by_country, keys=["DE", ODD])
    claim = ClaimRangeOperator(task_id="claim", dataset=shop.by_country, keys=["DE", ODD], on_claimed="fail")

    assert sensor.poke(context_of(Run()))
    assert claim.execute(context_of(Run(), task_id="claim"))["claimed"] == ["DE", ODD]
    for keys, free in ((["DE", ODD], True), (["DE", "PL"], False)):
        trigger = PartitionFreeTrigger(
            conn_id="backfill_default", first="DE", last=keys[-1], caller=Caller("another"), kind="reservation",
            poll_interval=1, dataset="shop.other" if free else "shop.by_country", keys=keys,
        )  # fmt: skip
        again = PartitionFreeTrigger(**trigger.serialize()[1])
        from backfill_airflow.hook import BackfillHook

        assert again.keys == keys
        assert again._is_free(BackfillHook("backfill_default").settings()) == free


def test_a_list_is_adopted_and_searched_for_drift_by_its_keys(shop: Shop) -> None:
    shop.sql("insert into revenue select * from orders")
    adopted = AdoptRangeOperator(task_id="adopt", dataset=shop.by_country, reason="the old job's").execute(
        context_of(Run(), task_id="adopt")
    )
    shop.sql("insert into revenue values ('DE', 7)")

    drift = FindDriftOperator(task_id="drift", dataset=shop.by_country, keys="PL", on_found="report")

    assert [one["key"] for one in adopted["published"]] == ["DE", "PL", ODD]
    assert drift.execute(context_of(Run(), task_id="drift"))["drift"] == {}
    with pytest.raises(AirflowFailException, match="DE: "):
        FindDriftOperator(task_id="drift", dataset=shop.by_country).execute(context_of(Run(), task_id="drift"))


@pytest.mark.parametrize("options", [{"start": "2024-05-01"}, {"date": "2024-05-01"}, {"start": "PL", "keys": ["PL"]}])
def test_days_are_refused_in_words_where_there_are_none(shop: Shop, options: dict[str, Any]) -> None:
    operator = ReplacePartitionOperator(task_id="replace", dataset=shop.by_country, select=BY_KEY, **options)

    with pytest.raises(AirflowFailException, match="keys"):
        operator.execute(context_of(Run()))
    with pytest.raises(AirflowFailException, match="a range of days is split"):
        SplitRangeOperator(task_id="split", dataset=shop.by_country).execute(context_of(Run()))


def test_keys_without_a_dataset_are_refused_when_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match="belong to a dataset"):
        ReplacePartitionOperator(task_id="replace", keys=["PL"])


@pytest.mark.parametrize(
    ("given", "keys"),
    [("PL", ["PL"]), (["PL", 1], ["PL", "1"]), ('["PL", "it\\u0027s"]', ["PL", "it's"]), ("[PL", ["[PL"])],
)
def test_keys_are_one_a_list_or_the_text_of_a_list(given: Any, keys: list[str]) -> None:
    assert read_keys(given) == keys


def test_keys_of_another_shape_are_refused_in_words() -> None:
    with pytest.raises(UsageError, match=r"\[None\]"):
        read_keys([None])
