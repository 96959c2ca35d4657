"""The whole loop on the services of docker-compose.yaml: PostgreSQL, Kafka and Airflow as that file starts them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.error import HTTPError

import psycopg
import pytest

from airflow_native import Airflow, Processes
from backfill_core import Backfill, DateRange, EventFolder, open_store
from backfill_core.claims import ATTEMPT, Caller
from tests.stand.composed import Composed
from tests.stand.loops import counts, covered, everywhere, moved, runner, store_of, succeeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stand_native import Stand


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    with Composed(tmp_path_factory.mktemp("composed")) as composed:
        composed.up("airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")
        yield composed


@pytest.fixture
def stand(composed: Composed) -> Stand:
    return composed.stand()


def test_nobody_comes_in_without_the_passwords_of_the_env_file(composed: Composed) -> None:
    nobody = Airflow(composed.url("8080"), Processes(composed.home), "wrong")
    store = composed.environ("airflow-scheduler")["BACKFILL_DB"]
    warehouse = composed.run("clickhouse", "curl", "--silent", f"{composed.url('8123')}/?query=SELECT+1")

    with pytest.raises(HTTPError, match="401"):
        nobody.rest("GET", "/dags")
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(store.replace(f":{composed.values['POSTGRES_PASSWORD']}@", "@"))
    assert "Code: 516" in warehouse.stdout


def test_at_noon_a_model_day_touches_two_dates_and_a_sealed_or_claimed_one_is_left_alone(stand: Stand) -> None:
    history = succeeded(
        stand.generate("backfill", t0="2024-02-28T12:00:00Z", days=1, visits_a_day=300, seed=3)
    ).receipt("backfill")
    # What a killed worker left behind holds nobody up.
    assert "claims" in runner(stand, "init")["tables"]
    with open_store(store_of(stand.environ)) as store:
        killed = Caller("etl_pipeline/manual__2024-01-01T00:00:00+00:00", "rebuild_day")
        Backfill(store).take(DateRange.parse("2024-02-28", "2024-02-28"), killed, ATTEMPT)
    succeeded(stand.load())
    before = counts(stand)
    assert {day for _, day in before} == {"2024-02-28", "2024-02-29"}

    runner(stand, "seal", "2024-02-29", "2024-02-29")
    runner(stand, "claim", "2024-03-01", "2024-03-01", "anna")
    answer = succeeded(stand.generate("next-day", expected_t_end=history["t_end"])).receipt("next-day")
    assert covered(history["t_end"]) == ["2024-02-29", "2024-03-01"]
    first = succeeded(stand.load())

    # The sealed day keeps what was published and has its correction; the claimed one waits for its holder.
    assert first.receipt("days_due") == ["2024-02-29", "2024-03-01"]
    assert counts(stand) == before
    correction = first.receipt("rebuild_day", 0)
    published = before["visits_daily", "2024-02-29"][1]
    assert (correction["dt"], correction["orders_before"]) == ("2024-02-29", published)
    assert correction["orders_after"] > published
    assert sorted(first.tasks()["rebuild_day"]) == [("skipped", 1), ("success", 1)]
    assert "2024-03-01 is left alone: claimed_by:anna. The marts say what they said" in first.log("rebuild_day", 1)
    assert first.receipt("validate")["left_alone"] == ["2024-02-29", "2024-03-01"]

    runner(stand, "release", "2024-03-01", "2024-03-01", "anna")
    second = succeeded(stand.load())

    assert moved(before, counts(stand)) == everywhere("2024-03-01")
    assert second.receipt("validate")["left_alone"] == ["2024-02-29"]
    with open_store(store_of(stand.environ)) as store:
        statement = Backfill(store, EventFolder("none")).statement(DateRange.parse("2024-02-28", "2024-03-01"))
    published_so_far = history["published"]["browser_events"] + answer["published"]["browser_events"]
    assert statement["orders_corrected"] == published_so_far
    assert [day["corrections"] for day in statement["partitions"]] == [0, 1, 0]
