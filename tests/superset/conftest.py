"""`make test-superset` runs these tests in the stand's virtual environment, beside one with Superset in it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / folder) for folder in ("tools", "plugins")]

if find_spec("chdb") is None:
    collect_ignore_glob = ["test_*.py"]
