"""What only the store in PostgreSQL has to get right: URLs, schemas, roles, poolers, other people's settings."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core import Backfill, BackfillError, NoStoreError, StoreError, UsageError, create_store, open_store
from backfill_core.claims import ATTEMPT, RESERVATION, Caller
from backfill_core.store import name_of, postgres
from tests.servers import DATABASE, OwnPostgres, PgBouncer, Postgres, free_port
from tests.store.crowd import act_at_random, correct_a_day, run_a_day, start_sources, together
from tests.store.history import State, serial_order
from tests.world import CHECKOUT, World, day, days

if TYPE_CHECKING:
    from pathlib import Path

ISOLATION_LEVELS = ["read uncommitted", "read committed", "repeatable read", "serializable"]


def with_setting(db: str, setting: str) -> str:
    return f"{db}&options={quote(f'-c {setting}')}"


# Where the store is


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://h/d", "postgresql://h/d?schema=backfill"),
        ("postgres://u:geheim@h:5433/d?schema=s", "postgresql://u@h:5433/d?schema=s"),
        ("postgresql://u@h/d?schema=a%20b%26c&sslmode=require", "postgresql://u@h/d?schema=a%20b%26c"),
        ("postgresql://a:1,b:2/d?password=geheim", "postgresql://a,b:1,2/d?schema=backfill"),
        ("postgresql:///d?host=/run/pg", "postgresql:///run/pg/d?schema=backfill"),
        (f"postgresql://h/d?schema={'s' * 63}", f"postgresql://h/d?schema={'s' * 63}"),
        ("/srv/state.db", "/srv/state.db"),
        ("odd:/name", "odd:/name"),
    ],
)
def test_a_store_is_shown_without_its_password(url: str, name: str) -> None:
    assert name_of(url) == name


@pytest.mark.parametrize(
    "url",
    [
        "mysql://h/d",
        "sqlite:///srv/state.db",
        "postgresql+psycopg2://h/d",
        "postgresql://h/d?scema=s",
        "postgresql://h/d?schema=",
        f"postgresql://h/d?schema={'s' * 64}",
        "postgresql://h/d?schema=a&schema=b",
        "postgresql://h:port/d",
        "postgresql://u:%zz@h/d",
    ],
)
def test_a_url_that_names_no_store_is_a_usage_error(url: str) -> None:
    for use in (create_store, open_store, name_of):
        with pytest.raises(UsageError, match="BACKFILL_DB"):
            use(url)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("08006", "the connection was lost"),
        ("40P01", "the server undid the transaction"),
        ("42501", "the role may not do that"),
        ("53100", "the server's disk is full"),
        ("53200", "the server has run out of something"),
        ("55000", "the server isn't set up for that"),
        ("57014", "the server cancelled the statement"),
        ("57P01", "the server is shutting down"),
    ],
)
def test_what_the_server_says_is_put_into_words_by_its_code(postgres_world: World, code: str, words: str) -> None:
    url, _, schema = postgres_world.db.partition("?schema=")
    refuse = f"BEGIN RAISE EXCEPTION USING MESSAGE = 'as it said', ERRCODE = '{code}'; END"
    with psycopg.connect(url) as server:
        server.execute(f"CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $${refuse}$$".encode())
        table = f"{schema}.claims"
        server.execute(f"CREATE TRIGGER t BEFORE INSERT ON {table} EXECUTE FUNCTION {schema}.refuse()".encode())

    with open_store(postgres_world.db) as store, pytest.raises(StoreError) as failure:
        Backfill(store).claim(days(1), "a")

    assert f": {words}" in str(failure.value)
    assert "(as it said)" in str(failure.value)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=5, max_size=30), st.booleans())
def test_no_sentence_has_a_password_in_it(password: str, encoded: bool) -> None:
    password = f"7#{password}"
    url = f"postgresql://u:{quote(password, safe='') if encoded else password}@127.0.0.1:1/d?connect_timeout=2"

    try:
        name = name_of(url)
        open_store(url)
    except BackfillError as error:
        name = str(error)

    assert password not in name
    assert quote(password, safe="") not in name


def test_what_is_missing_is_no_store(postgres: Postgres) -> None:
    nowhere = postgres.url.rpartition("/")[0] + f"/no_{secrets.token_hex(4)}"
    no_schema = postgres.new_store()
    no_tables = postgres.new_store()
    postgres.sql(f"CREATE SCHEMA {no_tables.rpartition('=')[2]}")

    for db in (nowhere, no_schema, no_tables):
        with pytest.raises(NoStoreError, match="there is no state store at postgresql://"):
            open_store(db)
    with pytest.raises(NoStoreError, match="no such database"):
        create_store(nowhere)


def test_a_table_that_goes_while_the_store_is_open_is_no_store(postgres_world: World, postgres: Postgres) -> None:
    with open_store(postgres_world.db) as store:
        postgres.sql(f"DROP TABLE {postgres_world.db.rpartition('=')[2]}.seals")

        with pytest.raises(NoStoreError, match="seals"), store.reading() as tables:
            tables.sealed(days(1))


def test_the_runner_works_on_it_as_on_a_file(postgres_world: World) -> None:
    world = postgres_world
    world.put(day(0), 1, 2)

    made = world.run("init")
    codes = [
        world.run(*arguments)[0]
        for arguments in (
            ["run", day(0), day(1), "a"],
            ["claim", day(0), day(1), "a"],
            ["claim", day(0), day(1), "b"],
            ["run", day(0), day(0), "b"],
            ["seal", day(0), day(0)],
            ["amend", day(0), "late"],
            ["amend", day(1), "never sent"],
            ["release", day(0), day(1), "a"],
            ["rollup-add", day(0), day(1)],
            ["rollup"],
        )
    ]

    assert made == (0, {"db": world.name, "tables": ["daily", "rollup", "claims", "seals", "corrections"]})
    assert codes == [0, 0, 4, 5, 0, 0, 6, 0, 0, 0]
    assert world.run("rollup", BACKFILL_DB=f"{world.db}_no")[0] == 3
    assert world.run("rollup", BACKFILL_DB="postgresql://h:no/")[0] == 2


def test_without_the_driver_a_sentence_names_the_extra(postgres_world: World) -> None:
    process = postgres_world.start("rollup", script=("-S", "runner.py"))

    code, answer = postgres_world.finish(process)

    assert code == 1
    assert "'.[postgres]'" in answer["error"]
    assert "requirements/postgres.txt" in answer["error"]


def test_a_server_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with World(f"postgresql://u:geheim@127.0.0.1:{free_port()}/d", tmp_path) as world:
        code, answer = world.run("rollup")

    assert code == 1
    assert "can't be reached" in answer["error"]
    assert "geheim" not in answer["error"]


# Other people's settings


@pytest.mark.parametrize("level", ISOLATION_LEVELS)
def test_writers_are_ordered_at_any_default_isolation_level(postgres_world: World, level: str) -> None:
    db = with_setting(postgres_world.db, f"default_transaction_isolation={level.replace(' ', chr(92) + ' ')}")
    postgres_world.put(day(0), 3, 4)

    together(4, run_a_day, db, str(postgres_world.events), 15)
    together(4, correct_a_day, db, 15)

    assert [row[:3] for row in postgres_world.rows("daily")] == [(day(0), 2, 7)]
    assert [row[1] for row in postgres_world.rows("corrections")] == list(range(60))


def test_a_commit_is_durable_where_the_default_is_not(postgres_world: World) -> None:
    with open_store(with_setting(postgres_world.db, "synchronous_commit=off")) as store, store.writing():
        [(setting,)] = store._connection.execute("SHOW synchronous_commit")  # type: ignore[attr-defined]

    assert setting == "on"


def test_a_stronger_durability_is_left_alone(postgres_world: World) -> None:
    with open_store(with_setting(postgres_world.db, "synchronous_commit=remote_apply")) as store, store.writing():
        [(setting,)] = store._connection.execute("SHOW synchronous_commit")  # type: ignore[attr-defined]

    assert setting == "remote_apply"


def test_a_server_that_can_only_be_read_says_so(postgres_world: World) -> None:
    db = with_setting(postgres_world.db, "default_transaction_read_only=on")

    with open_store(db) as store, pytest.raises(StoreError, match="only be read"), store.writing() as tables:
        tables.seal(days(1))

    assert postgres_world.rows("seals") == []


def test_a_statement_that_the_server_cancels_is_a_sentence(postgres_world: World) -> None:
    db = with_setting(postgres_world.db, "statement_timeout=200ms")

    with open_store(postgres_world.db) as first, first.writing(), open_store(db) as second:
        with pytest.raises(StoreError, match="statement_timeout"), second.writing():
            pass
        with second.reading() as tables:
            assert tables.sealed(days(1)) == set()


def test_waiting_for_ones_turn_has_an_end(postgres_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "WAIT_SECONDS", 1)

    with (
        open_store(postgres_world.db) as first,
        first.writing(),
        open_store(postgres_world.db) as second,
        pytest.raises(StoreError, match="run again"),
        second.writing(),
    ):
        pass


def test_a_writer_that_is_not_heard_of_loses_its_turn(postgres_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(postgres, "IDLE_SECONDS", 1)
        frozen = open_store(postgres_world.db)

    with (  # noqa: PT012  the turn is lost on the way
        open_store(postgres_world.db) as other,
        frozen,
        pytest.raises(StoreError, match="took the transaction back"),
        frozen.writing() as lost,
    ):
        lost.replace(day(0), 1, 1, "frozen")
        with other.writing() as tables:
            tables.replace(day(0), 2, 2, "other")
        lost.replace(day(0), 3, 3, "frozen")

    assert postgres_world.daily() == {day(0): (2, 2, "other")}


def test_text_that_the_databases_encoding_cannot_hold_is_refused(postgres: Postgres) -> None:
    name = f"latin_{secrets.token_hex(4)}"
    postgres.sql(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    db = f"{postgres.url.rpartition('/')[0]}/{name}"
    try:
        create_store(db)
        with open_store(db) as store:
            with pytest.raises(StoreError, match="UTF8"), store.writing() as tables:
                tables.claim(days(1), "日本")
            with store.writing() as tables:
                tables.claim(days(1), "Ärger")
            with store.reading() as tables:
                assert tables.holders(days(1)) == {day(0): "Ärger"}
    finally:
        postgres.sql(f"DROP DATABASE {name} WITH (FORCE)")


def test_two_schemas_are_two_data_sets_that_never_wait_for_each_other(postgres: Postgres) -> None:
    first, second = postgres.new_store(), postgres.new_store().replace("schema=", "schema=Odd%20%22")
    postgres._schemas[-1] = f'"Odd ""{postgres._schemas[-1]}"'
    create_store(first)
    create_store(second)

    with open_store(first) as one, one.writing() as tables, open_store(second) as other:
        tables.seal(days(1))
        with other.writing() as others:
            others.seal(days(1, start=1))
            sealed = others.sealed(days(9))

    assert sealed == {day(1)}


def test_eight_processes_make_one_store(postgres: Postgres) -> None:
    db = postgres.new_store()

    made = together(8, _create, db)

    assert made == [["daily", "rollup", "claims", "seals", "corrections"]] * 8


def _create(_number: int, db: str) -> list[str]:
    return create_store(db)


# Connections


def test_a_connection_lost_between_two_transactions_is_made_again(postgres_world: World, postgres: Postgres) -> None:
    postgres_world.put(day(0), 1)
    postgres_world.put(day(1), 2)
    ended = []

    with postgres_world.backfill() as backfill:

        def end(_passed: int, _dt: str) -> None:
            pid = backfill._store._connection.info.backend_pid  # type: ignore[attr-defined]
            ended.extend(postgres.sql(f"SELECT pg_terminate_backend({pid}, 60000)"))

        answer = backfill.run(days(2), "a", progress=end)

    assert ended == [(True,), (True,)]
    assert answer["done"] == [day(0), day(1)]


def test_nothing_outlives_a_transaction_on_the_server(postgres_world: World) -> None:
    postgres_world.put(day(0), 1)
    ask = (
        "SELECT (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors),"
        " (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),"
        " current_setting('search_path'), current_setting('lock_timeout'),"
        " current_setting('idle_in_transaction_session_timeout')"
    )
    with postgres_world.backfill() as backfill:
        connection = backfill._store._connection  # type: ignore[attr-defined]
        before = connection.execute(ask).fetchall()
        for _ in range(20):
            backfill.run(days(2), "a")
            backfill.claim(days(2), "a")

        after = connection.execute(ask).fetchall()

    assert before == after
    assert after[0][:3] == (0, 0, 0)


def test_every_answer_through_a_pooler_fits_a_serial_order(
    postgres_world: World, postgres: Postgres, pgbouncer: PgBouncer
) -> None:
    sources = start_sources(postgres_world)
    db = postgres.through(pgbouncer.port, postgres_world.db)

    histories = together(6, act_at_random, db, postgres_world.folder, 0, 40)

    serial_order(histories, State.empty(sources, 6))


def test_a_poolers_temporary_tables_do_not_hide_ours(
    postgres_world: World, postgres: Postgres, pgbouncer: PgBouncer
) -> None:
    db = postgres.through(pgbouncer.port, postgres_world.db)
    left_behind = "CREATE TEMPORARY TABLE IF NOT EXISTS seals (dt TEXT); SELECT pg_backend_pid()"
    base = re.sub(r"schema=\w+&", "", db)
    with psycopg.connect(base) as one, psycopg.connect(base) as two:  # two transactions at once: both connections
        for connection in (one, two):
            connection.execute(left_behind)

    with open_store(db) as store, store.writing() as tables:
        tables.seal(days(1))

    assert postgres_world.rows("seals") == [(day(0),)]


# Roles: the very lines of the manual


def _granted(postgres: Postgres, world: World, name: str) -> str:
    """Make a role, give it what docs/postgresql.md says, and return the store's URL for it."""
    role, schema = postgres.new_role(), world.db.rpartition("=")[2]
    grants = re.findall(rf"^GRANT .* TO {name};$", (CHECKOUT / "docs/postgresql.md").read_text(), re.MULTILINE)
    assert len(grants) >= 2
    for grant in grants:
        postgres.sql(re.sub(r"\bbackfill\b", schema, grant).replace(name, role))
    return postgres.as_role(role, world.db)


EVERYTHING = {
    "run": ["run", day(0), day(0), "a"],
    "claim": ["claim", day(1), day(1), "a"],
    "release": ["release", day(1), day(1), "a"],
    "seal": ["seal", day(2), day(2)],
    "amend": ["amend", day(2), "late"],
    "rollup-add": ["rollup-add", day(0), day(0)],
    "rollup": ["rollup"],
    "init": ["init"],
}


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("backfill_operator", set(EVERYTHING)),
        ("backfill_runner", {"run", "init"}),
        ("backfill_reader", {"init"}),
    ],
)
def test_a_role_may_do_what_it_was_granted_and_no_more(
    postgres_world: World, postgres: Postgres, name: str, may: set[str]
) -> None:
    world = postgres_world
    for number in range(3):
        world.put(day(number), 1)
    world.run("seal", day(2), day(2))
    db = _granted(postgres, world, name)

    answers = {word: world.run(*arguments, BACKFILL_DB=db) for word, arguments in EVERYTHING.items()}

    assert {word for word, (code, _) in answers.items() if code == 0} == may
    for word in EVERYTHING.keys() - may:
        code, answer = answers[word]
        assert code == 1
        assert "docs/postgresql.md lists the grants" in answer["error"]


def test_a_reader_can_plan_and_look(postgres_world: World, postgres: Postgres) -> None:
    postgres_world.put(day(0), 1)
    reader = World(_granted(postgres, postgres_world, "backfill_reader"), postgres_world.folder)

    with reader.backfill() as backfill:
        plan, status = backfill.plan(days(2), "a"), backfill.status(days(2))
        late, statement = backfill.late(), backfill.statement(days(2))

    assert (plan["change"], plan["skipped"]) == (1, 1)
    assert len(status["partitions"]) == 2
    assert (late["late"], statement["partitions"]) == ([], [])


def test_the_role_of_airflows_tasks_claims_and_writes_and_makes_no_table(
    postgres_world: World, postgres: Postgres
) -> None:
    postgres_world.put(day(0), 1)
    with open_store(postgres_world.db) as store:
        store.make_ledger()
    role = World(_granted(postgres, postgres_world, "backfill_airflow"), postgres_world.folder)
    caller = Caller("daily/manual__1", "replace")

    with role.backfill() as backfill:
        reserved = backfill.take(days(2), caller._replace(task="claim"), RESERVATION)
        taken = backfill.take(days(1), caller, ATTEMPT)
        answer = backfill.run(days(1), "daily/manual__1", claim=taken.claim)
        backfill.give_back(reserved.claim or "")

    assert answer["done"] == [day(0)]
    with open_store(postgres_world.db) as store:
        assert [claim.ended for claim in Backfill(store).standing_claims()] == [True]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        postgres.sql(f"CREATE TABLE {role.db.rpartition('=')[2]}.more (n INTEGER)", role.db.split("?schema=")[0])


def test_a_role_that_may_not_make_the_table_of_claims_is_told_who_can(
    postgres_world: World, postgres: Postgres
) -> None:
    postgres.sql(f"DROP TABLE IF EXISTS {postgres_world.db.rpartition('=')[2]}.ledger_claims")
    role = World(_granted(postgres, postgres_world, "backfill_operator"), postgres_world.folder)

    with role.backfill() as backfill, pytest.raises(StoreError, match="let a role that may call `backfill init` once"):
        backfill.take(days(1), Caller("daily/manual__1", "replace"), ATTEMPT)


def test_nobody_but_the_owner_changes_a_correction(postgres_world: World, postgres: Postgres) -> None:
    db = _granted(postgres, postgres_world, "backfill_operator")
    url, schema = db.split("?schema=")

    for statement in ("DELETE FROM {}.corrections", "UPDATE {}.corrections SET reason = ''"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            postgres.sql(statement.format(schema), url)


def test_a_role_without_rights_gets_a_sentence(postgres_world: World, postgres: Postgres) -> None:
    db = postgres.as_role(postgres.new_role(), postgres_world.db)

    with pytest.raises(StoreError, match="lists the grants"):
        create_store(db.replace("schema=", "schema=other_"))
    with open_store(db) as store, pytest.raises(BackfillError), store.reading() as tables:
        tables.sealed(days(1))


def test_a_wrong_password_is_a_sentence_without_it(own_postgres: OwnPostgres) -> None:
    role = own_postgres.new_role()
    url = f"postgresql://{role}:geheim@127.0.0.1:{own_postgres.port}/{DATABASE}"

    with pytest.raises(StoreError, match="password authentication failed") as caught:
        open_store(url)

    assert "geheim" not in str(caught.value)
