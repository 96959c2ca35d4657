from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_core import Backfill, EventFolder, create_store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backfill_core.store import Store


class Source:
    """A folder of partitions to write to: one amount an order, a negative one is a refund."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def file(self, dt: str) -> Path:
        return self.folder / f"dt={dt}.jsonl"

    def put(self, dt: str, *amounts: int) -> None:
        self.file(dt).write_text("".join(order(dt, amount) for amount in amounts))

    def remove(self, dt: str) -> None:
        self.file(dt).unlink()


def order(dt: str, amount: int) -> str:
    status = "refund" if amount < 0 else "paid"
    return json.dumps({"order_id": "x", "dt": dt, "amount": amount, "status": status}) + "\n"


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
