from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_stand import ROOT, Run, Stand
from backfill_airflow.compat import AirflowNotFoundException
from backfill_airflow.hook import BackfillHook
from backfill_airflow.plugin import BackfillPlugin, partition
from backfill_airflow.provider import get_provider_info
from backfill_airflow.triggers import PartitionFreeTrigger
from backfill_core import DateRange, UsageError
from backfill_core.claims import RESERVATION, Caller

if TYPE_CHECKING:
    from pathlib import Path

ME = Caller("daily/manual__1", "sensor")


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str, **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "backfill", **fields}))


def test_a_connection_names_the_store_and_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "mine", host="/srv/state.db", schema="/srv/events")

    settings = BackfillHook("mine").settings()

    assert (settings.db, settings.events) == ("/srv/state.db", "/srv/events")


def test_the_runners_variables_say_how_events_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "mine", host="/srv/state.db", schema="/srv/events")
    monkeypatch.setenv("BACKFILL_WORKERS", "1")

    assert BackfillHook("mine").settings().workers == 1


@pytest.mark.parametrize(
    ("store", "named"),
    [
        ("postgresql://db/sales", "postgresql://anna:p%40ss%2Fword@db:6543/sales"),
        ("postgresql://bob:x@db:5432/sales", "postgresql://bob:x@db:5432/sales"),
        ("/srv/state.db", "/srv/state.db"),
    ],
)
def test_login_and_port_go_into_a_url_that_has_none(monkeypatch: pytest.MonkeyPatch, store: str, named: str) -> None:
    login = {"login": "anna", "password": "p@ss/word", "port": 6543}
    connect(monkeypatch, "mine", host=store, schema="/srv/events", **login)

    assert BackfillHook("mine").settings().db == named


def test_a_connection_without_a_store_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "mine", schema="/srv/events")

    with pytest.raises(UsageError, match="mine names no state store"):
        BackfillHook("mine").settings()


def test_a_connection_needs_no_events_folder_but_for_daily(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "mine", host=stand.db)

    assert BackfillHook("mine").test_connection() == (
        True,
        f"{stand.db} knows 0 datasets; no events folder: datasets, claims and seals only",
    )
    with BackfillHook("mine").backfill() as backfill, pytest.raises(UsageError, match="no folder of events was given"):
        backfill.late()


@pytest.mark.usefixtures("airflow_database")
def test_without_the_default_connection_the_runners_variables_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKFILL_HOME", "/srv/backfill")

    settings = BackfillHook().settings()

    assert (settings.db, settings.events) == ("/srv/backfill/state.db", "/srv/backfill/events")


@pytest.mark.usefixtures("airflow_database")
def test_any_other_connection_has_to_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKFILL_HOME", "/srv/backfill")

    with pytest.raises(AirflowNotFoundException):
        BackfillHook("typing_error").settings()


def test_the_test_button_opens_both(stand: Stand) -> None:
    stand.write("2024-05-01", {"a": 1})
    with stand.backfill() as backfill:
        backfill.run(DateRange.parse("2024-05-01", "2024-05-01"), "anna")

    assert BackfillHook().test_connection() == (
        True,
        f"{stand.db} knows 1 dates; the events are in {stand.events}",
    )

    (stand.events / "dt=2024-05-01.jsonl").unlink()
    stand.events.rmdir()
    said = BackfillHook().test_connection()
    assert said[0] is False
    assert "can't be read" in said[1]


def test_the_provider_is_named_as_the_package_is() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    info = get_provider_info()

    assert f'name = "{info["package-name"]}"' in project
    assert info["connection-types"][0]["hook-class-name"] == "backfill_airflow.hook.BackfillHook"
    assert BackfillHook.get_ui_field_behaviour()["hidden_fields"] == ["extra"]


def test_templates_can_ask_for_the_partition() -> None:
    from airflow_stand import context_of

    assert BackfillPlugin.macros == [partition]
    assert partition(Run(), context_of(Run())["dag"]) == "2024-05-01"


def test_the_plugins_folder_offers_airflow_the_plugin_alone() -> None:
    ignored = (ROOT / "plugins" / ".airflowignore").read_text().split()
    modules = {f"{file.parent.name}/{file.name}" for file in (ROOT / "plugins").glob("*/*.py")}

    assert modules - set(ignored) == {"backfill_airflow/plugin.py"}
    assert set(ignored) < modules


def test_the_trigger_fires_when_the_last_other_holder_is_gone(stand: Stand) -> None:
    dates = DateRange.parse("2024-05-01", "2024-05-02")
    with stand.backfill() as backfill:
        backfill.claim(dates, "anna")

    async def fires_after_release() -> Any:
        trigger = PartitionFreeTrigger(
            conn_id="backfill_default",
            first="2024-05-01",
            last="2024-05-02",
            caller=ME,
            kind=RESERVATION,
            poll_interval=0.01,
        )
        events = trigger.run()
        waiting = asyncio.ensure_future(anext(events))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        with stand.backfill() as backfill:
            backfill.release(dates, "anna")
            backfill.take(dates, ME._replace(task="claim"), RESERVATION)
        return await asyncio.wait_for(waiting, timeout=30)

    event = asyncio.run(fires_after_release())

    assert event.payload == "2024-05-01 to 2024-05-02 is free"


def test_a_trigger_survives_its_serialisation(tmp_path: Path) -> None:
    trigger = PartitionFreeTrigger(
        conn_id="c", first="2024-05-01", last="2024-05-02", caller=ME, kind=RESERVATION, poll_interval=5
    )

    name, arguments = json.loads(json.dumps(trigger.serialize()))

    assert name == "backfill_airflow.triggers.PartitionFreeTrigger"
    assert PartitionFreeTrigger(**arguments).serialize() == (name, arguments)
