"""How SQL is read: parameters, the end of a statement, names; and what nobody may paste into it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.errors import UsageError
from backfill_core.target.statement import (
    POSTGRES,
    SQLITE,
    for_driver,
    parameters,
    parse_name,
    query,
    quoted,
    renamed,
    tokens,
    words,
)

if TYPE_CHECKING:
    from tests.target.conftest import Bench

NAMES = ("start", "end", "key")
NO_PARAMETER = [
    "':start'",
    "'it''s :start'",
    '":start"',
    '"a""b :start"',
    "x::start",
    "-- :start\n1",
    "/* :start */ 1",
    ":started",
    ":Start",
]
POSTGRES_ONLY = [
    "E'\\' :start'",
    "e'a\\\\\\' :start '' '",
    "$$ :start $$",
    "$a$ $b$ :start $$ $a$",
    "$ż$ :start $ż$",
    "/* /* */ :start */ 1",
    "U&'\\0041 :start'",
]
SQLITE_ONLY = ["[:start]", "`:start`", "`a``:start`"]


@pytest.mark.parametrize("sql", NO_PARAMETER + POSTGRES_ONLY)
def test_what_only_looks_like_a_parameter_is_none_in_postgresql(sql: str) -> None:
    assert parameters(f"SELECT {sql}", POSTGRES, NAMES) == frozenset()
    assert for_driver(f"SELECT {sql}, 1 % 2", NAMES) == f"SELECT {sql}, 1 %% 2"


@pytest.mark.parametrize("sql", NO_PARAMETER + SQLITE_ONLY)
def test_what_only_looks_like_a_parameter_is_none_in_sqlite(sql: str) -> None:
    assert parameters(f"SELECT {sql}", SQLITE, NAMES) == frozenset()


@pytest.mark.parametrize("dialect", [POSTGRES, SQLITE])
@pytest.mark.parametrize(
    "sql",
    [
        "x=:start",
        ":start::date",
        "(:start)",
        "'a':start",
        "/* a */:start",
        "-- a\n:start",
        '"a":start',
        "a$b$:start",
        "1:start",
        "E':start':start",
    ],
)
def test_a_parameter_is_found_wherever_it_stands(dialect: str, sql: str) -> None:
    assert parameters(f"SELECT {sql}", dialect, NAMES) == {"start"}
    assert renamed(f"SELECT {sql}", dialect, {"start": "other"}).count(":other") == 1


def test_drivers_get_their_own_way_of_writing_a_parameter() -> None:
    assert for_driver("SELECT :start::date, 'a%s', x % 5 WHERE k LIKE '%(key)s'", NAMES) == (
        "SELECT %(start)s::date, 'a%%s', x %% 5 WHERE k LIKE '%%(key)s'"
    )


@pytest.mark.parametrize("sql", ["'a", '"a', "/* a", "/* /* */", "$a$ b $b$", "E'a\\'"])
def test_what_is_never_closed_is_refused_with_its_place(sql: str) -> None:
    with pytest.raises(UsageError, match="at character 8 that is never closed"):
        query(f"SELECT {sql}", POSTGRES)


def test_a_query_loses_its_semicolon_and_a_comment_at_its_end_closes_nothing_else() -> None:
    assert query("SELECT 1; -- the end", POSTGRES) == "SELECT 1\n"
    assert query("SELECT ';' -- a", POSTGRES) == "SELECT ';' \n"[:10] + "\n"


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "SELECT 1;;x", "; SELECT 1", ""])
def test_more_or_less_than_one_statement_is_refused(sql: str) -> None:
    with pytest.raises(UsageError, match="one query"):
        query(sql, SQLITE)


def test_names_are_read_as_the_database_reads_them() -> None:
    assert {"sum", "amount", 'Am"ount', "żółć"} <= words('sum(AMOUNT) + "Am""ount" + żółć', POSTGRES)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("orders", ("orders",)),
        ("Shop.Orders", ("Shop", "Orders")),
        ('"a.b".c', ("a.b", "c")),
        ('"a""b"', ('a"b',)),
        ("注文.日", ("注文", "日")),
    ],
)
def test_the_name_of_a_table_is_taken_as_it_is_written(text: str, names: tuple[str, ...]) -> None:
    assert parse_name(text) == names


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '"a', 'a"b', '""'])
def test_what_is_no_name_of_a_table_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no name of a table"):
        parse_name(text)


@given(st.text(st.sampled_from("':\"`[]$ab E\\/*-;\n%"), max_size=30), st.sampled_from([POSTGRES, SQLITE]))
def test_the_pieces_of_a_statement_are_the_statement(sql: str, dialect: str) -> None:
    try:
        pieces = tokens(sql, dialect)
    except UsageError:
        return

    assert "".join(piece.text for piece in pieces) == sql


@given(st.text(st.sampled_from("':\"`[]ab/*-\n "), max_size=20))
def test_sqlite_itself_finds_the_same_parameters(between: str) -> None:
    sql = f"SELECT 1 AS x, {between} :key"
    try:
        found = parameters(sql, SQLITE, NAMES)
    except UsageError:
        return
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"EXPLAIN {sql}", {})
    except sqlite3.ProgrammingError:  # the statement is right, and lacks what it is to be given
        is_asked = True
    except (sqlite3.Error, sqlite3.Warning):
        return
    else:
        is_asked = False
    finally:
        connection.close()
    if ":" not in between:  # else it may be another parameter that is asked for
        assert (found == {"key"}) is is_asked


@given(st.text(min_size=1, max_size=20).filter(lambda name: "\0" not in name and name.isprintable()))
def test_a_quoted_name_is_one_name(name: str) -> None:
    connection = sqlite3.connect(":memory:")

    column = connection.execute(f"SELECT 1 AS {quoted(name)}").description[0][0]
    connection.close()

    assert column == name


HOSTILE = "'; DROP TABLE source; --"


def test_a_value_is_bound_whatever_it_is(bench: Bench) -> None:
    bench.make("order_id bigint, dt text, amount bigint, note text")
    key = f"2026{HOSTILE}0201"
    literal = key.replace("'", "''")
    bench.sql(f"INSERT INTO {{source}} VALUES (1, '{literal}', 5, '')")
    target = bench.target(kind="text", format=f"%Y{HOSTILE}%m%d")

    bench.publish(target, "2026-02-01", select="SELECT * FROM {source} WHERE dt = :key")

    assert bench.orders("dt, amount") == [(key, 5)]
    assert bench.sql("SELECT count(*) FROM {source}") == [(1,)]
