from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backfill_core import Backfill, EventFolder, create_store, open_store
from tests.core.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backfill_core.store import Store


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "events")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    db = str(tmp_path / "state.db")
    create_store(db)
    with open_store(db) as opened:
        yield opened


@pytest.fixture
def backfill(store: Store, source: Source) -> Backfill:
    return Backfill(store, EventFolder(str(source.folder)))
