#!/usr/bin/env python3
"""Make source partitions: the lab's fourteen days, or as many and as large as asked for. The same bytes each time."""

import argparse
import json
import os
import random
import sys
from datetime import timedelta

if sys.version_info < (3, 10):  # noqa: UP036  old ones are to say so, not to stumble over what they don't know
    sys.exit("gen_events.py needs Python 3.10 or newer, and this is %s (%s)" % (sys.version.split()[0], sys.executable))  # noqa: UP031

from backfill_core import DateRange, Settings, UsageError, parse_date


def main(arguments: list[str]) -> int:
    """Write the partitions and print what was written as one JSON object; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", default="2026-02-01", help="the first day, YYYY-MM-DD (default %(default)s)")
    parser.add_argument("--days", type=int, default=14, help="how many days (default %(default)s)")
    parser.add_argument("--lines", type=int, default=200, help="lines on the first day; each next day has 7 more")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other orders (default %(default)s)")
    parser.add_argument("--out", help="the folder (default: $BACKFILL_EVENTS, else events in $BACKFILL_HOME)")
    given = parser.parse_args(arguments)
    if given.days < 1 or given.lines < 0:
        parser.error("--days is at least 1, and --lines at least 0")
    try:
        first = parse_date(given.start)
        dates = DateRange(first, first + timedelta(days=given.days - 1))
    except (UsageError, OverflowError) as error:
        parser.error(str(error))
    folder = given.out or Settings.from_env(os.environ).events
    try:
        os.makedirs(folder, exist_ok=True)
        lines = sum(write_partition(folder, dt, given.lines + 7 * n, given.seed) for n, dt in enumerate(dates))
    except OSError as error:
        print(f"{error.filename or folder}: {error.strerror}", file=sys.stderr)
        return 1
    print(json.dumps({"out": folder, "partitions": len(dates), "lines": lines}))
    return 0


def write_partition(folder: str, dt: str, lines: int, seed: int) -> int:
    """Write one partition whole, or not at all; return its number of lines. About one order in twenty is a refund."""
    path = os.path.join(folder, f"dt={dt}.jsonl")
    # random() alone: of all of Python's generators it is the one that promises the same numbers in every version.
    chance = random.Random(f"{seed} {dt}").random  # noqa: S311  play data
    with open(f"{path}.part", "w", encoding="utf-8", newline="\n") as file:
        for number in range(lines):
            amount = 500 + int(chance() * 99_500)
            refund = chance() < 0.05
            file.write(
                f'{{"order_id": "{dt}-{number:07}", "dt": "{dt}", "amount": {-amount if refund else amount}, '
                f'"status": "{"refund" if refund else "paid"}"}}\n'
            )
    os.replace(f"{path}.part", path)
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
