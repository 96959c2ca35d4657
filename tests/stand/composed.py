"""docker-compose.yaml without containers: its own commands, environments and health checks, as processes.

What differs from what compose does is in this file's tables, and nowhere else:

- each service runs what its image's entry point makes of its command (ENTRY_POINTS), natively;
- it gets the variables that its image sets, and those that a container's own network makes needless (`_own`);
- in every text, a container's folders become folders of ours, and a service's port a free one of 127.0.0.1 (`text`).

Nothing of the caller's environment gets in. Secrets are made up, all else is as in .env.example.
"""

from __future__ import annotations

import re
import secrets
import shlex
import socket
import subprocess
import sys
from base64 import urlsafe_b64encode
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from airflow_native import Airflow, Processes, free_port
from clickstream.kafka import HERE, VERSION, fetch
from stand_native import Stand
from tests.servers import OwnPostgres
from tests.stand.served import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = (ROOT / "docker-compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?::([-?])([^}]*))?\}")

COMMANDS = Path(sys.executable).parent
SUPERSET_COMMANDS = ROOT / ".venv-superset" / "bin"
TOOLS = ROOT / ".kafka" / f"{VERSION}-tools"
PORTS = ("5432", "19092", "9092", "9093", "8123", "8080", "8088", "8974")
"""Where the services listen in their containers; the last one is the scheduler's own health check."""
HOSTS = (*SERVICES, "localhost", "127.0.0.1")
START_SECONDS = 300


def example() -> dict[str, str]:
    """The variables of .env.example."""
    lines = (ROOT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def filled(text: str, values: dict[str, str]) -> str:
    """What compose makes of a text."""
    return VARIABLE.sub(lambda found: values[found[1]] or found[3] or "", text).replace("$$", "$")


class Composed:
    """The services of docker-compose.yaml that were asked for, from the beginning of the block to its end."""

    def __init__(self, home: Path) -> None:
        self.home = home.resolve()
        self.values = {name: value or secrets.token_hex(32) for name, value in example().items()}
        self.values["AIRFLOW_FERNET_KEY"] = urlsafe_b64encode(secrets.token_bytes(32)).decode()
        self._ports = {port: str(free_port()) for port in PORTS}
        self._processes = Processes(self.home)
        self._servers: list[OwnPostgres] = []
        self._started: set[str] = set()
        self._ready: set[str] = set()

    def __enter__(self) -> Composed:
        for folder in ("/opt/airflow/state", "/var/lib/kafka/data", "/opt/kafka/bin", "/app/superset_home"):
            Path(self.text(folder)).mkdir(parents=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._processes.stop()
        for server in self._servers:
            server.close()

    # The file

    def text(self, text: object) -> str:
        """A text of the file, as a process of this machine needs it."""
        local = filled(str(text), self.values)
        ours = {"/opt/stand": f"{ROOT}", "/opt/dashboards": f"{ROOT}/dashboards"}
        folders = rf"(?<![\w/.-])({'|'.join(ours)}|/opt|/var|/app)(?![\w.-])"
        local = re.sub(folders, lambda found: ours.get(found[1], f"{self.home}{found[1]}"), local)
        places = rf"(?:\b(?:{'|'.join(HOSTS)}))?:({'|'.join(PORTS)})\b"
        return re.sub(places, lambda found: f"127.0.0.1:{self._ports[found[1]]}", local)

    def environ(self, name: str) -> dict[str, str]:
        """A service's environment."""
        given = {key: self.text(value) for key, value in SERVICES[name].get("environment", {}).items()}
        return {"HOME": str(self.home), "LC_ALL": "C.UTF-8", **self._own(_image(name)), **given}

    def url(self, port: str) -> str:
        """Where a service that listens on this port of its container answers HTTP."""
        return f"http://127.0.0.1:{self._ports[port]}"

    def _own(self, image: str) -> dict[str, str]:
        """What an image sets, and what makes up for a network of its own."""
        path = "/usr/local/bin:/usr/bin:/bin"
        if image == "airflow":
            return {
                "PATH": f"{COMMANDS}:{path}",
                "AIRFLOW_HOME": self.text("/opt/airflow/"),
                "AIRFLOW__API__HOST": "127.0.0.1",
                "AIRFLOW__API__PORT": self._ports["8080"],
                "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_HOST": "127.0.0.1",
                "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": self._ports["8974"],
                "HOSTNAME": socket.getaddrinfo(socket.gethostname(), None, flags=socket.AI_CANONNAME)[0][3],
            }
        if image == "superset":
            return {
                "PATH": f"{SUPERSET_COMMANDS}:{path}",
                "SUPERSET_HOME": self.text("/app/superset_home"),
                "FLASK_APP": "superset.app:create_app()",
            }
        return {"PATH": path, "PGPORT": self._ports["5432"], "PYTHONPATH": str(ROOT)}

    # The services

    def up(self, *names: str) -> None:
        """Start these services and all that they wait for, and wait until they are healthy, or done."""
        for name in names:
            self._start(name)
        for name in names:
            self._wait(name)

    def _start(self, name: str) -> None:
        if name in self._started:
            return
        self.up(*SERVICES[name].get("depends_on", {}))
        self._started.add(name)
        ENTRY_POINTS[_image(name)](self, name, self._command(name))

    def _wait(self, name: str) -> None:
        if name not in self._ready and "healthcheck" in SERVICES[name]:
            self._processes.wait(f"{name} is healthy", partial(self._is_healthy, name), START_SECONDS)
        self._ready.add(name)

    def _is_healthy(self, name: str) -> bool:
        how, *words = [self.text(word) for word in SERVICES[name]["healthcheck"]["test"]]
        command = ["/bin/sh", "-c", *words] if how == "CMD-SHELL" else words
        return self.run(name, *command).returncode == 0

    def run(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as `docker compose exec` does: in the environment of a service."""
        return subprocess.run(
            command, env=self.environ(name), cwd=self.home, capture_output=True, text=True, check=False
        )

    def _command(self, name: str) -> list[str]:
        given = SERVICES[name].get("command", [])
        return [self.text(word) for word in (shlex.split(given) if isinstance(given, str) else given)]

    def start(self, name: str, command: list[str]) -> None:
        """Start a service's process; one that compose starts again only if it fails runs to its end."""
        begin = self._processes.run if SERVICES[name]["restart"] == "on-failure" else self._processes.start
        begin(name, command, self.environ(name), self.home)

    def postgres(self, name: str) -> None:
        """Start PostgreSQL, with the scripts that its image runs at first."""
        environ = self.environ(name)
        server = OwnPostgres(user="postgres", password=environ["POSTGRES_PASSWORD"], database="postgres")
        self._servers.append(server)
        self._ports["5432"] = str(server.port)
        for config in SERVICES[name]["configs"]:
            server.script(COMPOSE["configs"][config["source"]]["content"])

    # What a person does

    def stand(self) -> Stand:
        """The stand, as a person with the password sees it."""
        airflow = Airflow(self.url("8080"), self._processes, self.values["AIRFLOW_PASSWORD"])
        return Stand(airflow, self.environ("airflow-scheduler"))


def _image(name: str) -> str:
    return re.split(r"[/:]", SERVICES[name]["image"])[-2]


def _start_postgres(composed: Composed, name: str, _: list[str]) -> None:
    composed.postgres(name)


def _start_kafka(composed: Composed, name: str, _: list[str]) -> None:
    """As the image's launch script does: Kafka's own program makes properties of the variables and formats the log."""
    jars, home = ROOT / ".kafka" / VERSION, Path(composed.text("/opt/kafka/"))
    fetch(jars)
    _fetch_tools()
    for folder in ("default", "mounted", "config"):
        (home / folder).mkdir()
    for nothing in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):
        (home / "default" / nothing).touch()
    java = f"java -Xmx768m -Dlog4j2.configurationFile={HERE}/log4j2.properties -cp '{jars}/*:{TOOLS}/*'"
    check = Path(composed.text("/opt/kafka/bin/kafka-broker-api-versions.sh"))
    check.write_text(f'#!/bin/sh\nexec {java} org.apache.kafka.tools.BrokerApiVersionsCommand "$@"\n')
    check.chmod(0o755)
    folders = "--default-configs-dir default --mounted-configs-dir mounted --final-configs-dir config"
    launch = f"cd {home}\n{java} kafka.docker.KafkaDockerWrapper setup {folders}\nexec {java} kafka.Kafka"
    composed.start(name, ["bash", "-ec", f"{launch} config/server.properties"])


def _fetch_tools() -> None:
    """Have Maven copy the jar with Kafka's own health check."""
    if not (TOOLS / f"kafka-tools-{VERSION}.jar").exists():
        copy = ["mvn", "--batch-mode", "--quiet", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"]
        what = [f"-Dartifact=org.apache.kafka:kafka-tools:{VERSION}", f"-DoutputDirectory={TOOLS}"]
        subprocess.run([*copy, *what], check=True, capture_output=True)


def _start_warehouse(composed: Composed, name: str, _: list[str]) -> None:
    """The embedded warehouse in the place of ClickHouse's server."""
    place = ["--folder", str(composed.home / "warehouse"), "--port", composed.url("8123").rpartition(":")[2]]
    composed.start(name, [sys.executable, "-m", "clickstream", "warehouse", *place])


def _start_airflow(composed: Composed, name: str, command: list[str]) -> None:
    """A command other than bash is one of Airflow's. Its log server, which listens on all addresses, stays away."""
    alone = ["--skip-serve-logs"] if command[0] in ("scheduler", "triggerer") else []
    composed.start(name, command if command[0] == "bash" else ["airflow", *command, *alone])


def _start_superset(composed: Composed, name: str, command: list[str]) -> None:
    """Without a command the image starts gunicorn."""
    bind = composed.url("8088").removeprefix("http://")
    serve = ["gunicorn", "--bind", bind, "--workers", "1", "--worker-class", "gthread", "--threads", "20"]
    composed.start(name, command or [*serve, "--timeout", "60", "superset.app:create_app()"])


ENTRY_POINTS: dict[str, Callable[[Composed, str, list[str]], None]] = {
    "postgres": _start_postgres,
    "kafka": _start_kafka,
    "clickhouse-server": _start_warehouse,
    "airflow": _start_airflow,
    "superset": _start_superset,
}
