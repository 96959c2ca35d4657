"""A SQLite file that lost a part: a sentence where it can't be read, whole partitions where it can."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from backfill_core import BackfillError, NoStoreError, create_store, open_store
from tests.faults import story
from tests.world import World, days

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 3


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(str(tmp_path / "state.db"), tmp_path)
    create_store(made.db)
    return made


def commands(world: World) -> list[str]:
    """Try everything; return the sentences. Anything but a sentence ends the test."""
    said: list[str] = []
    for word, arguments in {
        "run": (days(2), "a"),
        "claim": (days(2), "a"),
        "release": (days(2), "a"),
        "seal": (days(1, start=1),),
        "amend": (days(1, start=1).first, "late"),
        "rollup": (),
        "rollup_add": (days(2),),
        "plan": (days(2), "a"),
        "status": (),
        "late": (),
        "statement": (days(2),),
    }.items():
        said.extend(sentences(world, word, arguments))
    return said


def sentences(world: World, word: str, arguments: tuple[object, ...]) -> list[str]:
    try:
        with world.backfill() as backfill:
            getattr(backfill, word)(*arguments)
    except BackfillError as error:
        return [str(error)]
    return []


def test_a_truncated_file_is_told_and_never_filled_up_in_silence(world: World) -> None:
    story.begin(world, COUNT)
    with world.backfill() as backfill:
        backfill.seal(days(1, start=1))
    whole = (world.folder / "state.db").read_bytes()
    refused = 0
    for size in [1, 15, 16, 99, 100, 512, *range(1024, len(whole), 2048)]:
        (world.folder / "state.db").write_bytes(whole[:size])

        said = commands(world)

        refused += bool(said)
        assert all(world.db in sentence or "dt=" in sentence or "sealed" in sentence for sentence in said)
    assert refused > 5


def test_an_emptied_file_is_no_store(world: World) -> None:
    os.truncate(world.db, 0)

    with pytest.raises(NoStoreError):
        open_store(world.db)

    assert os.stat(world.db).st_size == 0
