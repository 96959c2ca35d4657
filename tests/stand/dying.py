"""Rebuild a day in this process and die by SIGKILL at a moment of it: `dying.py DAY MOMENT`.

The moment is `record`, before the store records the day, or the name of a mart, before that is swapped.
"""

from __future__ import annotations

import os
import signal
import sys
from types import SimpleNamespace
from typing import Any

from backfill_core import Backfill
from clickstream.warehouse import Warehouse
from clickstream_airflow import stand

DAY, MOMENT = sys.argv[1:]
swap_day = Warehouse.swap_day


def die(*_: object, **__: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def swap_until(warehouse: Warehouse, layer: str, mart: str, day: Any) -> None:
    if mart == MOMENT:
        die()
    swap_day(warehouse, layer, mart, day)


Warehouse.swap_day = swap_until  # type: ignore[method-assign,assignment]
if MOMENT == "record":
    Backfill.run = die  # type: ignore[method-assign]
run = SimpleNamespace(dag_id="etl_pipeline", run_id="manual__killed", conf={})
ti = SimpleNamespace(task_id="rebuild_day", map_index=0, try_number=1)
stand.rebuild_day(DAY, dag_run=run, run_id=run.run_id, ti=ti)
