"""A Python that is too old gets one sentence that says so, and no traceback."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SCRIPTS = ("runner.py", "lab.py", "gen_events.py")
AS_OLD = """
import runpy, sys
sys.version_info, sys.version = (3, 9, 18, "final", 0), "3.9.18 (main)"
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_old_python_is_told_which_one_is_needed(script: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_OLD, CHECKOUT / script, "init"],
        env={"BACKFILL_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith(f"{script} needs Python 3.10 or newer, and this is 3.9.18 (")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    if script == "runner.py":
        assert json.loads(done.stdout) == {"error": done.stderr.strip()}


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_old_python_can_read_as_far_as_that_sentence(script: str) -> None:
    tree = ast.parse((CHECKOUT / script).read_text(), feature_version=(3, 6))

    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert futures == []
    before = tree.body[: next(n for n, node in enumerate(tree.body) if isinstance(node, ast.If))]
    imported = {alias.name for node in before if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in before if isinstance(node, ast.ImportFrom) and node.module}
    assert not [name for name in imported if name.startswith("backfill_core")]
