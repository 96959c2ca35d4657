"""The target that docs/writing-a-target.md shows, and the suite over it: whoever writes one needs no more than this."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backfill_core.conformance.bench import Bench, Profile, Row
from backfill_core.conformance.suite import *  # noqa: F403
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.errors import TargetError
from tests.target.json_target import JsonTarget

NAMES = ("order_id", "dt", "amount", "note")


class JsonBench(Bench):
    """A folder with two files."""

    profile = Profile(grains=frozenset({"day", "list", "none"}))

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.select = str(folder / "source.json")
        self.everything = f"{self.select} whole"

    def make(self) -> None:
        for table in ("orders", "source"):
            self._put(table, {"rows": [], "sides": {}})

    def fill(self, table: str, *rows: Row) -> None:
        content = self._get(table)
        content["rows"] += [dict(zip(NAMES, row, strict=True)) for row in rows]
        self._put(table, content)

    def empty(self, table: str) -> None:
        self._put(table, self._get(table) | {"rows": []})

    def orders(self) -> list[Row]:
        rows = [(row["order_id"], row["dt"], row["amount"]) for row in self._get("orders")["rows"]]
        return sorted(rows, key=lambda row: (row[0], row[2]))

    def stage(self, staging: str, *rows: Row) -> None:
        content = {"rows": [dict(zip(NAMES, row, strict=True)) for row in rows]}
        Path(staging).write_text(json.dumps(content))

    def is_staged(self, staging: str) -> bool:
        return Path(staging).exists()

    def dataset(self, **said: Any) -> Dataset:
        named = {name: said.pop(name) for name in ("day", "key", "values") if name in said} or {"day": "dt"}
        table = SqlTable(str(self._folder / "orders.json"), "orders", **named)
        return Dataset(**{"name": "shop", "table": table, "measures": {"orders": "count", "amount": "amount"}, **said})

    def target(self, dataset: Dataset | None = None, **said: Any) -> JsonTarget:
        return JsonTarget(dataset or self.dataset(**said))

    def _get(self, table: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self._folder / f"{table}.json").read_text())
        return content

    def _put(self, table: str, content: dict[str, Any]) -> None:
        (self._folder / f"{table}.json").write_text(json.dumps(content))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return JsonBench(tmp_path)


def test_what_a_target_inherits_says_what_to_do_where_there_is_no_query(bench: Bench) -> None:
    bench.make()
    target = bench.target()

    with pytest.raises(TargetError, match="name a function"):
        target.ask("select 1", [])
    assert target.check() == ()


def test_the_example_is_as_short_as_the_page_says() -> None:
    lines = (Path(__file__).parent / "json_target.py").read_text().splitlines()

    assert len(lines) < 150
