"""The command `backfill`, which is `python -m backfill_core` too: looking before and after, and the runner's commands.

Lines for a terminal, or with `--json` the answer that `backfill_core.answers` describes, for programs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from backfill_core.backfill import Backfill
from backfill_core.contract import COMMANDS, carry_out, put, tell
from backfill_core.errors import BackfillError, UsageError
from backfill_core.events import EventFolder
from backfill_core.partition import DateRange
from backfill_core.progress import Bar, on_terminal
from backfill_core.settings import Settings
from backfill_core.store import open_store
from backfill_core.terminal import change, encodable, printable, screen_of, shown, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from backfill_core import answers
    from backfill_core.states import State

    Answer = TypeVar("Answer")
    Shown = tuple[Answer, list[str]]  # the answer, and the lines that show it
    Act = Callable[[argparse.Namespace], tuple[Mapping[str, Any], list[str], int]]  # and the exit code


def entry() -> int:
    """Carry out what was typed: `backfill COMMAND …`, which is `python -m backfill_core COMMAND …`."""
    return main(sys.argv[1:], "backfill")


def main(arguments: list[str], program: str = "python -m backfill_core") -> int:
    """Carry out one command and print its answer; return the runner's exit code."""
    if sys.version_info < (3, 10):  # noqa: UP036  old ones are to say so, not to stumble over what they don't know
        sys.exit(f"{program} needs Python 3.10 or newer, and this is {sys.version.split()[0]} ({sys.executable})")
    given = _parser(program, by_key=any(word.partition("=")[0] == "--key" for word in arguments)).parse_args(arguments)
    answer, lines, code = _act(given)
    if "error" in answer:
        tell(f"{program}: {answer['error']}")
    text = json.dumps(answer, indent=2) if given.json else encodable("\n".join(lines), sys.stdout)
    why_not = put(text) if given.json or lines else None
    if why_not is not None:
        tell(f"{program}: {why_not}")
        return 1
    return code


def plan(backfill: Backfill, dates: DateRange, given: argparse.Namespace) -> Shown[answers.PlanAnswer]:
    """What a run would do, partition by partition."""
    answer = backfill.plan(dates, given.OWNER)
    twice = []
    if given.duplicates:
        found = backfill.duplicates(dates)
        answer["duplicates"] = found["order_ids"]
        twice = [f"{_duplicates_told({**found, 'duplicates': []}).partition(';')[0]}; `duplicates` names them"]
    rows = [
        (
            partition["dt"],
            partition["action"],
            change(partition["orders_before"], partition["orders_after"]),
            change(partition["amount_before"], partition["amount_after"]),
            partition["reason"],
        )
        for partition in answer["partitions"]
    ]
    return answer, [
        f"{answer['asked']} partitions, {answer['first']} to {answer['last']}, as {answer['owner']}:",
        *table(("partition", "would be", "orders", "amount", "why"), rows),
        f"A run would answer {answer['orders']} orders and an amount of {answer['amount']}.",
        f"{answer['asked']} asked = {answer['change']} would change + {answer['unchanged']} unchanged"
        f" + {answer['skipped']} skipped + {answer['failed']} failed",
        *twice,
    ]


def status(backfill: Backfill, dates: DateRange | None, given: argparse.Namespace) -> Shown[answers.StatusAnswer]:
    """Draw what the store holds of each date."""
    from backfill_core.calendar_lines import LISTED, Spot, overview
    from backfill_core.states import of_date

    answer = backfill.status(dates, compare=given.compare)
    rows = answer["partitions"]
    bounds = (rows[0]["dt"], rows[-1]["dt"]) if dates and rows else ("", "")
    spots = [Spot(row["dt"], state := of_date(row), _why(row, state)) for row in rows]
    lines = ["daily", "", *overview(spots, bounds, screen_of(sys.stdout, os.environ)), ""]
    if answer["current"] is None:
        lines.append("neither failures nor drift are kept of daily; --compare counts the sources and compares")
    else:
        lines.append(f"{answer['current']} of {len(rows)} agree with their source")
    if rows and (given.list or len(rows) <= LISTED):
        lines += ["", *_listed(answer)]
    return answer, lines


def _why(row: answers.PartitionStatus, state: State) -> str:
    """Say why a date is to be looked at."""
    said = {"failed": row["source"], "held": row["claimed_by"], "late": "its source is not what was published"}
    return said.get(state) or ""


def _listed(answer: answers.StatusAnswer) -> list[str]:
    rows = [
        (
            row["dt"],
            shown(row["orders"]),
            shown(row["amount"]),
            row["owner"] or "",
            row["claimed_by"] or "",
            "sealed" if row["sealed"] else "",
            str(row["corrections"] or ""),
            row["source"] or "",
        )
        for row in answer["partitions"]
    ]
    return table(("partition", "orders", "amount", "owner", "claimed by", "sealed", "corrections", "source"), rows)


def late(backfill: Backfill, dates: DateRange | None, _given: argparse.Namespace) -> Shown[answers.LateAnswer]:
    """The sealed dates whose source has moved on since."""
    answer = backfill.late(dates)
    rows = [
        (
            row["dt"],
            change(row["orders_known"], row["orders_now"]),
            change(row["amount_known"], row["amount_now"]),
            f"{row['orders_difference']:+}",
            f"{row['amount_difference']:+}",
            "",
        )
        for row in answer["late"]
    ]
    rows += [(dt, "", "", "", "", "no_data") for dt in answer["no_data"]]
    rows += [(dt, "", "", "", "", fault) for dt, fault in answer["failed"]]
    return answer, [
        *(table(("partition", "orders", "amount", "more orders", "more amount", "source"), rows) if rows else ()),
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
    return answer, table(head, [*rows, ("total", *total, "", "")])


def duplicates(backfill: Backfill, dates: DateRange, _given: argparse.Namespace) -> Shown[answers.DuplicatesAnswer]:
    """Each order_id that occurs more than once, with its dates."""
    answer = backfill.duplicates(dates)
    rows = [
        (order["order_id"], "  ".join(f"{dt} x{times}" if times != 1 else str(dt) for dt, times in order["dts"]))
        for order in answer["duplicates"]
    ]
    failed = [f"{dt} could not be read: {printable(fault)}" for dt, fault in answer["failed"]]
    return answer, [*(table(("order_id", "partitions"), rows) if rows else ()), *failed, _duplicates_told(answer)]


def _duplicates_told(answer: answers.DuplicatesAnswer) -> str:
    named = len(answer["duplicates"])
    more = f"; the first {named} are named" if named < answer["order_ids"] else ""
    return (
        f"{answer['order_ids']} order_ids occur more than once among {answer['orders']} orders:"
        f" {answer['within_a_day']} within a day, {answer['across_days']} across days{more}"
    )


def _looks(question: Callable[..., Shown[Any]]) -> Act:
    """Make a verb of a question to an open store."""

    def act(given: argparse.Namespace) -> tuple[Mapping[str, Any], list[str], int]:
        try:
            settings = Settings.from_env(os.environ)
            dates = _dates(given)
            source = EventFolder(settings.events, settings.engine, settings.workers)
            with open_store(settings.db) as store, Bar(0, on_terminal(os.environ, quiet=given.json)) as bar:
                answer, lines = question(Backfill(store, source, counting=bar.of), dates, given)
        except BackfillError as error:
            return {"error": str(error)}, [], error.exit_code
        except KeyboardInterrupt:
            return {"error": "interrupted"}, [], 130
        return answer, lines, 1 if answer.get("failed") else 0

    return act


def _only_for_datasets(given: argparse.Namespace) -> tuple[Mapping[str, Any], list[str], int]:
    """Refuse what the runner's table has no use for."""
    sentence = f"{given.verb.name} is for datasets; name one with --dataset"
    return {"error": sentence}, [], UsageError.exit_code


def _act(given: argparse.Namespace) -> tuple[Mapping[str, Any], list[str], int]:
    """Carry out a command, on a dataset where one is named, else on the runner's table."""
    if given.dataset is None and given.key:
        return {"error": "--key is for datasets; name one with --dataset"}, [], UsageError.exit_code
    if given.dataset is None:
        verb: Verb = given.verb
        return verb.act(given)
    from backfill_core import dataset_verbs

    try:
        return dataset_verbs.act(given, Settings.from_env(os.environ).db)
    except BackfillError as error:
        return {"error": str(error)}, [], error.exit_code
    except KeyboardInterrupt:
        return {"error": "interrupted"}, [], 130


def _acts(given: argparse.Namespace) -> tuple[Mapping[str, Any], list[str], int]:
    """Do what `runner.py` does under the same name."""
    name = given.verb.name
    answer, code = carry_out([name, *(getattr(given, word) for word in COMMANDS[name])], quiet=given.json)
    return answer, _told(answer), code


def _makes(given: argparse.Namespace) -> tuple[Mapping[str, Any], list[str], int]:
    """Do what the runner's `init` does, and make the ledger too: for datasets, and for the claims of Airflow's runs."""
    from backfill_core.ledger.opening import open_ledger

    answer, lines, code = _acts(given)
    if code == 0:
        try:
            open_ledger(Settings.from_env(os.environ).db).close()
        except BackfillError as error:
            return {"error": str(error), **answer}, [], error.exit_code
    return answer, lines, code


OPTIONS = {
    "--json": ("", "the answer as JSON"),
    "--key": ("KEY", "dataset: the partitions, one or more, in place of days; `all` for a whole table"),
    "--dataset": ("NAME", "work on this dataset, not on the runner's table"),
    "--datasets": ("MODULE", "the Python module, or file, that defines it (default: $BACKFILL_DATASETS)"),
    "--owner": ("NAME", "dataset: in whose name (default: who is logged in)"),
    "--yes": ("", "dataset: do it without asking; for scripts"),
    "--select": ("QUERY", "dataset: the query that makes the rows, a file that ends with .sql or its text"),
    "--reason": ("TEXT", "dataset: why"),
    "--overwrite": ("", "dataset: take the place of rows that nobody of ours published, too"),
    "--always": ("", "dataset: publish a result that is as before, too"),
    "--allow-empty": ("", "dataset: an empty result is right"),
    "--allow-shrink": ("", "dataset: a much smaller result is right"),
    "--allow-growth": ("", "dataset: a much larger result is right"),
    "--as-of": ("TIME", "dataset: what readers saw then, such as 2026-03-03T12:00:00Z"),
    "--claim": ("ID", "dataset: the claim to give back"),
    "--list": ("", "tell each partition on a line, too, however many there are"),
    "--compare": ("", "count each source file too, and compare"),
    "--duplicates": ("", "look for order_ids that occur more than once, too"),
}
"""The options: what the value is called (empty for a switch), and what it does."""
FOR_ALL = "--json --key --dataset --datasets --owner --yes"
LIMITS = "--allow-empty --allow-shrink --allow-growth"
WISHES = f"--select --overwrite --always {LIMITS}"


class Verb(NamedTuple):
    """A command: what it takes (a word in brackets may be left out), what it does on the runner's table, and its help.

    options: of `OPTIONS`, those that it has besides the ones that all have.
    """

    name: str
    takes: str
    act: Act
    help: str
    options: str = ""


VERBS = (
    Verb(
        "plan",
        "START END OWNER",
        _looks(plan),
        "what a run would do, partition by partition",
        f"--duplicates {WISHES}",
    ),
    Verb("status", "[START] [END]", _looks(status), "a calendar of what is known of each date", "--compare --list"),
    Verb("late", "[START] [END]", _looks(late), "the sealed dates whose source has moved on since", "--select"),
    Verb(
        "statement", "START END", _looks(statement), "what was sent beside what is right by the corrections", "--as-of"
    ),
    Verb("duplicates", "START END", _looks(duplicates), "the order_ids that occur more than once in the sources"),
    Verb("history", "[START] [END]", _only_for_datasets, "what happened, when, to which date, by whom and why: a log"),
    Verb("drift", "[START] [END]", _only_for_datasets, "what the table holds that was not published so: a scan"),
    Verb("check", "", _only_for_datasets, "what of the table can't be guarded, and what to do"),
    Verb("init", "", _makes, "make the state store where it is missing, and the ledger in it"),
    Verb(
        "run",
        "START END OWNER",
        _acts,
        "replace each partition of the range, or skip it and say why",
        f"--reason {WISHES}",
    ),
    Verb("claim", "START END OWNER", _acts, "reserve the dates of the range that nobody else holds"),
    Verb("release", "START END OWNER", _acts, "free the owner's own dates", "--claim"),
    Verb("seal", "START END", _acts, "declare the range as sent: no run changes it any more", "--reason"),
    Verb("unseal", "START END REASON", _only_for_datasets, "take the seal away; what was sent stays on record"),
    Verb(
        "amend",
        "DATE REASON",
        _acts,
        "record what a sealed date should be, beside what was sent",
        f"--select {LIMITS}",
    ),
    Verb("rollup", "", _acts, "recompute both totals from all that is published"),
    Verb("adopt", "START END REASON", _only_for_datasets, "take on what the table holds as it is"),
    Verb("settle", "[START] [END]", _only_for_datasets, "end what attempts that died left unfinished"),
    Verb(
        "restored",
        "[START] [END]",
        _only_for_datasets,
        "say that the ledger came from a backup, and look at every date",
    ),
)
"""All commands. Without `--dataset` they work on the runner's table."""

WORDS = {
    "START": "the first day, YYYY-MM-DD",
    "END": "the last day, inclusive",
    "DATE": "YYYY-MM-DD",
    "OWNER": "in whose name",
    "REASON": "why",
}


DAYS = ("START", "END", "DATE")
"""The words that name days; where `--key` names the partitions, they are left out."""


def _parser(program: str, *, by_key: bool = False) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Rerun past days without counting them twice.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for verb in VERBS:
        sub = commands.add_parser(verb.name, help=verb.help, description=f"{verb.help}.")
        for word in verb.takes.split():
            name = word.strip("[]")
            if by_key and name in DAYS:
                continue
            sub.add_argument(name, nargs="?" if word != name else None, help=WORDS[name])
        for flag in (*verb.options.split(), *FOR_ALL.split()):
            metavar, what = OPTIONS[flag]
            value: dict[str, Any] = {"metavar": metavar} if metavar else {"action": "store_true"}
            if flag == "--key":
                value |= {"nargs": "+", "action": "extend"}
            sub.add_argument(flag, help=what, **value)
        sub.set_defaults(verb=verb)
    return parser


def _dates(given: argparse.Namespace) -> DateRange | None:
    if given.START is None:
        return None
    if given.END is None:
        raise UsageError("a range has a START and an END")
    return DateRange.parse(given.START, given.END)


def _told(answer: Mapping[str, Any]) -> list[str]:
    """Put an answer of the runner into lines: its values by name, and a line for each of what is listed."""
    lines = []
    for name, value in answer.items():
        if isinstance(value, list):
            lines.append(f"{name}: {len(value)}")
            lines += [f"  {printable('  '.join([item] if isinstance(item, str) else item))}" for item in value]
        elif name != "error":
            lines.append(f"{name}: {printable(str(value))}")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
