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
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


class Airflow:
    """One Airflow of our own. A context manager: started when the block begins, gone when it ends.

    home: its folder, made if missing; the logs of its parts are in there.
    commands: where the `airflow` command is, the `bin` of a virtual environment.
    environ: variables for all parts, besides the ones that are needed to start.
    """

    def __init__(self, home: Path, commands: Path, environ: Mapping[str, str], *, login: bool = False) -> None:
        self.home = home.resolve()
        self.port = _free_port()
        self.address = f"http://{LOOPBACK}:{self.port}"
        self._command = str(commands / "airflow")
        self._login = login
        self._parts: dict[str, subprocess.Popen[bytes]] = {}
        self._token = ""
        self._environ = {**_without_airflow(os.environ), **self._settings(), **environ}

    def _settings(self) -> dict[str, str]:
        return {
            "PYTHONDONTWRITEBYTECODE": "",  # each task is a process of its own, and would compile all that it imports
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": str(not self._login),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db?timeout=20",
            "AIRFLOW__API__HOST": LOOPBACK,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.address,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(64),
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        }

    def __enter__(self) -> Airflow:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        with self._log("migrate") as log:
            migrated = subprocess.run(  # noqa: S603
                [self._command, "db", "migrate"], env=self._environ, stdout=log, stderr=log, check=False
            )
        if migrated.returncode:
            raise NotReadyError(f"`airflow db migrate` failed; see {self.home}/migrate.log")
        (self.home / "config").mkdir(exist_ok=True)
        (self.home / "config" / "airflow_local_settings.py").write_text(LOCAL_SETTINGS)
        for part, options in PARTS.items():
            with self._log(part) as log:
                # A session of its own: Ctrl-C reaches this process alone, which then ends the parts in order.
                self._parts[part] = subprocess.Popen(  # noqa: S603
                    [self._command, part, *options],
                    env=self._environ,
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        self.wait("all parts are healthy", self._is_healthy, seconds=START_SECONDS)

    def _log(self, name: str) -> Any:
        return (self.home / f"{name}.log").open("ab")

    def _is_healthy(self) -> bool:
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
        deadline = time.monotonic() + seconds
        while not (answer := _unless_busy(condition)):
            for part, process in self._parts.items():
                if process.poll() is not None:
                    raise NotReadyError(f"the {part} ended with {process.returncode}; see {self.home}/{part}.log")
            if time.monotonic() > deadline:
                raise NotReadyError(f"not within {seconds:.0f} s: {what}; the logs are in {self.home}")
            time.sleep(0.2)
        return answer

    def rest(self, method: str, path: str, body: object = None) -> Any:
        """Call the REST API and return its answer.

        Raises:
            urllib.error.HTTPError: Airflow refused.
        """
        if not self._token:
            self._token = self._fetch("GET", "/auth/token")["access_token"]
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

    def password(self) -> str:
        """Return the password that Airflow made for the user."""
        made = self.home / "simple_auth_manager_passwords.json.generated"
        return str(json.loads(made.read_text())[USER])

    def stop(self) -> None:
        """End all parts, the gentle way first, and whatever they have started."""
        for process in self._parts.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._parts.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._parts.clear()


def _unless_busy(condition: Callable[[], Any]) -> Any:
    try:
        return condition()
    except urllib.error.HTTPError as refusal:
        if refusal.code < 500:
            raise
        return None


def _free_port() -> int:
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
        with Airflow(home, Path(sys.executable).parent, _lab(home), login=True) as airflow:
            print(f"Airflow is at {airflow.address}\nuser {USER}, password {airflow.password()}", flush=True)
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
