"""For people: `python -m backfill_core plan|status|late|statement`. They read, and write nothing.

A table for a terminal, or with `--json` the answer that `backfill_core.answers` describes, for programs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, TypeVar

from backfill_core.backfill import Backfill
from backfill_core.contract import put
from backfill_core.errors import BackfillError, UsageError
from backfill_core.events import EventFolder
from backfill_core.partition import DateRange
from backfill_core.settings import Settings
from backfill_core.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backfill_core import answers

    Answer = TypeVar("Answer")
    Shown = tuple[Answer, list[str]]  # the answer, and the lines that show it


def main(arguments: list[str]) -> int:
    """Carry out one command and print its answer; return the runner's exit code for what went wrong, else 0."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        settings = Settings.from_env(os.environ)
        dates = _dates(given)
        source = EventFolder(settings.events, settings.engine, settings.workers)
        with open_store(settings.db) as store:
            answer, lines = given.command(Backfill(store, source), dates, given)
    except BackfillError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    why_not = put(json.dumps(answer, indent=2) if given.json else "\n".join(lines))
    if why_not is not None:
        print(f"{parser.prog}: {why_not}", file=sys.stderr)
        return 1
    return 1 if answer.get("failed") else 0


def plan(backfill: Backfill, dates: DateRange, given: argparse.Namespace) -> Shown[answers.PlanAnswer]:
    """What a run would do, partition by partition."""
    answer = backfill.plan(dates, given.owner)
    rows = [
        (
            partition["dt"],
            partition["action"],
            _change(partition["orders_before"], partition["orders_after"]),
            _change(partition["amount_before"], partition["amount_after"]),
            partition["reason"],
        )
        for partition in answer["partitions"]
    ]
    return answer, [
        f"{answer['asked']} partitions, {answer['first']} to {answer['last']}, as {answer['owner']}:",
        *_table(("partition", "would be", "orders", "amount", "why"), rows),
        f"A run would answer {answer['orders']} orders and an amount of {answer['amount']}.",
        f"{answer['asked']} asked = {answer['change']} would change + {answer['unchanged']} unchanged"
        f" + {answer['skipped']} skipped + {answer['failed']} failed",
    ]


def status(backfill: Backfill, dates: DateRange | None, given: argparse.Namespace) -> Shown[answers.StatusAnswer]:
    """What the store holds of each date."""
    answer = backfill.status(dates, compare=given.compare)
    rows = [
        (
            row["dt"],
            _shown(row["orders"]),
            _shown(row["amount"]),
            row["owner"] or "",
            row["claimed_by"] or "",
            "sealed" if row["sealed"] else "",
            str(row["corrections"] or ""),
            row["source"] or "",
        )
        for row in answer["partitions"]
    ]
    lines = _table(("partition", "orders", "amount", "owner", "claimed by", "sealed", "corrections", "source"), rows)
    if answer["current"] is not None:
        lines.append(f"{answer['current']} of {len(rows)} agree with their source")
    return answer, lines


def late(backfill: Backfill, dates: DateRange | None, _given: argparse.Namespace) -> Shown[answers.LateAnswer]:
    """The sealed dates whose source has moved on since."""
    answer = backfill.late(dates)
    rows = [
        (
            row["dt"],
            _change(row["orders_known"], row["orders_now"]),
            _change(row["amount_known"], row["amount_now"]),
            f"{row['orders_difference']:+}",
            f"{row['amount_difference']:+}",
            "",
        )
        for row in answer["late"]
    ]
    rows += [(dt, "", "", "", "", "no_data") for dt in answer["no_data"]]
    rows += [(dt, "", "", "", "", fault) for dt, fault in answer["failed"]]
    return answer, [
        *(_table(("partition", "orders", "amount", "more orders", "more amount", "source"), rows) if rows else ()),
        f"{len(answer['late'])} sealed dates are late; `amend DATE REASON` records what is right now",
    ]


def statement(backfill: Backfill, dates: DateRange, _given: argparse.Namespace) -> Shown[answers.StatementAnswer]:
    """What was published and what is right by the corrections, side by side."""
    answer = backfill.statement(dates)
    rows = [
        (
            row["dt"],
            str(row["orders_published"]),
            str(row["amount_published"]),
            str(row["orders_corrected"]),
            str(row["amount_corrected"]),
            "sealed" if row["sealed"] else "",
            row["reason"] or "",
        )
        for row in answer["partitions"]
    ]
    total = tuple(
        str(answer[name]) for name in ("orders_published", "amount_published", "orders_corrected", "amount_corrected")
    )
    head = (
        "partition",
        "orders sent",
        "amount sent",
        "orders right",
        "amount right",
        "sealed",
        "reason",
    )
    return answer, _table(head, [*rows, ("total", *total, "", "")])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m backfill_core", description="Look before and after; write nothing."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command, needs_range in ((plan, True), (status, False), (late, False), (statement, True)):
        name = command.__name__
        sub = commands.add_parser(name, help=(command.__doc__ or "").rstrip("."), description=command.__doc__)
        for date in ("START", "END"):
            sub.add_argument(date, nargs=None if needs_range else "?", help="YYYY-MM-DD, inclusive")
        if command is plan:
            sub.add_argument("owner", metavar="OWNER", help="whose run it would be")
        if command is status:
            sub.add_argument("--compare", action="store_true", help="count each source file too, and compare")
        sub.add_argument("--json", action="store_true", help="the answer as JSON")
        sub.set_defaults(command=command)
    return parser


def _dates(given: argparse.Namespace) -> DateRange | None:
    if given.START is None:
        return None
    if given.END is None:
        raise UsageError("a range has a START and an END")
    return DateRange.parse(given.START, given.END)


def _change(before: int | None, after: int | None) -> str:
    return _shown(before) if after in (None, before) else f"{_shown(before)} -> {_shown(after)}"


def _shown(value: int | None) -> str:
    return "-" if value is None else str(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lay out rows under a head in columns; a column that is empty in every row is left out."""
    cells = [[*map(_printable, row), *[""] * (len(head) - len(row))] for row in rows]
    columns = [column for column in range(len(head)) if column == 0 or any(row[column] for row in cells)]
    widths = {column: max(len(row[column]) for row in [list(head), *cells]) for column in columns}
    return ["  ".join(row[column].ljust(widths[column]) for column in columns).rstrip() for row in [list(head), *cells]]


def _printable(text: str) -> str:
    """Write out what would break a line or turn its direction."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
