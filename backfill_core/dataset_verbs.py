"""The commands for datasets: what each asks of the guarded table, and the lines that show its answer.

A dataset is found by its name in a Python module that is named (`--datasets`, or `BACKFILL_DATASETS`): the name of a
module, or the path of a file.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from backfill_core import dataset_review
from backfill_core.calendar_lines import LISTED, Spot, listed, overview
from backfill_core.claims import Caller
from backfill_core.contract import tell
from backfill_core.dataset import Dataset
from backfill_core.errors import BackfillError, RefusedError, UsageError
from backfill_core.guarded import WHEN_HELD, Guarded
from backfill_core.keys import WHOLE
from backfill_core.log_lines import changes, log, values
from backfill_core.partition import check_text
from backfill_core.progress import Bar, Watched, on_terminal, pieces
from backfill_core.protocol.judging import EMPTY, GROWTH, SHRINK, Wish
from backfill_core.terminal import instant, printable, screen_of, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from backfill_core import answers
    from backfill_core.dataset_review import Seen
    from backfill_core.guarded import Partition
    from backfill_core.ledger import KeyRow
    from backfill_core.states import State
    from backfill_core.target import Target

    Told = tuple[Mapping[str, Any], list[str], int]  # the answer, the lines that show it, and the exit code

DENIED, SKIPPED, INTERRUPTED = 4, 5, 130


class Call(NamedTuple):
    """A command on one dataset: the table, the keys that were named (None for all), and what else was typed."""

    guarded: Guarded
    keys: list[str] | None
    given: argparse.Namespace

    @property
    def bounds(self) -> tuple[str, str]:
        """The first and the last of the days that were named, empty for all, and where keys are no days."""
        return (self.keys[0], self.keys[-1]) if self.keys and self.guarded.dataset.column.has_days else ("", "")

    @property
    def named(self) -> list[str]:
        """The keys that were named; a command that writes has some."""
        return self.keys or []

    @property
    def owner(self) -> str:
        """In whose name: what was typed, else who is logged in."""
        if typed := getattr(self.given, "OWNER", None) or self.given.owner:
            return check_text("owner", typed)
        import getpass

        try:
            return getpass.getuser()
        except (KeyError, OSError):  # a container's user without a name
            raise UsageError("it can't be told who you are; name yourself with --owner") from None

    def caller(self) -> Caller:
        """Return a run of this process's own, in the owner's name."""
        return Caller(f"{self.owner}#{secrets.token_hex(4)}", person=self.owner, owner=self.owner)

    def bar(self, total: int = 0) -> Bar:
        """Return what shows how far it has come: on a terminal, and not to a script."""
        return Bar(total, on_terminal(os.environ, quiet=self.given.json))

    @contextmanager
    def watched(self, *counts: str, total: int = 0) -> Iterator[Guarded]:
        """Show how far the block has come, by calls of the target that count; see `Watched`. Yield what to call."""
        with self.bar(total) as bar:
            if not bar.is_shown:
                yield self.guarded
                return
            target = cast("Target", Watched(self.guarded.target, bar, frozenset(counts)))
            yield Guarded(self.guarded.dataset, self.guarded.ledger, target)

    def fill(self, partition: Partition) -> None:
        """Put the rows of the select that was named there."""
        partition.fill(self.select())

    def select(self) -> str:
        """Return the text of the select that was named, or that the dataset has.

        Raises:
            UsageError: there is none, or its file can't be read.
        """
        text: str | None = self.given.select
        if text is None:
            raise UsageError("which rows? name a query with --select: a file that ends with .sql, or its text")
        if not text.endswith(".sql"):
            return text
        try:
            with open(text, encoding="utf-8") as file:
                return file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the select {text} can't be read: {getattr(error, 'strerror', None) or error}") from None


# Reading


def plan(call: Call) -> Told:
    """Tell what a run would do, key by key."""
    fill = call.fill if call.given.select else None
    with call.bar():
        answer = call.guarded.plan(call.named, call.caller(), fill, _wish(call))
    rows = [
        (one["key"], one["action"], changes(one["before"], one["after"]), one["reason"]) for one in answer["partitions"]
    ]
    total = ", ".join(f"{answer[word]} {word}" for word in ("change", "unchanged", "skipped", "refused", "unknown"))
    return (
        answer,
        [*table(("partition", "would be", "figures", "why"), rows), f"{answer['asked']} asked: {total}"],
        1 if answer["refused"] else 0,
    )


def status(call: Call) -> Told:
    """Draw what the ledger says of each key; the table itself is not asked."""
    seen, column = call.guarded.look(keys=call.keys), call.guarded.dataset.column
    answer = dataset_review.status_of(call.guarded.dataset.name, seen)
    if call.given.json:
        return answer, [], 0
    spots = [Spot(one.row.key, state := one.state, _why(one, state)) for one in seen]
    screen = screen_of(sys.stdout, os.environ)
    if column.has_days:
        drawn = overview(spots, call.bounds, screen)
    else:
        drawn = listed(spots, call.keys or [*column.values] or [WHOLE], screen)
    lines = [answer["dataset"], "", *drawn, *_footnotes([one.row for one in seen if one.row.token])]
    if seen and (call.given.list or len(call.keys or seen) <= LISTED):
        lines += ["", *_listed(answer)]
    return answer, lines, 0


def _why(one: Seen, state: State) -> str:
    """Say why a key is to be looked at."""
    if state == "drifted":
        return one.row.drift or ""
    if state == "failed":
        return one.row.failure or ""
    if state == "held":
        return "; ".join(one.claimed_by) or f"left unfinished by {'; '.join(one.open)}; `settle` ends it"
    return ""


def _footnotes(rows: Sequence[KeyRow]) -> list[str]:
    """Say what was published last, and how old what is said of drift is."""
    if not rows:
        return ["", "`run` publishes, `adopt` takes on what the table holds"]
    last = max(rows, key=lambda row: (row.confirmed_at or "", row.key))
    checked = sorted(row.checked_at or "" for row in rows)
    return [
        "",
        f"last published: {printable(last.key)}, {instant(last.published_at)}, by {printable(last.owner or '')}",
        f"compared with the table: {instant(checked[0])} or later; `drift` compares now",
    ]


def _listed(answer: answers.DatasetStatus) -> list[str]:
    rows = [
        (
            row["key"],
            values(row["figures"]),
            instant(row["published_at"]),
            row["owner"] or "",
            "; ".join(row["claimed_by"]),
            "sealed" if row["sealed"] else "",
            str(row["corrections"] or ""),
            "; ".join(row["open"]),
            row["failure"] or "",
            row["drift"] or "",
        )
        for row in answer["partitions"]
    ]
    head = (
        "partition", "figures", "published", "by", "claimed by", "sealed", "corrections", "unfinished", "failed",
        "drift",
    )  # fmt: skip
    return table(head, rows)


def history(call: Call) -> Told:
    """Tell what happened to the keys as a log, the newest last: when, what, by whom, from what to what, and why."""
    lines = call.guarded.history(keys=call.keys)
    return {"history": lines}, log(lines), 0


def statement(call: Call) -> Told:
    """Tell what was sent beside what is right, or what readers saw at a moment."""
    answer = call.guarded.statement(as_of=call.given.as_of, keys=call.keys)
    rows = [
        (
            one["key"],
            values(one["published"]),
            values(one["corrected"]),
            "sealed" if one["sealed"] else "",
            one["reason"] or "",
        )
        for one in answer["partitions"]
    ]
    return answer, table(("partition", "sent", "right", "sealed", "reason"), rows), 0


def late(call: Call) -> Told:
    """Find the sealed keys whose source has moved on since."""
    answer = _late(call)
    rows = [(one["key"], changes(one["known"], one["now"])) for one in answer["late"]]
    return (
        answer,
        [
            *(table(("partition", "figures"), rows) if rows else ()),
            f"{len(rows)} of {answer['checked']} sealed partitions are late; `amend KEY REASON` records what is right",
        ],
        0,
    )


def _late(call: Call) -> answers.DatasetLate:
    with call.bar() as bar:
        if not bar.is_shown:
            return call.guarded.late(call.fill, keys=call.keys)
        name = call.guarded.dataset.name
        sealed = [one["key"] for one in call.guarded.status(keys=call.keys)["partitions"] if one["sealed"]]
        answer: answers.DatasetLate = {"dataset": name, "checked": 0, "late": []}
        bar.total = len(sealed)
        for piece in pieces(sealed, bar):
            bar.to(answer["checked"], piece[0])
            found = call.guarded.late(call.fill, keys=piece)
            answer["checked"] += found["checked"]
            answer["late"] += found["late"]
            bar.to(answer["checked"], piece[-1])
        return answer


def drift(call: Call) -> Told:
    """Compare what the table holds with what was published: a scan."""
    with call.watched("measure") as guarded:
        answer = guarded.drift(call.keys)
    rows = [*answer["drift"].items(), *((key, f"{n} rows that are not known") for key, n in answer["unknown"].items())]
    lines = table(("partition", "what differs"), rows) if rows else []
    if answer["keyless"]:
        lines.append(f"{answer['keyless']} rows belong to no partition, such as {printable(answer['example'] or '')}")
    return answer, [*lines, f"{answer['checked']} partitions were compared"], 1 if rows or answer["keyless"] else 0


def check(call: Call) -> Told:
    """Look the table over: what can't be guarded, and what should be known."""
    found = call.guarded.check()
    rows = [("refused" if one["refuses"] else "note", one["what"], one["cure"]) for one in found]
    lines = table(("finding", "what", "what to do"), rows) if rows else ["nothing was found; the table can be guarded"]
    return {"findings": found}, lines, 1 if any(one["refuses"] for one in found) else 0


# Writing


def run(call: Call) -> Told:
    """Replace each partition by the rows of a select; each is a transaction of its own."""
    answer: dict[str, Any] = {"dataset": call.guarded.dataset.name, "owner": call.owner}
    answer |= {"done": [], "quiet": [], "skipped": [], "failed": []}
    code = 0
    select = call.select()
    try:
        with call.bar(len(call.named)) as bar:
            _run_each(call, select, answer, bar)
    except BackfillError as error:
        answer["error"], code = str(error), error.exit_code
    except KeyboardInterrupt:
        answer["error"], code = "interrupted; what is listed was done", INTERRUPTED
    rows = [(one["key"], "done", changes(one["before"], one["after"])) for one in answer["done"]]
    rows += [(key, "as before", "") for key in answer["quiet"]]
    rows += [(key, "skipped", why) for key, why in answer["skipped"]]
    rows += [(key, "failed", why) for key, why in answer["failed"]]
    lines = table(("partition", "outcome", "figures"), sorted(rows)) if rows else []
    lines += _about_held(answer["skipped"])
    return answer, lines, code or (1 if answer["failed"] else SKIPPED if answer["skipped"] else 0)


def _run_each(call: Call, select: str, answer: dict[str, Any], bar: Bar) -> None:
    caller, wish = call.caller(), _wish(call)
    for number, key in enumerate(call.named):
        bar.to(number, key)
        try:
            made = call.guarded.write([key], lambda one: one.fill(select), caller, call.given.reason or "", wish)
        except RefusedError as error:
            answer["failed"].append([key, str(error)])
            continue
        answer["done"] += made["published"]
        answer["quiet"] += made["quiet"]
        answer["skipped"] += made["skipped"]


def claim(call: Call) -> Told:
    """Reserve the keys that nobody else holds."""
    answer = call.guarded.claim(call.named, Caller("", person=call.owner))
    rows = [*((key, "claimed") for key in answer["claimed"]), *((key, f"held by {by}") for key, by in answer["denied"])]
    lines = [*table(("partition", "outcome"), sorted(rows)), f"The claim's id is {answer['claim']}"]
    return answer, lines, DENIED if answer["denied"] else 0


def release(call: Call) -> Told:
    """Give a claim back, by its id, or all that an owner reserved."""
    by = {"claim": call.given.claim} if call.given.claim else {"owner": call.owner}
    answer = call.guarded.release(call.keys, **by)
    return answer, [f"released {printable(key)}" for key in answer["released"]] or ["nothing was claimed"], 0


def seal(call: Call) -> Told:
    """Declare the range as sent: nothing of ours changes it any more."""
    with call.watched("measure") as guarded:
        answer = guarded.seal(call.named, call.caller(), call.given.reason or "")
    return answer, [f"sealed {printable(key)}" for key in answer["sealed"]], 0


def unseal(call: Call) -> Told:
    """Take the seal away; what was sent stays on record."""
    with call.watched() as guarded:
        answer = guarded.unseal(call.named, call.caller(), call.given.REASON)
    return answer, [f"unsealed {printable(key)}" for key in answer["unsealed"]] or ["nothing was sealed"], 0


def amend(call: Call) -> Told:
    """Record what a sealed partition should be, beside what was sent."""
    if len(call.named) != 1:
        raise UsageError(f"a correction is of one partition, and {len(call.named)} were named")
    [key] = call.named
    answer = call.guarded.amend(key, call.fill, call.caller(), call.given.REASON, Wish(allow=_allowed(call)))
    return answer, [f"{printable(key)} {changes(answer['before'], answer['after'])}"], 0


def adopt(call: Call) -> Told:
    """Take on what the table holds as it is: measured, and entered as published."""
    with call.watched("measure", "adopt") as guarded:
        answer = guarded.adopt(call.named, call.caller(), call.given.REASON)
    rows = [(one["key"], values(one["after"])) for one in answer["published"]]
    rows += [(key, why) for key, why in answer["skipped"]]
    lines = [*table(("partition", "adopted"), sorted(rows)), *_about_held(answer["skipped"])]
    return answer, lines, SKIPPED if answer["skipped"] else 0


def _about_held(skipped: Sequence[Sequence[str]]) -> list[str]:
    held = any(why.startswith("claimed_by:") for _, why in skipped)
    return [f"What others hold: {WHEN_HELD}"] if held else []


def settle(call: Call) -> Told:
    """Find out what became of attempts that died; by hand, as only a person can say that a run has ended."""
    found = call.guarded.ledger.intents(call.guarded.dataset.name)
    opened = [one for one in found if call.keys is None or one.key in call.keys]
    with call.watched("fence", total=len(opened)) as guarded:
        answer = guarded.settle(call.keys, force=True)
    lines = [f"{printable(key)}: {state}" for key, state in answer["settled"]]
    lines += [f"{printable(key)}: still being written by {printable(holder)}" for key, holder in answer["open"]]
    lines += [f"{printable(key)}: released" for key in answer["released"]]
    return answer, lines or ["nothing was open"], 1 if answer["open"] else 0


def restored(call: Call) -> Told:
    """Say that the ledger was put back from a backup: look at every key before anything is written."""
    known = call.keys or call.guarded.ledger.rows(call.guarded.dataset.name)
    with call.watched("fence", total=len(known)) as guarded:
        answer = guarded.restored(call.keys)
    rows = sorted(answer["unknown"].items())
    head = ("partition", "not known to this ledger")
    return answer, table(head, rows) if rows else ["every partition is as the ledger says"], 1 if rows else 0


WRITES: dict[str, str] = {
    "run": "replace",
    "seal": "seal",
    "unseal": "take the seal from",
    "amend": "record a correction of",
    "adopt": "take on as they are",
    "settle": "end what others left unfinished at",
    "restored": "give the ledger a new id and look at",
}
"""What changes more than the ledger's claims, and how to say beforehand what it is about to do."""

VERBS: dict[str, Callable[[Call], Told]] = {
    verb.__name__: verb
    for verb in (
        plan, status, history, statement, late, drift, check,
        run, claim, release, seal, unseal, amend, adopt, settle, restored,
    )
}  # fmt: skip


def act(given: argparse.Namespace, db: str) -> Told:
    """Carry out a command on the dataset that was named; see `VERBS`."""
    verb = VERBS.get(given.verb.name)
    if verb is None:
        raise UsageError(f"{given.verb.name} is not for datasets; it works on the runner's table, without --dataset")
    with _opened(given, db) as call:
        if given.verb.name in WRITES:
            _ask(call)
        return verb(call)


@contextmanager
def _opened(given: argparse.Namespace, db: str) -> Iterator[Call]:
    from backfill_core.ledger.opening import open_ledger

    dataset = _find(given.dataset, given.datasets)
    first, last = (getattr(given, word, None) or getattr(given, "DATE", None) for word in ("START", "END"))
    if first is not None and last is None:
        raise UsageError("a range has a START and an END")
    if first is not None and not dataset.column.has_days:
        raise UsageError(f"the partitions of {dataset.name} are no days; name them with --key, in place of days")
    with open_ledger(db, make=False) as ledger:  # a mistyped path is to be told, not made
        target = dataset.target()
        try:
            guarded = Guarded(dataset, ledger, target)
            keys = None if first is None or last is None else guarded.keys_between(first, last)
            yield Call(guarded, guarded.named(given.key) if given.key else keys, given)
        finally:
            target.close()


def _ask(call: Call) -> None:
    """Say what is about to be done, and ask whether to go on, unless `--yes` was said."""
    keys, name = call.keys, call.guarded.dataset.name
    joint = " to " if call.bounds[0] else " … " if keys and len(keys) > 2 else ", "
    what = "all partitions" if keys is None else keys[0] if len(keys) == 1 else f"{keys[0]}{joint}{keys[-1]}"
    number = "" if keys is None or len(keys) == 1 else f", {len(keys)} partitions"
    about = f"{WRITES[call.given.verb.name]} {printable(what)} of {printable(name)}{number}, as {printable(call.owner)}"
    tell(f"About to {about}.")
    if call.given.yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("nobody can be asked whether to go on; in a script say --yes")
    tell("Go on? [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was done, as the answer was not yes")


def _find(name: str, module: str | None) -> Dataset:
    module = module or os.environ.get("BACKFILL_DATASETS")
    if not module:
        raise UsageError("where is the dataset? name its Python module with --datasets, or set BACKFILL_DATASETS")
    known = {one.name: one for one in vars(_imported(module)).values() if isinstance(one, Dataset)}
    if name not in known:
        has = ", ".join(sorted(known)) or "none"
        raise UsageError(f"{module} has no dataset {name!r}; it has {has}")
    return known[name]


def _imported(module: str) -> Any:
    import importlib
    import importlib.util

    try:
        if not (module.endswith(".py") or os.sep in module):
            sys.path.insert(0, os.getcwd())
            return importlib.import_module(module)
        spec = importlib.util.spec_from_file_location("datasets_of_the_user", module)
        assert spec is not None  # noqa: S101  for the type checker
        assert spec.loader is not None  # noqa: S101
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
    except BackfillError:
        raise
    except Exception as error:  # noqa: BLE001  whatever the user's module raises
        raise UsageError(f"the datasets' module {module} can't be imported: {type(error).__name__}: {error}") from None
    return made


def _wish(call: Call) -> Wish:
    return Wish(overwrite=call.given.overwrite, always=call.given.always, allow=_allowed(call))


def _allowed(call: Call) -> frozenset[str]:
    return frozenset(word for word in (EMPTY, SHRINK, GROWTH) if getattr(call.given, f"allow_{word}"))
