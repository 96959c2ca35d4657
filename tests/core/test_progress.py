from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backfill_core import Backfill
    from tests.core.sources import Source

ROOT = Path(__file__).parents[2]


def test_a_range_shows_its_progress_on_a_terminal_only(backfill: Backfill, source: Source, tmp_path: Path) -> None:
    source.put("2026-02-02", 5)
    command = [sys.executable, str(ROOT / "runner.py"), "run", "2026-02-01", "2026-02-03", "me"]
    env = {"BACKFILL_DB": str(tmp_path / "state.db"), "BACKFILL_EVENTS": str(source.folder)}
    terminal, its_end = pty.openpty()

    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=its_end, check=True)
    os.close(its_end)
    shown = os.read(terminal, 10_000).decode()
    os.close(terminal)
    piped = subprocess.run(command, env=env, capture_output=True, check=True)

    assert "2/3 2026-02-02" in shown
    assert shown.endswith("\r\033[K")
    assert piped.stderr == b""
