#!/usr/bin/env python3
"""The whole stand on this machine, natively: Kafka, the embedded warehouse and Airflow, on free loopback ports.

`make stand` runs it for a person: it makes a history, loads it, makes one day more, loads that, and shows what moved.
The whole-loop test runs the same.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote

from airflow_native import ROOT, USER, Airflow, NotReadyError

sys.path[:0] = [str(ROOT)]

from clickstream.broker import Broker  # noqa: E402
from clickstream.errors import ClickstreamError  # noqa: E402
from clickstream.etl import MARTS, Etl, MartDay  # noqa: E402
from clickstream.kafka import VERSION, Kafka  # noqa: E402
from clickstream.warehouse import Warehouse  # noqa: E402

if TYPE_CHECKING:
    from types import TracebackType

DAGS = ("etl_pipeline", "generator_control")
ENDED = ("success", "failed")
READY = "The warehouse is at "


class Stand:
    """A stand of our own, from the beginning of the block to its end; what it holds is in `home` and stays there."""

    def __init__(self, home: Path, commands: Path, *, login: bool = False) -> None:
        """`commands` is where `airflow` and `python` are."""
        self.home = home.resolve()
        self.store = str(self.home / "marts.db")
        self._commands = commands
        self._login = login
        self._parts = ExitStack()

    def __enter__(self) -> Stand:
        with ExitStack() as parts:
            self.home.mkdir(parents=True, exist_ok=True)
            self.kafka = parts.enter_context(Kafka(self.home / "kafka", ROOT / ".kafka" / VERSION))
            self.warehouse_url = self._serve_warehouse(parts)
            self.airflow = Airflow(self.home / "airflow", self._commands, self.environ(), login=self._login)
            parts.enter_context(self.airflow)
            for dag_id in DAGS:
                self.airflow.wait(f"the DAG {dag_id} is known", partial(self._knows, dag_id))
            self.pause("generator_control", paused=False)
            self._parts = parts.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.close()

    def environ(self) -> dict[str, str]:
        """Return what the DAGs' tasks, and a person's commands, have to know."""
        marts = {"conn_type": "backfill", "host": self.store, "schema": "dds.event"}
        return {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]),
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka.servers,
            "CLICKHOUSE_URL": self.warehouse_url,
            "AIRFLOW_CONN_BACKFILL_MARTS": json.dumps(marts),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
        }

    def _serve_warehouse(self, parts: ExitStack) -> str:
        """Start the warehouse and return its address."""
        command = [
            sys.executable,
            "-m",
            "clickstream",
            "warehouse",
            "--folder",
            str(self.home / "warehouse"),
            "--port",
            "0",
        ]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(  # noqa: S603
            command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        parts.callback(process.communicate)
        parts.callback(process.terminate)
        assert process.stderr is not None  # noqa: S101 - it was asked for
        said = process.stderr.readline().strip()
        if not said.startswith(READY):
            raise NotReadyError(f"the warehouse did not start: {said}")
        return said.removeprefix(READY)

    def _knows(self, dag_id: str) -> bool:
        try:
            return bool(self.airflow.rest("GET", f"/dags/{dag_id}"))
        except HTTPError:
            return False

    # What a person does

    def pause(self, dag_id: str, *, paused: bool = True) -> None:
        """Pause a DAG, or let it go on."""
        self._insist("PATCH", f"/dags/{dag_id}", {"is_paused": paused})

    def generate(self, operation: str, **params: object) -> Run:
        """Ask generator_control for a verb, and wait for the end of its run."""
        return self._run("generator_control", {"operation": operation, **params})

    def load(self, **params: object) -> Run:
        """Let etl_pipeline run once, and pause it again, so that the generator may go on."""
        self.pause("etl_pipeline", paused=False)
        try:
            return self._run("etl_pipeline", params)
        finally:
            self.pause("etl_pipeline")

    def counts(self) -> list[MartDay]:
        """Return what every mart says of every day."""
        with Warehouse.opened(self.warehouse_url) as warehouse:
            warehouse.create()
            return Etl(warehouse).counts()

    @property
    def broker(self) -> Broker:
        """The stand's topics."""
        return Broker(self.kafka.servers)

    def start(self, dag_id: str, params: dict[str, object]) -> Run:
        """Start a run and return it."""
        run = self._insist("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": params})
        return Run(self, dag_id, run["dag_run_id"])

    def _run(self, dag_id: str, params: dict[str, object]) -> Run:
        run = self.start(dag_id, params)
        self.airflow.wait(f"{dag_id} {run.run_id} ends", lambda: run.state() in ENDED, seconds=600)
        return run

    def _insist(self, method: str, path: str, body: object = None) -> Any:
        """Call again where Airflow's own SQLite is busy (503)."""

        def called() -> Any:
            try:
                return self.airflow.rest(method, path, body)
            except HTTPError as refusal:
                if refusal.code == 503:
                    return None
                raise NotReadyError(f"{method} {path}: {refusal.code} {refusal.read().decode()}") from refusal

        return self.airflow.wait(f"{method} {path} is taken", called)


class Run:
    """A DAG run, seen over REST."""

    def __init__(self, stand: Stand, dag_id: str, run_id: str) -> None:
        self._stand = stand
        self.run_id = run_id
        self.path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"

    def state(self) -> str:
        """Return the run's state."""
        return str(self._stand.airflow.rest("GET", self.path)["state"])

    def tasks(self) -> dict[str, list[tuple[str, int]]]:
        """Return the state and the number of tries of each task, one for each of its mapped instances."""
        found: dict[str, list[tuple[str, int]]] = {}
        for task in self._stand.airflow.rest("GET", f"{self.path}/taskInstances?limit=500")["task_instances"]:
            found.setdefault(task["task_id"], []).append((task["state"], task["try_number"]))
        return found

    def receipt(self, task_id: str, map_index: int = -1) -> Any:
        """Return what a task returned."""
        path = f"{self.path}/taskInstances/{task_id}/xcomEntries/return_value?map_index={map_index}&deserialize=true"
        return self._stand.airflow.rest("GET", path)["value"]

    def log(self, task_id: str, map_index: int = -1) -> list[str]:
        """Return the lines of a task's first try."""
        path = f"{self.path}/taskInstances/{task_id}/logs/1?full_content=true&map_index={map_index}"
        content = self._stand.airflow.rest("GET", path)["content"]
        return [line if isinstance(line, str) else str(line["event"]) for line in content]


def table(after: list[MartDay], before: list[MartDay]) -> str:
    """Return the counts as a table to read, a line a day, with a star at each day that moved."""
    was = {(line["mart"], line["event_date"]): line["checksum"] for line in before}
    by_day: dict[str, dict[str, MartDay]] = {}
    for line in after:
        by_day.setdefault(line["event_date"], {})[line["mart"]] = line
    lines = [f"{'':10}  page views  " + "  ".join(f"{mart:>17}" for mart in MARTS)]
    for day, marts in by_day.items():
        cells = [
            f"{marts[mart]['rows']:>11} rows{'*' if was.get((mart, day)) != marts[mart]['checksum'] else ' '}"
            if mart in marts
            else f"{'-':>17}"
            for mart in MARTS
        ]
        lines.append(f"{day}  {marts[MARTS[-1]]['page_views']:>10}  " + "  ".join(cells))
    return "\n".join(lines)


def main() -> int:
    """Bring the stand up, show one whole loop, and leave it running until a signal."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--home", type=Path, default=ROOT / ".stand", help="what it keeps (default: .stand)")
    options.add_argument("--t0", default="2026-01-01T00:00:00Z", help="start of the history [%(default)s]")
    options.add_argument("--days", type=int, default=2, help="days of the first history [%(default)s]")
    options.add_argument("--visits-a-day", type=int, default=2000, help="[%(default)s]")
    options.add_argument("--once", action="store_true", help="end after the loop")
    chosen = options.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        print("Kafka, the warehouse and Airflow are starting; this takes about a minute.", flush=True)
        with Stand(chosen.home, Path(sys.executable).parent, login=not chosen.once) as stand:
            _show_loop(stand, chosen)
            if not chosen.once:
                print(f"\nAirflow is at {stand.airflow.address}: user {USER}, password {stand.airflow.password()}")
                for name, value in stand.environ().items():
                    if name.startswith(("KAFKA", "CLICKHOUSE")):
                        print(f"export {name}={value}")
                print("Ctrl-C here ends it all; what it holds stays in", stand.home, flush=True)
                stand.airflow.wait("a signal to end", lambda: False, seconds=float("inf"))
    except (NotReadyError, ClickstreamError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nThe stand has ended.", flush=True)
    return 0


def _show_loop(stand: Stand, chosen: argparse.Namespace) -> None:
    before = stand.counts()
    if not before:
        _must(stand.generate("backfill", t0=chosen.t0, days=chosen.days, visits_a_day=chosen.visits_a_day))
        _must(stand.load())
        before = _told(f"A history of {chosen.days} days is loaded", stand, before)
    answer = _must(stand.generate("next-day")).receipt("next-day")
    _must(stand.load())
    _told(f"One model day more, until {answer['t_end']}, is loaded; * moved", stand, before)


def _must(run: Run) -> Run:
    if run.state() != "success":
        raise NotReadyError(f"the run {run.run_id} failed: {run.tasks()}")
    return run


def _told(what: str, stand: Stand, before: list[MartDay]) -> list[MartDay]:
    counts = stand.counts()
    print(f"\n{what}:\n{table(counts, before)}", flush=True)
    return counts


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
