"""`python -m clickstream VERB`: arguments → one verb → one JSON object on standard output → an exit code."""

from __future__ import annotations

import time

STARTED = time.monotonic()

import argparse  # noqa: E402 - the slow imports are part of what it takes to start
import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from threading import Event  # noqa: E402
from typing import TYPE_CHECKING, Any, NoReturn  # noqa: E402

from clickstream import guards, warehouse_verbs  # noqa: E402
from clickstream.errors import FAULTS_FOUND, INTERRUPTED, ClickstreamError, RefusedError, UsageError  # noqa: E402
from clickstream.report import chain_report, check_report  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clickstream.verbs import Stand

EXTRAS = {"confluent_kafka": "clickstream", "clickhouse_connect": "warehouse", "chdb": "warehouse"}
"""What a verb may need beyond Python, and the extra that installs it; `--help` needs nothing."""

EPILOG = """\
Every verb answers with one JSON object on standard output; an error is {"error": "…"} there, and its sentence is on
standard error too. Exit codes: 0 done; 1 something failed; 2 the call is wrong; 4 refused, and nothing was published;
5 check or chain-check found faults; 130 interrupted.
"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a call by raising, so that it is answered like any other error."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}. See `{self.prog} --help`.")


def _parser() -> Parser:
    common = Parser(add_help=False)
    where = common.add_argument_group("the stand")
    env = os.environ.get
    where.add_argument(
        "--bootstrap-servers",
        default=env("KAFKA_BOOTSTRAP_SERVERS") or "127.0.0.1:9092",
        help="the broker [KAFKA_BOOTSTRAP_SERVERS, else 127.0.0.1:9092]",
    )
    where.add_argument(
        "--prefix",
        default=env("CLICKSTREAM_PREFIX") or "",
        help="stands before each topic's name [CLICKSTREAM_PREFIX]",
    )
    where.add_argument("--no-transactions", action="store_true", help="for a broker that has none")
    where.add_argument(
        "--airflow-url",
        default=env("AIRFLOW_URL"),
        help="refuse unless etl_pipeline is paused and idle there [AIRFLOW_URL; AIRFLOW_TOKEN]",
    )
    where.add_argument(
        "--clickhouse-url",
        default=env("CLICKHOUSE_URL"),
        help="refuse a fresh history unless `stg` is empty there [CLICKHOUSE_URL]",
    )
    where.add_argument("-v", "--verbose", action="store_true", help="say on standard error how far it has come")

    parser = Parser(
        prog="python -m clickstream",
        description="Feed a clickstream stand one model day at a time.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=Parser)

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        return subparsers.add_parser(name, help=text, description=text, parents=[common])

    backfill = verb("backfill", "publish a fresh history of some days on a clean stand")
    backfill.add_argument("--t0", default="2026-01-01T00:00:00Z", help="where it starts, with an offset [%(default)s]")
    backfill.add_argument("--days", type=int, default=7, help="model days of exactly 24 hours [%(default)s]")
    backfill.add_argument("--visits-a-day", type=int, default=10_000, help="[%(default)s]")
    backfill.add_argument("--seed", type=int, default=1, help="the same seed gives the same bytes [%(default)s]")
    backfill.add_argument("--dirt", type=int, default=0, help="so many of 1,000 events go wrong [%(default)s]")
    next_day = verb("next-day", "publish exactly one model day more")
    next_day.add_argument(
        "--expected-t-end",
        metavar="INSTANT",
        help="refuse unless the history ends there, e.g. 2026-01-08T00:00:00Z",
    )
    live = verb("continue", "go on in real time until SIGTERM or Ctrl-C")
    live.add_argument("--tick-seconds", type=float, default=10.0, help="time between two commits [%(default)s]")
    live.add_argument("--speed", type=int, default=1, help="model seconds in a second [%(default)s]")
    verb("import", "publish an artifact's history on a clean stand, all or nothing").add_argument("artifact")
    verb("export", "write the published history into one portable file").add_argument("artifact")
    for name, text in (
        ("check", "recount the topics against the manifest"),
        ("chain-check", "look at every boundary: nothing unpaired, no visit changed"),
    ):
        verb(name, text).add_argument(
            "--json", action="store_true", help="answer with JSON instead of a report to read"
        )
    verb("clear", "delete the topics with all they hold, and make them again").add_argument(
        "--yes", action="store_true", help="yes, delete everything"
    )
    warehouse_verbs.add_to(verb)
    return parser


def _stand(options: argparse.Namespace) -> Stand:
    from clickstream import verbs
    from clickstream.broker import Broker

    broker = Broker(options.bootstrap_servers, options.prefix, not options.no_transactions)
    pipeline: guards.Guard = guards.nothing_known
    staging: guards.Guard = guards.nothing_known
    if options.airflow_url:
        pipeline = guards.airflow_pipeline(options.airflow_url, token=os.environ.get("AIRFLOW_TOKEN"))
    if options.clickhouse_url:
        staging = guards.clickhouse_staging(options.clickhouse_url)
    return verbs.Stand(broker, pipeline, staging, _tell if options.verbose else verbs.silent)


def _tell(moment: str) -> None:
    print(moment, file=sys.stderr, flush=True)


def _run(options: argparse.Namespace) -> Mapping[str, Any]:
    if options.verb in warehouse_verbs.VERBS:
        return warehouse_verbs.run(options)
    from clickstream import verbs

    stand = _stand(options)
    match options.verb:
        case "backfill":
            return verbs.backfill(
                stand,
                t0=options.t0,
                days=options.days,
                visits_a_day=options.visits_a_day,
                seed=options.seed,
                dirt=options.dirt,
            )
        case "next-day":
            return verbs.next_day(stand, expected_t_end=options.expected_t_end, started=STARTED)
        case "continue":
            return verbs.go_on(stand, stop=_stop_on_signals(), tick_seconds=options.tick_seconds, speed=options.speed)
        case "import":
            return verbs.import_artifact(stand, options.artifact)
        case "export":
            return verbs.export(stand, options.artifact)
        case "check":
            return verbs.check(stand)
        case "chain-check":
            return verbs.chain_check(stand)
    if not options.yes:
        raise UsageError("`clear` deletes the whole history; say so with --yes.")
    return verbs.clear(stand)


def _stop_on_signals() -> Event:
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    try:
        options = _parser().parse_args(arguments)
        answer = _run(options)
    except ClickstreamError as error:
        refused = {"refused": error.reason} if isinstance(error, RefusedError) else {}
        return _failed(str(error), error.exit_code, **refused)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        return _failed(
            f"`{options.verb}` needs the Python package {error.name.replace('_', '-')}, which isn't installed here. "
            f"In the project's folder, `pip install '.[{EXTRAS[error.name]}]'` installs it.",
            ClickstreamError.exit_code,
        )
    except KeyboardInterrupt as interrupt:
        return _failed(str(interrupt) or "Interrupted; `check` says what the stand holds.", INTERRUPTED)
    for clause in answer.get("put_right", ()):
        print(f"Put right: {clause}.", file=sys.stderr)
    found = len(answer["faults"]) if "faults" in answer else 0
    as_json = getattr(options, "json", True)
    print(json.dumps(answer) if as_json else (chain_report if "faults_found" in answer else check_report)(answer))
    if found:
        print(f"{options.verb} found {answer.get('faults_found', found)} faults.", file=sys.stderr)
    return FAULTS_FOUND if found else 0


def _failed(sentence: str, exit_code: int, **more: str) -> int:
    print(json.dumps({"error": sentence, **more}, ensure_ascii=False))
    print(sentence, file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever asked has stopped listening
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
