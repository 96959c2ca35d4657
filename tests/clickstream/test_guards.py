"""The guards ask Airflow and ClickHouse over HTTP; here both are stand-ins that answer as those do."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from clickstream.errors import ClickstreamError
from clickstream.guards import airflow_pipeline, clickhouse_staging

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def answering(answers: dict[str, Any]) -> Iterator[str]:
    """A server that answers paths that begin so with JSON, and others with 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = [answer for path, answer in answers.items() if self.path.startswith(path)]
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(found[-1] if found else {}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


DAG = "/api/v2/dags/etl_pipeline"


@pytest.mark.parametrize(
    ("paused", "runs", "sentence"),
    [
        (False, [], "etl_pipeline is not paused"),
        (True, [{"dag_run_id": "manual__7", "state": "running"}], "its run manual__7 is still running"),
        (True, [], None),
    ],
)
def test_the_pipeline_is_idle_when_it_is_paused_and_no_run_is_under_way(
    paused: bool, runs: list[dict[str, str]], sentence: str | None
) -> None:
    with answering(
        {DAG: {"is_paused": paused}, f"{DAG}/dagRuns": {"dag_runs": runs, "total_entries": len(runs)}}
    ) as url:
        busy = airflow_pipeline(url, token="token")()  # noqa: S106

    assert busy is None if sentence is None else sentence in str(busy)


@pytest.mark.parametrize(("total", "sentence"), [("0", None), (None, None), ("7", "the warehouse's stg holds 7 rows")])
def test_staging_is_clean_when_it_holds_no_row(total: str | None, sentence: str | None) -> None:
    with answering({"/?query=": {"data": [{"total": total}]}}) as url:
        filled = clickhouse_staging(f"{url}/")()

    assert filled == sentence


def test_the_warehouse_is_asked_with_the_login_of_its_address_and_no_sentence_tells_it() -> None:
    with answering(
        {"/?query=": {"data": [{"total": "7"}]}, "/?password=p@ss&query=": {"data": [{"total": "8"}]}}
    ) as url:
        assert clickhouse_staging(f"{url.replace('//', '//anna:S3CRET@')}/")() == "the warehouse's stg holds 7 rows"
        assert clickhouse_staging(f"{url}/?password=p@ss")() == "the warehouse's stg holds 8 rows"

    for login in ("http://anna:S3CRET@127.0.0.1:1/", "http://127.0.0.1:1/?user=anna&password=S3CRET"):
        with pytest.raises(ClickstreamError, match=r"http://127\.0\.0\.1:1/ can.t be asked") as error:
            clickhouse_staging(login)()
        assert "S3CRET" not in str(error.value)


def test_an_airflow_that_can_not_be_asked_is_an_error_and_no_yes() -> None:
    with pytest.raises(ClickstreamError, match="can't be asked"):
        airflow_pipeline("http://127.0.0.1:1")()
    with answering({}) as url, pytest.raises(ClickstreamError, match="answered 404"):
        airflow_pipeline(url)()
    with pytest.raises(ClickstreamError, match="not an http address"):
        airflow_pipeline("file:///etc")()
