"""A disk that is full: at the first byte of a commit, and a little further each time."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from backfill_core import StoreError, create_store
from tests.faults import story
from tests.servers import OwnPostgres
from tests.world import World, days

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BULKY = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=150_000))
"""An owner of many pages that don't compress."""
PAGE = 4096


def fill(disk: Path, leave: int) -> Path:
    """Write a ballast that leaves so many bytes free."""
    free = os.statvfs(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(b"\0" * max(0, free.f_bavail * free.f_frsize - leave))
    return ballast


def test_a_file_store_on_a_full_disk_keeps_what_it_had(small_disk: Callable[[str], Path], tmp_path: Path) -> None:
    disk = small_disk("2m")
    world = World(str(disk / "state.db"), tmp_path)
    create_store(world.db)
    refused = 0
    for pages in range(0, 200, 3):
        story.begin(world, 2)
        ballast = fill(disk, leave=pages * PAGE)
        said = ""

        try:
            story.run(world, 2, BULKY)
        except StoreError as error:
            said = str(error)
        ballast.unlink()

        daily = world.daily()
        values = [daily[dt] for dt in days(2)]
        assert [value in ((*story.OLD, "old"), (*story.NEW, BULKY)) for value in values] == [True, True]
        if not said:
            break
        assert "what it held is still there" in said
        refused += 1
        story.check_that_running_again_is_enough(world, 2)
    print(f"refused with {refused} amounts of free space")
    assert refused > 10
    assert not said


def test_a_table_of_postgresql_on_a_full_disk_keeps_what_it_had(
    small_disk: Callable[[str], Path], tmp_path: Path, own_postgres: OwnPostgres
) -> None:
    disk = small_disk("2m")
    own_postgres.hand_over(disk)
    own_postgres.sql(f"CREATE TABLESPACE small LOCATION '{disk}'")
    world = World(f"{own_postgres.new_store()}&options=-c%20default_tablespace%3Dsmall", tmp_path)
    world.init()
    story.begin(world, 2)
    fill(disk, leave=16 * PAGE)

    with world.backfill() as backfill, pytest.raises(StoreError, match="disk is full") as caught:
        backfill.run(days(2), BULKY)
    (disk / "ballast").unlink()

    assert caught.value.so_far is not None
    assert caught.value.so_far["done"] == []
    assert story.days_at_new(world, 2) == 0
    story.check_that_running_again_is_enough(world, 2)


def test_a_server_that_dies_of_a_full_disk_in_the_middle_of_a_commit_leaves_whole_partitions(
    small_disk: Callable[[str], Path], tmp_path: Path
) -> None:
    """The log of its transactions is on the small disk, and is written with the commit: then the server panics."""
    disk = small_disk("40m")
    os.chmod(disk, 0o777)  # noqa: S103
    settings = {"wal_buffers": "16MB", "wal_writer_delay": "10s", "wal_writer_flush_after": "0"}
    server = OwnPostgres("--wal-segsize=1", f"--waldir={disk}/wal", settings=settings | {"restart_after_crash": "off"})
    try:
        world = World(server.new_store(), tmp_path)
        world.init()
        story.begin(world, 2)
        server.sql("CHECKPOINT")
        fill(disk, leave=0)

        with world.backfill() as backfill, pytest.raises(StoreError) as caught:  # noqa: PT012  one of many runs
            for _ in range(100):  # until the space that it has set aside is used up
                backfill.run(days(2), BULKY)
        server.wait_for_crash()
        (disk / "ballast").unlink()
        server.start()

        assert "lost" in str(caught.value)
        daily = world.daily()
        assert list(daily) == list(days(2))
        assert all(value in ((*story.OLD, "old"), (*story.NEW, BULKY)) for value in daily.values())
        story.check_that_running_again_is_enough(world, 2)
    finally:
        server.close()
