"""What a user would pick instead: each engine counts the partitions of a folder, with as many of the checks as it can.

python benchmarks/peers.py ENGINE CORES FOLDER: prints {"orders", "amount"} of all partitions. Nothing is stored.
Each file is a partition with a result of its own, and its date is in its name.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator

Sums = Iterator[tuple[int, int]]

RIGHT = (
    "order_id IS NOT NULL AND dt = {name} AND amount IS NOT NULL"
    " AND (status = 'paid' OR status = 'refund' AND amount < 0)"
)


def main() -> None:
    """Count with one engine."""
    engine, cores, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    files = sorted(entry.path for entry in os.scandir(folder))
    orders = amount = 0
    for some_orders, some_amount in ENGINES[engine](files, cores):
        orders, amount = orders + some_orders, amount + some_amount
    print(json.dumps({"orders": orders, "amount": amount}))


def date_of(path: str) -> str:
    """Return the date in a file's name."""
    return path[-len("2026-02-01.jsonl") : -len(".jsonl")]


def duckdb(files: list[str], cores: int) -> Sums:
    """DuckDB reads typed columns; it takes "5" and 5.0 for 5 and the last of duplicate keys."""
    import duckdb as engine

    connection = engine.connect(config={"threads": cores})
    columns = "{order_id: 'VARCHAR', dt: 'VARCHAR', amount: 'BIGINT', status: 'VARCHAR'}"
    right = RIGHT.format(name="regexp_extract(filename, 'dt=([0-9-]+)', 1)")
    rows = connection.execute(
        f"SELECT count(*), sum(amount), count(*) FILTER (WHERE {right})"
        f" FROM read_json(?, format='newline_delimited', columns={columns}, filename=true) GROUP BY filename",
        [files],
    ).fetchall()
    for orders, amount, good in rows:
        assert orders == good
        yield orders, int(amount)


def polars(files: list[str], cores: int) -> Sums:
    """Polars scans with a schema; it takes an integer for an order_id."""
    os.environ["POLARS_MAX_THREADS"] = str(cores)
    import polars as pl

    schema = {"order_id": pl.String, "dt": pl.String, "amount": pl.Int64, "status": pl.String}
    column = pl.col
    right = (
        column("order_id").is_not_null()
        & (column("dt") == column("path").str.extract(r"dt=([0-9-]+)\.jsonl$"))
        & column("amount").is_not_null()
        & ((column("status") == "paid") | ((column("status") == "refund") & (column("amount") < 0)))
    )
    found = (
        pl.scan_ndjson(files, schema=schema, include_file_paths="path")
        .group_by("path")
        .agg(pl.len(), column("amount").sum(), right.sum().alias("good"))
        .collect(engine="streaming")
    )
    for _, orders, amount, good in found.iter_rows():
        assert orders == good
        yield orders, amount


def clickhouse(files: list[str], cores: int) -> Sums:
    """ClickHouse in this process; it wraps integers beyond 64 bits and takes true and "12" for numbers."""
    import chdb

    columns = "order_id Nullable(String), dt Nullable(String), amount Nullable(Int64), status Nullable(String)"
    right = RIGHT.format(name=r"extract(_file, 'dt=([0-9-]+)\\.jsonl$')")
    folder = os.path.dirname(files[0])
    rows = chdb.query(
        f"SELECT count(), sum(amount), countIf({right}) FROM file('{folder}/*.jsonl', JSONEachRow, '{columns}')"
        f" GROUP BY _file SETTINGS max_threads = {cores}",
        "CSV",
    )
    for row in str(rows).splitlines():
        orders, amount, good = map(int, row.split(","))
        assert orders == good
        yield orders, amount


def msgspec(files: list[str], cores: int) -> Sums:
    """Msgspec decodes line by line into a typed struct; it takes the last of duplicate keys."""
    if cores == 1:
        yield from map(_msgspec_file, files)
    else:
        with multiprocessing.Pool(cores) as pool:
            yield from pool.imap(_msgspec_file, files, chunksize=max(1, len(files) // (8 * cores)))


def _msgspec_file(path: str) -> tuple[int, int]:
    from typing import Literal

    from msgspec import defstruct
    from msgspec.json import Decoder

    fields = [("order_id", str), ("dt", Literal[date_of(path)]), ("amount", int), ("status", Literal["paid", "refund"])]
    decode = Decoder(defstruct("Order", fields, gc=False)).decode
    orders = amount = 0
    with open(path, "rb") as lines:
        for line in lines:
            order = decode(line)
            assert order.status == "paid" or order.amount < 0
            orders, amount = orders + 1, amount + order.amount
    return orders, amount


def pandas(files: list[str], _cores: int) -> Sums:
    """Pandas reads pieces of lines into frames; it has one thread, wraps big integers and takes "12" for 12."""
    import pandas as pd

    for path in files:
        orders = amount = 0
        for frame in pd.read_json(path, lines=True, chunksize=100_000, dtype=False):
            assert frame.order_id.notna().all()
            assert (frame.dt == date_of(path)).all()
            assert frame.amount.dtype == "int64"
            assert ((frame.status == "paid") | ((frame.status == "refund") & (frame.amount < 0))).all()
            orders, amount = orders + len(frame), amount + int(frame.amount.sum())
        yield orders, amount


ENGINES: dict[str, Callable[[list[str], int], Sums]] = {
    "duckdb": duckdb,
    "polars": polars,
    "clickhouse": clickhouse,
    "msgspec": msgspec,
    "pandas": pandas,
}

if __name__ == "__main__":
    main()
