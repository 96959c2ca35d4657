"""What the whole-loop tests see of a stand, and do to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from airflow_native import ROOT
from clickstream import verbs
from clickstream.etl import MARTS, Etl
from clickstream.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stand_native import Run, Stand

Moved: TypeAlias = set[tuple[str, str]]


def succeeded(run: Run) -> Run:
    assert run.state() == "success", (run.tasks(), run.reason())
    return run


def said_last(run: Run, task_id: str) -> str:
    return run.log(task_id)[-1]


def counts(stand: Stand) -> dict[tuple[str, str], tuple[int, int, str]]:
    """Every mart's every day: rows, events, checksum of all that it says."""
    return {
        (line["mart"], line["event_date"]): (line["rows"], line["events"], line["checksum"]) for line in stand.counts()
    }


def moved(before: dict[Any, Any], after: dict[Any, Any]) -> Moved:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def everywhere(*days: str) -> Moved:
    return {(mart, day) for mart in MARTS for day in days}


def events(stand: Stand) -> int:
    return sum(line["events"] for line in stand.counts() if line["mart"] == "visits_daily")


def boundaries(stand: Stand) -> int:
    """Look at every boundary of the chain, and return how many there are."""
    answer = verbs.chain_check(verbs.Stand(stand.broker))
    assert answer["faults_found"] == 0, answer
    return len(answer["boundaries"])


def covered(t_end: str) -> list[str]:
    """The calendar dates of the model day that begins at an instant."""
    start = datetime.fromisoformat(t_end.replace("Z", "+00:00")).astimezone(timezone.utc)
    last = start + timedelta(days=1) - timedelta(microseconds=1)
    return sorted({start.date().isoformat(), last.date().isoformat()})


def store_of(environ: Mapping[str, str]) -> str:
    """The marts' store, which the connection of an environment names."""
    named = json.loads(environ["AIRFLOW_CONN_BACKFILL_MARTS"])
    url = urlsplit(str(named["host"]))
    return (
        url._replace(netloc=f"{named['login']}:{named['password']}@{url.netloc}").geturl() if url.scheme else url.path
    )


def runner(stand: Stand, *arguments: str) -> Any:
    """The contract's command line on the store of the marts, as a person calls it."""
    return json.loads(_python(stand, str(ROOT / "runner.py"), *arguments))


def clickstream(stand: Stand, *arguments: str) -> Any:
    """One of the stand's verbs on the command line, as a person calls it."""
    return json.loads(_python(stand, "-m", "clickstream", *arguments))


def _python(stand: Stand, *arguments: str) -> str:
    environ = {**os.environ, **stand.environ, "BACKFILL_DB": store_of(stand.environ), "BACKFILL_EVENTS": "none"}
    called = subprocess.run(
        [sys.executable, *arguments], env=environ, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert called.returncode == 0, called.stderr
    return called.stdout


def emptied(stand: Stand) -> None:
    """Begin anew: empty the topics and what the load goes on from, and forget the marts of another test."""
    clickstream(stand, "clear", "--yes")
    clickstream(stand, "clear-warehouse", "--yes")
    with Warehouse.opened(stand.environ["CLICKHOUSE_URL"]) as warehouse:
        etl = Etl(warehouse)
        for day in map(date.fromisoformat, etl.days_due()):
            etl.stage_day(day)
            etl.swap_day(day)
