"""Servers of the tests' own, in temporary folders and on free ports of the loopback address."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 240
"""Seconds until something that was waited for is given up; no test is about speed."""
DATABASE = "backfill_test"
ACCESS = "host all tester 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
LOGIN_NEEDED = "local all all trust\nhost all all all scram-sha-256\n"
SETTINGS = ("-c", "listen_addresses=127.0.0.1", "-c", "max_connections=60")


def wait_until(happened: Callable[[], object], what: str) -> None:
    """Look again and again until it has happened."""
    end = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > end:
            pytest.fail(f"waited in vain until {what}")
        time.sleep(0.005)  # between two looks


def free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Postgres:
    """A PostgreSQL server that can be reached, and stores in it, each in a schema of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._schemas: list[str] = []
        self._roles: list[str] = []

    def sql(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement as whoever the URL names; return its rows."""
        with psycopg.connect(url or self.url, autocommit=True, prepare_threshold=None) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_store(self) -> str:
        """Return the URL of a store that does not exist yet."""
        self._schemas.append(f"test_{secrets.token_hex(6)}")
        return f"{self.url}?schema={self._schemas[-1]}"

    def new_role(self) -> str:
        """Make a role that may log in and nothing else; return its name, which is its password too."""
        self._roles.append(f"role_{secrets.token_hex(6)}")
        self.sql(f"CREATE ROLE {self._roles[-1]} LOGIN PASSWORD '{self._roles[-1]}'")
        return self._roles[-1]

    def as_role(self, role: str, db: str) -> str:
        """Return the store's URL for this role."""
        parts = urlsplit(db)
        place = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"{role}:{role}@{place}"))

    def through(self, port: int, db: str) -> str:
        """Return the store's URL by way of another port of the loopback address."""
        parts = urlsplit(db)
        user = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{port}")) + "&sslmode=disable&gssencmode=disable"

    def close(self) -> None:
        """Take away what the tests made."""
        for schema in self._schemas:
            self.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        for role in self._roles:
            self.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


class OwnPostgres(Postgres):
    """A server that the test started, and may stop, kill and start again."""

    def __init__(
        self,
        *initdb: str,
        settings: dict[str, str] | None = None,
        user: str = "tester",
        password: str = "",
        database: str = DATABASE,
    ) -> None:
        """Start it. With a password, nobody comes in over the network without one, as in PostgreSQL's image."""
        self._settings = [word for name, value in (settings or {}).items() for word in ("-c", f"{name}={value}")]
        self._binaries = _binaries()
        self._starter = ThreadPoolExecutor(max_workers=1)
        self._folder = Path(tempfile.mkdtemp(prefix="backfill-postgres-"))
        _hand_over(self._folder)
        self._log = self._folder / "log"
        self.data = self._folder / "data"
        if password:
            secret = self._folder / "password"
            secret.write_text(password)
            _hand_over(secret)
            initdb = (*initdb, f"--pwfile={secret}")
        made = subprocess.run(
            [self._binaries / "initdb", "-D", self.data, "-U", user, "-A", "trust", "-E", "UTF8", *initdb],
            capture_output=True,
            text=True,
            **self._how(),
        )
        assert made.returncode == 0, made.stderr
        (self.data / "pg_hba.conf").write_text(LOGIN_NEEDED if password else ACCESS)
        self.port = free_port()
        self._default_database = f"postgresql://{user}:{password}@127.0.0.1:{self.port}/postgres"
        super().__init__(f"postgresql://{user}@127.0.0.1:{self.port}/{database}")
        self.start()
        if database != "postgres":
            self.sql(f"CREATE DATABASE {database}", self._default_database)

    @property
    def pid(self) -> int:
        """The server's first process, whose children the others are."""
        return self._process.pid

    def script(self, text: str) -> None:
        """Run a script as PostgreSQL's image runs those in docker-entrypoint-initdb.d: by psql, from inside."""
        psql = ["psql", "-v", "ON_ERROR_STOP=1", "--no-psqlrc", "--no-password"]
        place = ["--username=postgres", "--dbname=postgres", f"--host={self._folder}", f"--port={self.port}"]
        done = subprocess.run([*psql, *place], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def _how(self) -> dict[str, Any]:
        return {"env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}, "cwd": self._folder, **_unprivileged()}

    def start(self) -> None:
        with self._log.open("ab") as log:
            places = ["-D", str(self.data), "-k", str(self._folder), "-p", str(self.port)]
            command = [*_ending_with_us(), str(self._binaries / "postgres"), *places, *SETTINGS, *self._settings]
            how = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **self._how()}
            # By a thread that lives as long as we do: the server ends with the thread that started it.
            self._process = self._starter.submit(lambda: subprocess.Popen(command, **how)).result()
        wait_until(self._answers, f"PostgreSQL answers on port {self.port}; see {self._log}")

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            pytest.fail(f"PostgreSQL did not start: {self._log.read_text()[-2000:]}")
        with suppress(psycopg.OperationalError):
            self.sql("SELECT 1", self._default_database)
            return True
        return False

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT closes the connections first, SIGQUIT is a crash."""
        self._process.send_signal(how)
        self._process.wait(PATIENCE)

    def make_sure_it_runs(self) -> None:
        if self._process.poll() is not None:
            self.start()

    def hand_over(self, *paths: Path) -> None:
        """Give the server folders outside of its own."""
        _hand_over(*paths)

    def wait_for_crash(self) -> None:
        """Wait until the server has died of itself."""
        self._process.wait(PATIENCE)

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        self.stop(how)
        self.start()

    def close(self) -> None:
        if self._process.poll() is None:
            self.stop(signal.SIGQUIT)
        self._starter.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)


class PgBouncer:
    """A pooler in transaction mode with two connections to the server for everybody."""

    def __init__(self, server: Postgres) -> None:
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
        if program is None:
            pytest.fail("these tests need PgBouncer: install the package pgbouncer (apt-get install pgbouncer)")
        parts = urlsplit(server.url)
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="backfill-pgbouncer-"))
        login = f"user={parts.username}" + (f" password={parts.password}" if parts.password else "")
        settings = self._folder / "pgbouncer.ini"
        settings.write_text(
            f"""[databases]
* = host={parts.hostname} port={parts.port} {login}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
auth_type = any
pool_mode = transaction
default_pool_size = 2
unix_socket_dir =
"""
        )
        _hand_over(self._folder, settings)
        self._log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen(
            [*_ending_with_us(), program, settings],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            **_unprivileged(),
        )
        wait_until(self._answers, "PgBouncer answers")

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            pytest.fail(f"PgBouncer did not start: {Path(self._log.name).read_text()[-2000:]}")
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        return False

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _binaries() -> Path:
    found = [Path(program).parent for program in [shutil.which("postgres")] if program]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True)
    for folder in found:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    pytest.fail(
        "these tests need PostgreSQL's server: install the package postgresql (apt-get install postgresql), or name a"
        " database to test in by BACKFILL_TEST_POSTGRES=postgresql://…; tests that stop the server need their own"
    )


def _unprivileged() -> dict[str, Any]:
    """Return how to start a server that refuses to be root, if we are root ourselves."""
    if os.geteuid() != 0:
        return {}
    user = next((user for user in pwd.getpwall() if user.pw_name == "postgres"), None) or pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _hand_over(*paths: Path) -> None:
    """Give what a server will use to its user."""
    if user := _unprivileged():
        for path in paths:
            os.chown(path, user["user"], user["group"])


def _ending_with_us() -> list[str]:
    """Return what starts a program so that the kernel asks it to stop, should the tests be killed."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "INT"] if setpriv else []
