"""The lab's files, all made by one command, and `gen_events.py`, which makes the fourteen days."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from .grader import CHECKOUT, PATIENCE, Lab, days, plain_environment, reference, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATES = days("2026-02-01", 14)
SEALED = "2026-02-02"
HEADINGS = [
    "## 무엇을 다시 돌렸나",
    "## 정기 실행과 어떻게 부딪혔나",
    "## 누적 집계는 왜 두 배가 되나",
    "## 되돌리면 안 되는 자리",
]
PAGES = ["split.json", "double.json", "backfill_report.json", "backfill_report.md"]


def make(home: Path, script: str, *arguments: str, **env: str) -> None:
    """Call one of the scripts with BACKFILL_HOME alone."""
    with tempfile.TemporaryDirectory() as elsewhere:
        made = subprocess.run(
            [sys.executable, str(CHECKOUT / script), *arguments],
            cwd=elsewhere,
            env=plain_environment() | {"BACKFILL_HOME": str(home), **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert list(os.scandir(elsewhere)) == [], "something was left where the caller stood"
    assert made.returncode == 0, made
    assert b"Traceback" not in made.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with all that the lab makes; read, never changed, by the tests."""
    home = tmp_path_factory.mktemp("lab") / "home"
    make(home, "lab.py")
    return home


@pytest.fixture(scope="module")
def store(home: Path) -> Lab:
    """The lab's store, to be queried."""
    lab = Lab(home.parent / "reader")
    lab.db = home / "state.db"
    return lab


def read(home: Path, name: str) -> dict[str, Any]:
    """One of the lab's JSON files."""
    content = json.loads((home / name).read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def counted(home: Path, dt: str) -> tuple[int, int]:
    """Orders and amount of a partition file, as a strict reader counts them."""
    verdict = reference((home / "events" / f"dt={dt}.jsonl").read_bytes(), dt)
    assert isinstance(verdict, tuple)
    return verdict


def total(rows: Iterator[tuple[int, int]]) -> tuple[int, int]:
    """Orders and amount of several partitions."""
    orders, amounts = zip(*rows, strict=True)
    return sum(orders), sum(amounts)


def test_the_lab_has_fourteen_partitions_of_different_length_with_refunds(home: Path) -> None:
    files = sorted((home / "events").iterdir())
    content = [file.read_bytes() for file in files]

    assert [file.name for file in files] == [f"dt={dt}.jsonl" for dt in DATES]
    assert len({text.count(b"\n") for text in content}) == 14
    assert b'"refund"' in b"".join(content)
    assert b'"paid"' in b"".join(content)


def test_the_store_ends_with_one_row_a_date(home: Path, store: Lab) -> None:
    daily = store.daily

    assert list(daily) == DATES
    assert {dt: row[:2] for dt, row in daily.items() if dt != SEALED} == {
        dt: counted(home, dt) for dt in DATES if dt != SEALED
    }
    assert {name for name, _ in tables_of(store.db)} == {"daily", "rollup", "claims", "seals", "corrections"}


def test_the_sealed_date_got_one_late_line_and_has_its_correction(home: Path, store: Lab) -> None:
    [(dt, orders_before, amount_before, orders_after, amount_after, reason)] = store.corrections

    assert dt == SEALED
    assert SEALED in store.seals
    assert (orders_before, amount_before) == store.daily[SEALED][:2]
    assert (orders_after, amount_after) == counted(home, SEALED)
    assert orders_after == orders_before + 1
    assert amount_after != amount_before
    assert reason.strip()


def test_the_rollup_is_the_one_derived_from_daily(store: Lab) -> None:
    orders, amount = total(row[:2] for row in store.daily.values())

    assert store.rollup == {"order_total": orders, "amount_total": amount}


def test_split_json_shows_that_a_range_and_its_days_give_the_same(home: Path, store: Lab) -> None:
    split = read(home, "split.json")

    assert split.keys() == {"whole", "by_day", "rerun_changed"}
    assert split["whole"] == split["by_day"]
    assert split["whole"].keys() == {"orders", "amount"}
    assert (split["whole"]["orders"], split["whole"]["amount"]) in (
        total(counted(home, dt) for dt in DATES),
        total(row[:2] for row in store.daily.values()),
    )
    assert split["rerun_changed"] is False


def test_double_json_shows_a_gap_of_exactly_the_parts_amount(home: Path, store: Lab) -> None:
    double = read(home, "double.json")

    assert double.keys() == {"backfill_range", "true_total", "add_after_backfill", "gap"}
    start, end = double["backfill_range"]
    part = [dt for dt in DATES if start <= dt <= end]
    assert part == days(start, len(part))
    assert double["add_after_backfill"] - double["true_total"] == double["gap"]
    assert (double["gap"], double["true_total"]) in (
        (sum(counted(home, dt)[1] for dt in part), sum(counted(home, dt)[1] for dt in DATES)),
        (sum(store.daily[dt][1] for dt in part), sum(row[1] for row in store.daily.values())),
    )
    assert double["gap"] != 0


def test_backfill_report_json_says_what_the_store_holds(home: Path, store: Lab) -> None:
    report = read(home, "backfill_report.json")

    orders, amount = total(row[:2] for row in store.daily.values())
    assert report == {
        "partitions": 14,
        "orders": orders,
        "amount": amount,
        "sealed": store.seals,
        "corrections": 1,
        "rollup": {"order_total": orders, "amount_total": amount},
        "double_gap": read(home, "double.json")["gap"],
    }


def test_the_page_has_exactly_its_four_headings_and_the_gap_as_a_number(home: Path) -> None:
    page = (home / "backfill_report.md").read_text(encoding="utf-8")

    assert [text for text in page.splitlines() if text.startswith("## ")] == HEADINGS
    sections = re.split(r"^## .*$", page, flags=re.MULTILINE)[1:]
    assert all(len(section.strip()) > 20 for section in sections)
    gap = read(home, "double.json")["gap"]
    assert re.search(rf"(?<!\d){gap}(?!\d)", page)


def test_the_page_tells_what_happened_and_no_durations(home: Path) -> None:
    page = (home / "backfill_report.md").read_text(encoding="utf-8")

    assert SEALED in page
    assert not re.search(r"\d\s*(ms|밀리초|초|seconds?|s)\b", page)


def test_making_the_lab_again_gives_the_same_files(home: Path, store: Lab) -> None:
    files = sorted(file for file in home.rglob("*") if file.is_file() and not file.name.startswith("state.db"))
    before = {file: file.read_bytes() for file in files}
    held = store.dump()

    make(home, "lab.py")

    after = sorted(file for file in home.rglob("*") if file.is_file() and not file.name.startswith("state.db"))
    assert after == files
    assert {file: file.read_bytes() for file in files} == before
    assert store.dump() == held


def test_the_lab_is_the_same_in_another_home(home: Path, store: Lab, tmp_path: Path) -> None:
    other = tmp_path / "deep" / "other home"

    make(other, "lab.py")

    for name in (*PAGES, *(f"events/dt={dt}.jsonl" for dt in DATES)):
        assert (other / name).read_bytes() == (home / name).read_bytes(), name
    elsewhere = Lab(tmp_path / "reader")
    elsewhere.db = other / "state.db"
    assert elsewhere.dump() == store.dump()


def test_the_lab_leaves_only_its_own_files(home: Path) -> None:
    assert {file.name for file in home.iterdir()} - {"state.db-wal", "state.db-shm", "state.db.lock"} <= {
        "events",
        "state.db",
        *PAGES,
    }


# gen_events.py


def folder(path: Path) -> dict[str, bytes]:
    """The files of a folder with their content."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def test_the_fourteen_days_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    make(tmp_path / "one", "gen_events.py")
    make(tmp_path / "two", "gen_events.py", PYTHONHASHSEED="123", TZ="Asia/Seoul", LC_ALL="C")

    one, two = folder(tmp_path / "one" / "events"), folder(tmp_path / "two" / "events")
    assert list(one) == [f"dt={dt}.jsonl" for dt in DATES]
    assert one == two
    assert len({text.count(b"\n") for text in one.values()}) == 14
    for dt, text in zip(DATES, one.values(), strict=True):
        assert isinstance(reference(text, dt), tuple)
        assert text.endswith(b"\n")
    everything = b"".join(one.values()).splitlines()
    refunds = [json.loads(text) for text in everything if b'"refund"' in text]
    assert 0 < len(refunds) < len(everything)
    assert all(refund["amount"] < 0 for refund in refunds)
    assert {tuple(json.loads(text)) for text in everything} == {("order_id", "dt", "amount", "status")}


def test_generating_again_in_place_changes_nothing(tmp_path: Path) -> None:
    make(tmp_path / "home", "gen_events.py")
    first = folder(tmp_path / "home" / "events")

    make(tmp_path / "home", "gen_events.py")

    assert folder(tmp_path / "home" / "events") == first


def test_start_days_and_out_choose_the_partitions(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"

    make(tmp_path / "home", "gen_events.py", "--start", "2024-02-28", "--days", "3", "--out", str(out))

    made = folder(out)
    assert list(made) == ["dt=2024-02-28.jsonl", "dt=2024-02-29.jsonl", "dt=2024-03-01.jsonl"]
    for dt, text in zip(days("2024-02-28", 3), made.values(), strict=True):
        assert isinstance(reference(text, dt), tuple)
    assert not (tmp_path / "home" / "events").exists()


def test_lines_make_a_day_as_large_as_asked_for(tmp_path: Path) -> None:
    for size in ("20", "20000"):
        make(tmp_path / "home", "gen_events.py", "--days", "2", "--lines", size, "--out", str(tmp_path / size))

    small, large = folder(tmp_path / "20"), folder(tmp_path / "20000")
    assert list(small) == list(large)
    assert all(large[name].count(b"\n") > 100 * small[name].count(b"\n") for name in small)
    assert all(isinstance(reference(text, dt), tuple) for dt, text in zip(DATES, large.values(), strict=False))


def test_the_seed_changes_the_orders_and_the_same_seed_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        make(tmp_path / "home", "gen_events.py", "--days", "3", "--seed", seed, "--out", str(tmp_path / name))

    assert folder(tmp_path / "a") == folder(tmp_path / "b")
    assert folder(tmp_path / "a") != folder(tmp_path / "c")


def test_what_is_generated_runs(tmp_path: Path, lab: Lab) -> None:
    make(tmp_path / "home", "gen_events.py", "--start", "2025-12-30", "--days", "4", "--out", str(lab.events))

    answer = lab.ok("run", "2025-12-30", "2026-01-02", "alice")

    assert answer["done"] == days("2025-12-30", 4)
    assert {dt: row[:2] for dt, row in lab.daily.items()} == {
        dt: reference(lab.path(dt).read_bytes(), dt) for dt in answer["done"]
    }
