#!/usr/bin/env python3
"""Airflow 3 on this machine, natively: a home folder, free loopback ports, and its four parts as child processes.

`make airflow` runs it for a person; the end to end tests and the benchmark run it for themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "api-server": [],
    "scheduler": ["--skip-serve-logs"],
    "dag-processor": [],
    "triggerer": ["--skip-serve-logs"],
}
LOOPBACK = "127.0.0.1"
LOCAL_SETTINGS = """
from sqlalchemy import event
from sqlalchemy.engine import Engine


@event.listens_for(Engine, "savepoint")
def begin_before_a_savepoint(connection, _name):
    if not connection.connection.dbapi_connection.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
"""
"""What makes Airflow's backfills sure on SQLite: they are written run by run, with a savepoint each.

Python's driver begins no transaction there, so each run is committed on its own, may meet another writer and fail, and
then the runs of half a backfill are deleted under the scheduler's hands, which ends it.
"""
START_SECONDS = 300
STOP_SECONDS = 20
USER = "admin"


class NotReadyError(Exception):
    """Airflow, or one of its parts, did not do as it should; the message says where its log is."""


class Processes:
    """Child processes, each with its log in one folder, from the beginning of the block to its end."""

    def __init__(self, folder: Path) -> None:
        """Keep the logs in `folder`, which is made if missing."""
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def run(self, name: str, command: Sequence[str], environ: Mapping[str, str], folder: Path = ROOT) -> None:
        """Run a command to its end.

        Raises:
            NotReadyError: it failed.
        """
        self.start(name, command, environ, folder)
        code = self._running[name].wait()
        del self._running[name]
        if code:
            raise self._ended(name, code)

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str], folder: Path = ROOT) -> None:
        """Start a process that is to run until the end of the block."""
        with self._log(name).open("ab") as log:
            # A session of its own: Ctrl-C reaches this process alone, which then ends the others in order.
            self._running[name] = subprocess.Popen(  # noqa: S603
                command,
                env=environ,
                cwd=folder,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def wait(self, what: str, condition: Callable[[], Any], seconds: float = 180) -> Any:
        """Return what the condition gives as soon as that is true.

        Raises:
            NotReadyError: a process ended, or `seconds` went by.
        """
        deadline = time.monotonic() + seconds
        while not (answer := condition()):
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise self._ended(name, process.returncode)
            if time.monotonic() > deadline:
                raise NotReadyError(f"not within {seconds:.0f} s: {what}; the logs are in {self._folder}")
            time.sleep(0.2)
        return answer

    def stop(self) -> None:
        """End all of them, the gentle way first, and whatever they have started."""
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._running.clear()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _ended(self, name: str, code: int) -> NotReadyError:
        said = self._log(name).read_text(errors="replace").strip().splitlines() or ["nothing"]
        return NotReadyError(f"{name} ended with {code}; its log, {self._log(name)}, ends with: {said[-1]}")


class Airflow:
    """Airflow over REST, and the processes that it stands on.

    password: the user's, where Airflow asks for one.
    environ: what its parts were started with, for a command line beside them.
    """

    def __init__(
        self, address: str, processes: Processes, password: str = "", environ: Mapping[str, str] | None = None
    ) -> None:
        self.address = address
        self.environ = environ or {}
        self.password = password
        self._processes = processes
        self._token = ""

    def is_healthy(self) -> bool:
        """Tell whether all of its parts say that they are."""
        with suppress(OSError, ValueError):
            health = self._fetch("GET", "/api/v2/monitor/health")
            parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
            return all((health.get(part) or {}).get("status") == "healthy" for part in parts)
        return False

    def wait(self, what: str, condition: Callable[[], Any], seconds: float = 180) -> Any:
        """Return what the condition gives as soon as that is true.

        An answer of 500 or more is no answer yet: so Airflow says that its SQLite is busy.

        Raises:
            NotReadyError: a part of Airflow ended, or `seconds` went by.
        """
        return self._processes.wait(what, partial(_unless_busy, condition), seconds)

    def rest(self, method: str, path: str, body: object = None) -> Any:
        """Call the REST API and return its answer.

        Raises:
            urllib.error.HTTPError: Airflow refused.
        """
        if not self._token:
            login = ("POST", "/auth/token", {"username": USER, "password": self.password})
            self._token = self._fetch(*(login if self.password else ("GET", "/auth/token")))["access_token"]
        return self._fetch(method, f"/api/v2{path}", body, {"Authorization": f"Bearer {self._token}"})

    def _fetch(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310
            self.address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **(headers or {})},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")


@contextmanager
def native_airflow(home: Path, commands: Path, environ: Mapping[str, str], *, login: bool = False) -> Iterator[Airflow]:
    """Start an Airflow of our own, and end it with the block.

    home: its folder, made if missing; the logs of its parts are in there.
    commands: where the `airflow` command is, the `bin` of a virtual environment.
    environ: variables for all parts, besides the ones that are needed to start.
    login: ask for the password that Airflow makes itself; otherwise everybody is an admin.
    """
    home, port, command = home.resolve(), free_port(), str(commands / "airflow")
    address = f"http://{LOOPBACK}:{port}"
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])  # what the stand's DAGs need is in no package
    settings = {**_without_airflow(os.environ), "PYTHONPATH": path, **_settings(home, address, login=login), **environ}
    with Processes(home) as parts:
        parts.run("migrate", [command, "db", "migrate"], settings)
        (home / "config").mkdir(exist_ok=True)
        (home / "config" / "airflow_local_settings.py").write_text(LOCAL_SETTINGS)
        for part, options in PARTS.items():
            parts.start(part, [command, part, *options], settings)
        airflow = Airflow(address, parts, environ=settings)
        airflow.wait("all parts are healthy", airflow.is_healthy, START_SECONDS)
        if login:
            made = home / "simple_auth_manager_passwords.json.generated"
            airflow.password = json.loads(made.read_text())[USER]
        yield airflow


def _settings(home: Path, address: str, *, login: bool) -> dict[str, str]:
    return {
        "PYTHONDONTWRITEBYTECODE": "",  # each task is a process of its own, and would compile all that it imports
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": str(not login),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=20",
        "AIRFLOW__API__HOST": LOOPBACK,
        "AIRFLOW__API__PORT": address.rpartition(":")[2],
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(64),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    }


def _unless_busy(condition: Callable[[], Any]) -> Any:
    try:
        return condition()
    except urllib.error.HTTPError as refusal:
        if refusal.code < 500:
            raise
        return None


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        return int(taken.getsockname()[1])


def _without_airflow(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith(("AIRFLOW_", "_AIRFLOW"))}


def _lab(home: Path) -> dict[str, str]:
    """Return the variables of the store to work on: the ones that are set, else those of a lab made in `home`."""
    named = {name: value for name, value in os.environ.items() if name.startswith("BACKFILL_") and value}
    if named:
        return named
    environ = {"BACKFILL_HOME": str(home / "lab")}
    commands = [["runner.py", "init"]]
    if not (home / "lab" / "events").exists():
        commands.append(["gen_events.py"])
    for command in commands:
        subprocess.run(  # noqa: S603
            [sys.executable, *command], cwd=ROOT, env={**os.environ, **environ}, stdout=subprocess.DEVNULL, check=True
        )
    return environ


def main() -> int:
    """Bring Airflow up, say where it is, and end it with this process."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--home", type=Path, default=ROOT / ".airflow", help="Airflow's home (default: .airflow)")
    home: Path = options.parse_args().home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        print("Airflow is starting; this takes about a minute.", flush=True)
        with native_airflow(home, Path(sys.executable).parent, _lab(home), login=True) as airflow:
            print(f"Airflow is at {airflow.address}\nuser {USER}, password {airflow.password}", flush=True)
            print("Open the DAG backfill_range and press Trigger. Ctrl-C here ends it all.", flush=True)
            airflow.wait("a signal to end", lambda: False, seconds=float("inf"))
    except NotReadyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nAirflow has ended.", flush=True)
    return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
