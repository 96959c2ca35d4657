"""`make test-superset` runs these tests in the stand's virtual environment, beside one with Superset in it."""

from importlib.util import find_spec

if find_spec("chdb") is None:
    collect_ignore_glob = ["test_*.py"]
