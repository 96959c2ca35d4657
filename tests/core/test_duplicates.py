from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_core import Backfill, DateRange, SourceError
from backfill_core import duplicates as module
from tests.core.test_review import Shell

if TYPE_CHECKING:
    from tests.core.sources import Source

ROOT = Path(__file__).parents[2]
FIRST, SECOND, THIRD = "2024-05-01", "2024-05-02", "2024-05-03"
DAYS = DateRange.parse(FIRST, THIRD)


def write(source: Source, dt: str, *order_ids: str) -> None:
    source.file(dt).write_text(
        "".join(
            json.dumps({"order_id": order_id, "dt": dt, "amount": 1, "status": "paid"}) + "\n" for order_id in order_ids
        )
    )


def test_what_occurs_more_than_once_is_named_with_its_dates(backfill: Backfill, source: Source) -> None:
    write(source, FIRST, "a", "b", "c", "b", "b")
    write(source, SECOND, "c", "d", "é", '"\\')
    write(source, THIRD, "c", "c", "e")
    with source.file(THIRD).open("a") as file:  # the same ids, spelt in other ways
        file.write('\n{"dt": "2024-05-03", "order_id": "\\u00e9"}\r\n{"order_id":"\\u0022\\u005c"}')

    answer = backfill.duplicates(DAYS)

    assert answer["duplicates"] == [
        {"order_id": "b", "dts": [[FIRST, 3]]},
        {"order_id": "c", "dts": [[FIRST, 1], [SECOND, 1], [THIRD, 2]]},
        {"order_id": '"\\', "dts": [[SECOND, 1], [THIRD, 1]]},
        {"order_id": "é", "dts": [[SECOND, 1], [THIRD, 1]]},
    ]
    assert (answer["orders"], answer["order_ids"]) == (14, 4)
    assert (answer["within_a_day"], answer["across_days"], answer["failed"]) == (2, 3, [])


def test_the_answer_is_the_same_however_many_files_keep_the_ids(
    backfill: Backfill, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day, dt in enumerate((FIRST, SECOND, THIRD)):
        write(source, dt, *(str(n * (day + 1)) for n in range(500)))
    whole = backfill.duplicates(DAYS)
    monkeypatch.setattr(module, "BUCKET", 1000)
    monkeypatch.setattr(module, "NAMED", 10)

    divided = backfill.duplicates(DAYS)

    assert divided == {**whole, "duplicates": whole["duplicates"][:10]}
    assert divided["order_ids"] > 400


def test_an_order_id_that_cannot_be_read_is_told_and_the_others_are_looked_at(
    backfill: Backfill, source: Source
) -> None:
    write(source, FIRST, "a", "a")
    source.file(SECOND).write_text('{"order_id": "a"}\n{"order_id": 5}\n')

    answer = backfill.duplicates(DAYS)

    assert answer["failed"] == [[SECOND, f"{source.file(SECOND)}:2: order_id is missing or no string"]]
    assert answer["order_ids"] == 1


def test_no_room_for_the_ids_is_a_sentence(backfill: Backfill, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    write(source, FIRST, "a")
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")

    with pytest.raises(SourceError, match="set TMPDIR"):
        backfill.duplicates(DAYS)


def test_people_see_them_and_a_plan_has_their_number(backfill: Backfill, source: Source, tmp_path: Path) -> None:
    write(source, FIRST, "a", "a", "two\nlines", "b")
    write(source, SECOND, "two\nlines", "c")
    shell = Shell(tmp_path)

    named = shell("duplicates", FIRST, THIRD).stdout.splitlines()
    planned = shell("plan", FIRST, THIRD, "me", "--duplicates").stdout.splitlines()
    plain = shell("plan", FIRST, THIRD, "me").stdout

    told = "2 order_ids occur more than once among 6 orders: 1 within a day, 1 across days"
    assert [line.split() for line in named[:3]] == [
        ["order_id", "partitions"],
        ["a", FIRST, "x2"],
        [r"two\nlines", FIRST, SECOND],
    ]
    assert named[3:] == [told]
    assert planned[-1] == f"{told}; `duplicates` names them"
    assert "more than once" not in plain
    assert json.loads(shell("plan", FIRST, THIRD, "me", "--duplicates", "--json").stdout)["duplicates"] == 2


def test_a_million_lines_take_little_memory(source: Source, tmp_path: Path) -> None:
    program = f"""
import resource
from backfill_core import EventFolder, DateRange
from backfill_core import duplicates
duplicates.BUCKET = 1 << 21
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
answer = duplicates.duplicates(EventFolder({str(source.folder)!r}), DateRange.parse({FIRST!r}, {FIRST!r}))
print(answer["orders"], answer["order_ids"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    with source.file(FIRST).open("w") as file:
        for number in range(1_000_000):
            file.write(f'{{"order_id": "order-{number % 999_999}", "dt": "{FIRST}", "amount": 1, "status": "paid"}}\n')

    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    orders, order_ids, kilobytes = map(int, done.stdout.split())
    assert (orders, order_ids) == (1_000_000, 1)
    assert kilobytes < 50_000
