"""What `pip install` brings: the library alone, its command, and bounds that hold at both ends."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from airflow_stand import ROOT

OLDEST = Path(sys.prefix) / "oldest"
"""Where the Makefile puts the oldest version of common-compat that we promise to work with."""
FROM_OLDEST = """
import sys
from importlib.machinery import PathFinder


class Oldest:
    def find_spec(name, path=None, target=None):
        if name == "airflow.providers.common.compat":
            return PathFinder.find_spec(name, [sys.argv[1] + "/airflow/providers/common"])


sys.meta_path.insert(0, Oldest)
import pytest

code = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]])
from airflow.providers.common import compat

assert compat.__file__.startswith(sys.argv[1]), compat.__file__
print(compat.__version__)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    checkout = folder / "checkout"
    checkout.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    for name in ("backfill_core", "clickstream", "plugins"):
        shutil.copytree(ROOT / name, checkout / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*build, str(folder), str(checkout)], check=True)
    [built] = folder.glob("*.whl")
    return built


def test_a_wheel_carries_the_library_alone_and_its_entry_points(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
        [entry_points] = [files.read(name).decode() for name in names if name.endswith("entry_points.txt")]

    packages = {name.split("/")[0] for name in names}
    ours = {
        str(path.relative_to(base))
        for base, package in ((ROOT, "backfill_core"), (ROOT / "plugins", "backfill_airflow"))
        for path in (base / package).rglob("*")
        if path.suffix == ".py" or path.name == "py.typed"
    }
    page = {"backfill_airflow/page/built/partitions.js"}
    assert {name for name in names if ".dist-info/" not in name} == ours | page
    assert len(packages) == 3
    assert "[apache_airflow_provider]\nprovider_info = backfill_airflow.provider:get_provider_info" in entry_points
    assert "[airflow.plugins]\nbackfill = backfill_airflow.plugin:BackfillPlugin" in entry_points
    assert "[console_scripts]\nbackfill = backfill_core.__main__:entry" in entry_points


def test_the_wheel_brings_a_command_that_needs_nothing_else(wheel: Path, tmp_path: Path) -> None:
    clean = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", clean], check=True)
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]
    subprocess.run([str(clean / "bin" / "python"), *install, str(wheel)], check=True)
    environ = {"BACKFILL_HOME": str(tmp_path / "home")}

    def backfill(*arguments: str) -> tuple[int, str]:
        command = [str(clean / "bin" / "backfill"), *arguments]
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout

    missing, _ = backfill("status")
    made, answer = backfill("init", "--json")
    claimed, shown = backfill("claim", "2026-02-01", "2026-02-02", "me")

    assert (missing, made, claimed) == (3, 0, 0)
    assert json.loads(answer)["db"] == str(tmp_path / "home" / "state.db")
    assert shown.splitlines() == ["owner: me", "claimed: 2", "  2026-02-01", "  2026-02-02", "denied: 0"]


def test_the_library_works_with_the_oldest_and_the_newest_version_that_it_promises() -> None:
    assert OLDEST.is_dir(), f"{OLDEST} is missing; `make test-airflow` installs it by requirements/oldest.txt"
    promised = re.search(r"common-compat>=([0-9.]+)", (ROOT / "pyproject.toml").read_text())
    tests = [str(ROOT / "tests" / "airflow" / name) for name in ("test_operators.py", "test_partition.py")]

    done = subprocess.run(
        [sys.executable, "-c", FROM_OLDEST, str(OLDEST), *tests],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert promised is not None
    oldest = done.stdout.splitlines()[-1]
    assert oldest.split(".")[:2] == promised[1].split(".")
    assert oldest != version("apache-airflow-providers-common-compat")
