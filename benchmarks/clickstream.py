"""A model day, generated and published, against the broker's own limit: the same bytes, already made, published alike.

    python -m benchmarks.clickstream [--visits-a-day 100000] [--rounds 9]

The two take turns at going first, day after day of one history, on the same Kafka (one of its own, or
KAFKA_BOOTSTRAP_SERVERS), so both meet the same machine; the first day warms up. The ratio is the median of the rounds'.
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
from clickstream.instant import DAY, Instant, parse
from clickstream.kafka import VERSION, Kafka
from clickstream.world import Parameters, World

if TYPE_CHECKING:
    from clickstream.topics import Batch

T0 = "2026-01-01T00:00:00Z"


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
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with ExitStack() as stack:
        servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        if not servers:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-")))
            servers = stack.enter_context(Kafka(folder, Path(".kafka", VERSION))).servers
        fresh = Broker(servers, f"bench{uuid.uuid4().hex[:8]}_")
        verbs.backfill(verbs.Stand(fresh), t0=T0, days=1, visits_a_day=options.visits_a_day, seed=1)
        world = World(Parameters(parse(T0), 1, options.visits_a_day))
        for _ in world.until(Instant(world.now + DAY)):
            pass
        limits, days = [], []
        for number in range(options.rounds + 1):
            batches = list(world.until(Instant(world.now + DAY)))
            events = sum(lines.count(b"\n") for batch in batches for lines in batch.values())
            made = Broker(servers, f"bench{uuid.uuid4().hex[:8]}_")
            made.create_topics()
            if number % 2:
                limit, day = publish_made(made, batches), publish_next_day(fresh)
            else:
                day, limit = publish_next_day(fresh), publish_made(made, batches)
            made.delete_topics()
            if number == 0:
                print(f"{events:,} events in the first day, which is not counted")
                continue
            limits.append(events / limit)
            days.append(events / day)
            print(f"already made {limits[-1]:>9,.0f}/s   next-day {days[-1]:>9,.0f}/s   {limit / day:.2f}", flush=True)
        fresh.delete_topics()
        ratio = statistics.median(day / limit for day, limit in zip(days, limits, strict=True))
        print(
            f"median       {statistics.median(limits):>9,.0f}/s   next-day {statistics.median(days):>9,.0f}/s   "
            f"{ratio:.2f} of the broker's limit"
        )
        print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB, the day already made included")


if __name__ == "__main__":
    main()
