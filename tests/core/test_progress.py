from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_core import DateRange

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


def test_what_counts_sources_shows_how_far_it_has_come_on_a_terminal_only(
    backfill: Backfill, source: Source, tmp_path: Path
) -> None:
    for day in range(1, 6):
        source.put(f"2026-02-0{day}", 5)
    backfill.run(DateRange.parse("2026-02-01", "2026-02-05"), "me")
    backfill.seal(DateRange.parse("2026-02-01", "2026-02-04"))
    env = {"BACKFILL_DB": str(tmp_path / "state.db"), "BACKFILL_EVENTS": str(source.folder), "TERM": "xterm"}

    for words, line in (
        (("plan", "2026-02-04", "2026-02-09", "me"), "2/5 2026-02-06"),
        (("status", "--compare"), "2/5 2026-02-02"),
        (("late",), "4/4 2026-02-04"),
    ):
        shown = errors_on_a_terminal([sys.executable, "-m", "backfill_core", *words], env)
        in_json = errors_on_a_terminal([sys.executable, "-m", "backfill_core", *words, "--json"], env)

        assert line in shown
        assert shown.endswith("\r\033[K")
        assert in_json == ""


def test_a_range_that_is_run_for_a_script_shows_none(backfill: Backfill, source: Source, tmp_path: Path) -> None:
    source.put("2026-02-02", 5)
    env = {"BACKFILL_DB": str(tmp_path / "state.db"), "BACKFILL_EVENTS": str(source.folder), "TERM": "xterm"}
    command = [sys.executable, "-m", "backfill_core", "run", "2026-02-01", "2026-02-03", "me"]

    assert "2/3 2026-02-02" in errors_on_a_terminal(command, env)
    assert errors_on_a_terminal([*command, "--json"], env) == ""


def errors_on_a_terminal(command: list[str], env: dict[str, str]) -> str:
    terminal, its_end = pty.openpty()
    subprocess.run(command, env=env, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=its_end, check=True)
    os.write(its_end, b"#")  # nothing at all can't be read
    os.close(its_end)
    shown = os.read(terminal, 10_000).decode()
    os.close(terminal)
    return shown.removesuffix("#")
