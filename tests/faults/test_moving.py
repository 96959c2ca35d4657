"""A store that moves to another server: by the very commands of docs/postgresql.md; and one that was moved badly."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from backfill_core import StoreError, create_store
from tests.servers import OwnPostgres, wait_until
from tests.world import CHECKOUT, World, day, days

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAGE = (CHECKOUT / "docs/postgresql.md").read_text()
SECTION = PAGE[PAGE.index("## Moving a store") : PAGE.index("## A database that is not UTF-8")]


def commands(language: str) -> list[str]:
    """Return the blocks of the section in one language, in their order."""
    return re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)


DUMP, COPY = commands("sh")
PUBLISH, SUBSCRIBE, CAUGHT_UP, UPGRADE, RENUMBER = commands("sql")


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[OwnPostgres, OwnPostgres]]:
    old, new = OwnPostgres(settings={"wal_level": "logical"}), OwnPostgres(settings={"wal_level": "logical"})
    yield old, new
    new.close()
    old.close()


@pytest.fixture
def old(servers: tuple[OwnPostgres, OwnPostgres], tmp_path: Path) -> Iterator[World]:
    """A store with a sealed day that was corrected twice, as `init` makes it in the default schema."""
    for server in servers:
        server.sql("DROP SCHEMA IF EXISTS backfill CASCADE")
    folder = tmp_path / "old"
    folder.mkdir()
    with World(f"{servers[0].url}?schema=backfill", folder) as world:
        world.init()
        world.put(day(0), 1)
        world.put(day(1), 2)
        with world.backfill() as backfill:
            backfill.run(days(2), "a")
            backfill.claim(days(1, start=1), "anna")
            backfill.rollup()
            backfill.seal(days(1))
        correct(world, "first", 1, 10)
        correct(world, "second", 1, 10, 100)
        yield world


@pytest.fixture
def new(servers: tuple[OwnPostgres, OwnPostgres], tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "new"
    folder.mkdir()
    with World(f"{servers[1].url}?schema=backfill", folder) as world:
        yield world


def correct(world: World, reason: str, *amounts: int) -> None:
    world.put(day(0), *amounts)
    with world.backfill() as backfill:
        backfill.amend(days(1).first, reason)


def right(world: World) -> int:
    with world.backfill() as backfill:
        [line] = backfill.statement(days(1))["partitions"]
        assert backfill.late()["late"] == []
    return line["amount_corrected"]


def check_that_it_goes_on(old: World, new: World) -> None:
    """The new store holds all of the old one, and what is corrected there is the newest."""
    assert new.dump() == old.dump()
    correct(new, "third", 1, 10, 100, 1000)
    correct(new, "fourth", 1, 10, 100, 1000, 10000)
    assert right(new) == 11111
    assert [row[5] for row in new.rows("corrections")] == ["first", "second", "third", "fourth"]


def _by_dump(servers: tuple[OwnPostgres, OwnPostgres], _new: World) -> None:
    _sh(DUMP, servers)


def _by_copy(servers: tuple[OwnPostgres, OwnPostgres], new: World) -> None:
    new.init()
    _sh(COPY, servers)


def _by_replication(servers: tuple[OwnPostgres, OwnPostgres], new: World) -> None:
    old_server, new_server = servers
    new.init()
    old_server.sql(PUBLISH)
    connection = f"host=127.0.0.1 port={old_server.port} user=tester dbname=backfill_test"
    new_server.sql(SUBSCRIBE.replace("host=old.example dbname=warehouse", connection))
    [(lsn,)] = old_server.sql("SELECT pg_current_wal_lsn()::text")
    wait_until(lambda: new_server.sql(CAUGHT_UP.replace("0/0", lsn)) == [(True,)], "the new one has it all")
    new_server.sql("DROP SUBSCRIPTION backfill_move")
    old_server.sql("DROP PUBLICATION backfill_move")


def _sh(script: str, servers: tuple[OwnPostgres, OwnPostgres]) -> None:
    old, new = servers
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-ec", script],
        env={**os.environ, "OLD": old.url, "NEW": new.url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("move", [_by_dump, _by_copy, _by_replication])
def test_a_store_that_was_moved_as_the_page_says_goes_on_with_the_newest_correction_last(
    servers: tuple[OwnPostgres, OwnPostgres],
    old: World,
    new: World,
    move: Callable[[tuple[OwnPostgres, OwnPostgres], World], None],
) -> None:
    move(servers, new)

    check_that_it_goes_on(old, new)


def test_a_store_can_be_published_with_all_tables_as_init_makes_it(
    servers: tuple[OwnPostgres, OwnPostgres], old: World
) -> None:
    servers[0].sql("CREATE PUBLICATION everything FOR ALL TABLES")
    try:
        commands = (
            ["run", day(0), day(1), "anna"],
            ["release", day(0), day(1), "anna"],
            ["claim", day(0), day(1), "ben"],
            ["seal", day(1), day(1)],
            ["amend", day(1), "late"],
            ["rollup"],
            ["rollup-add", day(0), day(1)],
        )
        codes = [old.run(*command)[0] for command in commands]
    finally:
        servers[0].sql("DROP PUBLICATION everything")

    assert codes == [5, 0, 0, 0, 0, 0, 0]  # the sealed day is skipped, the other one is replaced


def _make_old_again(server: OwnPostgres) -> None:
    """Make of the store what an earlier version made."""
    server.sql("ALTER TABLE backfill.corrections DROP CONSTRAINT corrections_pkey")
    server.sql("ALTER TABLE backfill.corrections ALTER COLUMN rowid ADD GENERATED ALWAYS AS IDENTITY")
    server.sql("ALTER TABLE backfill.daily REPLICA IDENTITY DEFAULT")


def test_what_a_publication_refuses_is_not_called_a_lost_connection(
    servers: tuple[OwnPostgres, OwnPostgres], old: World
) -> None:
    server = servers[0]
    _make_old_again(server)
    server.sql("CREATE PUBLICATION everything FOR ALL TABLES")
    old.put(day(1), 2, 3)
    try:
        code, answer = old.run("run", day(1), day(1), "anna")
        server.sql(UPGRADE)
        again, _ = old.run("run", day(1), day(1), "anna")
    finally:
        server.sql("DROP PUBLICATION everything")

    assert (code, again) == (1, 0)
    assert "replica identity" in answer["error"]
    assert "docs/postgresql.md" in answer["error"]
    assert "lost" not in answer["error"]


def test_a_store_of_an_earlier_version_goes_on_and_its_newest_correction_is_the_last(
    servers: tuple[OwnPostgres, OwnPostgres], old: World
) -> None:
    _make_old_again(servers[0])  # with a sequence that begins again

    correct(old, "third", 1, 10, 100, 1000)

    assert right(old) == 1111


def test_corrections_whose_order_is_lost_are_told_and_can_be_put_right(
    servers: tuple[OwnPostgres, OwnPostgres], old: World
) -> None:
    server = servers[0]
    _make_old_again(server)
    old.put(day(0), *[1] * 5)
    server.sql(  # as an earlier version did after a move
        f"INSERT INTO backfill.corrections VALUES ('{day(0)}', 1, 1, 5, 5, 'found after the move')"
    )

    with old.backfill() as backfill:
        for question in (backfill.late, lambda: backfill.statement(days(1))):
            with pytest.raises(StoreError, match="which of a date's corrections is the last is not certain"):
                question()
        with pytest.raises(StoreError, match="is not certain"):
            backfill.amend(days(1).first, "late", allow_empty=False)
        assert backfill.statement(days(1, start=1))["amount_corrected"] == 2
        assert backfill.status(days(1))["partitions"][0]["corrections"] == 3
    server.sql(RENUMBER)
    server.sql(UPGRADE)

    assert right(old) == 5
    assert create_store(old.db)
