from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_runner_works_without_any_installed_package(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-E", "-S", ROOT / "runner.py", "init"],
        env={"BACKFILL_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "state.db").exists()


def test_a_command_that_touches_one_row_loads_nothing_heavy(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "runner.py", "init"], env={"BACKFILL_HOME": str(tmp_path)}, check=True)

    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", ROOT / "runner.py", "rollup"],
        env={"BACKFILL_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stderr

    modules = {line.rsplit("|", 1)[-1].strip() for line in loaded.splitlines()}
    assert "backfill_core.backfill" in modules
    assert not modules & {
        "argparse",
        "backfill_core.claims",
        "backfill_core.events",
        "backfill_core.ledger",
        "dataclasses",
        "inspect",
        "multiprocessing",
        "pathlib",
        "typing",
    }
