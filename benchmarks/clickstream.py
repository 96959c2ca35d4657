"""A model day, generated and published, against the broker's own limit: the same bytes, already made, published alike.

    python -m benchmarks.clickstream [--visits-a-day 100000] [--rounds 3]

The two alternate on the same Kafka (one of its own, or KAFKA_BOOTSTRAP_SERVERS), so both meet the same machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from clickstream import verbs
from clickstream.broker import Broker
from clickstream.instant import DAY, Instant, parse, spell
from clickstream.kafka import VERSION, Kafka
from clickstream.world import Parameters, World

if TYPE_CHECKING:
    from clickstream.topics import Batch

T0 = "2026-01-01T00:00:00Z"


def day_already_made(visits_a_day: int) -> list[Batch]:
    start = parse(T0)
    world = World(Parameters(start, 1, visits_a_day))
    for _ in world.until(Instant(start + DAY)):
        pass
    return list(world.until(Instant(start + 2 * DAY)))


def publish_made(broker: Broker, batches: list[Batch]) -> float:
    with broker.seat("benchmark"), broker.writer() as writer:
        began = time.perf_counter()
        writer.begin()
        for batch in batches:
            for topic, lines in batch.items():
                writer.send_lines(topic, lines)
        writer.flush()
        writer.commit()
        return time.perf_counter() - began


def publish_next_day(broker: Broker) -> float:
    began = time.perf_counter()
    verbs.next_day(verbs.Stand(broker))
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visits-a-day", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with ExitStack() as stack:
        servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        if not servers:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-")))
            servers = stack.enter_context(Kafka(folder, Path(".kafka", VERSION))).servers
        batches = day_already_made(options.visits_a_day)
        events = sum(lines.count(b"\n") for batch in batches for lines in batch.values())
        size = sum(len(lines) for batch in batches for lines in batch.values())
        print(
            f"{events:,} events of {size / events:.0f} bytes in the day that ends {spell(Instant(parse(T0) + 2 * DAY))}"
        )

        limits, days = [], []
        for _ in range(options.rounds):
            made = Broker(servers, f"bench{uuid.uuid4().hex[:8]}_")
            made.create_topics()
            limits.append(events / publish_made(made, batches))
            made.delete_topics()
            fresh = Broker(servers, f"bench{uuid.uuid4().hex[:8]}_")
            verbs.backfill(verbs.Stand(fresh), t0=T0, days=1, visits_a_day=options.visits_a_day, seed=1)
            days.append(events / publish_next_day(fresh))
            fresh.delete_topics()
            print(f"already made {limits[-1]:>9,.0f}/s   next-day {days[-1]:>9,.0f}/s   {days[-1] / limits[-1]:.2f}")
        limit, day = statistics.median(limits), statistics.median(days)
        print(f"median       {limit:>9,.0f}/s   next-day {day:>9,.0f}/s   {day / limit:.2f} of the broker's limit")
        print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB, the day already made included")


if __name__ == "__main__":
    main()
