"""Tables without days: one partition that is the whole table, and partitions that are the values of a list."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from backfill_core.claims import Caller
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.errors import AuditError, LimitError, NotAdoptedError, UsageError
from backfill_core.guarded import Guarded, Wish, replacing
from backfill_core.ledger.opening import open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backfill_core.guarded import Partition
    from tests.target.conftest import Bench

ME = Caller("a run", "load", owner="me")
PL, ODD, NAMED = "PL", "it's a/b ż", 'say "x"'
LIST: dict[str, Any] = {"grain": "list", "day": None, "key": "country", "values": [PL, ODD, NAMED]}
WHOLE: dict[str, Any] = {"grain": "none", "day": None}
BY_KEY = "SELECT * FROM {source} WHERE country = :key"


@pytest.fixture(params=["postgres", "sqlite"])
def shop(request: pytest.FixtureRequest) -> Bench:
    """A database with two tables of orders by country."""
    made: Bench = request.getfixturevalue("lite" if request.param == "sqlite" else "one_pg")
    made.make("order_id bigint, country text, amount bigint")
    return made


@contextmanager
def guarded(shop: Bench, folder: Path, **said: Any) -> Iterator[Guarded]:
    dataset = shop.dataset(**{"digest": "always", **said})
    with open_ledger(str(folder / "ledger.db")) as ledger:
        yield Guarded(dataset, ledger, shop.target(dataset))


def by(shop: Bench, select: str) -> Callable[[Partition], None]:
    return lambda partition: partition.fill(shop.said(select))


def amounts(shop: Bench) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for country, amount in shop.sql("SELECT country, amount FROM {orders} ORDER BY amount"):
        found.setdefault(country, []).append(int(amount))
    return found


def test_a_whole_table_is_refreshed_sealed_corrected_and_remembered(shop: Bench, tmp_path: Path) -> None:
    shop.fill("source", (1, PL, 5), (2, None, 7))
    with guarded(shop, tmp_path, **WHOLE) as orders:
        fill = by(shop, "SELECT * FROM {source}")
        first = orders.write(["all"], fill, ME, "first")
        again = orders.write(["all"], fill, ME)
        [moment] = [one["published_at"] for one in first["published"]]
        orders.seal(["all"], ME, "sent")
        shop.fill("source", (3, PL, 9))
        left = orders.write(["all"], fill, ME)["skipped"]
        late = orders.late(fill)["late"]
        plan = orders.plan(["all"], ME, fill)
        orders.amend("all", fill, ME, "one came late")
        [line] = orders.statement()["partitions"]
        orders.unseal(["all"], ME, "once more")
        orders.write(["all"], fill, ME)
        [then] = orders.statement(as_of=moment)["partitions"]
        drift = orders.drift()
        what = [one["what"] for one in orders.history("all", "all")]

    assert [one["after"] for one in first["published"]] == [{"rows": 2, "orders": "2", "amount": "12"}]
    assert (again["quiet"], left, [one["key"] for one in late]) == (["all"], [["all", "sealed"]], ["all"])
    assert [(one["action"], one["reason"]) for one in plan["partitions"]] == [("skipped", "sealed")]
    assert (line["published"]["amount"], line["corrected"]["amount"]) == ("12", "21")
    assert then["published"]["amount"] == "12"
    assert (drift["drift"], drift["checked"], drift["keyless"]) == ({}, 1, 0)
    assert what == ["publish", "seal", "amend", "unseal", "publish"]
    assert amounts(shop) == {PL: [5, 9], None: [7]}


def test_a_whole_table_becomes_empty_only_where_that_is_allowed(shop: Bench, tmp_path: Path) -> None:
    shop.fill("source", (1, PL, 5))
    with guarded(shop, tmp_path, **WHOLE) as orders:
        fill = by(shop, "SELECT * FROM {source}")
        orders.write(["all"], fill, ME)
        shop.empty("source")
        with pytest.raises(LimitError, match="the result is empty, and 1 rows are published"):
            orders.write(["all"], fill, ME)
        kept = amounts(shop)
        orders.write(["all"], fill, ME, wish=Wish(allow=frozenset({"empty"})))

    assert (kept, amounts(shop)) == ({PL: [5]}, {})


def test_a_whole_table_that_is_there_is_adopted_and_one_that_is_staged_is_published(
    shop: Bench, tmp_path: Path
) -> None:
    shop.fill("orders", (1, PL, 5), (2, ODD, 6))
    with guarded(shop, tmp_path, **WHOLE) as orders:
        with pytest.raises(NotAdoptedError):
            orders.write(["all"], by(shop, "SELECT * FROM {orders}"), ME)
        adopted = orders.adopt(["all"], ME, "the old job's")
        with orders.replacing(["all"], ME) as partition:
            shop.stage(partition.staging, (3, NAMED, 7))
        keys = partition.keys

    assert [one["after"] for one in adopted["published"]] == [{"rows": 2, "orders": "2", "amount": "11"}]
    assert (keys, amounts(shop)) == (["all"], {NAMED: [7]})


@pytest.mark.parametrize("select", [BY_KEY, "SELECT * FROM {source}"])
def test_keys_of_a_list_are_written_together_by_a_query_of_each_or_of_all(
    shop: Bench, tmp_path: Path, select: str
) -> None:
    shop.fill("source", (1, PL, 5), (2, ODD, 6), (3, NAMED, 7), (4, NAMED, 8))
    with guarded(shop, tmp_path, **LIST, unique=["order_id"]) as orders:
        first = orders.write([PL, ODD, NAMED], by(shop, select), ME)
        shop.fill("source", (5, ODD, 9))
        second = orders.write([PL, ODD, NAMED], by(shop, select), ME)

    assert {one["key"]: one["after"]["amount"] for one in first["published"] if one["after"]} == {
        PL: "5", ODD: "6", NAMED: "15",
    }  # fmt: skip
    assert ([one["key"] for one in second["published"]], second["quiet"]) == ([ODD], sorted([PL, NAMED]))
    assert amounts(shop) == {PL: [5], ODD: [6, 9], NAMED: [7, 8]}


def test_a_key_of_a_list_is_sealed_and_read_by_itself(shop: Bench, tmp_path: Path) -> None:
    shop.fill("source", (1, PL, 5), (2, ODD, 6), (3, NAMED, 7))
    with guarded(shop, tmp_path, **LIST) as orders:
        orders.write([PL, ODD, NAMED], by(shop, BY_KEY), ME)
        orders.seal([ODD], ME, "sent")
        shop.sql("UPDATE {source} SET amount = 100")
        left = orders.write([PL, ODD], by(shop, BY_KEY), ME)["skipped"]
        late = orders.late(by(shop, BY_KEY), keys=[ODD, NAMED])
        ends = sorted([PL, ODD, NAMED])[::2]  # what is between them is another
        read = [
            [one["key"] for one in orders.status(keys=ends)["partitions"]],
            [one["key"] for one in orders.history(keys=ends)],
            [one["key"] for one in orders.statement(keys=ends)["partitions"]],
        ]
        claim = orders.claim(ends, ME)
        released = orders.release(ends[:1], claim=claim["claim"])["released"]

    assert (left, [one["key"] for one in late["late"]], late["checked"]) == ([[ODD, "sealed"]], [ODD], 1)
    assert read[0] == read[2] == ends
    assert set(read[1]) == set(ends)
    assert (claim["claimed"], released) == (ends, ends[:1])
    assert amounts(shop) == {PL: [100], ODD: [6], NAMED: [7]}


@pytest.mark.parametrize(
    ("stranger", "words"),
    [("XX", "1 rows of other keys, such as XX"), ("pl", "rows of other keys"), (None, "1 rows without a key")],
)
def test_a_row_of_no_key_of_the_list_refuses_the_whole(
    shop: Bench, tmp_path: Path, stranger: str | None, words: str
) -> None:
    shop.fill("source", (1, PL, 5), (2, stranger, 6))
    with guarded(shop, tmp_path, **LIST) as orders:
        with pytest.raises(AuditError, match=words):
            orders.write([PL], by(shop, "SELECT * FROM {source}"), ME)
        shop.fill("orders", (9, stranger, 1))
        drift = orders.drift()

    assert (drift["keyless"], drift["example"]) == (1, stranger or "NULL")
    assert amounts(shop) == {stranger: [1]}


def test_numbers_are_keys_too(shop: Bench, tmp_path: Path) -> None:
    shop.fill("source", (1, PL, 5), (10, PL, 6), (-3, PL, 7))
    said = {**LIST, "key": "order_id", "values": [1, 10, -3]}
    with guarded(shop, tmp_path, **said) as orders:
        made = orders.write(["1", "10", "-3"], by(shop, "SELECT * FROM {source} WHERE order_id = :key"), ME)
        again = orders.write(["10"], by(shop, "SELECT * FROM {source} WHERE order_id = :key"), ME)

    assert sorted(one["key"] for one in made["published"]) == ["-3", "1", "10"]
    assert again["quiet"] == ["10"]
    assert amounts(shop) == {PL: [5, 6, 7]}


def test_fingerprints_tell_which_keys_need_no_write(shop: Bench, tmp_path: Path) -> None:
    shop.fill("source", (1, PL, 5), (2, ODD, 6))
    with guarded(shop, tmp_path, **LIST) as orders:
        query = shop.said("SELECT country, count(*), max(amount) FROM {source} GROUP BY country")
        told = orders.fingerprints(query, [PL, ODD, NAMED])
        orders.write([PL, ODD], by(shop, BY_KEY), ME, fingerprints=told)
        shop.fill("source", (3, ODD, 9))
        now = orders.fingerprints(
            shop.said(f"SELECT country, count(*) FROM {{source}} WHERE country = :key{GROUP}"), [ODD]
        )
        later = orders.write([PL, ODD], by(shop, BY_KEY), ME, fingerprints=orders.fingerprints(query, [PL, ODD, NAMED]))

    assert (told, now) == ({PL: "1, 5", ODD: "1, 6", NAMED: ""}, {ODD: "2"})
    assert (later["unchanged"], [one["key"] for one in later["published"]]) == ([PL], [ODD])


GROUP = " GROUP BY country"


def test_a_fingerprint_of_a_whole_table_is_a_query_of_its_key(shop: Bench, tmp_path: Path) -> None:
    shop.fill("source", (1, PL, 5))
    with guarded(shop, tmp_path, **WHOLE) as orders:
        assert orders.fingerprints(shop.said("SELECT :key, max(amount) FROM {source}"), ["all"]) == {"all": "5"}


@pytest.mark.parametrize(("said", "words"), [(LIST, "values of country"), (WHOLE, "the whole table is one partition")])
def test_start_and_end_are_refused_in_words_where_there_are_no_days(
    shop: Bench, tmp_path: Path, said: dict[str, Any], words: str
) -> None:
    with guarded(shop, tmp_path, **said) as orders:
        key = PL if said is LIST else "all"
        with pytest.raises(UsageError, match=words):
            orders.write([key], by(shop, "SELECT * FROM {source} WHERE amount >= :start"), ME)
        with pytest.raises(UsageError, match="keys are no days"):
            orders.write([key], lambda partition: partition.start, ME)
        with pytest.raises(UsageError, match="there is no key '2026-02-01'"):
            orders.claim(["2026-02-01"], ME)


def test_a_key_that_left_the_list_is_remembered_and_not_written(shop: Bench, tmp_path: Path) -> None:
    shop.fill("source", (1, PL, 5), (2, ODD, 6))
    with guarded(shop, tmp_path, **LIST) as orders:
        orders.write([PL, ODD], by(shop, BY_KEY), ME)
        version = orders.status()["partitions"]

    with guarded(shop, tmp_path, **{**LIST, "values": [PL, NAMED]}) as orders:
        with pytest.raises(UsageError, match="the list of country has"):
            orders.write([ODD], by(shop, BY_KEY), ME)
        drift = orders.drift()
        quiet = orders.write([PL], by(shop, BY_KEY), ME)["quiet"]
        assert orders.status()["partitions"][0]["key"] in version[0]["key"]

    assert (drift["drift"], drift["keyless"], drift["example"]) == ({}, 1, ODD)
    assert quiet == [PL]


@pytest.mark.parametrize(
    ("first", "second"), [(LIST, WHOLE), (WHOLE, LIST), (WHOLE, {"day": "country", "kind": "text", "format": "%Y%m%d"})]
)
def test_a_dataset_of_another_grain_is_refused(
    shop: Bench, tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    with guarded(shop, tmp_path, **first):
        pass

    with pytest.raises(UsageError, match="and it was"), guarded(shop, tmp_path, **second):
        pass


def test_a_key_is_written_by_a_block_of_python(lite: Bench, tmp_path: Path) -> None:
    lite.make("order_id bigint, country text, amount bigint")
    dataset = lite.dataset(**LIST)

    with replacing(dataset, ODD, owner="me", db=str(tmp_path / "ledger.db")) as partition:
        lite.stage(partition.staging, (1, ODD, 5))

    assert amounts(lite) == {ODD: [5]}
    with pytest.raises(UsageError, match="have no order"), replacing(dataset, PL, ODD, owner="me"):
        pass


def test_letters_of_another_size_are_another_key_whatever_the_column_compares(lite: Bench, tmp_path: Path) -> None:
    lite.make("order_id bigint, country text COLLATE NOCASE, amount bigint")
    lite.fill("orders", (1, "pl", 1))
    lite.fill("source", (2, PL, 2))
    with guarded(lite, tmp_path, **LIST) as orders:
        orders.write([PL], by(lite, "SELECT * FROM {source}"), ME)

    assert amounts(lite) == {"pl": [1], PL: [2]}


def test_a_column_for_which_letters_are_alike_is_refused_by_check(one_pg: Bench) -> None:
    one_pg.sql(
        f"CREATE COLLATION {one_pg.name('alike')} (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    one_pg.make(f"order_id bigint, country text COLLATE {one_pg.name('alike')}, amount bigint")

    found = one_pg.target(**LIST).check()

    assert any(one.refuses and "different texts are one" in one.what for one in found)


@pytest.mark.parametrize("said", [LIST, WHOLE])
def test_check_finds_nothing_that_cant_be_guarded_and_says_what_a_write_costs(
    shop: Bench, said: dict[str, Any]
) -> None:
    shop.fill("orders", (1, "XX", 5))

    found = shop.target(**said).check()

    assert not [one for one in found if one.refuses]
    whole = any("the whole table is one partition" in one.what for one in found)
    assert whole == (said is WHOLE)
    if shop.is_sqlite and said is LIST:
        assert any("'XX', which is not in the list" in one.what for one in found)


@pytest.mark.parametrize(
    ("table", "grain", "sentence"),
    [
        ({}, "day", "name that of the day, day=…, or say grain='none'"),
        ({"day": "dt"}, "none", "so its grain is 'day'"),
        ({"day": "dt"}, "list", "so its grain is 'day'"),
        ({"key": "c", "values": ["a"]}, "day", "say grain='list' too"),
        ({"key": "c", "values": ["a"], "day": "dt"}, "list", "name one of them"),
        ({"key": "c"}, "list", "at least one"),
        ({"key": "c", "values": "PL"}, "list", "a list of texts or of integers"),
        ({"key": "c", "values": ["a", 1]}, "list", "write all as texts, or as integers"),
        ({"key": "c", "values": [True]}, "list", "write all as texts, or as integers"),
        ({"key": "c", "values": ["a", "b", "a"]}, "list", "the value 'a' twice"),
        ({"key": "c", "values": ["a", " "]}, "list", "is empty"),
        ({"key": "c", "values": ["a\0"]}, "list", "not text that can be stored"),
        ({"key": "c", "values": [2**63]}, "list", "keeps no such integer"),
        ({"key": "c", "values": ["a"], "format": "%Y%m%d"}, "list", "are of a column of days"),
        ({"format": "%Y%m%d"}, "none", "are of a column of days"),
    ],
)
def test_a_dataset_that_cant_be_is_refused_when_it_is_declared(
    table: dict[str, Any], grain: str, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        Dataset("a", SqlTable("x", "t", **table), grain=grain, measures={"n": "count(*)"})
