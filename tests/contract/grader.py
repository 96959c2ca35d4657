"""What an outside grader has in hand: the runner as a process, partition files and the SQLite file.

Nothing here imports the project, and nothing is needed but the standard library and pytest.
"""

from __future__ import annotations

import ctypes
import datetime
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE = 240  # seconds until a process that hangs is given up; no test is about speed
RUN_KEYS = {"owner", "done", "skipped", "orders", "amount"}
TABLES = {
    "daily": ["dt", "orders", "amount", "owner"],
    "rollup": ["metric", "value"],
    "claims": ["dt", "owner"],
    "seals": ["dt"],
    "corrections": ["dt", "orders_before", "amount_before", "orders_after", "amount_after", "reason"],
}
LARGEST, SMALLEST = 2**63 - 1, -(2**63)


def days(start: str, count: int) -> list[str]:
    """The dates of `count` days from `start` on."""
    first = datetime.date.fromisoformat(start)
    return [(first + datetime.timedelta(days=n)).isoformat() for n in range(count)]


def line(amount: Any = 5, dt: str = "2026-02-01", **changes: Any) -> str:
    """One source line; a negative amount makes it a refund."""
    refund = isinstance(amount, int) and amount < 0
    order = {"order_id": "o-1", "dt": dt, "amount": amount, "status": "refund" if refund else "paid"}
    return json.dumps(order | changes, ensure_ascii=False)


def lines(dt: str, amounts: Iterable[int]) -> bytes:
    """A whole partition, one line an amount."""
    return "".join(line(a, dt, order_id=f"o-{n}") + "\n" for n, a in enumerate(amounts)).encode()


def wait_until(happened: Callable[[], bool], what: str) -> None:
    """Look again and again until it has happened."""
    end = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > end:
            pytest.fail(f"waited in vain until {what}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), f"a key comes twice in the answer: {pairs}"
    return dict(pairs)


def _no_constant(name: str) -> None:
    pytest.fail(f"{name} is not JSON")


def plain_environment() -> dict[str, str]:
    """The environment without anything that steers the runner or Python."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("BACKFILL_", "PYTHON"))}


_libc = ctypes.CDLL(None)


def obey_file_modes() -> None:
    """Make the process to be started obey file modes, root's too.

    Root passes by modes with CAP_DAC_OVERRIDE (1) and CAP_DAC_READ_SEARCH (2). Both leave the bounding set here
    (PR_CAPBSET_DROP is 24), so the program that is executed next doesn't get them. Others obey modes anyway.
    """
    for capability in (1, 2):
        _libc.prctl(24, capability, 0, 0, 0)


@dataclass(frozen=True)
class Answer:
    """What one call of the runner said."""

    code: int
    json: dict[str, Any]
    err: str

    @classmethod
    def read(cls, code: int, out: bytes, err: bytes) -> Answer:
        """Take the output apart; what holds for every answer is checked here, once."""
        said = err.decode("utf-8", "replace")
        assert "Traceback" not in said, said
        assert "Exception ignored" not in said, said
        try:
            answer = json.loads(out.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
        except ValueError as e:
            pytest.fail(f"standard output is not one JSON object ({e}): {out[:500]!r}; standard error: {said}")
        assert isinstance(answer, dict), answer
        if code == 0:
            assert "error" not in answer
            assert said == "", "standard error is for errors"
        if code in (2, 3, 6):
            assert answer.keys() == {"error"}, answer
        if "error" in answer:
            assert code != 0
            assert isinstance(answer["error"], str)
            assert answer["error"].strip()
            assert answer["error"] in said, "the sentence belongs on standard error as well"
        return cls(code, answer, said)


@dataclass
class Lab:
    """A temporary folder with a store and partitions, and the runner pointed at them."""

    folder: Path
    db: Path = field(init=False)
    events: Path = field(init=False)
    elsewhere: Path = field(init=False)
    _started: list[subprocess.Popen[bytes]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.db = self.folder / "state.db"
        self.events = self.folder / "events"
        self.elsewhere = self.folder / "elsewhere"  # where processes stand: neither the checkout nor the lab
        self.events.mkdir(parents=True)
        self.elsewhere.mkdir()

    # The runner

    def environment(self, **changes: str | None) -> dict[str, str]:
        """The environment with this lab's two variables; a None takes a variable away."""
        env = plain_environment() | {"BACKFILL_DB": str(self.db), "BACKFILL_EVENTS": str(self.events)}
        return {k: v for k, v in {**env, **changes}.items() if v is not None}

    def start(
        self,
        *arguments: str | bytes,
        env: dict[str, str | None] | None = None,
        options: Iterable[str] = (),
        before: Callable[[], object] | None = None,
        inherit: Iterable[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start `python3 runner.py …` and don't wait.

        `options` are Python's own, `before` is called in the new process, `inherit` are descriptors it keeps.
        """
        process = subprocess.Popen(
            [sys.executable, *options, str(CHECKOUT / "runner.py"), *arguments],
            cwd=self.elsewhere,
            env=self.environment(**(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(inherit),
            preexec_fn=before,
        )
        self._started.append(process)
        return process

    def finish(self, process: subprocess.Popen[bytes]) -> Answer:
        """Wait for a started runner and read what it said."""
        out, err = process.communicate(timeout=PATIENCE)
        return Answer.read(process.returncode, out, err)

    def __call__(self, *arguments: str | bytes, **how: Any) -> Answer:
        """Call the runner and wait for it."""
        return self.finish(self.start(*arguments, **how))

    def ok(self, *arguments: str | bytes, **how: Any) -> dict[str, Any]:
        """Call the runner, expect success, give its answer."""
        answer = self(*arguments, **how)
        assert answer.code == 0, answer
        return answer.json

    def close(self) -> None:
        """End what a failed test left running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    # The partitions

    def path(self, dt: str) -> Path:
        """The file of a partition."""
        return self.events / f"dt={dt}.jsonl"

    def write(self, dt: str, *amounts: int) -> None:
        """Write a partition with one line an amount; it is replaced as a whole."""
        self.write_bytes(dt, lines(dt, amounts))

    def write_bytes(self, dt: str, content: bytes) -> None:
        """Write a partition byte for byte, as a new file in place of the old one."""
        new = self.folder / f"new-{dt}"
        new.write_bytes(content)
        new.replace(self.path(dt))

    # The store

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.db, timeout=PATIENCE)) as db:
            db.execute("PRAGMA synchronous = OFF")  # what a test puts there needn't outlive a power cut
            yield db

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows from the SQLite file; a change is committed."""
        with self._connect() as db, db:
            return db.execute(sql, values).fetchall()

    @property
    def daily(self) -> dict[str, tuple[int, int, str]]:
        """What `daily` holds, by date; more than one row a date is a failure."""
        rows = self.query("SELECT dt, orders, amount, owner FROM daily ORDER BY dt")
        found = {dt: (orders, amount, owner) for dt, orders, amount, owner in rows}
        assert len(found) == len(rows), f"a date has more than one row: {rows}"
        return found

    @property
    def claims(self) -> dict[str, str]:
        """Who holds which date."""
        return dict(self.query("SELECT dt, owner FROM claims ORDER BY dt"))

    @property
    def seals(self) -> list[str]:
        """The dates in `seals`, in order, repeated if they are."""
        return [dt for (dt,) in self.query("SELECT dt FROM seals ORDER BY dt")]

    @property
    def corrections(self) -> list[tuple[Any, ...]]:
        """The rows of `corrections`, oldest first."""
        return self.query("SELECT * FROM corrections ORDER BY rowid")

    @property
    def rollup(self) -> dict[str, int]:
        """The metrics; more than one row a metric is a failure."""
        rows = self.query("SELECT metric, value FROM rollup")
        assert len(dict(rows)) == len(rows), rows
        return dict(rows)

    def hold(self, dt: str, orders: int, amount: int, owner: str = "earlier") -> tuple[int, int, str]:
        """Put an earlier result into `daily`."""
        return self.hold_all([dt], orders, amount, owner)

    def hold_all(self, dates: list[str], orders: int, amount: int, owner: str = "earlier") -> tuple[int, int, str]:
        """Put the same earlier result into `daily` for each of the dates."""
        with self._connect() as db, db:
            db.executemany("INSERT INTO daily VALUES (?, ?, ?, ?)", [(dt, orders, amount, owner) for dt in dates])
        return (orders, amount, owner)

    def dump(self) -> list[str]:
        """Everything the store holds, as SQL."""
        with self._connect() as db:
            return list(db.iterdump())


def reference(content: bytes, dt: str) -> tuple[int, int] | int | None:
    """Count a partition slowly and strictly.

    Returns (orders, amount), or the number of the first bad line, or None where the contract leaves it open.
    """
    orders = total = 0
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw.strip(b" \t\r"):
            continue
        if b"\r" in raw.removesuffix(b"\r") or not raw.strip():
            return None
        amount = _amount(raw, dt)
        if not isinstance(amount, int):
            return number if amount == "bad" else None
        orders, total = orders + 1, total + amount
    return (orders, total)


def _amount(raw: bytes, dt: str) -> int | str:
    try:
        order = json.loads(raw.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_refuse)
    except ValueError:
        return "bad"
    if not isinstance(order, dict):
        return "bad"
    order_id, amount, status = order.get("order_id"), order.get("amount"), order.get("status")
    if not (isinstance(order_id, str) and order.get("dt") == dt and status in ("paid", "refund")):
        return "bad"
    if type(amount) is not int or not SMALLEST <= amount <= LARGEST or (status == "refund" and amount >= 0):
        return "bad"
    if not order_id or (status == "paid" and amount < 0):
        return "open"
    return amount


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _refuse(name: str) -> None:
    raise ValueError(name)


def tables_of(db: Path) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Every table of a SQLite file with its table_info rows."""
    with closing(sqlite3.connect(db)) as store:
        for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            yield name, store.execute(f"PRAGMA table_info({name})").fetchall()
