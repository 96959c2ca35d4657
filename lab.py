#!/usr/bin/env python3
"""The lab: the whole story of a backfill on fourteen real partition files, told by the runner itself.

Everything is made in a folder of its own, by starting `runner.py` as anybody would, and then put in place in
`BACKFILL_HOME`; without that, in `/root/backfill` for who may write there, else in `./lab`. Made again, it is the
same. A file that stood there with other content is kept beside it, as `NAME.kept-N`.
"""

import filecmp
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count
from typing import Any

if sys.version_info < (3, 10):  # noqa: UP036  old ones are to say so, not to stumble over what they don't know
    sys.exit("lab.py needs Python 3.10 or newer, and this is %s (%s)" % (sys.version.split()[0], sys.executable))  # noqa: UP031

from backfill_core.report import Double, Split, Story, Sums, page
from backfill_core.settings import DEFAULT_HOME
from backfill_core.store.sql import TABLES

HERE = os.path.dirname(os.path.abspath(__file__))
FIRST, LAST = "2026-02-01", "2026-02-14"
RERUN = ("2026-02-01", "2026-02-07")
REPORTED, CONTESTED = "2026-02-02", "2026-02-05"
DOUBLED = ("2026-02-05", "2026-02-07")
LATE_LINE = '{"order_id": "2026-02-02-late", "dt": "2026-02-02", "amount": 12900, "status": "paid"}\n'
REASON = "one order of 2026-02-02 arrived after the day was reported"


class Runner:
    """The runner as a process, over one home."""

    def __init__(self, home: str, db: str = "state.db") -> None:
        self.db = os.path.join(home, db)
        self.events = os.path.join(home, "events")
        self._places = {"BACKFILL_DB": self.db, "BACKFILL_EVENTS": self.events}

    def __call__(self, *arguments: str, expect: int = 0) -> Any:
        """Start one command and return its answer; any other exit code than the expected one ends the lab."""
        return self._start("runner.py", *arguments, expect=expect)

    def generate(self) -> None:
        """Make the fourteen days."""
        self._start("gen_events.py", "--start", FIRST)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of `daily` in date order, as anybody with sqlite3 sees them."""
        return _rows(self.db, "daily")

    def _start(self, script: str, *arguments: str, expect: int = 0) -> Any:
        ran = subprocess.run(  # noqa: S603  our own script
            [sys.executable, os.path.join(HERE, script), *arguments],
            env=os.environ | self._places,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != expect:
            said = ran.stderr.strip() or ran.stdout.strip()
            raise SystemExit(f"lab: {script} {' '.join(arguments)} ended with {ran.returncode}, not {expect}: {said}")
        return json.loads(ran.stdout)


def main() -> int:
    """Make the lab's files and say where they are."""
    home = _home()
    with tempfile.TemporaryDirectory(prefix=".lab-", dir=home) as work:
        story = tell(work)
        report = summary(work, story)
        for name, content in (("split", story["split"]), ("double", story["double"]), ("backfill_report", report)):
            _write(work, f"{name}.json", json.dumps(content, indent=2) + "\n")
        _write(work, "backfill_report.md", page(story))
        os.makedirs(os.path.join(home, "events"), exist_ok=True)
        for name in sorted(os.listdir(os.path.join(work, "events"))):
            _place(work, home, os.path.join("events", name), filecmp.cmp)
        _place(work, home, "state.db", _same_store)
        for name in ("split.json", "double.json", "backfill_report.json", "backfill_report.md"):
            _place(work, home, name, filecmp.cmp)
    print(f"The lab is in {home}: events, state.db, split.json, double.json, backfill_report.json, backfill_report.md")
    return 0


def tell(work: str) -> Story:
    """Live through the story in an empty folder: regular runs, a seal, a late line, a backfill, a correction."""
    runner = Runner(work)
    runner.generate()
    runner("init")
    dts = [f"2026-02-{day:02}" for day in range(1, 15)]
    scheduled = [runner("run", dt, dt, "scheduled") for dt in dts]
    runner("seal", REPORTED, REPORTED)
    with open(os.path.join(runner.events, f"dt={REPORTED}.jsonl"), "a", encoding="utf-8", newline="\n") as file:
        file.write(LATE_LINE)
    runner("claim", *RERUN, "backfill")
    met = runner("run", CONTESTED, CONTESTED, "scheduled", expect=5)
    rerun = runner("run", *RERUN, "backfill", expect=5)
    runner("release", *RERUN, "backfill")
    retried = runner("run", CONTESTED, CONTESTED, "scheduled")
    correction = runner("amend", REPORTED, REASON)
    rollup = runner("rollup")
    return {
        "scheduled": scheduled,
        "met": met,
        "rerun": rerun,
        "retried": retried,
        "correction": correction,
        "rollup": {"order_total": rollup["order_total"], "amount_total": rollup["amount_total"]},
        "split": split(work, dts),
        "double": double(work),
    }


def split(work: str, dts: list[str]) -> Split:
    """Run the range in one go and day by day, each in a fresh store; then ask whether running again changes a row."""
    whole, by_day = Runner(work, "whole.db"), Runner(work, "by_day.db")
    whole("init")
    whole("run", FIRST, LAST, "whole")
    by_day("init")
    for dt in dts:
        by_day("run", dt, dt, "by_day")
    before = whole.rows()
    whole("run", FIRST, LAST, "whole")
    return {"whole": _sums(whole), "by_day": _sums(by_day), "rerun_changed": whole.rows() != before}


def double(work: str) -> Double:
    """Add a range's totals, run a part of it again and add that: what a total that adds makes of a backfill."""
    runner = Runner(work, "double.db")
    runner("init")
    runner("run", FIRST, LAST, "scheduled")
    runner("rollup-add", FIRST, LAST)
    runner("run", *DOUBLED, "backfill")
    added = runner("rollup-add", *DOUBLED)["amount_total"]
    true = runner("rollup")["amount_total"]
    return {
        "backfill_range": list(DOUBLED),
        "true_total": true,
        "add_after_backfill": added,
        "gap": added - true,
    }


def summary(work: str, story: Story) -> dict[str, Any]:
    """Put the state of the store into numbers."""
    db = os.path.join(work, "state.db")
    daily = _rows(db, "daily")
    return {
        "partitions": len(daily),
        "orders": sum(orders for _, orders, _, _ in daily),
        "amount": sum(amount for _, _, amount, _ in daily),
        "sealed": [dt for (dt,) in _rows(db, "seals")],
        "corrections": len(_rows(db, "corrections")),
        "rollup": story["rollup"],
        "double_gap": story["double"]["gap"],
    }


def _home() -> str:
    """Return the folder for the lab's files, made if it was missing."""
    home = os.environ.get("BACKFILL_HOME", "")
    if not home:
        with suppress(OSError):
            os.makedirs(DEFAULT_HOME, exist_ok=True)
        home = DEFAULT_HOME if os.access(DEFAULT_HOME, os.W_OK | os.X_OK) else "lab"
    home = os.path.abspath(home)
    try:
        os.makedirs(home, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return home
    except OSError as error:
        raise SystemExit(f"lab: {home} can't be written: {error.strerror}; set BACKFILL_HOME") from None


def _place(work: str, home: str, name: str, same: Callable[[str, str], bool]) -> None:
    """Move one file into the home; what stood there with other content is kept beside it."""
    made, target = os.path.join(work, name), os.path.join(home, name)
    if os.path.lexists(target):
        if os.path.isfile(target) and same(made, target):
            return
        kept = next(f"{target}.kept-{number}" for number in count(1) if not os.path.lexists(f"{target}.kept-{number}"))
        os.rename(target, kept)
        print(f"{target} held something else; it is kept as {kept}")
    os.rename(made, target)


def _same_store(made: str, found: str) -> bool:
    """Compare two stores table by table; opening the one that was found also takes in what a crash left beside it."""
    try:
        return all(_rows(made, table) == _rows(found, table) for table in TABLES)
    except sqlite3.Error:
        return False


def _rows(db: str, table: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()  # noqa: S608  a name of ours


def _sums(runner: Runner) -> Sums:
    rows = runner.rows()
    return {"orders": sum(row[1] for row in rows), "amount": sum(row[2] for row in rows)}


def _write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
