"""The verbs of the stand's warehouse, for `python -m clickstream`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from clickstream.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

VERBS = ("warehouse", "counts", "clear-warehouse")


def add_to(verb: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Describe the verbs; `verb` makes the parser of one from its name and what it does."""
    serve = verb(
        "warehouse",
        "serve the embedded warehouse on loopback until SIGTERM or Ctrl-C; if CLICKHOUSE_PASSWORD is set, to "
        "CLICKHOUSE_USER (else `default`) with that password alone",
    )
    serve.add_argument("--folder", default=".warehouse", help="where it is kept, made if missing [%(default)s]")
    serve.add_argument("--host", default="127.0.0.1", help="[%(default)s]")
    serve.add_argument("--port", type=int, default=8123, help="0 takes a free one [%(default)s]")
    serve.add_argument("--anywhere", action="store_true", help="yes, let other machines in")
    verb("counts", "tell what every mart says of every day")
    verb("clear-warehouse", "empty STG, ODS and DDS; what the marts publish stays until it is replaced").add_argument(
        "--yes", action="store_true", help="yes, empty them"
    )


def run(options: argparse.Namespace) -> Mapping[str, Any]:
    """Do one of the verbs and return its answer."""
    if options.verb == "warehouse":
        from clickstream.warehouse_server import Login, serve

        login = Login(os.environ.get("CLICKHOUSE_USER") or "default", os.environ.get("CLICKHOUSE_PASSWORD") or "")
        return serve(
            options.folder, host=options.host, port=options.port, anywhere=options.anywhere, login=login, ready=_tell
        )
    from clickstream.etl import Etl
    from clickstream.warehouse import Warehouse

    if options.verb == "clear-warehouse" and not options.yes:
        raise UsageError("`clear-warehouse` empties STG, ODS and DDS; say so with --yes.")
    with Warehouse.opened(options.clickhouse_url) as warehouse:
        etl = Etl(warehouse)
        if options.verb == "counts":
            warehouse.create()
            return {"verb": "counts", "days": etl.counts()}
        return {"verb": "clear-warehouse", "emptied": etl.empty("stg", "ods", "dds")}


def _tell(url: str) -> None:
    print(f"The warehouse is at {url}", file=sys.stderr, flush=True)
