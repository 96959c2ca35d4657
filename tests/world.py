"""A store and its source, as tests see them: partitions to write, the core to call, tables to look at."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from backfill_core import Backfill, DateRange, EventFolder, create_store, open_store
from backfill_core.store import name_of
from tests.servers import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Self

CHECKOUT = Path(__file__).resolve().parents[1]
FIRST = date(2026, 2, 1)
ORDER = {
    "daily": "dt, orders, amount, owner",
    "rollup": "metric",
    "claims": "dt",
    "seals": "dt",
    "corrections": "rowid",
}

Rows = list[tuple[Any, ...]]


def day(number: int) -> str:
    """Return the date of the numbered day, 0 for the first."""
    return (FIRST + timedelta(days=number)).isoformat()


def days(count: int, start: int = 0) -> DateRange:
    """Return the range of so many days from a numbered one on."""
    return DateRange(FIRST + timedelta(days=start), FIRST + timedelta(days=start + count - 1))


def lines(dt: str, amounts: Iterable[int]) -> str:
    """Return a whole partition, one line an amount; a negative one is a refund."""
    return "".join(
        json.dumps({"order_id": f"o{n}", "dt": dt, "amount": amount, "status": "refund" if amount < 0 else "paid"})
        + "\n"
        for n, amount in enumerate(amounts)
    )


@dataclass
class World:
    """A store at `db`, and a folder of partitions. Closing it ends what it started."""

    db: str
    folder: Path
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.events.mkdir(exist_ok=True)

    @property
    def events(self) -> Path:
        return self.folder / "events"

    def init(self) -> None:
        create_store(self.db)

    # The source

    def file(self, dt: str) -> Path:
        return self.events / f"dt={dt}.jsonl"

    def put(self, dt: str, *amounts: int) -> None:
        """Write a partition as a new file in the place of the old one."""
        new = self.folder / f"new-{os.getpid()}-{dt}"
        new.write_text(lines(dt, amounts))
        new.replace(self.file(dt))

    # The core, in this process and in others

    @contextmanager
    def backfill(self) -> Iterator[Backfill]:
        with open_store(self.db) as store:
            yield Backfill(store, EventFolder(str(self.events)))

    def start(self, *arguments: str, script: Sequence[str] = ("runner.py",), **env: str) -> subprocess.Popen[bytes]:
        """Start the runner, or what else Python is to run, and don't wait for it."""
        process = subprocess.Popen(
            [sys.executable, *script, *arguments],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), "BACKFILL_DB": self.db, "BACKFILL_EVENTS": str(self.events)}
            | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._started.append(process)
        return process

    @staticmethod
    def finish(process: subprocess.Popen[bytes]) -> tuple[int, dict[str, Any]]:
        """Wait for a started runner; return its exit code and its answer, {} if it was killed."""
        out, err = process.communicate(timeout=PATIENCE)
        assert b"Traceback" not in err, err.decode()
        return process.returncode, json.loads(out) if out else {}

    def run(self, *arguments: str, **env: str) -> tuple[int, dict[str, Any]]:
        """Call the runner and wait; return its exit code and its answer."""
        return self.finish(self.start(*arguments, **env))

    # The tables

    def rows(self, table: str) -> Rows:
        """Return all that a table holds, corrections oldest first, without what only orders them."""
        statement = f"SELECT * FROM {table} ORDER BY {ORDER[table]}"
        if "://" not in self.db:
            with closing(sqlite3.connect(self.db, timeout=PATIENCE)) as connection:
                return connection.execute(statement).fetchall()
        base, _, schema = self.db.partition("?schema=")
        schema, _, options = schema.partition("&")
        with psycopg.connect(f"{base}?{options}", autocommit=True) as db:
            rows = db.execute(statement.replace("FROM ", f"FROM {schema}.").encode()).fetchall()
        return [row[:6] for row in rows]

    def daily(self) -> dict[str, tuple[int, int, str]]:
        """Return what `daily` holds, by date; more than one row a date is a failure."""
        rows = self.rows("daily")
        found = {dt: (orders, amount, owner) for dt, orders, amount, owner in rows}
        assert len(found) == len(rows), f"a date has more than one row: {rows}"
        return found

    def dump(self) -> dict[str, Rows]:
        """Return all five tables."""
        return {table: self.rows(table) for table in ORDER}

    @property
    def name(self) -> str:
        return name_of(self.db)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
