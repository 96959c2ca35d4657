"""A model day from Kafka to the marts: how many events a second each step of the load carries, and all together.

    python -m benchmarks.etl [--visits-a-day 100000] [--days 3]

Kafka and the embedded warehouse are processes of their own on this machine, with nothing in them at first. A day is
published, then loaded by the steps that etl_pipeline's tasks call, one after the other; Airflow is not part of it. The
first day warms up and isn't counted. A day's events are the records of all four topics.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from clickstream import verbs
from clickstream.broker import Broker
from clickstream.etl import Etl
from clickstream.kafka import VERSION, Kafka
from clickstream.warehouse import Warehouse

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from stand_native import served_warehouse

if TYPE_CHECKING:
    from collections.abc import Callable

T0 = "2026-01-01T00:00:00Z"


def load(etl: Etl, broker: Broker) -> dict[str, float]:
    """Load what is new; return the seconds of each step."""
    seconds: dict[str, float] = {}

    def timed(what: str, step: Callable[[], object]) -> None:
        began = time.perf_counter()
        step()
        seconds[what] = time.perf_counter() - began

    def to_marts() -> None:
        for day in map(date.fromisoformat, etl.days_due()):
            etl.stage_day(day)
            etl.swap_day(day)

    timed("precheck", lambda: etl.precheck(broker))
    timed("Kafka to STG", lambda: etl.load_stg(broker))
    timed("STG to ODS", etl.load_ods)
    timed("ODS to DDS", etl.load_dds)
    timed("integrity", etl.check_integrity)
    timed("DDS to DM", to_marts)
    timed("validate", etl.validate)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visits-a-day", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=3)
    options = parser.parse_args()
    rates: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="etl-") as home:
        folder = Path(home)
        with Kafka(folder / "kafka", Path(".kafka", VERSION)) as kafka, served_warehouse(folder) as url:
            broker = Broker(kafka.servers)
            with Warehouse.opened(url) as warehouse:
                etl = Etl(warehouse)
                answer = verbs.backfill(verbs.Stand(broker), t0=T0, days=1, visits_a_day=options.visits_a_day, seed=1)
                load(etl, broker)
                for number in range(options.days):
                    answer = verbs.next_day(verbs.Stand(broker))
                    events = sum(answer["published"].values())
                    seconds = load(etl, broker)
                    seconds["all of it"] = sum(seconds.values())
                    for step, took in seconds.items():
                        rates[step].append(events / took)
                    print(f"day {number + 1}: {events:,} events in {seconds['all of it']:.1f} s", flush=True)
    for step, found in rates.items():
        print(f"{step:<14}{statistics.median(found):>12,.0f} events/s")


if __name__ == "__main__":
    main()
