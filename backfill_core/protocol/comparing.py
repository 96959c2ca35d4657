"""Compare the ledger with the target: for drift, and after one of the two was put back from a backup."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backfill_core.errors import FencedError
from backfill_core.protocol import judging, next_number, settling
from backfill_core.protocol.taking import disagreement
from backfill_core.target import Fence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backfill_core.ledger import KeyRow
    from backfill_core.ledger.page import Page
    from backfill_core.protocol import Place
    from backfill_core.target import Measured, Side


class Compared(NamedTuple):
    """What a comparison found.

    differ: by key, how the target differs from what the ledger says was published.
    unknown: by key, how many rows are there that nobody of ours published.
    """

    differ: Mapping[str, str]
    unknown: Mapping[str, int]


def find_drift(place: Place, keys: Iterable[str]) -> Compared:
    """Measure what the target holds of the keys, and keep when that was done and what differed."""
    keys = sorted(set(keys))
    rows = place.ledger.change(place.name, keys, lambda page: {key: page.row(key) for key in keys})
    held = place.target.measure(keys, digest=place.dataset.digest != "never")
    return place.ledger.change(place.name, keys, lambda page: _note_drift(place, page, rows, held))


def _note_drift(place: Place, page: Page, rows: Mapping[str, KeyRow], held: Mapping[str, Measured]) -> Compared:
    differ, unknown = {}, {}
    for key, measured in held.items():
        row = page.row(key)
        if row.token != rows[key].token or page.open([key]):
            continue  # it was published while it was measured: what was measured tells nothing
        found = judging.drift_of(place.dataset, place.version, row, measured)
        if found:
            differ[key] = found
        if row.token is None and measured.rows:
            unknown[key] = measured.rows
        page.write(row._replace(checked_at=page.now, drift=found))
    return Compared(differ, unknown)


def note_late(place: Place, rows: Sequence[KeyRow], late: Mapping[str, str]) -> None:
    """Keep when sealed keys were compared with their source, and what differed.

    rows: as they were before their source was measured. A key that was changed or corrected meanwhile is left as it is.
    """

    def step(page: Page) -> None:
        for row in rows:
            now = page.row(row.key)
            if (now.token, now.seal, now.compared_at) == (row.token, row.seal, row.compared_at):
                page.write(now._replace(compared_at=page.now, late=late.get(row.key)))

    place.ledger.change(place.name, [row.key for row in rows], step)


def look_after_restore(place: Place, keys: Iterable[str]) -> dict[str, str]:
    """Look at each key after the ledger was put back from a backup; return what is unknown to it, by key.

    A key of which ledger and target are of one mind may be written again: its side row gets the ledger's new id, under
    a fence that no attempt from before passes. The others stay stopped until they are adopted, or sealed anew.
    """
    keys = sorted(set(keys))
    for token in sorted({one.token for key in keys for one in place.ledger.intents(place.name, key, key)}):
        settling.settle(place, token)
    sides = place.target.look(keys)
    rows, ledger, former = place.ledger.change(
        place.name, keys, lambda page: (_take_numbers(page, keys, sides), page.ledger, page.former)
    )
    unknown = {}
    for key in keys:
        side = sides.get(key)
        why = disagreement(rows[key], side._replace(ledger=ledger) if side and side.ledger in former else side, ledger)
        if why is not None:
            unknown[key] = why
        else:
            try:
                place.target.fence({key: Fence(rows[key].number)}, ledger, place.wait, former=former)
            except FencedError as error:
                unknown[key] = str(error)
    return unknown


def _take_numbers(page: Page, keys: list[str], sides: Mapping[str, Side]) -> dict[str, KeyRow]:
    for key in keys:
        page.write(page.row(key)._replace(number=next_number(page.row(key), sides.get(key))))
    return {key: page.row(key) for key in keys}
