"""The embedded warehouse: all of what it is sent arrives, and nobody else gets in."""

from __future__ import annotations

import gzip
import json
import threading
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import clickhouse_connect
import lz4.frame
import pytest

from clickstream.etl import Etl
from clickstream.warehouse import Warehouse
from tests.stand.served import Served, clickstream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clickhouse_connect.driver.client import Client


@contextmanager
def client(served: Served, compress: bool | str = True) -> Iterator[Client]:
    port = urlsplit(served.url).port or 0
    with clickhouse_connect.get_client(
        host="127.0.0.1", port=port, compress=compress, autogenerate_session_id=False, dedicated_pool=True
    ) as client:
        yield client


def post(served: Served, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{served.url}{path}", data=body, method="POST", headers=named)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("compress", [True, "lz4", "zstd", "gzip", False])
def test_every_row_of_an_insert_of_many_blocks_arrives_whatever_compresses_it(
    served: Served, warehouse: Warehouse, compress: bool | str
) -> None:
    warehouse.command("CREATE DATABASE scratch")
    warehouse.command("CREATE TABLE scratch.numbers (n UInt64, text String) ENGINE = MergeTree ORDER BY n")
    sent = 120_000

    with client(served, compress) as connected:
        summary = connected.insert("scratch.numbers", [[n, "x" * 200] for n in range(sent)], ["n", "text"])
        found = connected.query("SELECT count(), uniqExact(n), sum(length(text)) FROM scratch.numbers").result_rows

    assert summary.written_rows == sent
    assert found == [(sent, sent, 200 * sent)]


def test_a_body_that_is_cut_is_refused_whole(served: Served, warehouse: Warehouse) -> None:
    warehouse.command("CREATE DATABASE scratch")
    warehouse.command("CREATE TABLE scratch.numbers (n UInt64) ENGINE = MergeTree ORDER BY n")
    frames = lz4.frame.compress(b"INSERT INTO scratch.numbers FORMAT TSV\n1\n") + lz4.frame.compress(b"2\n3\n")

    whole = post(served, "/", frames, Content_Encoding="lz4")
    cut = post(served, "/", frames[:-6], Content_Encoding="lz4")
    damaged = post(served, "/", gzip.compress(b"SELECT 1")[:-9] + b"123456789", Content_Encoding="gzip")
    unknown = post(served, "/", b"SELECT 1", Content_Encoding="br")

    assert whole == (200, "")
    assert cut == (400, "The lz4 body is cut; nothing was taken in.\n")
    assert damaged[0] == 400
    assert unknown[0] == 400
    assert post(served, "/", b"SELECT n FROM scratch.numbers ORDER BY n") == (200, "1\n2\n3\n")


def test_parameters_settings_and_databases_belong_to_one_request_each(served: Served) -> None:
    with client(served) as first, client(served) as second:
        quoted = first.query("SELECT {text:String}", parameters={"text": "it's\ta \\ \n"}).result_rows
        limited = first.query("SELECT getSetting('max_result_rows')", settings={"max_result_rows": 7}).result_rows
        unlimited = second.query("SELECT getSetting('max_result_rows')").result_rows
    elsewhere = post(served, "/?database=system&query=" + quote("SELECT currentDatabase()"))
    back = post(served, "/", b"SELECT currentDatabase()")

    assert quoted == [("it's\ta \\ \n",)]
    assert (limited, unlimited) == ([(7,)], [(0,)])
    assert (elsewhere, back) == ((200, "system\n"), (200, "default\n"))


def test_a_wrong_setting_spoils_no_later_request(served: Served) -> None:
    wrong = post(served, "/?max_threads=many", b"SELECT 1")
    unknown = post(served, "/?no_such_setting=1", b"SELECT 1")
    right = post(served, "/", b"SELECT 1")

    assert (wrong[0], unknown[0]) == (500, 500)
    assert right == (200, "1\n")


def test_errors_come_with_clickhouses_own_code(served: Served) -> None:
    request = urllib.request.Request(served.url, data=b"SELECT * FROM nowhere.nothing")

    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=60)

    with caught.value:
        assert caught.value.code == 404
    assert caught.value.headers["X-ClickHouse-Exception-Code"] == "81"
    assert post(served, "/") == (400, "There is no query: send it as the body, or as the parameter `query`.\n")


def test_callers_at_the_same_time_each_get_their_own_answer(served: Served) -> None:
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        answers[number] = post(served, f"/?database=system&max_threads={number % 2 + 1}", f"SELECT {number}".encode())[
            1
        ]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == {number: f"{number}\n" for number in range(20)}


def test_a_web_page_is_refused(served: Served) -> None:
    for sent in (
        {"Origin": "https://example.com"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Host": "evil.example.com:8123"},
        {"Host": "[::1"},
    ):
        assert post(served, "/", b"SELECT 1", **sent) == (400, "Requests from web pages are refused.\n")
    assert post(served, "/", b"SELECT 1", Host="localhost", Sec_Fetch_Site="none") == (200, "1\n")


def test_a_body_of_no_known_length_is_refused(served: Served) -> None:
    assert post(served, "/", b"SELECT 1", Content_Length="abc") == (400, "'abc' is not the length of a body.\n")


def test_with_a_password_only_its_user_gets_in_whichever_way_they_come(tmp_path: Path) -> None:
    word = "it's 100% so: yes"
    quoted, basic = quote(word), "Basic " + b64encode(f"anna:{word}".encode()).decode()

    with Served(tmp_path, CLICKHOUSE_USER="anna", CLICKHOUSE_PASSWORD=word) as served:
        asked = f"/?user=anna&password={quoted}"
        let_in = [
            post(served, asked, b"SELECT 1"),
            post(served, "/", b"SELECT 1", Authorization=basic),
            post(served, "/", b"SELECT 1", X_ClickHouse_User="anna", X_ClickHouse_Key=word),
        ]
        refused = [
            post(served, "/", b"SELECT 1"),
            post(served, asked + "!", b"SELECT 1"),
            post(served, f"/?password={quoted}", b"SELECT 1"),
            post(served, "/", b"SELECT 1", Authorization="Basic !"),
        ]
        alive = post(served, "/ping")
        with Warehouse.opened(served.url.replace("//", f"//anna:{quoted}@")) as warehouse:
            warehouse.create()
        with Warehouse.opened(f"{served.url}{asked}") as warehouse:
            counted = Etl(warehouse).counts()
        nobody = clickstream("counts", "--clickhouse-url", served.url)

    assert let_in == [(200, "1\n")] * 3
    assert [status for status, _ in refused] == [403] * 4
    assert all("Code: 516" in said for _, said in refused)
    assert (alive, counted) == ((200, "Ok.\n"), [])
    assert nobody.returncode == 1
    assert "default: Authentication failed: wrong user or password" in nobody.stderr
    assert "100%" not in nobody.stderr


def test_it_listens_on_loopback_alone_unless_told_otherwise(tmp_path: Path) -> None:
    refused = clickstream("warehouse", "--folder", str(tmp_path / "w"), "--host", "0.0.0.0", "--port", "0")  # noqa: S104

    assert refused.returncode == 2
    assert "can be reached from other machines" in json.loads(refused.stdout)["error"]
    assert not (tmp_path / "w").exists()


def test_a_second_server_of_the_same_folder_says_who_is_there(served: Served) -> None:
    second = clickstream("warehouse", "--folder", str(served.folder), "--port", "0")

    assert second.returncode == 1
    assert second.stderr == f"The warehouse in {served.folder} is open already; one process at a time can have it.\n"


def test_it_keeps_what_it_has_and_counts_what_it_took_in(tmp_path: Path) -> None:
    with Served(tmp_path) as first, Warehouse.opened(first.url) as warehouse:
        warehouse.command("CREATE DATABASE scratch")
        warehouse.command("CREATE TABLE scratch.numbers (n UInt64) ENGINE = MergeTree ORDER BY n")
        warehouse.insert("scratch.numbers", ["n"], [range(1000)])
        answer = first.stop()

    with Served(tmp_path) as second:
        kept = post(second, "/", b"SELECT count() FROM scratch.numbers")

    assert answer == {"verb": "warehouse", "url": first.url, "rows_taken_in": 1000}
    assert kept == (200, "1000\n")


def test_without_a_warehouse_the_sentence_says_how_to_start_one() -> None:
    answer = clickstream("counts", "--clickhouse-url", "http://127.0.0.1:9")

    assert answer.returncode == 1
    assert answer.stderr.startswith("No warehouse answers at 127.0.0.1:9: start one (`python -m clickstream warehouse`")


@pytest.mark.parametrize("url", ["http://127.0.0.1:abc", "http://127.0.0.1:99999", "http://[::1", "ftp://x:S3CRET@h"])
def test_an_address_that_is_none_is_said_in_one_sentence_without_a_password(url: str) -> None:
    answer = clickstream("counts", CLICKHOUSE_URL=url)

    assert (answer.returncode, answer.stderr) == (
        1,
        "CLICKHOUSE_URL is no address of a warehouse; write it like http://127.0.0.1:8123.\n",
    )
