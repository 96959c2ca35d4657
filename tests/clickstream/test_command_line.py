"""`python -m clickstream`: one JSON object on standard output, a sentence on standard error, an exit code."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clickstream.broker import Broker
from tests.clickstream.histories import command, days, held, outcome, started, wait_for

ROOT = Path(__file__).parents[2]
VERBS = (
    "backfill", "next-day", "continue", "import", "export", "check", "chain-check", "clear",
    "warehouse", "counts", "clear-warehouse",
)  # fmt: skip
NOWHERE = Broker("127.0.0.1:1")


def test_the_loop_as_a_person_types_it(broker: Broker, tmp_path: Path) -> None:
    artifact = str(tmp_path / "history.zip")
    world = ["--t0", "2024-02-28T12:00:00Z", "--visits-a-day", "200", "--seed", "7"]

    results = [
        command(broker, *arguments)
        for arguments in [
            ["backfill", *world, "--days", "1", "--verbose"],
            ["next-day", "--expected-t-end", "2024-02-29T12:00:00Z"],
            ["check"],
            ["chain-check"],
            ["export", artifact],
            ["clear", "--yes"],
            ["import", artifact],
            ["check", "--json"],
        ]
    ]

    assert [result.code for result in results] == [0] * 8, [result.stderr for result in results]
    assert results[0].stderr.split() == ["begun", "events", "state", "manifest", "committed"]
    assert all(result.stderr == "" for result in results[1:])
    assert results[1].answer["t_end"] == "2024-03-01T12:00:00Z"
    assert results[-1].answer["t_end"] == "2024-03-01T12:00:00Z"
    assert held(broker) == days(2)


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["bogus"], ["next-day", "--bogus"], ["backfill", "--days", "many"], ["backfill", "--days", "0"],
        ["backfill", "--t0", "2024-02-28"], ["backfill", "--visits-a-day", "0"], ["backfill", "--seed", "-1"],
        ["next-day", "--expected-t-end", "2024-02-29T12:00:00"], ["export"], ["import"], ["clear"],
        ["continue", "--tick-seconds", "0"], ["continue", "--tick-seconds", "nan"], ["continue", "--speed", "0"],
    ],
)  # fmt: skip
def test_a_wrong_call_is_code_2_and_one_sentence(arguments: list[str]) -> None:
    result = command(NOWHERE, *arguments)

    assert result.code == 2
    assert result.answer == {"error": result.stderr.strip()}
    assert "\n" not in result.stderr.strip()


def test_help_lists_every_verb() -> None:
    result = command(NOWHERE, "--help")

    assert result.code == 0
    for verb in VERBS:
        assert f"\n    {verb}" in result.stdout


def test_a_refusal_is_code_4_with_the_name_of_its_check(broker: Broker) -> None:
    result = command(broker, "next-day")

    assert result.code == 4
    assert result.answer == {"error": result.stderr.strip(), "refused": "no-history"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_day_before_its_commit_point_with_code_130(broker: Broker, number: signal.Signals) -> None:
    process = started(broker, "backfill", "--visits-a-day", "1000000", "--days", "1", "--verbose")
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"

    process.send_signal(number)
    result = outcome(process)

    assert result.code == 130
    assert "Interrupted" in json.loads(result.stdout)["error"]
    assert held(broker).topics["browser_events"] == b""


def test_a_closed_output_is_no_traceback(broker: Broker) -> None:
    broker.create_topics()
    process = started(broker, "next-day")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None

    wait_for(lambda: process.poll() is not None, "the end of next-day")

    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def without_packages(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a Python that has nothing but itself."""
    call = [sys.executable, "-S", "-m", "clickstream", *arguments]
    return subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_needs_no_package(verb: str) -> None:
    result = without_packages(*verb.split(), "--help")

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: python -m clickstream")


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (["next-day"], "confluent-kafka", "clickstream"),
        (["check"], "confluent-kafka", "clickstream"),
        (["counts"], "clickhouse-connect", "warehouse"),
        (["clear-warehouse", "--yes"], "clickhouse-connect", "warehouse"),
    ],
)
def test_a_missing_package_is_one_sentence_with_the_command_that_installs_it(
    arguments: list[str], package: str, extra: str
) -> None:
    result = without_packages(*arguments)

    assert result.returncode == 1
    assert json.loads(result.stdout) == {"error": result.stderr.strip()}
    assert result.stderr == (
        f"`{arguments[0]}` needs the Python package {package}, which isn't installed here. "
        f"In the project's folder, `pip install '.[{extra}]'` installs it.\n"
    )


def test_the_embedded_warehouse_says_which_package_it_needs(tmp_path: Path) -> None:
    result = without_packages("warehouse", "--folder", str(tmp_path), "--port", "0")

    assert result.returncode == 1
    assert "needs the Python package chdb" in result.stderr
    assert "'.[warehouse]'" in result.stderr
    assert "Traceback" not in result.stderr
