"""Shops of all kinds: a ledger in SQLite and PostgreSQL, and a table in each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.datasets.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import Postgres

KINDS = [("sqlite", "sqlite"), ("postgres", "postgres")]
if os.environ.get("BACKFILL_FAULTS") == "long":
    KINDS += [("sqlite", "postgres"), ("postgres", "sqlite")]


def make(ledger: str, target: str, server: Postgres, folder: Path, name: str = "orders") -> Shop:
    """Return a shop that has begun."""
    db = str(folder / "state.db") if ledger == "sqlite" else server.new_store()
    if target == "sqlite":
        shop = Shop(db, str(folder / "shop.db"), name=name)
        (folder / "shop.db").touch()
    else:
        schema = server.new_store().rpartition("=")[2]
        server.sql(f"CREATE SCHEMA {schema}")
        shop = Shop(db, server.url, schema, name)
    shop.begin()
    return shop


@pytest.fixture(params=KINDS, ids=["_".join(kind) for kind in KINDS])
def shop(request: pytest.FixtureRequest, postgres: Postgres, tmp_path: Path) -> Iterator[Shop]:
    """Each kind of ledger with each kind of table; all is well in the end."""
    ledger, target = request.param
    made = make(ledger, target, postgres, tmp_path)
    yield made
    made.check()
