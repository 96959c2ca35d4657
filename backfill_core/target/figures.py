"""Figures as text that is the same for the same value, and digests that say what they are of."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any


def canonical_number(text: str | None) -> str | None:
    """Return an exact number without zeros that say nothing: `12.50` and `12.5` are one value."""
    if text is None or not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text):
        return text
    whole, _, part = text.partition(".")
    part = part.rstrip("0")
    number = f"{whole}.{part}" if part else whole
    return "0" if number == "-0" else number


def digest(engine: str, columns: Sequence[tuple[str, str]], rows: int, total: int) -> str:
    """Return a digest as text: what it is of, a colon, and the number and the sum of the rows' hashes.

    columns: names and types; two digests are comparable where all before the last colon is the same.
    """
    names = json.dumps([f"{name} {kind}" for name, kind in columns], ensure_ascii=False)
    return f"{engine} {names}:{rows}/{total}"


def misfits(rows: Iterable[tuple[str | None, tuple[Any, ...]]], keys: Collection[str]) -> dict[str, tuple[int, str]]:
    """Count what stands in the way of a write, as `Audited` has it, each with an example: for a target without SQL.

    rows: of each its key, None where it belongs to none, and its values of `unique`, none where nothing must be so.
    """
    times = Counter(rows)
    found: dict[str, list[str]] = {"strange": [], "keyless": [], "repeated": []}
    for (key, values), count in times.items():
        if key not in keys:
            found["keyless" if key is None else "strange"] += [key or "NULL"] * count
        if values:
            found["repeated"] += [", ".join(map(str, values))] * (count - 1)
    return {what: (len(examples), examples[0] if examples else "") for what, examples in found.items()}
