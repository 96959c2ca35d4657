"""Exit code 2: unknown commands, wrong numbers of arguments, dates, ranges, empty names; and what goes before what."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .grader import Lab

D = "2026-02-01"
CALLS = {
    "init": [],
    "run": [D, D, "alice"],
    "claim": [D, D, "alice"],
    "release": [D, D, "alice"],
    "seal": [D, D],
    "amend": [D, "a reason"],
    "rollup-add": [D, D],
    "rollup": [],
}
NO_DATES = {
    "a month of one digit": "2026-2-01",
    "a day of one digit": "2026-02-1",
    "both of one digit": "2026-2-1",
    "no hyphens": "20260201",
    "slashes": "2026/02/01",
    "day first": "01-02-2026",
    "a time": "2026-02-01T00:00:00",
    "a zone": "2026-02-01Z",
    "an ISO week": "2026-W05-7",
    "an ISO week without hyphens": "2026W057",
    "an ordinal day": "2026-032",
    "a month only": "2026-02",
    "a leading blank": " 2026-02-01",
    "a trailing blank": "2026-02-01 ",
    "a trailing newline": "2026-02-01\n",
    "a trailing carriage return": "2026-02-01\r",
    "a leading tab": "\t2026-02-01",
    "a no-break space": "2026-02-01\u00a0",
    "a sign": "+2026-02-01",
    "a negative year": "-2026-02-01",
    "five digits of a year": "10000-01-01",
    "two digits of a year": "26-02-01",
    "an underscore": "2_26-02-01",
    "full-width digits": "\uff12\uff10\uff12\uff16-02-01",
    "Arabic-Indic digits": "\u0662\u0660\u0662\u0666-\u0660\u0662-\u0660\u0661",
    "Devanagari digits": "\u0968\u0966\u0968\u096c-\u0966\u0968-\u0966\u0967",
    "a superscript digit": "2026-02-0\u00b9",
    "typographic hyphens": "2026\u201002\u201001",
    "minus signs": "2026\u221202\u221201",
    "year nought": "0000-01-01",
    "month nought": "2026-00-01",
    "month thirteen": "2026-13-01",
    "day nought": "2026-02-00",
    "the 30th of February": "2026-02-30",
    "the 31st of April": "2026-04-31",
    "no leap year": "2023-02-29",
    "a century without a leap day": "1900-02-29",
    "nothing": "",
    "a word": "today",
    "an option": "--help",
    "a path": "../2026-02-01",
    "SQL": "2026-02-01'; DROP TABLE daily; --",
}


@pytest.mark.parametrize("command", CALLS)
def test_one_argument_too_many_is_a_usage_error(lab: Lab, command: str) -> None:
    before = lab.dump()

    answer = lab(command, *CALLS[command], "more")

    assert answer.code == 2
    assert lab.dump() == before


@pytest.mark.parametrize("command", [command for command, arguments in CALLS.items() if arguments])
def test_one_argument_too_few_is_a_usage_error(lab: Lab, command: str) -> None:
    before = lab.dump()

    answer = lab(command, *CALLS[command][:-1])

    assert answer.code == 2
    assert lab.dump() == before


@pytest.mark.parametrize(
    "arguments",
    [[], ["runn", D, D, "alice"], ["RUN", D, D, "alice"], [""], ["rollup_add", D, D], ["ro"], ["🙂"], [D, D]],
    ids=repr,
)
def test_an_unknown_command_is_a_usage_error(bare_lab: Lab, arguments: list[str]) -> None:
    answer = bare_lab(*arguments)

    assert answer.code == 2
    assert not bare_lab.db.exists()


@pytest.mark.parametrize("text", NO_DATES.values(), ids=NO_DATES)
def test_what_is_not_a_date_is_refused(bare_lab: Lab, text: str) -> None:
    answer = bare_lab("run", "0001-01-01", text, "alice")

    assert answer.code == 2


@pytest.mark.parametrize("command", ["release", "seal", "amend", "rollup-add"])
@pytest.mark.parametrize("text", ["2026-2-1", "20260201", "2026-02-30", "\uff12\uff10\uff12\uff16-02-01", ""])
def test_every_command_refuses_what_is_not_a_date(lab: Lab, command: str, text: str) -> None:
    before = lab.dump()

    answer = lab(command, text, *CALLS[command][1:])

    assert answer.code == 2
    assert lab.dump() == before


@pytest.mark.parametrize("command", ["run", "claim", "release", "seal", "rollup-add"])
def test_a_range_that_ends_before_it_starts_is_refused_and_nothing_is_written(lab: Lab, command: str) -> None:
    lab.write("2026-02-01", 1)
    lab.write("2026-02-02", 1)
    before = lab.dump()

    answer = lab(command, "2026-02-02", "2026-02-01", *CALLS[command][2:])

    assert answer.code == 2
    assert lab.dump() == before


@pytest.mark.parametrize("command", ["run", "claim", "release", "amend"])
def test_an_empty_owner_or_reason_is_refused(lab: Lab, command: str) -> None:
    lab.write(D, 1)
    lab.ok("seal", D, D)
    before = lab.dump()

    answer = lab(command, *CALLS[command][:-1], "")

    assert answer.code == 2
    assert lab.dump() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "2026-2-1", D, "alice"],
        ["run", "2026-02-02", D, "alice"],
        ["run", D, D, ""],
        ["run", D, D],
        ["claim", D, "2026-02-30", "alice"],
        ["release", D, D, ""],
        ["seal", D],
        ["amend", D, ""],
        ["rollup-add", "x", D],
        ["rollup", "more"],
    ],
    ids=" ".join,
)
def test_a_usage_error_goes_before_a_missing_store(bare_lab: Lab, arguments: list[str]) -> None:
    answer = bare_lab(*arguments)

    assert answer.code == 2
    assert not bare_lab.db.exists()


@pytest.mark.parametrize("command", [command for command in CALLS if command != "init"])
def test_asking_does_not_make_a_store(bare_lab: Lab, command: str) -> None:
    bare_lab.db = bare_lab.folder / "deep" / "state.db"

    answer = bare_lab(command, *CALLS[command])

    assert answer.code == 3
    assert str(bare_lab.db) in answer.json["error"]
    assert not bare_lab.db.parent.exists()


@pytest.mark.parametrize("command", [command for command in CALLS if command != "init"])
def test_a_file_without_tables_is_no_store(bare_lab: Lab, command: str) -> None:
    bare_lab.db.touch()

    answer = bare_lab(command, *CALLS[command])

    assert answer.code == 3
    assert bare_lab.db.read_bytes() == b""


def test_a_database_whose_tables_are_gone_is_no_store(lab: Lab) -> None:
    for table in ("daily", "rollup", "claims", "seals", "corrections"):
        lab.query(f"DROP TABLE {table}")

    answer = lab("run", D, D, "alice")

    assert answer.code == 3


@pytest.mark.parametrize("locale", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}], ids=repr)
def test_an_answer_is_json_in_any_locale(lab: Lab, locale: dict[str, str | None]) -> None:
    owner = "zoë 🙂"
    lab.ok("claim", D, D, owner)

    again = lab.ok("claim", D, D, owner, env=locale)
    denied = lab("claim", D, D, "bob", env=locale)

    assert again["owner"] == owner
    assert again["claimed"] == [D]
    assert denied.json["denied"] == [[D, owner]]


def test_a_locale_that_cannot_spell_the_owner_mistakes_it_for_nobody(lab: Lab) -> None:
    ascii_only: dict[str, str | None] = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    lab.ok("claim", D, D, "zoë 🙂")

    answer = lab("claim", D, D, "zoë 🙂", env=ascii_only)

    assert answer.code in (0, 2)
    assert lab.claims == {D: "zoë 🙂"}


def test_closed_standard_error_puts_nothing_else_on_standard_output(lab: Lab) -> None:
    process = lab.start("run", "2026-02-30", D, "alice", before=partial(os.close, 2))

    out, _ = process.communicate()

    assert process.returncode == 2
    assert out.count(b"error") == 1
    assert out.strip().startswith(b"{")
    assert out.strip().endswith(b"}")


@pytest.mark.parametrize("arguments", [["rollup"], ["run", D, D, "alice"], ["nonsense"]], ids=" ".join)
def test_nobody_listening_is_no_reason_for_a_traceback(lab: Lab, arguments: list[str]) -> None:
    process = lab.start(*arguments)
    assert process.stdout
    assert process.stderr
    process.stdout.close()

    said = process.stderr.read().decode()

    process.wait()
    assert "Traceback" not in said
    assert "Exception ignored" not in said


def test_an_answer_that_cannot_be_written_is_no_reason_for_a_traceback(lab: Lab) -> None:
    process = lab.start("rollup", before=write_to_a_full_device)

    _, said = process.communicate()

    assert b"Traceback" not in said
    assert b"Exception ignored" not in said
    assert process.returncode != 0


def write_to_a_full_device() -> None:
    """Give the process a standard output on which every write fails."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def test_an_answer_that_nobody_can_read_is_no_success(lab: Lab) -> None:
    process = lab.start("rollup", before=partial(os.close, 1))

    _, told = process.communicate()

    assert process.returncode == 1
    assert b"standard output is closed" in told


def test_a_python_that_is_told_to_be_safe_finds_the_core_too(lab: Lab) -> None:
    answer = lab("rollup", options=["-I"])

    assert (answer.code, answer.err) == (0, "")
