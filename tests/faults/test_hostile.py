"""Input that means harm: a sentence, never a traceback, never a hang, never more than some memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backfill_core import EventFolder, PartitionError, create_store
from backfill_core.contract import COMMANDS, main
from tests.servers import wait_until
from tests.world import World, day, days, lines

if TYPE_CHECKING:
    from collections.abc import Iterator

DT = day(0)
CORPUS = {path.stem: path.read_bytes() for path in sorted((Path(__file__).parent / "corpus").iterdir())}
EXAMPLES = 20_000 if os.environ.get("BACKFILL_FAULTS") == "long" else 1_000


# The reader of partitions, against a slow and simple one


def slow_count(content: bytes) -> tuple[int, int] | str:
    """Count a partition by the standard library's parser; "line N" for the first bad line, "sum" for a sum too big."""
    orders = total = 0
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip(b" \t\r"):
            continue
        amount = _slow_amount(line)
        if amount is None:
            return f"line {number}"
        orders, total = orders + 1, total + amount
    return (orders, total) if -(2**63) <= total < 2**63 else "sum"


def _slow_amount(line: bytes) -> int | None:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError(pairs)
        return dict(pairs)

    try:
        order = json.loads(line.decode(), object_pairs_hook=once, parse_constant=lambda name: int(f"no {name}"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(order, dict) or {"order_id", "dt", "amount", "status"} - order.keys():
        return None
    amount = order["amount"]
    good = (
        isinstance(order["order_id"], str)
        and order["dt"] == DT
        and type(amount) is int
        and -(2**63) <= amount < 2**63
        and (order["status"] == "paid" or (order["status"] == "refund" and amount < 0))
    )
    return amount if good else None


def count(folder: Path, content: bytes) -> tuple[int, int] | str:
    (folder / f"dt={DT}.jsonl").write_bytes(content)
    try:
        counted = EventFolder(str(folder)).count(DT)
    except PartitionError as error:
        place = str(error).removeprefix(f"{folder}/dt={DT}.jsonl:")
        return f"line {place.partition(':')[0]}" if place[:1].isdigit() else "sum"
    assert counted is not None
    return counted.tally.orders, counted.tally.amount


@pytest.mark.parametrize("name", CORPUS)
def test_the_reader_agrees_with_a_slow_one_on_the_corpus(tmp_path: Path, name: str) -> None:
    assert count(tmp_path, CORPUS[name]) == slow_count(CORPUS[name])


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A file of the corpus, or two of them, with some bytes changed, taken away or put in."""
    parts = draw(st.lists(st.sampled_from(list(CORPUS.values())), min_size=1, max_size=2))
    content = bytearray(b"".join(parts))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 3))
        content[place : place + length] = draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b'"', b"\\", b"\n", b"{", b"}", b",", b"0", b"-", b"\r"]))
        )
    return bytes(content)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutated())
def test_the_reader_agrees_with_a_slow_one_on_what_mutation_makes_of_it(tmp_path: Path, content: bytes) -> None:
    assert count(tmp_path, content) == slow_count(content)


# The command line


WORDS = st.one_of(
    st.sampled_from([*COMMANDS, DT, day(1), "2026-02-30", "../../etc/passwd", "--help", "-", "", "a", "0000-00-00"]),
    st.text(st.characters(exclude_characters="\0"), max_size=20),  # half surrogates too: bytes that are not UTF-8
)


@settings(max_examples=EXAMPLES // 4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORDS, max_size=5))
def test_any_command_line_gets_one_json_object_and_a_code_of_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    (tmp_path / "events").mkdir(exist_ok=True)
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path))

    code = main(arguments)

    out = capsys.readouterr().out
    answer = json.loads(out)
    assert code in (0, 1, 2, 3, 4, 5, 6)
    assert out.count("\n") == 1
    assert "this should not have happened" not in answer.get("error", ""), arguments
    assert ("error" in answer) == (code in (2, 3, 6) or (code == 1 and "failed" not in answer))


# Paths that are no partition files


def _answer(world: World, *arguments: str) -> tuple[int, dict[str, Any]]:
    create_store(world.db)
    world.put(day(1), 1)
    return world.run("run", day(0), day(1), "a", *arguments)


@pytest.fixture
def file_world(tmp_path: Path) -> Iterator[World]:
    with World(str(tmp_path / "state.db"), tmp_path) as made:
        yield made


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _folder(path: Path) -> None:
    path.mkdir()


def _nowhere(path: Path) -> None:
    path.symlink_to("/proc/self/mem/no")


@pytest.mark.parametrize("make", [os.mkfifo, _loop, _folder, _nowhere], ids=["fifo", "loop", "folder", "nowhere"])
def test_what_is_no_file_fails_its_own_partition_only(file_world: World, make: Any) -> None:
    make(file_world.file(day(0)))

    code, answer = _answer(file_world)

    assert code == 1
    assert answer["done"] == [day(1)]
    [[dt, sentence]] = answer["failed"]
    assert dt == day(0)
    assert sentence.startswith(str(file_world.file(day(0))))


def test_a_fifo_that_takes_the_place_of_a_file_does_not_hang(file_world: World) -> None:
    """Whatever a process finds at the path, at whatever moment, it never waits for somebody to write."""
    create_store(file_world.db)
    file = file_world.file(day(0))
    file_world.put(day(0), 1)
    code = (
        "import os, sys, itertools\n"
        "path = sys.argv[1]\n"
        "for n in itertools.count():\n"
        "    new = path + '.new'\n"
        "    os.mkfifo(new) if n % 2 else open(new, 'w').close()\n"
        "    os.replace(new, path)\n"
    )
    swapper = file_world.start(str(file), script=("-c", code))
    wait_until(lambda: file.stat().st_size == 0, "the file is swapped")
    with file_world.backfill() as backfill:
        for _ in range(200):
            answer = backfill.run(days(1), "a")
            assert answer["done"] or answer.get("failed")
    assert swapper.poll() is None


def test_a_path_cannot_be_made_to_climb_out_of_the_events_folder(file_world: World) -> None:
    (file_world.folder / "secret.jsonl").write_text(lines(DT, [1]))
    create_store(file_world.db)

    for climbing in (f"../{DT}", "2026-02-01/../../secret", "../secret", "2026-02-0\n", "dt=2026-02-01"):
        code, answer = file_world.run("run", climbing, climbing, "a")

        assert code == 2
        assert "not a date" in answer["error"]


MEASURED = """
import resource, subprocess, sys
code = subprocess.run([sys.executable, "runner.py", *sys.argv[1:]]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
"""A small process between the test's and the runner: a child's peak begins with what its parent has."""


@pytest.mark.parametrize("beginning", [b"", b'{"order_id": "', b'{"order_id": 1' + b"0" * 100])
def test_ten_gigabytes_in_one_line_take_little_memory(file_world: World, beginning: bytes) -> None:
    with file_world.file(day(0)).open("wb") as file:
        file.write(beginning)
        file.truncate(10 << 30)
    create_store(file_world.db)

    process = file_world.start("run", day(0), day(0), "a", script=("-c", MEASURED))
    told, _ = process.communicate()
    answer, kilobytes = told.splitlines()

    assert process.returncode == 1
    assert f"{file_world.file(day(0))}:1: " in json.loads(answer)["failed"][0][1]
    assert int(kilobytes) < 200 * 1024


def test_an_owner_of_a_megabyte_goes_through_the_core_and_back(file_world: World) -> None:
    """An argument of a process is at most 128 KiB long on Linux; a caller in Python has no such limit."""
    create_store(file_world.db)
    owner = "ö" * (1 << 20)
    with file_world.backfill() as backfill:
        backfill.claim(days(1), owner)

    code, answer = file_world.run("claim", day(0), day(0), "other")

    assert code == 4
    assert answer["denied"] == [[day(0), owner]]
