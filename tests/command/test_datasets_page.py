"""The Python and the commands of docs/datasets.md are run as they stand there, and answer what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from backfill_core.calendar_lines import SHAPES
from backfill_core.states import STATES
from tests.command.test_dataset_commands import ROOT, SELECT, Shop
from tests.command.test_status import live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = (ROOT / "docs" / "datasets.md").read_text()


def block_with(words: str, language: str = "") -> str:
    blocks: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return next(text for written_in, text in blocks if written_in == language and words in text)


def drawn_on_the_page() -> Iterator[tuple[list[str], str]]:
    """Yield each command whose answer the page shows, and that answer."""
    for block in re.findall(r"^```\n(\$ backfill [^\n]+\n[^$].*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        command, _, answer = block.partition("\n")
        yield shlex.split(command)[2:], answer


def without_times(text: str) -> str:
    return re.sub(r"#[0-9a-f]{8}", "#an-id", re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "THEN UTC", text))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    (tmp_path / "shop.py").write_text(block_with('SqlTable("shop.db"', "python"))
    (tmp_path / "orders.sql").write_text(SELECT)
    return shop


def test_the_commands_do_what_the_page_says(shop: Shop) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = []
    for line in block_with("$ backfill init").splitlines():
        words = shlex.split(line.removeprefix("$ "))
        if words[0] == "export":
            environ.update(dict(word.split("=", 1) for word in words[1:]))
            continue
        called = subprocess.run(
            [sys.executable, "-m", "backfill_core", *words[1:]],
            cwd=shop.folder,
            env=environ,
            input="",
            capture_output=True,
            text=True,
            check=False,
        )
        assert called.returncode == (1 if words[1] == "plan" else 0), f"{line}: {called.stdout}{called.stderr}"
        said.append(called.stdout)

    assert "the result is empty" in said[2]  # of the day that has no orders
    assert shop.rows() == [("a", "2026-02-01", 5), ("b", "2026-02-01", 7), ("c", "2026-02-02", 9)]
    assert "sent to the board" in said[-1]


def test_the_calendar_and_the_log_are_drawn_as_the_page_shows_them(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.init()
    live(shop)

    shown = {words[0]: (words, answer) for words, answer in drawn_on_the_page()}

    assert set(shown) == {"status", "history"}
    for words, answer in shown.values():
        assert without_times(shop.type(*words, dataset="").stdout) == without_times(answer)


def test_the_readme_shows_the_same_calendar() -> None:
    [drawn] = re.findall(r"^```\n( +2025 .*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)

    assert drawn in PAGE


def test_the_states_are_those_that_the_page_lists_in_their_order() -> None:
    listed = re.findall(r"^\| `(.)` \| (\w+) \|", PAGE, re.MULTILINE)

    assert listed == [(SHAPES[state], state) for state in STATES]


def test_the_block_in_python_replaces_a_partition_when_it_ends(shop: Shop) -> None:
    block = block_with("with replacing(", "python").replace(
        "    ...  #",
        "    import sqlite3\n"
        "    with sqlite3.connect('shop.db') as db:\n"
        '        db.execute(f"INSERT INTO {partition.staging} SELECT * FROM orders WHERE dt = ?", partition.keys)\n'
        "    db.close()  #",
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "BACKFILL_DB": "state.db"}

    called = subprocess.run(
        [sys.executable, "-c", block], cwd=shop.folder, env=environ, capture_output=True, text=True, check=False
    )

    assert called.returncode == 0, called.stderr
    assert shop.rows() == [("a", "2026-02-01", 5), ("b", "2026-02-01", 7)]
