"""What the tests of the Airflow library stand on: a run, its context, and a store with a source."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from backfill_core import Backfill, EventFolder, create_store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Run:
    """A DAG run as a task sees it: by default the scheduled one of 2024-05-01, in UTC."""

    dag_id: str = "daily"
    run_id: str = "scheduled__2024-05-02T00:00:00+00:00"
    conf: dict[str, Any] = field(default_factory=dict)
    data_interval_start: datetime | None = datetime(2024, 5, 1, tzinfo=timezone.utc)
    data_interval_end: datetime | None = datetime(2024, 5, 2, tzinfo=timezone.utc)
    partition_key: str | None = None


class TaskInstance:
    """What Airflow gives a task to talk through: it keeps XComs, and answers about runs from a table of states."""

    map_index = -1

    def __init__(self, runs: dict[tuple[str, str], str], task_id: str, try_number: int) -> None:
        self.runs = runs
        self.task_id = task_id
        self.try_number = try_number
        self.xcoms: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = json.loads(json.dumps(value))

    def get_dr_count(self, *, dag_id: str, run_ids: list[str], states: list[str] | None = None) -> int:
        found = [self.runs[dag_id, run_id] for run_id in run_ids if (dag_id, run_id) in self.runs]
        return len([state for state in found if states is None or state in states])


def context_of(
    run: Run, runs: dict[tuple[str, str], str] | None = None, *, task_id: str = "replace", try_number: int = 1
) -> Any:
    """Return the context of a try of a task of this run."""
    dag = SimpleNamespace(timetable=SimpleNamespace(timezone="UTC"), timezone="UTC")
    return {
        "dag_run": run,
        "dag": dag,
        "run_id": run.run_id,
        "ti": TaskInstance(runs or {}, task_id, try_number),
        "outlet_events": defaultdict(lambda: SimpleNamespace(extra={})),
    }


class Stand:
    """A store and an events folder in a temporary place, and Airflow's connection to both."""

    def __init__(self, folder: Path, db: str | None = None) -> None:
        self.db = db or str(folder / "state.db")
        self.events = folder / "events"
        self.events.mkdir()
        create_store(self.db)

    def write(self, dt: str, orders: dict[str, int]) -> Path:
        """Write one partition file: a line an order."""
        path = self.events / f"dt={dt}.jsonl"
        path.write_text(
            "".join(
                json.dumps({"order_id": name, "dt": dt, "amount": amount, "status": "refund" if amount < 0 else "paid"})
                + "\n"
                for name, amount in orders.items()
            )
        )
        return path

    def write_big(self, dt: str, orders: int) -> None:
        """Write a partition that takes seconds to count, an amount of 1 an order."""
        lines = (f'{{"order_id": "{n}", "dt": "{dt}", "amount": 1, "status": "paid"}}\n' for n in range(orders))
        with (self.events / f"dt={dt}.jsonl").open("w") as file:
            file.writelines(lines)

    @contextmanager
    def backfill(self) -> Iterator[Backfill]:
        """Open the store for as long as the block lasts."""
        with open_store(self.db) as store:
            yield Backfill(store, EventFolder(str(self.events)))

    def published(self) -> dict[str, tuple[int, int]]:
        """Return orders and amount of each date that has them."""
        with self.backfill() as backfill:
            return {
                row["dt"]: (row["orders"], row["amount"])
                for row in backfill.status()["partitions"]
                if row["orders"] is not None and row["amount"] is not None
            }

    def holders(self) -> dict[str, str]:
        """Return who holds each claimed date."""
        with self.backfill() as backfill:
            return {row["dt"]: row["claimed_by"] for row in backfill.status()["partitions"] if row["claimed_by"]}

    def writers(self) -> dict[str, str]:
        """Return in whose name each date was written last."""
        with self.backfill() as backfill:
            return {row["dt"]: row["owner"] for row in backfill.status()["partitions"] if row["owner"]}

    def totals(self) -> tuple[int, int]:
        """Return the rollup as it stands."""
        with open_store(self.db) as store, store.reading() as tables:
            return tables.rollup()

    def connection(self) -> str:
        """Return the Airflow connection that names this stand."""
        return json.dumps({"conn_type": "backfill", "host": self.db, "schema": str(self.events)})
