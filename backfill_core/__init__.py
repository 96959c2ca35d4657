"""Rerun past days without counting them twice: the pure core, standard library only.

    with open_store(settings.db) as store:
        Backfill(store, EventFolder(settings.events)).run(DateRange(first, last), owner)

Names are imported when they are first asked for, so that a call pays only for what it uses.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from backfill_core.backfill import Backfill as Backfill
    from backfill_core.counting.facts import Tally as Tally
    from backfill_core.errors import BackfillError as BackfillError
    from backfill_core.errors import NoStoreError as NoStoreError
    from backfill_core.errors import NotSealedError as NotSealedError
    from backfill_core.errors import PartitionError as PartitionError
    from backfill_core.errors import SourceError as SourceError
    from backfill_core.errors import Stopped as Stopped
    from backfill_core.errors import StoreError as StoreError
    from backfill_core.errors import UsageError as UsageError
    from backfill_core.events import EventFolder as EventFolder
    from backfill_core.partition import DateRange as DateRange
    from backfill_core.partition import parse_date as parse_date
    from backfill_core.settings import Settings as Settings
    from backfill_core.store import create_store as create_store
    from backfill_core.store import open_store as open_store

_HOME = {
    "Backfill": "backfill",
    "BackfillError": "errors",
    "DateRange": "partition",
    "EventFolder": "events",
    "NoStoreError": "errors",
    "NotSealedError": "errors",
    "PartitionError": "errors",
    "Settings": "settings",
    "SourceError": "errors",
    "Stopped": "errors",
    "StoreError": "errors",
    "Tally": "counting.facts",
    "UsageError": "errors",
    "create_store": "store",
    "open_store": "store",
    "parse_date": "partition",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
