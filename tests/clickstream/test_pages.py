"""docs/clickstream.md and docs/OPERATIONS.md: what is typed there runs, and what is said there the programs say."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from clickstream import __main__ as command_line
from clickstream import errors, verbs
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, command, days, held
from tests.clickstream.test_next_day import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickstream.broker import Broker

ROOT = Path(__file__).parents[2]
GENERATOR, OPERATIONS = ((ROOT / "docs" / page).read_text() for page in ("clickstream.md", "OPERATIONS.md"))


FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)
QUOTED = re.compile(r"`([^`\n]+(?:\n  [^`\n]+)?)`")


def typed(lines: list[str]) -> list[list[str]]:
    """What the reader types after `python -m clickstream`, in its order."""
    calls = (re.split(r"python3? -m clickstream ", line, maxsplit=1) for line in lines)
    return [shlex.split(call[1], comments=True) for call in calls if len(call) == 2 and call[1][0].islower()]


def in_blocks(page: str) -> list[str]:
    return [line for block in FENCED.findall(page) for line in block.splitlines()]


def anywhere(page: str) -> list[str]:
    return [*in_blocks(page), *QUOTED.findall(FENCED.sub("", page))]


@pytest.mark.parametrize("call", typed(anywhere(GENERATOR)) + typed(anywhere(OPERATIONS)), ids=" ".join)
def test_every_command_of_the_pages_is_one(call: list[str]) -> None:
    options = command_line._parser().parse_args(call)

    assert options.verb == call[0]


def test_the_commands_of_the_start_and_of_the_recovery_run_in_their_order(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"backfill": ["--t0", SMALL["t0"], "--visits-a-day", "200", "--seed", "7"]}
    t_end = {"…": spelled(8)}
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)

    results = [
        (verb, command(broker, verb, *(t_end.get(word, word) for word in more), *given.get(verb, [])))
        for verb, *more in typed(in_blocks(GENERATOR))
    ]

    assert [(verb, result.stderr) for verb, result in results if result.code] == []
    assert held(broker) == days(9)
    assert (tmp_path / "history.zip").exists()


def test_each_refusal_and_each_exit_code_has_its_line() -> None:
    table = GENERATOR.split("## What each refusal means")[1].split("\n## ")[0]
    codes = GENERATOR.split("| exit code | |")[1].split("\n\n")[0]

    assert sorted(re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| (?!what to do)", table, re.M)) == sorted(
        get_args(errors.Reason)
    )
    assert re.findall(r"^\| (\d+) \|", codes, re.M) == ["0", "1", "2", "4", "5", "130"]


@pytest.mark.parametrize("verb", ["backfill", "next-day", "continue", "check", "chain-check", "clear"])
def test_each_option_of_a_verb_is_on_the_page(verb: str) -> None:
    parser = command_line._parser()
    subparsers = next(action for action in parser._actions if action.dest == "verb")
    assert isinstance(subparsers.choices, dict)
    options = {option for action in subparsers.choices[verb]._actions for option in action.option_strings}

    missing = {option for option in options if option.startswith("--") and option not in GENERATOR}

    assert missing <= {"--help", "--airflow-url", "--clickhouse-url", "--verbose"}


def sentences() -> str:
    """All texts of the programs behind the pages; what is filled in is an ellipsis."""
    places = [
        *(ROOT / "clickstream").glob("*.py"),
        *(ROOT / "plugins").rglob("*.py"),
        *(ROOT / "backfill_core").glob("*.py"),
    ]
    return "\n".join(text for place in places for text in texts(ast.parse(place.read_text())))


def texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_what_the_table_of_failures_says_the_programs_say() -> None:
    table = OPERATIONS.split("| it says | what happened | what to do |")[1].split("\n\n")[0]
    said = sentences()
    cells = [row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `")]

    fragments = [fragment for cell in cells for fragment in re.findall(r"`([^`]+)`", cell)]
    pieces = [
        piece.strip(" .:,")
        for fragment in fragments
        for piece in re.split(
            r"…|<\w+>|\b[NMT]\b|http\S+|\bcontinue\b|etl_pipeline|, but\b|stg\b|(?<=alone: ).*", fragment
        )
    ]

    assert len(fragments) > 20
    assert [piece for piece in pieces if piece and piece not in said] == []


def test_the_answer_from_python_is_as_the_page_says(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=1)

    answer = verbs.next_day(Stand(stand.broker, pipeline=lambda: None, staging=lambda: None), expected_t_end=spelled(1))

    assert answer["t_end"] == spelled(2)


def test_the_pictures_of_the_page_are_what_their_tool_draws(tmp_path: Path) -> None:
    drawn = tmp_path / "new"
    subprocess.run([sys.executable, str(ROOT / "tools" / "pictures.py"), str(drawn)], check=True, cwd=tmp_path)

    shown = {path.name: path.read_bytes() for path in (ROOT / "docs" / "images").glob("world-*.svg")}
    assert {path.name: path.read_bytes() for path in drawn.iterdir()} == shown
    assert all(f"images/{name}" in GENERATOR for name in shown)
