"""Whether the engines and the strict parser make the same of ten million hostile lines.

python -m benchmarks.fuzz [--lines N] [--seed N] [--processes N]
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from random import Random

from backfill_core.counting.pattern import PatternEngine
from backfill_core.counting.vectors import VectorEngine
from tests.core.hostile import disagreement, some_lines

SHARE = 20_000  # lines that a process compares at a time


def main() -> int:
    """Print every disagreement and how many lines were compared; return 1 if there is a disagreement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1, help="other lines")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    seeds = [f"{given.seed} {number}" for number in range(-(-given.lines // SHARE))]
    disagreements = 0
    with ProcessPoolExecutor(given.processes) as pool:
        for found in pool.map(compare, seeds):
            disagreements += len(found)
            for sentence in found:
                print(sentence)
    print(f"{len(seeds) * SHARE:,} lines compared, {disagreements} disagreements")
    return 1 if disagreements else 0


def compare(seed: str) -> list[str]:
    """Return how the engines disagree with the strict parser about a share of lines."""
    rng = Random(seed)
    engines = (PatternEngine(), VectorEngine(smallest=0))
    left, found = SHARE, []
    while left > 0:
        number = min(left, rng.randrange(1, 200))
        left -= number
        lines = some_lines(rng, number, rng.choice([0, 0.01, 0.3, 1]))
        found += [sentence for engine in engines if (sentence := disagreement(lines, engine)) is not None]
    return found


if __name__ == "__main__":
    sys.exit(main())
