"""Datasets in Airflow: any table, guarded, on SQLite and PostgreSQL, by a query and by a function."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace as replace_field
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import duckdb
import pytest

from airflow_stand import Run, context_of
from backfill_airflow.compat import DAG, AirflowException, AirflowFailException, AirflowSkipException, Asset
from backfill_airflow.dataset_operators import (
    AdoptRangeOperator,
    CheckOperator,
    FindDriftOperator,
    SettleOperator,
    UnsealRangeOperator,
)
from backfill_airflow.datasets import opened_dataset
from backfill_airflow.decorators import replace_partition
from backfill_airflow.operators import (
    AmendPartitionOperator,
    ClaimRangeOperator,
    FindLateOperator,
    PlanRangeOperator,
    ReleaseRangeOperator,
    ReleaseStaleClaimsOperator,
    ReplacePartitionOperator,
    SealRangeOperator,
)
from backfill_airflow.sensors import PartitionFreeSensor
from backfill_core.claims import Caller
from backfill_core.dataset import Dataset, SqlTable
from tests.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DAY, NEXT = "2024-05-01", "2024-05-02"
RUN = Run()
OTHER = Run(run_id="manual__1")
OWN = "daily/scheduled__2024-05-02T00:00:00+00:00"


def alive(*runs: Run) -> dict[tuple[str, str], str]:
    """Return what Airflow says of runs that are running."""
    return {(run.dag_id, run.run_id): "running" for run in runs}


class Shop:
    """A database with orders, the table that is made of them, and that table as a dataset."""

    def __init__(
        self, sql: Callable[[str], list[Any]], schema: str = "", *, made: bool = False, **options: Any
    ) -> None:
        self.sql = sql
        self.schema = schema
        self.orders, self.daily = f"{schema}orders", f"{schema}orders_daily"
        self.dataset = Dataset(
            "shop.orders_daily",
            SqlTable("shop", self.daily, day="dt"),
            measures={"orders": "sum(orders)", "amount": "sum(amount)"},
            unique=["customer"],
            **options,
        )
        if not made:
            sql(f"create table {self.orders} (dt date, customer text, amount integer)")
            sql(f"create table {self.daily} (dt date, customer text, orders integer, amount integer)")
        self.select = f"""
            select dt, customer, count(*) as orders, sum(amount) as amount from {self.orders}
            where dt >= :start and dt < :end and customer <> ':key' group by dt, customer
        """

    def order(self, dt: str, amount: int, customer: str = "anna") -> None:
        self.sql(f"insert into {self.orders} values ('{dt}', '{customer}', {amount})")

    def typed(self, select: str) -> str:
        """Return a query with its dates as the database has them."""
        return select if not self.schema else re.sub(r"('2024-05-0\d'|null)", r"\1::date", select)

    def holders(self) -> dict[str, list[str]]:
        with opened(self) as guarded:
            return {row["key"]: row["claimed_by"] for row in guarded.status()["partitions"] if row["claimed_by"]}

    def published(self) -> dict[str, tuple[int, int]]:
        rows = self.sql(f"select dt, sum(orders), sum(amount) from {self.daily} group by dt order by dt")
        return {str(dt): (int(orders), int(amount)) for dt, orders, amount in rows}


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """The shop in a database of each kind; the ledger in a store that has no events."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_BACKFILL_DEFAULT", json.dumps({"conn_type": "backfill", "host": str(tmp_path / "state.db")})
    )
    if request.param == "sqlite":
        file = tmp_path / "shop.db"
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "sqlite", "host": str(file)}))
        yield Shop(partial(run_in_file, file))
        return
    server = request.getfixturevalue("postgres")
    schema = server.new_store().rpartition("=")[2]
    parts = urlsplit(server.url)
    place = {"host": parts.hostname, "port": parts.port, "login": parts.username, "schema": parts.path[1:]}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "postgres", **place}))
    server.sql(f"create schema {schema}")
    yield Shop(server.sql, f"{schema}.")


def opened(shop: Shop) -> Any:
    """Open the dataset past Airflow, as a person does."""
    return opened_dataset("backfill_default", shop.dataset, context_of(RUN)["ti"])


def run_in_file(file: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(file, timeout=60)) as connection, connection:
        return connection.execute(statement).fetchall()


def replace(shop: Shop, context: Any = None, **options: Any) -> Any:
    options = {"select": shop.select, **options}
    return ReplacePartitionOperator(task_id="replace", dataset=shop.dataset, **options).execute(
        context or context_of(RUN)
    )


def test_a_table_in_duckdb_by_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "shop.duckdb")
    for name, connection in (
        ("BACKFILL_DEFAULT", {"conn_type": "backfill", "host": str(tmp_path / "state.db")}),
        ("SHOP", {"conn_type": "duckdb", "host": file}),
    ):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
    with duckdb.connect(file) as base:
        base.execute("CREATE TABLE orders_daily (dt DATE, orders BIGINT)")
    orders = Dataset("shop.orders", SqlTable("shop", "orders_daily", day="dt"), measures={"orders": "sum(orders)"})

    receipt = ReplacePartitionOperator(
        task_id="replace", dataset=orders, select="SELECT CAST(:key AS DATE) AS dt, 7 AS orders"
    ).execute(context_of(RUN))

    assert [one["after"] for one in receipt["published"]] == [{"rows": 1, "orders": "7"}]
    with duckdb.connect(file) as base:
        assert base.execute("SELECT CAST(dt AS VARCHAR), orders FROM orders_daily").fetchall() == [(DAY, 7)]


# Replace by a query


def test_a_partition_is_replaced_and_the_receipt_says_by_what(shop: Shop) -> None:
    shop.order(DAY, 3)
    shop.order(DAY, 4)
    shop.order(NEXT, 5)

    receipt = replace(shop)

    assert shop.published() == {DAY: (2, 7)}
    [published] = receipt["published"]
    assert (published["key"], published["before"]["rows"]) == (DAY, 0)
    assert published["after"] == {"rows": 1, "orders": "2", "amount": "7"}


def test_a_rerun_replaces_and_does_not_add(shop: Shop) -> None:
    shop.order(DAY, 3)
    replace(shop)
    shop.order(DAY, 4)

    replace(shop)
    replace(shop)

    assert shop.published() == {DAY: (2, 7)}


def test_one_task_replaces_thirty_days_and_leaves_their_neighbours(shop: Shop) -> None:
    month = [f"2024-04-{day:02}" for day in range(1, 31)]
    for dt in ("2024-03-31", *month, "2024-05-01"):
        shop.order(dt, 1)

    receipt = replace(shop, start="2024-04-01", end="2024-04-30")

    assert [one["key"] for one in receipt["published"]] == month
    assert shop.published() == dict.fromkeys(month, (1, 1))


def test_a_sealed_day_is_left_alone_by_a_query(shop: Shop) -> None:
    shop.order(DAY, 3)
    replace(shop)
    SealRangeOperator(task_id="seal", dataset=shop.dataset).execute(context_of(RUN))
    shop.order(DAY, 4)
    context = context_of(RUN)

    with pytest.raises(AirflowSkipException, match="2024-05-01 is sealed"):
        replace(shop, context)

    assert context["ti"].xcoms["return_value"]["skipped"] == [[DAY, "sealed"]]
    assert shop.published() == {DAY: (1, 3)}


def test_of_a_range_the_sealed_days_are_left_and_the_others_written_and_announced(shop: Shop) -> None:
    shop.order(DAY, 3)
    replace(shop)
    SealRangeOperator(task_id="seal", dataset=shop.dataset).execute(context_of(RUN))
    shop.order(DAY, 4)
    shop.order(NEXT, 5)
    asset, context = Asset("shop://orders_daily"), context_of(RUN)

    receipt = replace(shop, context, start=DAY, end=NEXT, outlets=[asset])

    assert receipt["skipped"] == [[DAY, "sealed"]]
    assert shop.published() == {DAY: (1, 3), NEXT: (1, 5)}
    assert context["outlet_events"][asset].extra["keys"] == [NEXT]
    with pytest.raises(AirflowFailException, match="2024-05-01 is sealed"):
        replace(shop, start=DAY, end=NEXT, on_sealed="fail")


def test_a_sealed_day_can_be_corrected_once_for_each_time_that_its_source_moves(shop: Shop) -> None:
    shop.order(DAY, 3)
    replace(shop)
    SealRangeOperator(task_id="seal", dataset=shop.dataset).execute(context_of(RUN))
    shop.order(DAY, 4)
    asset, contexts = Asset("shop://orders_daily"), [context_of(RUN), context_of(RUN)]

    for context in contexts:
        replace(shop, context, on_sealed="amend", amend_reason="late", outlets=[asset])

    assert contexts[0]["outlet_events"][asset].extra == {
        "dataset": "shop.orders_daily",
        "keys": [DAY],
        "measures": {DAY: {"rows": 1, "orders": "2", "amount": "7"}},
        "reasons": {DAY: "late"},
    }
    assert dict(contexts[1]["outlet_events"]) == {}
    assert shop.published() == {DAY: (1, 3)}


@pytest.mark.parametrize(
    ("on_claimed", "verdict"),
    [("retry", AirflowException), ("skip", AirflowSkipException), ("fail", AirflowFailException)],
)
def test_a_day_that_another_run_holds_is_left_alone_and_the_holder_named(
    shop: Shop, on_claimed: str, verdict: type[Exception]
) -> None:
    shop.order(DAY, 3)
    claim = ClaimRangeOperator(task_id="claim", dataset=shop.dataset, start=DAY)
    receipt = claim.execute(context_of(OTHER, alive(OTHER), task_id="claim"))

    with pytest.raises(verdict, match="2024-05-01 claimed_by:daily/manual__1; nothing was written") as raised:
        replace(shop, context_of(RUN, alive(OTHER)), on_claimed=on_claimed)

    assert type(raised.value) is verdict
    assert shop.published() == {}
    release = ReleaseRangeOperator(task_id="release", dataset=shop.dataset, claim=receipt)
    assert release.execute(context_of(OTHER))["released"] == [DAY]
    replace(shop)
    assert shop.published() == {DAY: (1, 3)}


def test_a_person_who_reserved_lets_in_the_runs_in_her_name(shop: Shop) -> None:
    shop.order(DAY, 3)
    with opened(shop) as guarded:
        guarded.claim([DAY], Caller("", person="anna"))

    with pytest.raises(AirflowException, match="2024-05-01 claimed_by:anna"):
        replace(shop, on_claimed="retry")
    replace(shop, context_of(Run(conf={"owner": "anna", "reason": "she asked"})))

    assert shop.published() == {DAY: (1, 3)}
    with opened(shop) as guarded:
        [line] = guarded.history()
        [status] = guarded.status()["partitions"]
    assert (line["owner"], line["run"], line["reason"]) == ("anna", OWN, "she asked")
    assert status["claimed_by"] == ["anna"]


def test_a_range_is_claimed_whole_or_not_at_all(shop: Shop) -> None:
    with opened(shop) as guarded:
        guarded.claim([NEXT], Caller("", person="anna"))
    claim = ClaimRangeOperator(task_id="claim", dataset=shop.dataset, start=DAY, end=NEXT, on_claimed="retry")

    with pytest.raises(AirflowException, match="2024-05-02 claimed_by:anna; nothing was written"):
        claim.execute(context_of(RUN, task_id="claim"))

    assert shop.holders() == {NEXT: ["anna"]}


def test_a_query_may_be_a_file_that_airflows_search_path_finds(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "daily.sql").write_text(shop.select.replace("'anna'", "'{{ params.who }}'") + "-- :nobody's\n")
    shop.order(DAY, 3)
    with DAG("a_dag", schedule=None, template_searchpath=[str(tmp_path)]):
        task = ReplacePartitionOperator(task_id="replace", dataset=shop.dataset, select="sql/daily.sql")
    context: Any = {**context_of(RUN), "params": {"who": "anna"}}

    task.render_template_fields(context)
    task.execute(context)

    assert shop.published() == {DAY: (1, 3)}


@pytest.mark.parametrize(
    ("spoilt", "complaint"),
    [
        ("select '2024-05-02' as dt, 'anna' as customer, 1 as orders, 2 as amount", "1 rows of other keys"),
        ("select null as dt, 'anna' as customer, 1 as orders, 2 as amount", "1 rows without a key"),
        (
            "select '2024-05-01' as dt, 'anna' as customer, 1 as orders, 2 as amount union all"
            " select '2024-05-01', 'anna', 3, 4",
            "repeats of customer",
        ),
        ("select '2024-05-01' as dt, 'anna' as customer, 1 as orders, 2 as amount where 1 = 0", "the result is empty"),
    ],
)
def test_a_result_that_can_not_be_right_fails_for_good_and_changes_nothing(
    shop: Shop, spoilt: str, complaint: str
) -> None:
    shop.order(DAY, 3)
    replace(shop)

    with pytest.raises(AirflowFailException, match=complaint):
        replace(shop, select=shop.typed(spoilt))

    assert shop.published() == {DAY: (1, 3)}
    assert shop.holders() == {}


def test_an_empty_result_is_written_where_that_is_allowed(shop: Shop) -> None:
    shop.order(DAY, 3)
    replace(shop)
    shop.sql(f"delete from {shop.orders}")

    replace(shop, on_empty="allow")

    assert shop.published() == {}


def test_rows_that_nobody_of_ours_published_stay_unless_told_otherwise(shop: Shop) -> None:
    shop.order(DAY, 3)
    shop.sql(f"insert into {shop.daily} values ('{DAY}', 'bob', 1, 1)")

    with pytest.raises(AirflowFailException, match="1 rows are there that nobody of ours published"):
        replace(shop)
    assert shop.published() == {DAY: (1, 1)}
    replace(shop, on_drift="overwrite")

    assert shop.published() == {DAY: (1, 3)}


def test_what_was_written_past_us_is_not_overwritten_silently(shop: Shop) -> None:
    shop.order(DAY, 3)
    replace(shop)
    shop.sql(f"update {shop.daily} set amount = 30")

    with pytest.raises(AirflowFailException, match="amount was published as 3 and is 30"):
        replace(shop)
    replace(shop, on_drift="overwrite")

    assert shop.published() == {DAY: (1, 3)}


def test_a_limit_holds_until_a_person_allows_more(shop: Shop) -> None:
    for customer in ("anna", "bob", "cleo"):
        shop.order(DAY, 3, customer)
    replace(shop)
    shop.sql(f"delete from {shop.orders} where customer <> 'anna'")

    with pytest.raises(AirflowFailException, match="1 rows instead of 3: smaller by more than the limit"):
        replace(shop)
    replace(shop, allow="shrink, growth")

    assert shop.published() == {DAY: (1, 3)}
    with pytest.raises(AirflowFailException, match="allow has 'all'"):
        replace(shop, allow=["all"])


def test_a_plan_says_what_would_happen_and_writes_nothing(shop: Shop) -> None:
    shop.order(DAY, 3)
    options: dict[str, Any] = {"task_id": "plan", "dataset": shop.dataset, "start": DAY, "end": NEXT}

    plan = PlanRangeOperator(**options, select=shop.select).execute(context_of(RUN))
    unknown = PlanRangeOperator(**options).execute(context_of(RUN))

    assert [(one["key"], one["action"]) for one in plan] == [(DAY, "change"), (NEXT, "refused")]
    assert {one["action"] for one in unknown} == {"not known"}
    assert shop.published() == {}


def test_what_came_late_is_found_until_it_is_corrected(shop: Shop) -> None:
    shop.order(DAY, 3)
    replace(shop)
    SealRangeOperator(task_id="seal", dataset=shop.dataset, reason="sent").execute(context_of(RUN))
    shop.order(DAY, 4)
    find = FindLateOperator(task_id="find", dataset=shop.dataset, select=shop.select)
    amend = AmendPartitionOperator(
        task_id="amend", dataset=shop.dataset, select=shop.select, date=DAY, reason="one order came late"
    )

    [late] = find.execute(context_of(RUN))
    correction = amend.execute(context_of(RUN))

    assert (late["key"], late["known"]["amount"], late["now"]["amount"]) == (DAY, "3", "7")
    assert (correction["before"]["amount"], correction["after"]["amount"]) == ("3", "7")
    assert find.execute(context_of(RUN)) == []
    assert shop.published() == {DAY: (1, 3)}


def test_a_correction_has_the_limits_of_a_write(shop: Shop) -> None:
    for customer in ("anna", "bob", "cleo"):
        shop.order(DAY, 3, customer)
    replace(shop)
    SealRangeOperator(task_id="seal", dataset=shop.dataset, reason="sent").execute(context_of(RUN))
    shop.sql(f"delete from {shop.orders} where customer <> 'anna'")
    of: dict[str, Any] = {"task_id": "amend", "dataset": shop.dataset, "select": shop.select, "reason": "late"}

    with pytest.raises(AirflowFailException, match="1 rows instead of 3: smaller by more than the limit"):
        AmendPartitionOperator(**of, date=DAY).execute(context_of(RUN))
    correction = AmendPartitionOperator(**of, date=DAY, allow="shrink").execute(context_of(RUN))

    assert (correction["before"]["amount"], correction["after"]["amount"]) == ("9", "3")


def test_drift_fails_the_task_or_is_only_reported(shop: Shop) -> None:
    shop.order(DAY, 3)
    replace(shop)
    drift = FindDriftOperator(task_id="drift", dataset=shop.dataset, start=DAY, end=NEXT)
    assert drift.execute(context_of(RUN))["drift"] == {}
    shop.sql(f"update {shop.daily} set amount = 4")
    shop.sql(f"insert into {shop.daily} values (null, 'bob', 1, 1)")

    with pytest.raises(AirflowFailException, match=f"{DAY}: amount was published as 3 and is 4; 1 rows belong to no"):
        drift.execute(context_of(RUN))
    report = FindDriftOperator(task_id="drift", dataset=shop.dataset, on_found="report").execute(context_of(RUN))

    assert (list(report["drift"]), report["keyless"]) == ([DAY], 1)


def test_a_table_that_can_not_be_guarded_fails_its_check_with_the_cure(shop: Shop) -> None:
    findings = CheckOperator(task_id="check", dataset=shop.dataset).execute(context_of(RUN))
    assert not any(one["refuses"] for one in findings)
    strange = replace_field(shop.dataset, unique=("nobody",))

    with pytest.raises(AirflowFailException, match=r"can't be guarded: .*nobody"):
        CheckOperator(task_id="check", dataset=strange).execute(context_of(RUN))


def test_days_are_adopted_unsealed_and_settled_by_tasks(shop: Shop) -> None:
    shop.sql(f"insert into {shop.daily} values ('{DAY}', 'anna', 1, 3)")
    of: dict[str, Any] = {"dataset": shop.dataset, "start": DAY}

    adopted = AdoptRangeOperator(task_id="adopt", reason="as it was", **of).execute(context_of(RUN))
    SealRangeOperator(task_id="seal", dataset=shop.dataset, start=DAY, reason="sent").execute(context_of(RUN))
    unsealed = UnsealRangeOperator(task_id="unseal", reason="it was wrong", **of).execute(context_of(RUN))
    settled = SettleOperator(task_id="settle", dataset=shop.dataset).execute(context_of(RUN))

    assert [one["key"] for one in adopted["published"]] == [DAY]
    assert unsealed["unsealed"] == [DAY]
    assert (settled["settled"], settled["open"]) == ([], [])
    with opened(shop) as guarded:
        assert [(line["what"], line["reason"]) for line in guarded.history()] == [
            ("adopt", "as it was"),
            ("seal", "sent"),
            ("unseal", "it was wrong"),
        ]


def test_a_range_is_given_back_by_its_claim_or_by_what_the_run_reserved(shop: Shop) -> None:
    def claimed(dt: str, run: Run = RUN) -> Any:
        return ClaimRangeOperator(task_id="claim", dataset=shop.dataset, start=dt).execute(
            context_of(run, task_id="claim")
        )

    def release(**options: Any) -> Any:
        return ReleaseRangeOperator(task_id="free", dataset=shop.dataset, **options).execute(context_of(RUN))

    first = claimed(DAY)
    claimed(NEXT)
    claimed("2024-05-03", OTHER)
    with opened(shop) as guarded:
        guarded.claim(["2024-05-04"], Caller("", person="anna"))

    assert release(claim=first)["released"] == [DAY]
    assert list(shop.holders()) == [NEXT, "2024-05-03", "2024-05-04"]
    assert release(start=DAY, end="2024-05-04")["released"] == [NEXT]
    assert list(shop.holders()) == ["2024-05-03", "2024-05-04"]
    assert release(start=DAY, end="2024-05-04", claim_as="anna")["released"] == ["2024-05-04"]
    assert list(shop.holders()) == ["2024-05-03"]


def test_only_the_days_whose_fingerprint_changed_are_computed(shop: Shop) -> None:
    shop.order(DAY, 3)
    shop.order(NEXT, 5)
    versions = {DAY: 1, NEXT: 1}

    def version_of(keys: list[str]) -> dict[str, int]:
        return {key: versions[key] for key in keys}

    options: dict[str, Any] = {"start": DAY, "end": NEXT, "fingerprint": version_of}
    replace(shop, **options)
    versions[NEXT] = 2
    shop.order(DAY, 100)
    shop.order(NEXT, 1)

    receipt = replace(shop, context_of(OTHER), **options)

    assert receipt["unchanged"] == [DAY]
    assert [one["key"] for one in receipt["published"]] == [NEXT]
    assert shop.published() == {DAY: (1, 3), NEXT: (2, 6)}


def test_a_fingerprint_may_be_a_query(shop: Shop) -> None:
    for dt in (DAY, NEXT):
        shop.order(dt, 3)
    query = f"select dt, count(*), max(amount) from {shop.orders} where dt >= :start and dt < :end group by dt"
    options = {"start": DAY, "end": "2024-05-03", "on_empty": "allow", "fingerprint": query}
    replace(shop, **options)
    shop.order(NEXT, 1)

    receipt = replace(shop, context_of(OTHER), **options)

    assert receipt["unchanged"] == [DAY, "2024-05-03"]
    assert [one["key"] for one in receipt["published"]] == [NEXT]
    assert shop.published() == {DAY: (1, 3), NEXT: (2, 4)}


# Asset events


def test_an_event_says_what_was_written_and_has_keys_only_where_asked_to(shop: Shop) -> None:
    shop.order(DAY, 3)
    asset = Asset("shop://orders_daily")

    for event_key, keys in (("run", []), ("date", [DAY])):
        stamped: list[str] = []
        context = context_of(RUN)
        context["outlet_events"][asset].add_partitions = stamped.append
        replace(shop, context, outlets=[asset], event_key=event_key)

        assert context["outlet_events"][asset].extra["measures"][DAY]["amount"] == "3"
        assert stamped == keys


def test_a_result_that_is_there_already_announces_nothing_but_for_the_run_that_published_it(shop: Shop) -> None:
    quiet = Shop(shop.sql, shop.schema, digest="always", made=True)
    shop.order(DAY, 3)
    asset = Asset("shop://orders_daily")
    replace(quiet)

    other, again = context_of(OTHER), context_of(RUN, try_number=2)
    receipts = [replace(quiet, context, outlets=[asset]) for context in (other, again)]

    assert [receipt["quiet"] for receipt in receipts] == [[DAY], [DAY]]
    assert dict(other["outlet_events"]) == {}
    assert again["outlet_events"][asset].extra["keys"] == [DAY]


# Replace by a function


def fill_by_hand(shop: Shop, rows: list[str]) -> Any:
    """Return a task whose function puts rows into the staging table by a connection of its own, as Spark does."""

    @replace_partition(dataset=shop.dataset)
    def load(partition: Any, date: str | None = None) -> None:
        for row in rows:
            shop.sql(f"insert into {partition.staging} values ({row})")

    return load


def test_a_function_fills_the_staging_table_and_all_of_it_is_published(shop: Shop) -> None:
    with DAG("a_dag", schedule=None):
        task = fill_by_hand(shop, [f"'{DAY}', 'anna', 2, 7", f"'{DAY}', 'bob', 1, 1"])().operator

    receipt = task.execute(context_of(RUN))

    assert task.task_id == "load"
    assert receipt["published"][0]["after"] == {"rows": 2, "orders": "3", "amount": "8"}
    assert shop.published() == {DAY: (3, 8)}


def test_a_function_is_not_called_for_a_sealed_day(shop: Shop) -> None:
    shop.order(DAY, 3)
    replace(shop)
    SealRangeOperator(task_id="seal", dataset=shop.dataset).execute(context_of(RUN))
    with DAG("a_dag", schedule=None):
        task = fill_by_hand(shop, ["this is no row"])().operator

    with pytest.raises(AirflowSkipException, match="2024-05-01 is sealed"):
        task.execute(context_of(RUN, task_id="load"))

    assert shop.published() == {DAY: (1, 3)}


def test_a_function_that_fails_publishes_nothing_and_gives_its_claim_back(shop: Shop) -> None:
    @replace_partition(dataset=shop.dataset)
    def load(partition: Any) -> None:
        shop.sql(f"insert into {partition.staging} values ('{DAY}', 'anna', 2, 7)")
        raise ValueError("the warehouse is on fire")

    with DAG("a_dag", schedule=None):
        task = load().operator

    with pytest.raises(ValueError, match="on fire"):
        task.execute(context_of(RUN, task_id="load"))

    assert shop.published() == {}
    assert shop.holders() == {}


def test_a_functions_own_date_says_which_partition_is_meant(shop: Shop) -> None:
    with DAG("a_dag", schedule=None):
        task = fill_by_hand(shop, [f"'{NEXT}', 'anna', 2, 7"])(date=NEXT).operator

    task.execute(context_of(RUN))

    assert shop.published() == {NEXT: (2, 7)}


def test_a_function_has_the_context_and_arguments_that_it_asks_for(shop: Shop) -> None:
    seen: dict[str, Any] = {}

    @replace_partition(dataset=shop.dataset, start=DAY, end=NEXT, on_empty="allow")
    def load(region: str, partition: Any, run_id: str | None = None, **context: Any) -> None:
        seen.update(keys=partition.keys, start=partition.start, end=partition.end, region=region, run_id=run_id)
        seen["run"] = context["dag_run"]

    with DAG("a_dag", schedule=None):
        task = load("north").operator

    task.execute(context_of(RUN))

    assert seen == {
        "keys": [DAY, NEXT],
        "start": datetime(2024, 5, 1, tzinfo=timezone.utc),
        "end": datetime(2024, 5, 3, tzinfo=timezone.utc),
        "region": "north",
        "run_id": RUN.run_id,
        "run": RUN,
    }


def test_a_decorator_without_a_dataset_or_a_function_without_partition_is_refused_when_the_dag_is_parsed(
    shop: Shop,
) -> None:
    with pytest.raises(TypeError, match="needs a dataset"):
        replace_partition()
    with pytest.raises(TypeError, match="load needs an argument 'partition'"):

        @replace_partition(dataset=shop.dataset)
        def load() -> None:
            pass


# Where the table is, and which day is meant


def test_a_connection_that_is_not_there_is_named(shop: Shop, airflow_database: None) -> None:
    elsewhere = Dataset("shop.elsewhere", SqlTable("typing_error", "t", day="dt"), measures={})

    with pytest.raises(AirflowFailException, match=r"shop\.elsewhere: there is no connection 'typing_error'"):
        ReplacePartitionOperator(task_id="replace", dataset=elsewhere, select="select 1").execute(context_of(RUN))


def test_a_connection_of_another_kind_of_database_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "http", "host": "shop"}))

    with pytest.raises(AirflowFailException, match="the connection shop is of type 'http'"):
        replace(shop)


def test_a_database_that_can_not_be_reached_is_tried_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = {"conn_type": "postgres", "host": "127.0.0.1", "port": free_port(), "login": "me", "password": "secret"}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(gone))

    with pytest.raises(AirflowException, match="its database can't be reached") as raised:
        replace(shop)

    assert type(raised.value) is AirflowException
    assert "secret" not in str(raised.value)


def test_a_day_that_is_not_over_in_the_datasets_zone_is_refused(shop: Shop) -> None:
    ahead = Shop(shop.sql, shop.schema, timezone="America/New_York", made=True)

    with pytest.raises(AirflowFailException, match="2024-05-01 is over in America/New_York only at 2024-05-02T00:00"):
        replace(ahead)


def test_a_sensor_waits_for_a_dataset_and_not_for_daily(shop: Shop) -> None:
    sensor = PartitionFreeSensor(task_id="wait", dataset=shop.dataset, start=DAY, end=NEXT)
    assert sensor.poke(context_of(RUN))
    with opened(shop) as guarded:
        guarded.claim([NEXT], Caller("", person="anna"))

    assert not sensor.poke(context_of(RUN))
    assert sensor.poke(context_of(Run(conf={"owner": "anna"})))


def test_a_claim_whose_run_has_ended_is_freed_and_no_other(shop: Shop) -> None:
    ended, running = Run(run_id="manual__ended"), Run(run_id="manual__running")
    for dt, run in ((DAY, ended), (NEXT, running)):
        ClaimRangeOperator(task_id="claim", dataset=shop.dataset, start=dt).execute(context_of(run, task_id="claim"))
    with opened(shop) as guarded:
        guarded.claim(["2024-05-03"], Caller("", person="anna"))
    states = {("daily", "manual__ended"): "failed", **alive(running)}

    receipt = ReleaseStaleClaimsOperator(task_id="free", dataset=shop.dataset).execute(context_of(RUN, states))

    assert receipt["released"] == [[DAY, "daily/manual__ended", "its run has ended"]]
    assert shop.holders() == {NEXT: ["daily/manual__running"], "2024-05-03": ["anna"]}


@pytest.mark.parametrize("option", ["select", "start", "fingerprint", "allow"])
def test_an_option_of_datasets_needs_one(option: str) -> None:
    given: dict[str, Any] = {option: "x"}

    with pytest.raises(ValueError, match="dataset"):
        ReplacePartitionOperator(task_id="replace", **given)
