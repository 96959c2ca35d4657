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
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from airflow_native import LOOPBACK, ROOT, USER, Airflow, NotReadyError, Processes, free_port, native_airflow

sys.path[:0] = [str(ROOT)]

from clickstream.broker import Broker  # noqa: E402
from clickstream.errors import ClickstreamError, RefusedError  # noqa: E402
from clickstream.etl import MARTS, Etl, MartDay  # noqa: E402
from clickstream.history import published  # noqa: E402
from clickstream.instant import spell  # noqa: E402
from clickstream.kafka import VERSION, Kafka  # noqa: E402
from clickstream.warehouse import Warehouse  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DAGS = ("generator_control", "etl_pipeline")
ENDED = ("success", "failed")


class Stand:
    """What a person does with a stand: by its Airflow, and by the environment that its DAGs' tasks have."""

    def __init__(self, airflow: Airflow, environ: Mapping[str, str]) -> None:
        """Wait until Airflow knows the DAGs, and let the generator be asked."""
        self.airflow = airflow
        self.environ = environ
        for dag_id in DAGS:
            self.airflow.wait(f"the DAG {dag_id} is known", partial(self._knows, dag_id))
        self.pause("generator_control", paused=False)

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
        """Let etl_pipeline run once, and pause it when that run has ended, so that the generator may go on."""
        self.pause("etl_pipeline", paused=False)
        run = self._run("etl_pipeline", params)
        self.pause("etl_pipeline")
        return run

    def come_to_rest(self) -> None:
        """Let the runs end that were cut off or queued, which they never do under a pause; then pause etl_pipeline."""
        for dag_id in DAGS:
            self.pause(dag_id, paused=False)
            self.airflow.wait(f"the runs of {dag_id} have ended", partial(self._is_idle, dag_id), seconds=1200)
        self.pause("etl_pipeline")

    def _is_idle(self, dag_id: str) -> bool:
        under_way = self.airflow.rest("GET", f"/dags/{dag_id}/dagRuns?state=queued&state=running&limit=1")
        return not under_way["total_entries"]

    def history_ends(self) -> str | None:
        """Return where the published history ends, or None where there is none."""
        try:
            return spell(published(self.broker).manifest.t_end)
        except RefusedError:
            return None

    def counts(self) -> list[MartDay]:
        """Return what every mart says of every day."""
        with Warehouse.opened(self.environ["CLICKHOUSE_URL"]) as warehouse:
            warehouse.create()
            return Etl(warehouse).counts()

    @property
    def broker(self) -> Broker:
        """The stand's topics."""
        return Broker(self.environ["KAFKA_BOOTSTRAP_SERVERS"])

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
        self.dag_id = dag_id
        self.run_id = run_id
        self.path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"

    def state(self) -> str:
        """Return the run's state."""
        return str(self._stand.airflow.rest("GET", self.path)["state"])

    def tasks(self) -> dict[str, list[tuple[str, int]]]:
        """Return the state and the number of tries of each task, one for each of its mapped instances."""
        found: dict[str, list[tuple[str, int]]] = {}
        for task in self._instances():
            found.setdefault(task["task_id"], []).append((task["state"], task["try_number"]))
        return found

    def reason(self) -> str:
        """Return why the run failed: the last line of the log of a task that did."""
        for task in self._instances():
            if task["state"] == "failed":
                name, index, attempt = task["task_id"], task["map_index"], task["try_number"]
                return f"{name}: {(self.log(name, index, attempt) or ['its log is empty'])[-1]}"
        return "none of its tasks did"

    def _instances(self) -> list[dict[str, Any]]:
        return list(self._stand.airflow.rest("GET", f"{self.path}/taskInstances?limit=500")["task_instances"])

    def receipt(self, task_id: str, map_index: int = -1) -> Any:
        """Return what a task returned."""
        path = f"{self.path}/taskInstances/{task_id}/xcomEntries/return_value?map_index={map_index}&deserialize=true"
        return self._stand.airflow.rest("GET", path)["value"]

    def log(self, task_id: str, map_index: int = -1, attempt: int = 1) -> list[str]:
        """Return the lines of a task's try, the first by default."""
        path = f"{self.path}/taskInstances/{task_id}/logs/{attempt}?full_content=true&map_index={map_index}"
        content = self._stand.airflow.rest("GET", path)["content"]
        return [line if isinstance(line, str) else str(line["event"]) for line in content]


@contextmanager
def native_stand(home: Path, commands: Path, *, login: bool = False) -> Iterator[Stand]:
    """Start a stand of our own, and end it with the block; what it holds is in `home` and stays there.

    `commands` is where `airflow` is.
    """
    home = home.resolve()
    marts = {"conn_type": "backfill", "host": str(home / "marts.db"), "schema": "dds.event"}
    environ = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]),
        "AIRFLOW_CONN_BACKFILL_MARTS": json.dumps(marts),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
    }
    with Kafka(home / "kafka", ROOT / ".kafka" / VERSION) as kafka, served_warehouse(home) as warehouse:
        environ |= {"KAFKA_BOOTSTRAP_SERVERS": kafka.servers, "CLICKHOUSE_URL": warehouse}
        with native_airflow(home / "airflow", commands, environ, login=login) as airflow:
            yield Stand(airflow, environ)


@contextmanager
def served_warehouse(home: Path) -> Iterator[str]:
    """Start the embedded warehouse in `home`, without a login, and end it with the block; yields its address."""
    port = free_port()
    url = f"http://{LOOPBACK}:{port}"
    serve = ["-m", "clickstream", "warehouse", "--folder", str(home / "warehouse"), "--port", str(port)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CLICKHOUSE_")}
    with Processes(home) as processes:
        processes.start("warehouse", [sys.executable, *serve], environ)
        processes.wait("the warehouse answers", partial(_answers, f"{url}/ping"))
        yield url


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=10):  # noqa: S310 - on loopback
            return True
    except OSError:
        return False


def table(after: list[MartDay], before: list[MartDay]) -> str:
    """Return the counts as a table to read, a line a day, with a star at each day that moved."""
    was = {(line["mart"], line["event_date"]): line["checksum"] for line in before}
    by_day: dict[str, dict[str, MartDay]] = {}
    for line in after:
        by_day.setdefault(line["event_date"], {})[line["mart"]] = line
    lines = [f"{'':10}  {'events':>10}  " + "  ".join(f"{mart:>17}" for mart in MARTS)]
    for day, marts in by_day.items():
        cells = [
            f"{marts[mart]['rows']:>11} rows{'*' if was.get((mart, day)) != marts[mart]['checksum'] else ' '}"
            if mart in marts
            else f"{'-':>17}"
            for mart in MARTS
        ]
        lines.append(f"{day}  {marts[MARTS[-1]]['events']:>10}  " + "  ".join(cells))
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
        with native_stand(chosen.home, Path(sys.executable).parent, login=True) as stand:
            show_loop(stand, t0=chosen.t0, days=chosen.days, visits_a_day=chosen.visits_a_day)
            if not chosen.once:
                print(f"\nAirflow is at {stand.airflow.address}: user {USER}, password {stand.airflow.password}")
                print(f'export PATH="{Path(sys.executable).parent}:$PATH"')
                for name, value in stand.environ.items():
                    if name.startswith(("KAFKA", "CLICKHOUSE")):
                        print(f"export {name}={value}")
                print("Ctrl-C here ends it all; what it holds stays in", chosen.home.resolve(), flush=True)
                stand.airflow.wait("a signal to end", lambda: False, seconds=float("inf"))
    except (NotReadyError, ClickstreamError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nThe stand has ended.", flush=True)
    return 0


def show_loop(stand: Stand, *, t0: str, days: int, visits_a_day: int) -> None:
    """Load what there is, or else a fresh history; then make one model day more, and load that.

    It goes on from wherever an earlier start was ended.
    """
    stand.come_to_rest()
    before = stand.counts()
    if not stand.history_ends():
        _must(stand.generate("backfill", t0=t0, days=days, visits_a_day=visits_a_day))
    _must(stand.load())
    before = _told(f"The history until {stand.history_ends()} is loaded", stand, before)
    answer = _must(stand.generate("next-day")).receipt("next-day")
    _must(stand.load())
    _told(f"One model day more, until {answer['t_end']}, is loaded; * moved", stand, before)


def _must(run: Run) -> Run:
    if run.state() != "success":
        raise NotReadyError(f"{run.dag_id} {run.run_id} failed: {run.reason()}")
    return run


def _told(what: str, stand: Stand, before: list[MartDay]) -> list[MartDay]:
    counts = stand.counts()
    print(f"\n{what}:\n{table(counts, before)}", flush=True)
    return counts


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
