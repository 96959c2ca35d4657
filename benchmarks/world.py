"""How fast the world is made, beside that of the first release: records a second of CPU time, without a broker.

    python -m benchmarks.world [--visits-a-day 100000] [--rounds 60]

The two take turns, a model hour at a time, so both meet the same machine. The ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import TYPE_CHECKING

from clickstream.first_world import FirstWorld
from clickstream.instant import HOUR, Instant, parse
from clickstream.world import Parameters, World

if TYPE_CHECKING:
    from collections.abc import Iterator

T0 = "2026-01-01T00:00:00Z"


def hours(world: World) -> Iterator[float]:
    """Make hour after hour; the records a second of each."""
    while True:
        records, began = 0, time.process_time()
        for batch in world.until(Instant(world.now + HOUR)):
            records += sum(lines.count(b"\n") for lines in batch.values())
        yield records / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visits-a-day", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    gc.disable()  # as where it is made for the broker
    parameters = Parameters(parse(T0), 1, options.visits_a_day)
    now, first = hours(World(parameters)), hours(FirstWorld(parameters))
    rates = [(next(now), next(first)) for _ in range(options.rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*rates, strict=True))
    print(f"now {ours:,.0f}/s   first release {theirs:,.0f}/s   {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
