"""A lab for each test: with a store of its own, or still without one; and a run that is caught in the middle."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from .grader import Lab, days, line, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .grader import Answer


@pytest.fixture
def bare_lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab on which `init` was never called."""
    lab = Lab(tmp_path / "lab")
    yield lab
    lab.close()


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the store that `init` made; each lab gets a copy."""
    lab = Lab(tmp_path_factory.mktemp("fresh") / "lab")
    lab.db = lab.folder / "store" / "state.db"
    lab.ok("init")
    return lab.db.parent


@pytest.fixture
def lab(bare_lab: Lab, fresh_store: Path) -> Lab:
    """A lab with an empty store."""
    shutil.copytree(fresh_store, bare_lab.folder, dirs_exist_ok=True)
    return bare_lab


class InTheMiddle:
    """Runs of three dates by alice; something happens while the second, a large one, is being counted.

    That it is being counted is known from the store: the first date is replaced, the second not yet. If the run
    was faster than what was to happen, all is set up again with more lines.
    """

    dates = days("2026-03-01", 3)
    slow = dates[1]
    earlier = (9, 99, "earlier")

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.lines = 100_000
        self.set_up()

    def set_up(self) -> None:
        """Put the store and the partitions back to the beginning."""
        for table in ("daily", "claims", "seals"):
            self.lab.query(f"DELETE FROM {table}")
        for dt in self.dates:
            self.lab.write(dt, 1)
        self.lab.hold_all(self.dates, *self.earlier)
        escaped = line(1, self.slow, order_id="é").replace("é", "\\u00e9")  # the slowest way to write it
        self.lab.write_bytes(self.slow, (escaped + "\n").encode() * self.lines)

    def start(self) -> subprocess.Popen[bytes]:
        """Start the run, and wait until the first date is replaced."""
        process = self.lab.start("run", self.dates[0], self.dates[-1], "alice")
        wait_until(lambda: self.row(self.dates[0]) != self.earlier, "the first date is replaced")
        return process

    def row(self, dt: str) -> tuple[Any, ...]:
        """What `daily` holds for one date; it is always one row."""
        [row] = self.lab.query("SELECT orders, amount, owner FROM daily WHERE dt = ?", dt)
        return row

    def __call__(self, act: Callable[[subprocess.Popen[bytes]], object]) -> Answer:
        """Let `act` happen in the middle of a run; give the run's answer."""
        for _ in range(6):
            process = self.start()
            act(process)
            in_time = self.row(self.slow) == self.earlier
            answer = self.lab.finish(process)
            if in_time:
                return answer
            self.lines *= 4
            self.set_up()
        pytest.fail("the run was always faster")


@pytest.fixture
def in_the_middle(lab: Lab) -> InTheMiddle:
    """A run in the middle of which something can be made to happen."""
    return InTheMiddle(lab)
