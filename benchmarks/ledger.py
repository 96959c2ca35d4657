"""What the ledger costs: its status when it is full, and many writers at once.

    python -m benchmarks.ledger [status] [workers] [fingerprint]

On a PostgreSQL server of its own, and for the status on SQLite too.

status: a thousand datasets with ten years each, filled in bulk; how long until all of them are told at a glance, and
the 3,653 partitions of one.
workers: 64 writers, each with a dataset of its own and a write every two seconds; how often, in a look at the server
every 20 ms, somebody waited for a lock, and how long a write took.
fingerprint: a run over ten years of which three days changed, and beside it a run that writes thirty days.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from operator import methodcaller
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psycopg

from backfill_core import dataset_review
from backfill_core.claims import Caller
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.guarded import Guarded, Wish
from backfill_core.keys import keys_between
from backfill_core.ledger.opening import open_ledger
from tests.servers import OwnPostgres

if TYPE_CHECKING:
    from collections.abc import Callable

    from backfill_core.ledger.ledger import SqlLedger
    from tests.servers import Postgres

DATASETS, FIRST, LAST = 1000, "2016-01-01", "2025-12-31"
WORKERS, SECONDS, EVERY = 64, 60, 2.0
FILL_KEYS = """
    INSERT INTO ledger_keys (dataset, key, number, token, measured, version, published_at, confirmed_at, owner, run,
        reason, seal, seals)
    SELECT dataset, key, 1, dataset || key, '[1, {"orders": "1"}, null]', 1, :at, :at,
        'dag/run', 'dag/run', '', 0, 0
    FROM (SELECT key AS dataset FROM json_each(:datasets)) AS d CROSS JOIN (SELECT key FROM json_each(:keys)) AS k
"""
FILL_COUNTS = """
    INSERT INTO ledger_counts (dataset, keys, published, held, sealed, failed, drifted, newest, latest_at)
    SELECT dataset, COUNT(*), COUNT(*), 0, 0, 0, 0, MAX(key), MAX(confirmed_at) FROM ledger_keys GROUP BY dataset
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], help="all of them if none is given")
    given = parser.parse_args()
    server = OwnPostgres(settings={"max_connections": "300", "shared_buffers": "512MB"})
    try:
        for section in given.sections or SECTIONS:
            SECTIONS[section](server)
    finally:
        server.close()


def status(server: Postgres) -> None:
    print("| | all datasets at a glance, s | 3,653 partitions of one, s |\n| --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for name, db in (("PostgreSQL", server.new_store()), ("SQLite", str(Path(folder) / "state.db"))):
            with open_ledger(db) as ledger:
                fill(ledger)
                glance = timed(ledger.counts)
                one = timed(partial(dataset_review.status, ledger, "dataset-500", "", ""))
                assert len(ledger.counts()) == DATASETS
                print(f"| {name} | {glance:.3f} | {one:.3f} |", flush=True)


def fill(ledger: SqlLedger) -> None:
    database = ledger._database  # noqa: SLF001  it is filled in bulk
    keys = json.dumps(dict.fromkeys(keys_between(FIRST, LAST)))
    with database.changing() as execute:
        for start in range(0, DATASETS, 50):
            names = json.dumps(dict.fromkeys(f"dataset-{number}" for number in range(start, start + 50)))
            execute(FILL_KEYS, {"datasets": names, "keys": keys, "at": "2026-01-01T00:00:00.000000+00:00"})
        execute(FILL_COUNTS, {})


def timed(call: Callable[[], object], rounds: int = 5) -> float:
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return median(found)


def table(server: Postgres, name: str) -> Dataset:
    server.sql(f"CREATE SCHEMA IF NOT EXISTS bench; DROP TABLE IF EXISTS bench.{name}")
    server.sql(f"CREATE TABLE bench.{name} (order_id bigint, dt date NOT NULL); CREATE INDEX ON bench.{name} (dt)")
    where = SqlTable(server.url, f"bench.{name}", day="dt")
    return Dataset(f"bench.{name}", where, measures={"orders": "count(*)"}, max_shrink=None)


def workers(server: Postgres) -> None:
    db = server.new_store()
    datasets = [table(server, f"orders_{number}") for number in range(WORKERS)]
    open_ledger(db).close()
    end = time.monotonic() + SECONDS
    took: list[float] = []

    def work(number: int) -> int:
        dataset, done = datasets[number], 0
        caller = Caller(f"dag/{number}")
        with closing(dataset.target()) as target, open_ledger(db) as ledger:
            orders = Guarded(dataset, ledger, target)
            time.sleep(EVERY * number / WORKERS)
            while time.monotonic() < end:
                began = time.monotonic()
                select = f"SELECT generate_series(1, {100 + done}) AS order_id, DATE '2026-02-01' AS dt"
                orders.write(["2026-02-01"], methodcaller("fill", select), caller, wish=Wish(always=True))
                took.append(time.monotonic() - began)
                done += 1
                time.sleep(max(0.0, began + EVERY - time.monotonic()))
        return done

    with ThreadPoolExecutor(WORKERS) as pool:
        futures = [pool.submit(work, number) for number in range(WORKERS)]
        looks = waits = 0
        with psycopg.connect(server.url, autocommit=True) as look:
            while time.monotonic() < end:
                [(waiting,)] = look.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                ).fetchall()
                looks += 1
                waits += waiting
                time.sleep(0.02)
        written = sum(future.result() for future in futures)
    print(
        f"\n{WORKERS} writers, {written} writes in {SECONDS} s; in {looks} looks at the server {waits} lock waits were"
        f" seen; a write took {median(took):.2f} s, {max(took):.2f} s at most"
    )


def fingerprint(server: Postgres) -> None:
    dataset, keys = table(server, "history"), keys_between(FIRST, LAST)
    server.sql("DROP TABLE IF EXISTS bench.source; CREATE TABLE bench.source (order_id bigint, dt date)")
    server.sql(
        "INSERT INTO bench.source SELECT n, DATE '2016-01-01' + (n % 3653)::int FROM generate_series(0, 365299) AS n"
    )
    select = "SELECT order_id, dt FROM bench.source WHERE dt >= :start AND dt < :end"
    caller = Caller("dag/run")
    with closing(dataset.target()) as target, open_ledger(server.new_store()) as ledger:
        orders = Guarded(dataset, ledger, target)
        prints = dict.fromkeys(keys, "100")
        for start in range(0, len(keys), 60):
            some = keys[start : start + 60]
            orders.write(some, methodcaller("fill", select), caller, fingerprints=dict.fromkeys(some, "100"))
        prints.update(dict.fromkeys(keys[100:103], "101"))
        server.sql("INSERT INTO bench.source SELECT n, DATE '2016-04-10' + n FROM generate_series(0, 2) AS n")
        began = time.perf_counter()
        changed = orders.write(keys, methodcaller("fill", select), caller, fingerprints=prints)
        took = time.perf_counter() - began
        began = time.perf_counter()
        orders.write(keys[-30:], methodcaller("fill", select), caller, wish=Wish(always=True))
        thirty = time.perf_counter() - began
    number = len(changed["published"])
    print(f"\nten years, {number} of {len(keys)} days changed: {took:.2f} s; thirty days written: {thirty:.2f} s")


SECTIONS: dict[str, Callable[[Postgres], None]] = {"status": status, "workers": workers, "fingerprint": fingerprint}

if __name__ == "__main__":
    os.environ.setdefault("PGCONNECT_TIMEOUT", "60")
    main()
