"""What happened to partitions as a log: a line each, the newest last. What people wrote breaks and fakes no line."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from backfill_core.terminal import change, instant, printable, quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from backfill_core.answers import HistoryLine

DONE = {
    "publish": "published",
    "adopt": "adopted",
    "seal": "sealed",
    "unseal": "unsealed",
    "amend": "corrected",
    "refused": "refused",
    "claim": "reserved",
    "release": "released",
}
"""How a history says what was done; what else there may be it says as it is."""
_WIDTH = max(map(len, DONE.values()))


def log(lines: Iterable[HistoryLine]) -> list[str]:
    """Return a line for each thing that happened: when, to which key, what, by whom, from what to what, and why."""
    told = [(one["at"], one["key"], _happened(one)) for one in lines]
    return [f"{instant(at)}  {printable(key)}  {what}" for at, key, what in sorted(told, key=itemgetter(0))]


def _happened(line: HistoryLine) -> str:
    what, said = DONE.get(line["what"], line["what"]), line["said"] or ""
    if what == "refused":
        figures = printable(said)
    elif what in ("published", "adopted", "corrected"):
        figures = changes(line["before"], line["after"])
    else:
        figures = values(line["after"])
    if said and what == "released":
        figures = printable(said)
    elif said and what != "refused":
        figures += f", over what was not published: {printable(said)}"
    run = line["run"] if line["run"] != line["owner"] else ""
    return _line(what, line["owner"], run, line["task"], figures, line["reason"])


def _line(what: str, owner: str, run: str, task: str, figures: str, reason: str) -> str:
    who = [f"by {printable(owner)}", f"run {printable(run)}" if run else "", f"task {printable(task)}" if task else ""]
    told = [figures, f"reason {quoted(reason)}" if reason else ""]
    colon = ": " if any(told) else ""
    return f"{printable(what):{_WIDTH}}  {', '.join(filter(None, who))}{colon}{'; '.join(filter(None, told))}"


def values(figures: Mapping[str, Any] | None) -> str:
    """Show figures by name."""
    return "" if figures is None else ", ".join(f"{name} {shown(value)}" for name, value in figures.items())


def changes(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """Show figures by name, from what to what."""
    names = list(after or before or {})
    pairs = ((name, (before or {}).get(name), (after or {}).get(name)) for name in names)
    return ", ".join(f"{name} {change(old, new)}" for name, old, new in pairs)
