"""Airflow 3 with all its parts, driven over REST. One Airflow for all of these tests; each has dates of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

import pytest

from airflow_native import Airflow, native_airflow
from airflow_stand import ROOT, Stand

if TYPE_CHECKING:
    from collections.abc import Iterator

BIG = 3_000_000
"""Orders enough to be caught in the middle of."""

PAGE = ROOT / "docs" / "airflow.md"
ENDED = ("success", "failed", "skipped", "upstream_failed")


class Shop:
    """A schema of a PostgreSQL server with orders, and the guarded table that the example DAGs make of them."""

    def __init__(self, server: Any, gate: Path) -> None:
        self._server = server
        self.schema = server.new_store().rpartition("=")[2]
        self.gate = gate
        self.gate.mkdir()
        server.sql(f"create schema {self.schema}")
        self.sql("create table orders (dt date, customer text, amount integer)")
        self.sql("create table orders_daily (dt date, customer text, orders integer, amount integer)")

    def sql(self, statement: str) -> list[Any]:
        found: list[Any] = self._server.sql(statement, f"{self._server.url}?options=-csearch_path%3D{self.schema}")
        return found

    def order(self, dt: str, amount: int) -> None:
        self.sql(f"insert into orders values ('{dt}', 'anna', {amount})")

    def published(self) -> dict[str, tuple[int, int]]:
        rows = self.sql("select dt, sum(orders), sum(amount) from orders_daily group by dt")
        return {str(dt): (int(orders), int(amount)) for dt, orders, amount in rows}

    def connection(self) -> str:
        """Return the Airflow connection that names this shop."""
        parts = urlsplit(self._server.url)
        place = {"host": parts.hostname, "port": parts.port, "login": parts.username, "schema": parts.path[1:]}
        extra = json.dumps({"options": f"-csearch_path={self.schema}"})
        return json.dumps({"conn_type": "postgres", **place, "extra": extra})


class World:
    """A running Airflow, its store, a shop, and the verbs of these tests."""

    def __init__(self, airflow: Airflow, stand: Stand, shop: Shop) -> None:
        self.airflow = airflow
        self.stand = stand
        self.shop = shop

    # What a person does

    def command(self, *arguments: str) -> Any:
        """Call the runner as a person does on the command line."""
        environ = {**os.environ, "BACKFILL_DB": self.stand.db, "BACKFILL_EVENTS": str(self.stand.events)}
        called = subprocess.run(
            [sys.executable, str(ROOT / "runner.py"), *arguments], env=environ, capture_output=True, check=True
        )
        return json.loads(called.stdout)

    def shell(self, command: str) -> str:
        """Call a command as a person types it, in the environment of Airflow; return what it says."""
        environ = {
            **self.airflow.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "BACKFILL_DB": self.stand.db,
            "BACKFILL_EVENTS": str(self.stand.events),
        }
        called = subprocess.run(
            shlex.split(command), cwd=ROOT, env=environ, capture_output=True, text=True, check=False
        )
        assert called.returncode == 0, called.stdout + called.stderr
        return called.stdout

    def no_backfill_is_active(self) -> None:
        """Wait until Airflow has noticed that all backfills have ended; it looks twice a minute."""

        def ended() -> bool:
            backfills = self.insist("GET", "/backfills?dag_id=daily_partitions")["backfills"]
            return all(backfill["completed_at"] for backfill in backfills)

        self.airflow.wait("no backfill is active", ended)

    def trigger(
        self,
        dag_id: str,
        logical_date: str | None = None,
        conf: Any = None,
        partition_key: str | None = None,
        run_id: str | None = None,
    ) -> Run:
        """Start a run by hand."""
        body = {
            **({"dag_run_id": run_id} if run_id else {}),
            "logical_date": logical_date and f"{logical_date}T00:00:00Z",
            "conf": conf or {},
            "partition_key": partition_key,
        }
        return Run(self, dag_id, self.insist("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def run_of(self, dag_id: str, dt: str) -> Run:
        """Return the scheduled or backfill run for a date, as soon as there is one."""

        def found() -> Any:
            day = f"{dt}T00:00:00Z"
            query = f"?logical_date_gte={day}&logical_date_lte={day}"
            return self.insist("GET", f"/dags/{dag_id}/dagRuns{query}")["dag_runs"]

        [run] = self.airflow.wait(f"a run of {dag_id} for {dt}", found)
        return Run(self, dag_id, run["dag_run_id"])

    def run_heard(self, dag_id: str, partition_key: str | None = None) -> Run:
        """Return the run that an asset event started, as soon as there is one: the only one of its key."""

        def found() -> Any:
            runs = self.insist("GET", f"/dags/{dag_id}/dagRuns")["dag_runs"]
            return [run for run in runs if run["partition_key"] == partition_key]

        [run] = self.airflow.wait(f"a run of {dag_id} for {partition_key or 'an event'}", found)
        return Run(self, dag_id, run["dag_run_id"])

    def backfill(
        self, first: str, last: str, conf: Any = None, reprocess: str = "none", dag_id: str = "daily_partitions"
    ) -> list[Run]:
        """Start Airflow's own backfill of a DAG, as `airflow backfill create` does; return its runs."""
        body = {
            "dag_id": dag_id,
            "from_date": f"{first}T00:00:00Z",
            "to_date": f"{last}T00:00:00Z",
            "dag_run_conf": conf or {},
            "reprocess_behavior": reprocess,
            "max_active_runs": 4,
        }
        # The earlier backfills' runs have ended, but Airflow notices that only twice a minute.
        for earlier in self.insist("GET", f"/backfills?dag_id={dag_id}")["backfills"]:
            if earlier["completed_at"] is None:
                self.insist("PUT", f"/backfills/{earlier['id']}/cancel")
        self.insist("POST", "/backfills", body)
        day, days = date.fromisoformat(first), []
        while day <= date.fromisoformat(last):
            days.append(day.isoformat())
            day += timedelta(days=1)
        return [self.run_of(dag_id, dt) for dt in days]

    def insist(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer; call again where Airflow's own SQLite is busy."""
        return self.airflow.wait(f"an answer to {method} {path}", lambda: [self.airflow.rest(method, path, body)])[0]

    # What a person sees

    def holders(self) -> dict[str, str]:
        """Return who holds each claimed date, but for those that anna reserved before Airflow was started."""
        return {dt: holder for dt, holder in self.stand.holders().items() if dt not in (BEFORE, YESTERDAY)}

    @contextmanager
    def caught_while_holding(self, run: Run, dt: str) -> Iterator[int]:
        """Freeze the run's task while it counts the date, which it then holds; it goes on at the end of the block."""
        name = f"{run.dag_id}/{run.run_id}"
        partition = self.stand.events / f"dt={dt}.jsonl"
        deadline = time.monotonic() + 180
        while not (caught := processes_that_read(partition)):
            assert time.monotonic() < deadline, f"{name} never read {partition}: {run.tasks()}"
            time.sleep(0.02)
        try:
            signal_all(caught, signal.SIGSTOP)
            pid = run.task("replace")["pid"]
            holder = self.stand.holders().get(dt)
            assert holder in (name, "anna"), f"{name} was too fast to be caught"
            yield pid
        finally:
            signal_all(caught, signal.SIGCONT)

    @contextmanager
    def frozen_with_its_supervisor(self, dt: str, *, beside: int = 0) -> Iterator[int]:
        """Freeze a task while it counts the date, and what would end it; yield its process, and end all with the block.

        beside: a process that is frozen at the same date already.
        """
        partition = self.stand.events / f"dt={dt}.jsonl"

        def caught() -> list[int]:
            return [pid for pid in processes_that_read(partition) if pid != beside]

        [pid] = wait_for(f"somebody reads {partition}", caught)
        both = [parent_of(pid), pid]
        try:
            signal_all(both, signal.SIGSTOP)
            yield pid
        finally:
            signal_all(both, signal.SIGCONT)


def wait_for(what: str, condition: Any, seconds: float = 180) -> Any:
    """Return what the condition gives as soon as that is true."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.02)
    return answer


def parent_of(pid: int) -> int:
    """Return the process that started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def processes_that_read(path: Path) -> list[int]:
    """Return the ids of the processes that have the file open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if any(descriptor.readlink() == path for descriptor in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class Run:
    """A DAG run, seen over REST."""

    def __init__(self, world: World, dag_id: str, run_id: str) -> None:
        self.world = world
        self.dag_id = dag_id
        self.run_id = run_id
        self.path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"

    def state(self) -> str:
        return str(self.world.insist("GET", self.path)["state"])

    def tasks(self) -> list[Any]:
        found: list[Any] = self.world.insist("GET", f"{self.path}/taskInstances?limit=100")["task_instances"]
        return found

    def task(self, task_id: str) -> Any:
        return next(task for task in self.tasks() if task["task_id"] == task_id)

    def task_reaches(self, task_id: str, *states: str, tries: int = 1) -> Any:
        def reached() -> Any:
            task = self.task(task_id)
            return task if task["state"] in states and task["try_number"] >= tries else None

        return self.world.airflow.wait(f"{task_id} of {self.run_id} is {' or '.join(states)}", reached)

    def ends(self) -> str:
        """Wait for the run to end and return its state."""
        return str(
            self.world.airflow.wait(f"{self.dag_id} {self.run_id} ends", lambda: self.state() in ENDED and self.state())
        )

    def receipt(self, task_id: str, map_index: int = -1) -> Any:
        path = f"{self.path}/taskInstances/{task_id}/xcomEntries/return_value?map_index={map_index}&deserialize=true"
        return self.world.insist("GET", path)["value"]

    def asset_events(self) -> Any:
        query = f"source_dag_id={self.dag_id}&source_run_id={quote(self.run_id, safe='')}"
        return self.world.insist("GET", f"/assets/events?{query}")["asset_events"]

    def log(self, task_id: str, attempt: int = 1) -> str:
        path = f"{self.path}/taskInstances/{task_id}/logs/{attempt}?full_content=true"
        return json.dumps(self.world.insist("GET", path))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgres: Any) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("airflow3")
    (folder / "lab").mkdir()
    stand = Stand(folder / "lab")
    dags = folder / "dags"
    shutil.copytree(ROOT / "dags", dags)
    shutil.copytree(Path(__file__).parent / "dags", dags, dirs_exist_ok=True)
    shutil.copytree(Path(__file__).parent / "dags_shop", dags, dirs_exist_ok=True)
    shutil.copytree(ROOT / "dags" / "examples" / "sql", dags / "sql")
    shutil.copy(ROOT / "dags" / "examples" / "shop.py", dags)
    shop = Shop(postgres, folder / "gate")
    shop.order(YESTERDAY, 5)
    stand.write(YESTERDAY, {"a": 5})
    with stand.backfill() as backfill:
        backfill.claim(range_of(BEFORE, YESTERDAY), "anna")
    environ = {
        "AIRFLOW_CONN_BACKFILL_DEFAULT": stand.connection(),
        "AIRFLOW_CONN_SHOP": shop.connection(),
        "SHOP_GATE": str(shop.gate),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "BACKFILL_ENGINE": "python",  # slow enough to be caught in the middle
        "BACKFILL_WORKERS": "1",
        "AIRFLOW__CORE__MAX_MAP_LENGTH": "4",  # a long range, in short
    }
    with native_airflow(folder / "home", Path(sys.executable).parent, environ) as airflow:
        world = World(airflow, stand, shop)
        for dag_id in (
            "daily_partitions",
            "daily_partitions_partitioned",
            "backfill_range",
            "guarded",
            "nested",
            "waiting",
            "hears_its_dates",
            "shop",
            "shop.seal",
            "held",
        ):
            airflow.wait(f"the DAG {dag_id} is known", partial(is_known, airflow, dag_id))
        yield world
    shutil.rmtree(stand.events)  # hundreds of megabytes; the logs stay


def is_known(airflow: Airflow, dag_id: str) -> bool:
    try:
        return bool(airflow.rest("GET", f"/dags/{dag_id}"))
    except HTTPError:
        return False


def range_of(first: str, last: str) -> Any:
    from backfill_core import DateRange

    return DateRange.parse(first, last)


TODAY = datetime.now(timezone.utc).date()
YESTERDAY = (TODAY - timedelta(days=1)).isoformat()
BEFORE = (TODAY - timedelta(days=2)).isoformat()


def test_a_range_that_a_person_reserved_lets_in_only_runs_in_her_name(world: World) -> None:
    world.stand.write(BEFORE, {"b": 7})
    scheduled = world.run_of("daily_partitions", YESTERDAY)
    tries = scheduled.task_reaches("replace", "deferred")["try_number"]  # the triggerer may have come after the first

    assert scheduled.receipt("replace")["skipped"] == [[YESTERDAY, "claimed_by:anna"]]
    assert f"{YESTERDAY} claimed_by:anna; waiting until it is free" in scheduled.log("replace", tries)

    [hers] = world.backfill(BEFORE, BEFORE, conf={"owner": "anna"})

    assert hers.ends() == "success"
    assert world.stand.published() == {BEFORE: (1, 7)}
    assert world.stand.writers() == {BEFORE: "anna"}
    assert world.stand.holders() == {BEFORE: "anna", YESTERDAY: "anna"}

    assert world.command("release", BEFORE, YESTERDAY, "anna")["released"] == [BEFORE, YESTERDAY]
    assert scheduled.ends() == "success"
    assert world.stand.published() == {BEFORE: (1, 7), YESTERDAY: (1, 5)}


def test_a_run_by_hand_and_a_backfill_of_one_date_meet_and_one_writes(world: World) -> None:
    dt = "2026-01-10"
    world.stand.write_big(dt, BIG)
    by_hand = world.trigger("daily_partitions", logical_date="2026-01-11")

    with world.caught_while_holding(by_hand, dt):
        [backfill] = world.backfill(dt, dt)
        backfill.task_reaches("replace", "deferred")

        assert backfill.receipt("replace")["skipped"] == [
            [dt, f"claimed_by:daily_partitions/{by_hand.run_id}, replace"]
        ]
        assert dt not in world.stand.published()

    assert by_hand.ends() == "success"
    assert by_hand.receipt("replace")["done"] == [dt]
    assert backfill.ends() == "success"
    assert world.stand.published()[dt] == (BIG, BIG)
    assert "as before" in backfill.log("replace")
    assert dt not in world.holders()


def test_a_killed_worker_leaves_a_whole_partition_and_a_claim_that_is_freed_only_then(world: World) -> None:
    dt = "2026-01-12"
    world.stand.write(dt, {"old": 1})
    world.command("run", dt, dt, "earlier")
    world.command("claim", "2026-01-13", "2026-01-13", "anna")
    world.stand.write_big(dt, BIG)
    [killed] = world.backfill(dt, dt)
    name = f"daily_partitions/{killed.run_id}"

    with world.caught_while_holding(killed, dt) as pid:
        while_alive = world.trigger("release_stale_claims")
        assert while_alive.ends() == "success"
        assert world.holders() == {dt: name, "2026-01-13": "anna"}

        os.kill(pid, signal.SIGKILL)
    killed.task_reaches("replace", "up_for_retry")
    world.insist("PATCH", killed.path, {"state": "failed"})

    assert world.stand.published()[dt] == (1, 1)
    assert world.holders() == {dt: name, "2026-01-13": "anna"}

    freeing = world.trigger("release_stale_claims")
    assert freeing.ends() == "success"
    assert freeing.receipt("release") == {
        "released": [[dt, f"{name}, replace", "its run has ended"]],
        "kept": [["2026-01-13", "anna", "a person reserved it"]],
    }

    [again] = world.backfill(dt, dt, reprocess="failed")
    assert again.ends() == "success"
    assert world.stand.published()[dt] == (BIG, BIG)
    assert world.command("release", "2026-01-13", "2026-01-13", "anna")["released"] == ["2026-01-13"]
    assert world.holders() == {}


def test_fourteen_days_run_twice_change_nothing(world: World, tmp_path: Path) -> None:
    make_fourteen_days(world.stand.events)
    runs = world.backfill("2026-02-01", "2026-02-14")

    assert [run.ends() for run in runs] == ["success"] * 14
    published, totals = world.stand.published(), world.stand.totals()
    assert len([dt for dt in published if dt.startswith("2026-02")]) == 14
    assert totals == (sum(n for n, _ in published.values()), sum(amount for _, amount in published.values()))

    tries = [run.task("rollup")["try_number"] for run in runs]
    again = world.backfill("2026-02-01", "2026-02-14", reprocess="completed")

    assert [run.run_id for run in again] == [run.run_id for run in runs]
    for run, before in zip(again, tries, strict=True):
        run.task_reaches("rollup", "success", tries=before + 1)
    assert world.stand.published() == published
    assert world.stand.totals() == totals


def test_a_sealed_day_is_skipped_with_its_reason_and_corrected_beside(world: World) -> None:
    make_fourteen_days(world.stand.events)
    dt = "2026-02-02"
    runs = world.backfill("2026-02-01", "2026-02-03")
    assert [run.ends() for run in runs] == ["success"] * 3
    tries = [run.task("rollup")["try_number"] for run in runs]
    before = world.stand.published()
    assert world.trigger("seal_range", conf={"start": dt, "end": dt}).ends() == "success"
    orders, amount = before[dt]
    with (world.stand.events / f"dt={dt}.jsonl").open("a") as file:
        file.write(json.dumps({"order_id": "late", "dt": dt, "amount": 7, "status": "paid"}) + "\n")

    runs = world.backfill("2026-02-01", "2026-02-03", reprocess="completed")
    for run, earlier in zip(runs, tries, strict=True):
        run.task_reaches("rollup", "success", tries=earlier + 1)

    assert [run.task("replace")["state"] for run in runs] == ["success", "skipped", "success"]
    assert runs[1].receipt("replace")["skipped"] == [[dt, "sealed"]]
    assert world.stand.published() == before

    amended = world.trigger("amend_partition", conf={"date": dt, "reason": "one order came late"})

    assert amended.ends() == "success"
    correction = amended.receipt("amend")
    assert (correction["orders_before"], correction["amount_before"]) == (orders, amount)
    assert (correction["orders_after"], correction["amount_after"]) == (orders + 1, amount + 7)
    assert correction["reason"] == "one order came late"
    assert world.stand.published() == before


def test_the_form_backfills_a_range_a_task_a_date_and_gives_it_back(world: World) -> None:
    for dt, orders in (("2026-01-01", {"a": 1}), ("2026-01-02", {"b": 2}), ("2026-01-04", {"d": 4})):
        world.stand.write(dt, orders)
    world.command("claim", "2026-01-04", "2026-01-04", "anna")
    form = {"start": "2026-01-01", "end": "2026-01-04", "owner": None, "reason": "the source was rewritten\nby us"}
    run = world.trigger("backfill_range", conf=form)
    run.task_reaches("claim", "deferred")

    assert "2026-01-04 claimed_by:anna; waiting until it is free" in run.log("claim")
    assert not {dt for dt in world.stand.published() if dt < "2026-01-05"}
    assert world.holders() == {"2026-01-04": "anna"}

    world.command("release", "2026-01-04", "2026-01-04", "anna")

    assert run.ends() == "success"
    plan = run.log("plan")
    assert "2026-01-01 to 2026-01-04, 4 partitions: 2 change, 0 unchanged, 2 skipped, 0 failed" in plan
    assert "2026-01-02  change (new): nothing -> 1 orders, amount 2" in plan
    assert "2026-01-04  skipped (claimed_by:anna)" in plan
    assert json.dumps("Reason: the source was rewritten\\nby us")[1:-1] in plan
    replaced = sorted((t["rendered_map_index"], t["state"]) for t in run.tasks() if t["task_id"] == "replace")
    assert replaced == [
        ("2026-01-01", "success"),
        ("2026-01-02", "success"),
        ("2026-01-03", "skipped"),
        ("2026-01-04", "success"),
    ]
    published = {dt: values for dt, values in world.stand.published().items() if dt < "2026-01-05"}
    assert published == {"2026-01-01": (1, 1), "2026-01-02": (1, 2), "2026-01-04": (1, 4)}
    assert run.receipt("release")["released"] == ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]
    assert world.holders() == {}


def test_the_form_takes_a_range_of_more_days_than_airflow_maps(world: World) -> None:
    days = [f"2025-08-{day:02}" for day in range(1, 11)]
    for dt in days:
        world.stand.write(dt, {"a": 1})
    run = world.trigger("backfill_range", conf={"start": days[0], "end": days[-1], "owner": None, "reason": "long"})

    assert run.ends() == "success"
    assert sorted(task["rendered_map_index"] for task in run.tasks() if task["task_id"] == "replace") == [
        "2025-08-01 to 2025-08-03",
        "2025-08-04 to 2025-08-06",
        "2025-08-07 to 2025-08-09",
        "2025-08-10",
    ]
    assert [dt for dt in sorted(world.stand.published()) if dt.startswith("2025-08")] == days
    assert world.holders() == {}


def test_a_run_of_which_one_partition_failed_is_failed_and_the_others_are_written(world: World) -> None:
    good, bad = "2026-01-17", "2026-01-18"
    world.stand.write(good, {"a": 1})
    world.stand.write(bad, {"b": 2}).write_text("no order\n")
    form = {"start": good, "end": bad, "owner": None, "reason": "one is broken"}
    by_form, [daily] = world.trigger("backfill_range", conf=form), world.backfill(bad, bad)

    assert (by_form.ends(), daily.ends()) == ("failed", "failed")
    assert world.stand.published()[good] == (1, 1)
    assert bad not in world.stand.published()
    assert world.holders() == {}


def test_waiting_for_a_person_has_an_end(world: World) -> None:
    dt = "2025-12-12"
    world.stand.write(dt, {"a": 1})
    world.command("claim", dt, dt, "anna")
    run = world.trigger("impatient", conf={"start": dt})

    assert run.ends() == "failed"
    assert f"{dt} claimed_by:anna, still, after 0:00:20; nothing was written" in run.log("replace")
    assert run.task("replace")["try_number"] == 1
    assert world.command("release", dt, dt, "anna")["released"] == [dt]


def test_a_run_of_a_partition_key_replaces_it_and_tells_the_assets(world: World) -> None:
    dt = "2025-12-20"
    world.stand.write(dt, {"a": 1, "b": 2})
    run = world.trigger("daily_partitions_partitioned", partition_key=dt)

    assert run.ends() == "success"
    assert world.stand.published()[dt] == (2, 3)
    [event] = run.asset_events()
    assert event["extra"] == {"dt": dt, "orders": 2, "amount": 3}
    assert event["partition_key"] == dt
    assert world.run_heard("hears_keyed_runs", dt).ends() == "success"


def test_what_was_written_starts_the_dags_behind_it_and_what_was_not_starts_none(world: World) -> None:
    dt = "2025-12-22"
    world.stand.write(dt, {"a": 1, "b": 2})
    first = world.trigger("producer", conf={"date": dt})

    assert first.ends() == "success"
    heard, keyed = world.run_heard("hears_the_asset"), world.run_heard("hears_its_dates", dt)
    assert (heard.ends(), keyed.ends()) == ("success", "success")
    assert heard.receipt("hear") == keyed.receipt("hear") == [{"dt": dt, "orders": 2, "amount": 3}]

    again = world.trigger("producer", conf={"date": dt})  # sealed meanwhile, and its source has not moved on

    assert again.ends() == "success"
    assert (again.task("replace")["state"], again.task("keyed")["state"]) == ("success", "skipped")
    assert again.asset_events() == []


def test_somebody_elses_task_is_guarded_and_its_failure_frees_the_range(world: World) -> None:
    run = world.trigger("guarded", conf={"start": "2025-12-01", "end": "2025-12-03"})

    assert run.ends() == "failed"
    assert run.task("own_work")["state"] == "failed"
    assert run.receipt("release")["released"] == ["2025-12-01", "2025-12-02", "2025-12-03"]
    assert world.holders() == {}


def test_waiting_for_a_person_holds_no_worker_slot(world: World) -> None:
    dt = "2025-12-10"
    world.stand.write(dt, {"a": 1})
    world.command("claim", dt, dt, "anna")
    run = world.trigger("waiting", conf={"start": dt, "end": dt})
    run.task_reaches("replace", "deferred")
    run.task_reaches("deferred", "deferred")
    run.task_reaches("rescheduled", "up_for_reschedule")

    assert dt not in world.stand.published()

    world.command("release", dt, dt, "anna")

    assert run.ends() == "success"
    assert world.stand.published()[dt] == (1, 1)


def test_a_first_try_that_was_frozen_wakes_up_beside_the_second_and_writes_nothing(world: World) -> None:
    dt = "2025-11-01"
    world.stand.write_big(dt, BIG)
    run = world.trigger("daily_partitions_partitioned", partition_key=dt)
    with world.frozen_with_its_supervisor(dt) as first:
        world.insist("PATCH", f"{run.path}/taskInstances/replace", {"new_state": "failed"})
        assert run.ends() == "failed"
        again = {"dry_run": False, "dag_run_id": run.run_id, "task_ids": ["replace"], "include_downstream": True}
        world.insist("POST", f"/dags/{run.dag_id}/clearTaskInstances", again)

        with world.frozen_with_its_supervisor(dt, beside=first):
            signal_all([first], signal.SIGCONT)
            wait_for(
                "the first try has counted",
                lambda: first not in processes_that_read(world.stand.events / f"dt={dt}.jsonl"),
            )
            signal_all([parent_of(first)], signal.SIGCONT)
            wait_for("the first try has ended", lambda: not Path(f"/proc/{first}").exists())

            assert dt not in world.stand.published()
            assert world.stand.holders()[dt] == f"{run.dag_id}/{run.run_id}"

    assert run.ends() == "success"
    assert world.stand.published()[dt] == (BIG, BIG)
    assert dt not in world.stand.holders()


def test_a_range_marked_failed_writes_nothing_after_it_was_given_back_and_is_failed(world: World) -> None:
    dt = "2025-11-10"
    world.stand.write_big(dt, BIG)
    run = world.trigger("backfill_range", conf={"start": dt, "end": dt, "owner": None, "reason": "a test"})
    run.task_reaches("replace", "running")  # the plan has counted it, too
    with world.frozen_with_its_supervisor(dt) as replacing:
        world.insist("PATCH", run.path, {"state": "failed"})
        release = run.task_reaches("release", *ENDED)
        published = world.stand.published()
        assert release["state"] == "success"
        assert run.receipt("release")["released"] == [dt]

        signal_all([replacing], signal.SIGCONT)
        wait_for("it has counted", lambda: replacing not in processes_that_read(world.stand.events / f"dt={dt}.jsonl"))
        signal_all([parent_of(replacing)], signal.SIGCONT)
        wait_for("it has ended", lambda: not Path(f"/proc/{replacing}").exists())

    assert dt not in published
    assert world.stand.published() == published
    wait_for("the day is free", lambda: dt not in world.stand.holders())
    assert run.ends() == "failed"
    assert run.task("rollup")["state"] == "skipped"
    assert "this run is not whole: replace failed" in run.log("outcome")


def test_two_runs_in_a_persons_name_enter_in_turn_and_no_conf_speaks_for_a_run(world: World) -> None:
    dt = "2025-11-20"
    world.stand.write_big(dt, BIG)
    world.command("claim", dt, dt, "anna")
    first = world.trigger("daily_partitions", logical_date="2025-11-21", conf={"owner": "anna"})
    with world.caught_while_holding(first, dt):
        [second] = world.backfill(dt, dt, conf={"owner": "anna"})
        name = f"daily_partitions/{first.run_id}"
        third = world.trigger("daily_partitions_partitioned", partition_key=dt, conf={"owner": name})
        second.task_reaches("replace", "deferred")
        third.task_reaches("replace", "deferred")

        assert second.receipt("replace")["skipped"] == [[dt, f"claimed_by:anna, {name}, replace"]]
        assert third.receipt("replace")["skipped"] == [[dt, "claimed_by:anna"]]
        assert dt not in world.stand.published()

    assert first.ends() == "success"
    assert second.ends() == "success"
    assert world.command("release", dt, dt, "anna")["released"] == [dt]
    assert third.ends() == "success"
    assert dt not in world.holders()


def test_nested_claims_are_given_back_one_by_one(world: World) -> None:
    dt = "2025-11-25"
    world.stand.write(dt, {"a": 1})
    run = world.trigger("nested", conf={"date": dt})

    assert run.ends() == "success"
    assert run.receipt("release_visits")["released"] == [dt]
    assert run.receipt("own_work")[dt] == f"nested/{run.run_id}"
    assert run.receipt("release_orders")["released"] == [dt]
    assert world.stand.published()[dt] == (1, 1)
    assert dt not in world.holders()


def test_nothing_stays_claimed_after_only_what_failed_was_cleared(world: World) -> None:
    good, bad = "2025-12-27", "2025-12-28"
    world.stand.write(good, {"a": 1})
    world.stand.write(bad, {"b": 2}).write_text("no order")
    run = world.trigger("backfill_range", conf={"start": good, "end": bad, "owner": None, "reason": "a test"})
    assert run.ends() == "failed"
    assert not {good, bad} & world.holders().keys()
    world.stand.write(bad, {"b": 2})

    world.insist("POST", f"{run.path}/clear", {"dry_run": False, "only_failed": True})

    assert run.ends() == "success"
    assert world.stand.published()[bad] == (1, 2)
    assert not {good, bad} & world.holders().keys()


def test_nothing_stays_claimed_where_the_claim_was_marked_as_a_success_by_hand(world: World) -> None:
    dt = "2025-12-29"
    world.stand.write(dt, {"a": 1})
    world.command("claim", dt, dt, "anna")
    run = world.trigger("backfill_range", conf={"start": dt, "end": dt, "owner": None, "reason": "a test"})
    run.task_reaches("claim", "deferred")

    world.command("release", dt, dt, "anna")
    world.insist("PATCH", f"{run.path}/taskInstances/claim", {"new_state": "success"})

    assert run.ends() == "success"
    assert world.stand.published()[dt] == (1, 1)
    assert dt not in world.holders()


def test_a_killed_run_with_an_id_of_its_own_is_freed_when_it_was_deleted(world: World) -> None:
    dt = "2025-12-30"
    world.stand.write_big(dt, BIG)
    run = world.trigger("daily_partitions", logical_date="2025-12-31", run_id="nightly-7")
    with world.caught_while_holding(run, dt) as pid:
        os.kill(pid, signal.SIGKILL)
    run.task_reaches("replace", "up_for_retry")
    world.insist("PATCH", run.path, {"state": "failed"})
    world.insist("DELETE", run.path)
    holder = "daily_partitions/nightly-7"
    assert world.holders()[dt] == holder

    freeing = world.trigger("release_stale_claims")

    assert freeing.ends() == "success"
    assert [dt, f"{holder}, replace", "Airflow no longer knows its run"] in freeing.receipt("release")["released"]
    assert f"Released {dt} of {holder}, replace: Airflow no longer knows its run" in freeing.log("release")
    assert dt not in world.holders()


def test_the_commands_of_the_page_do_what_it_says(world: World) -> None:
    days = [f"2025-10-0{day}" for day in (1, 2, 3)]
    for dt in days:
        world.stand.write(dt, {"a": 1})
    [reserve, as_anna, give_back], [reprocess], [in_february], [status, release] = commands_of(PAGE)
    reserve, as_anna, give_back, reprocess, release = (  # dates of this test's own
        command.replace("2026-02", "2025-10") for command in (reserve, as_anna, give_back, reprocess, release)
    )

    world.shell(reserve)
    world.shell(as_anna)
    first = [world.run_of("daily_partitions", dt) for dt in days]
    assert [run.ends() for run in first] == ["success"] * 3
    assert {dt: world.holders()[dt] for dt in days} == dict.fromkeys(days, "anna")
    assert {dt: world.stand.writers()[dt] for dt in days} == dict.fromkeys(days, "anna")
    assert "anna" in world.shell(status)
    world.shell(give_back)
    assert not set(days) & set(world.holders())

    for dt in days:
        world.stand.write(dt, {"a": 1, "b": 2})
    without, asked = reprocess.split(" --reprocess-behavior ")
    assert asked == "completed"
    world.no_backfill_is_active()
    world.shell(without)
    world.no_backfill_is_active()
    assert {world.stand.published()[dt] for dt in days} == {(1, 1)}
    world.shell(reprocess)
    for run in first:
        run.task_reaches("rollup", "success", tries=2)
    assert {world.stand.published()[dt] for dt in days} == {(2, 3)}

    with_zone = in_february.replace("daily_partitions", "new_york")
    without_zone = re.sub(r"T\S+-05:00", "", with_zone)
    assert [midnights(world.shell(command)) for command in (with_zone, without_zone)] == [[1, 2, 3], [1, 2]]
    assert json.loads(world.shell(release))["released"] == []


def midnights(said: str) -> list[int]:
    """Return the days of February whose midnight in New York is among the runs that a dry run lists.

    Airflow writes the first one in the offset that was typed, the others in UTC.
    """
    listed = said.partition("Runs to be attempted")[2]
    return [int(day) for day in re.findall(r"2026-02-(\d\d) (?:05:00:00\+00:00|00:00:00-05:00)", listed)]


def commands_of(page: Path) -> list[list[str]]:
    """Return the commands of each block of a page that shows some, as a person types them."""
    blocks = [text for _, text in re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)]
    shown = [[line[2:].partition("  #")[0] for line in b.splitlines() if line.startswith("$ ")] for b in blocks]
    return [block for block in shown if block]


def make_fourteen_days(events: Path) -> None:
    subprocess.run(
        [sys.executable, str(ROOT / "gen_events.py")], env={**os.environ, "BACKFILL_EVENTS": str(events)}, check=True
    )


# Datasets: the same over a table of anybody's


def test_a_backfill_of_a_dataset_beside_its_schedule_loses_nothing(world: World) -> None:
    days = ["2026-03-01", "2026-03-02", "2026-03-03"]
    for dt in days:
        world.shop.order(dt, 1)

    runs = world.backfill(days[0], days[-1], dag_id="shop")
    scheduled = world.run_of("shop", YESTERDAY)

    assert [run.ends() for run in (*runs, scheduled)] == ["success"] * 4
    published = world.shop.published()
    assert {dt: published[dt] for dt in (*days, YESTERDAY)} == {**dict.fromkeys(days, (1, 1)), YESTERDAY: (1, 5)}
    [event] = runs[0].asset_events()
    assert event["extra"]["keys"] == [days[0]]
    assert event["extra"]["measures"][days[0]]["amount"] == "1"


def test_two_runs_of_one_day_of_a_dataset_meet_and_the_second_says_who_holds_it(world: World) -> None:
    dt = "2026-03-11"
    world.shop.order(dt, 3)
    by_hand = world.trigger("held", conf={"date": dt})
    world.airflow.wait("the function of held runs", lambda: (world.shop.gate / f"{dt} began").exists())

    [backfill] = world.backfill(dt, dt, dag_id="shop")
    backfill.task_reaches("replace", "deferred")

    holder = f"held/{by_hand.run_id}, load"
    assert backfill.receipt("replace")["skipped"] == [[dt, f"claimed_by:{holder}"]]
    assert f"{dt} claimed_by:{holder}; waiting until it is free" in backfill.log("replace")
    assert dt not in world.shop.published()

    (world.shop.gate / f"{dt} open").touch()
    assert (by_hand.ends(), backfill.ends()) == ("success", "success")
    assert by_hand.receipt("load")["published"][0]["key"] == dt
    assert backfill.receipt("replace")["quiet"] == [dt]
    assert world.shop.published()[dt] == (1, 3)
    assert [len(run.asset_events()) for run in (by_hand, backfill)] == [0, 0]


def test_a_sealed_day_of_a_dataset_is_left_alone_by_query_and_function(world: World) -> None:
    dt = "2026-03-12"
    world.shop.order(dt, 3)
    [first] = world.backfill(dt, dt, dag_id="shop")
    assert first.ends() == "success"
    sealed = world.trigger("shop.seal", conf={"start": dt, "end": dt, "reason": "sent"})
    assert sealed.ends() == "success"
    world.shop.order(dt, 4)

    tries = first.task("replace")["try_number"]
    [again] = world.backfill(dt, dt, reprocess="completed", dag_id="shop")
    by_hand = world.trigger("held", conf={"date": dt})

    again.task_reaches("replace", "skipped", tries=tries + 1)
    by_hand.task_reaches("load", "skipped")
    assert again.receipt("replace")["skipped"] == by_hand.receipt("load")["skipped"] == [[dt, "sealed"]]
    assert not (world.shop.gate / f"{dt} began").exists()
    assert world.shop.published()[dt] == (1, 3)
