"""How long the runner takes, beside what a user would pick instead: `make bench`, or some sections of it.

python -m benchmarks.bench [--runs N] [--folder FOLDER] [large] [small] [growth] [start]

Each figure is of whole processes as the system accounts for them. The commands of a table run in turn, round after
round, so that a machine that is busy for a while is so for all of them; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from datetime import date, timedelta
from importlib.metadata import version
from statistics import median
from typing import NamedTuple

from gen_events import write_partition

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = os.path.join(os.path.dirname(HERE), "runner.py")
FIRST = date(2000, 1, 1)


class Command(NamedTuple):
    """What is measured. `sums` is whether it prints orders and amount, which must be the same for all."""

    name: str
    arguments: list[str]
    environment: dict[str, str]
    sums: bool = True


class Run(NamedTuple):
    """One run of a command: seconds of wall time and of all its processes' CPU time, MB of the largest process."""

    wall: float
    cpu: float
    memory: float


def main() -> int:
    """Measure the sections and print them as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], help="all of them if none is given")
    parser.add_argument("--runs", type=int, default=5, help="how often each command runs (default %(default)s)")
    parser.add_argument("--folder", default="build/bench", help="where the events are made (default %(default)s)")
    given = parser.parse_args()
    os.makedirs(given.folder, exist_ok=True)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # it would have each process compile its modules again
    print(machine(), flush=True)
    for section in given.sections or SECTIONS:
        SECTIONS[section](os.path.abspath(given.folder), given.runs)
    return 0


def machine() -> str:
    """Name the machine by what matters, and the versions."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    names = ("numpy", "duckdb", "polars", "chdb", "msgspec", "pandas")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return f"{cores} cores, {memory:.0f} GiB of memory, Python {platform.python_version()}, {versions}."


def large(folder: str, runs: int) -> None:
    """Few large partitions, on one core and on two."""
    events = make_events(folder, days=14, lines=1_000_000)
    floor = Command("`wc -l`", ["wc", "-l", *files(events)], {}, sums=False)
    for cores in (1, 2):
        commands = [
            runner("runner, numpy", events, 14, workers=cores, engine="numpy"),
            runner("runner, standard library", events, 14, workers=cores, engine="python"),
            *(peer(engine, cores, events) for engine in ("duckdb", "polars", "clickhouse", "msgspec")),
            *([floor] if cores == 1 else []),
        ]
        results = in_turn(commands, runs)
        if cores == 1:
            results["pandas (one run)"] = [measured(peer("pandas", 1, events))]
        table(f"14 partitions of 1,000,000 lines, {cores} core{'s' * (cores > 1)}", results)


def small(folder: str, runs: int) -> None:
    """Many small partitions; the runner stores each durably, the others store nothing."""
    events = make_events(folder, days=3650, lines=100)
    commands = [
        runner("runner, every partition committed", events, 3650),
        *(peer(engine, 2, events) for engine in ("duckdb", "polars", "clickhouse", "msgspec")),
        Command("`wc -l`", ["sh", "-c", f"cat '{events}'/* | wc -l"], {}, sums=False),
    ]
    table("3,650 partitions of 100 lines, the runner's result stored and the others' not", in_turn(commands, runs))


def growth(folder: str, runs: int) -> None:
    """How time and memory grow with the partitions, and with the lines of one."""
    print("\n### How it grows\n\nThe runner as it comes, with numpy; medians.\n")
    print("| partitions | lines of each | wall s | CPU s | peak MB | lines a second | DuckDB, wall s |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    shapes = [(1, 10_000), (10, 10_000), (100, 10_000), (1_000, 10_000), (1, 100_000), (1, 1_000_000)]
    for days, lines in [*shapes, (1, 10_000_000), (1, 50_000_000)]:
        events = make_events(folder, days, lines)
        times = runs if days * lines <= 10_000_000 else min(runs, 2)
        ours, duck = in_turn([runner("runner", events, days), peer("duckdb", 2, events)], times).values()
        wall = median(run.wall for run in ours)
        print(
            f"| {days:,} | {lines:,} | {wall:.2f} | {median(run.cpu for run in ours):.2f} "
            f"| {max(run.memory for run in ours):.0f} | {days * lines / wall:,.0f} "
            f"| {median(run.wall for run in duck):.2f} |",
            flush=True,
        )
        if lines > 1_000_000:
            shutil.rmtree(events)


def start(folder: str, runs: int) -> None:
    """Commands that touch one row, beside the least that a Python command with a store has to load."""
    floor = Command(
        '`python3 -c "import sqlite3, json"`', [sys.executable, "-c", "import sqlite3, json"], {}, sums=False
    )
    store = new_store(folder, events="")
    commands = [
        Command(f"`{' '.join(arguments[:1])}`", [sys.executable, RUNNER, *arguments], store, sums=False)
        for arguments in (["rollup"], ["claim", "2026-02-01", "2026-02-01", "me"])
    ]
    table("Commands that touch one row", in_turn([floor, *commands], 8 * runs), digits=4)


SECTIONS = {"large": large, "small": small, "growth": growth, "start": start}


def make_events(folder: str, days: int, lines: int) -> str:
    """Make partitions once, as gen_events.py does; more than a million lines are the first million again."""
    events = os.path.join(folder, f"{days}x{lines}")
    if not os.path.exists(events):
        os.makedirs(f"{events}.part", exist_ok=True)
        for day in range(days):
            dt = (FIRST + timedelta(days=day)).isoformat()
            write_partition(f"{events}.part", dt, min(lines, 1_000_000), seed=1)
            path = os.path.join(f"{events}.part", f"dt={dt}.jsonl")
            repeat(path, lines // 1_000_000)
        os.rename(f"{events}.part", events)
    return events


def repeat(path: str, times: int) -> None:
    """Have a file hold itself so many times; in little memory, as a process is charged with that of who starts it."""
    size = os.path.getsize(path)
    with open(path, "rb", buffering=0) as once, open(path, "ab", buffering=0) as file:
        for _ in range(1, times):
            once.seek(0)
            for begin in range(0, size, 1 << 20):
                file.write(once.read(min(1 << 20, size - begin)))


def files(events: str) -> list[str]:
    """Return the paths of the partitions, in date order."""
    return sorted(entry.path for entry in os.scandir(events))


def new_store(folder: str, events: str) -> dict[str, str]:
    """Make an empty store; return the environment that names it and the events."""
    shutil.rmtree(os.path.join(folder, "store"), ignore_errors=True)
    environment = {"BACKFILL_DB": os.path.join(folder, "store", "state.db"), "BACKFILL_EVENTS": events}
    measured(Command("init", [sys.executable, RUNNER, "init"], environment, sums=False))
    return environment


def runner(name: str, events: str, days: int, workers: int | None = None, engine: str | None = None) -> Command:
    """Return the command that runs all partitions into a store."""
    environment = new_store(os.path.dirname(events), events)
    if workers is not None:
        environment["BACKFILL_WORKERS"] = str(workers)
    if engine is not None:
        environment["BACKFILL_ENGINE"] = engine
    last = FIRST + timedelta(days=days - 1)
    return Command(name, [sys.executable, RUNNER, "run", FIRST.isoformat(), last.isoformat(), "bench"], environment)


def peer(engine: str, cores: int, events: str) -> Command:
    """Return the command that counts with another engine."""
    names = {"duckdb": "DuckDB", "clickhouse": "ClickHouse (chDB)"}
    return Command(
        names.get(engine, engine), [sys.executable, os.path.join(HERE, "peers.py"), engine, str(cores), events], {}
    )


def in_turn(commands: list[Command], runs: int) -> dict[str, list[Run]]:
    """Run the commands one after the other, once unmeasured and then so many times; all sums have to agree."""
    results: dict[str, list[Run]] = {command.name: [] for command in commands}
    sums = {said for command in commands if (said := answer_of(command)) is not None}
    assert len(sums) <= 1, sums
    for _ in range(runs):
        for command in commands:
            results[command.name].append(measured(command))
    return results


def answer_of(command: Command) -> tuple[int, int] | None:
    """Run a command for what it says: orders and amount."""
    reading, writing = os.pipe()
    measured(command, writing)
    os.close(writing)
    with open(reading) as said:
        answer = said.read()
    if not command.sums:
        return None
    told = json.loads(answer)
    return told["orders"], told["amount"]


def measured(command: Command, output: int | None = None) -> Run:
    """Run a command to its end."""
    said = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0) if output is None else (os.POSIX_SPAWN_DUP2, output, 1)
    begun = time.perf_counter()
    process = os.posix_spawnp(
        command.arguments[0], command.arguments, os.environ | command.environment, file_actions=[said]
    )
    _, status, usage = os.wait4(process, 0)
    wall = time.perf_counter() - begun
    if status != 0:
        sys.exit(f"{command.name} ended with {os.waitstatus_to_exitcode(status)}: {' '.join(command.arguments)[:300]}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def table(title: str, results: dict[str, list[Run]], digits: int = 2) -> None:
    """Print medians, the span of the wall times, and ratios to DuckDB, or else to the first command."""
    base = "DuckDB" if "DuckDB" in results else next(iter(results))
    print(f"\n### {title}\n")
    print(f"| | wall s | min to max | CPU s | peak MB | wall, to {base} | CPU, to {base} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, runs in results.items():
        walls = [run.wall for run in runs]
        pairs = list(zip(runs, results[base], strict=False))
        print(
            f"| {name} | {median(walls):.{digits}f} | {min(walls):.{digits}f} to {max(walls):.{digits}f} "
            f"| {median(run.cpu for run in runs):.{digits}f} | {max(run.memory for run in runs):.0f} "
            f"| {median(run.wall / other.wall for run, other in pairs):.2f} "
            f"| {median(run.cpu / other.cpu for run, other in pairs):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
