"""A source folder for tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Source:
    """A folder of partitions to write to: one order an amount, a negative one is a refund."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def file(self, dt: str) -> Path:
        return self.folder / f"dt={dt}.jsonl"

    def put(self, dt: str, *amounts: int) -> None:
        self.file(dt).write_text("".join(order(dt, amount) for amount in amounts))


def order(dt: str, amount: int) -> str:
    status = "refund" if amount < 0 else "paid"
    return json.dumps({"order_id": "x", "dt": dt, "amount": amount, "status": status}) + "\n"
