"""What the guard of a dataset costs: a million rows replaced in PostgreSQL, beside the naked delete and insert.

    python -m benchmarks.datasets [--rows 1000000] [--rounds 7] [select] [unique] [digest] [staged] [partitioned]

Both do the same on the same table of a server of their own (or of BACKFILL_TEST_POSTGRES): a partition of that many
rows goes, and as many come from a table beside it. They take turns at going first; between them the dead rows are
vacuumed away. Figures are seconds, medians; a ratio is the median of the pairs' ratios, of the time that passed and of
the CPU time of the server's processes, which a machine that is busy otherwise sways less.
"""

from __future__ import annotations

import argparse
import os
import secrets
import time
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING

import psycopg

from backfill_core.dataset import Dataset, SqlTable
from backfill_core.target import Expected, Fence
from tests.servers import OwnPostgres, Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backfill_core.target import Target

DAY = "2026-02-01"
SELECT = "SELECT order_id, dt, customer, amount, note FROM bench.source WHERE dt >= :start AND dt < :end"
COLUMNS = "order_id bigint, dt date, customer integer, amount numeric(12,2), note text"
AIMS = {"select": 1.15, "unique": 1.35, "digest": 1.5, "staged": 1.4, "partitioned": 1.15}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[[], *AIMS], help="all of them if none is given")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    named = os.environ.get("BACKFILL_TEST_POSTGRES")
    server = Postgres(named) if named else OwnPostgres(settings={"max_wal_size": "4GB", "shared_buffers": "512MB"})
    try:
        print(f"{given.rows:,} rows; medians of {given.rounds} pairs.\n")
        print("| | naked, s | guarded, s | ratio | CPU, ratio | aim |\n| --- | ---: | ---: | ---: | ---: | ---: |")
        for section in given.sections or AIMS:
            prepare(server, given.rows, partitioned=section == "partitioned")
            report(section, server, given.rounds)
    finally:
        server.sql("DROP SCHEMA IF EXISTS bench CASCADE")
        server.close()


def prepare(server: Postgres, rows: int, *, partitioned: bool) -> None:
    by_day = "PARTITION BY RANGE (dt)" if partitioned else ""
    server.sql("DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench")
    server.sql(f"CREATE TABLE bench.orders ({COLUMNS}) {by_day}")
    if partitioned:
        for day in range(1, 5):
            bounds = f"FROM ('2026-02-{day:02}') TO ('2026-02-{day + 1:02}')"
            server.sql(f"CREATE TABLE bench.orders_{day} PARTITION OF bench.orders FOR VALUES {bounds}")
    server.sql("CREATE INDEX ON bench.orders (dt)")
    server.sql(
        "CREATE TABLE bench.source AS SELECT number::bigint AS order_id, date '2026-02-01' + number % 2 AS dt,"
        " (number::bigint * 7919 % 100000)::integer AS customer,"
        " ((number::bigint * 104729 % 1000000) / 100.0)::numeric(12,2) AS amount,"
        f" 'note ' || number AS note FROM generate_series(1, {2 * rows}) AS number"
    )
    server.sql("INSERT INTO bench.orders SELECT * FROM bench.source")
    server.sql("VACUUM ANALYZE bench.orders")
    server.sql("VACUUM ANALYZE bench.source")


def report(section: str, server: Postgres, rounds: int) -> None:
    dataset = Dataset(
        name="orders",
        table=SqlTable(server.url, "bench.orders", day="dt"),
        measures={"orders": "count(*)", "amount": "sum(amount)"},
        unique=("order_id",) if section == "unique" else (),
    )
    target = dataset.target()

    def guarded() -> None:
        replace(target, server, digest=section == "digest", staged=section == "staged")

    def naked() -> None:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("BEGIN")
            connection.execute("DELETE FROM bench.orders WHERE dt = %s", [DAY])
            connection.execute(
                "INSERT INTO bench.orders SELECT order_id, dt, customer, amount, note FROM bench.source"
                " WHERE dt >= %s AND dt < %s::date + 1",
                [DAY, DAY],
            )
            connection.execute("COMMIT")

    pairs = in_turn((naked, guarded), server, rounds)
    target.close()
    ratio, cpu = (median(mine[at] / bare[at] for bare, mine in pairs) for at in (0, 1))
    bare, mine = (median(times[0] for times in column) for column in zip(*pairs, strict=True))
    print(f"| {section} | {bare:.2f} | {mine:.2f} | {ratio:.2f} | {cpu:.2f} | {AIMS[section]:.2f} |", flush=True)


def replace(target: Target, server: Postgres, *, digest: bool, staged: bool) -> None:
    token = secrets.token_hex(16)
    token_was = target.fence({DAY: Fence(1)}, "bench", 5)[DAY].token
    with target.writing([DAY], token, staged=staged) as write:
        if staged:
            with psycopg.connect(server.url, autocommit=True) as connection:
                filled = SELECT.replace(":start", f"'{DAY}'").replace(":end", f"'{DAY}'::date + 1")
                connection.execute(f"INSERT INTO {write.staging} {filled}".encode())
        else:
            write.fill(SELECT)
        write.audit(digest=digest)
        write.publish({DAY: Expected(1, token_was)}, token, "bench")


def in_turn(ways: Sequence[Callable[[], None]], server: Postgres, rounds: int) -> list[tuple[tuple[float, float], ...]]:
    """Time each way once a round, another one first every time; the first round warms up and isn't counted."""
    found = []
    for number in range(rounds + 1):
        times = [(0.0, 1.0)] * len(ways)
        for at in sorted(range(len(ways)), reverse=number % 2 == 1):
            server.sql("VACUUM bench.orders")
            server.sql("CHECKPOINT")
            began, used = time.perf_counter(), cpu_time(server)
            ways[at]()
            times[at] = time.perf_counter() - began, cpu_time(server) - used
        found.append(tuple(times))
    return found[1:]


def cpu_time(server: Postgres) -> float:
    """Return the seconds of CPU that a server of our own has used, in all its processes, also those that have ended."""
    if not isinstance(server, OwnPostgres):
        return time.perf_counter()  # another's can't be seen from here
    main, ticks = server.pid, 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
            if int(process) == main:
                ticks += sum(map(int, fields[11:15]))
            elif int(fields[1]) == main:
                ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
