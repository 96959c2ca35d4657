"""What the page says of a dataset, from what its ledger says: without Airflow."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from backfill_airflow.page import reading
from backfill_core.claims import ATTEMPT, RESERVATION, Claim
from backfill_core.ledger import Counts, Glance
from backfill_core.ledger.opening import open_ledger

if TYPE_CHECKING:
    from pathlib import Path

DAY = "2026-02-01"
SENT = Glance(DAY, True, {"orders": "1", "rows": 1}, "2026-02-02", "shop", "shop/run", 1, False, False, False)


def claim(run: str, kind: str = ATTEMPT) -> Claim:
    return Claim("id", DAY, "anna", kind, run, "load", -1, 1, "")


def test_a_run_that_has_just_written_a_day_is_not_still_to_come_to_it() -> None:
    assert not reading.is_held(SENT, [claim("shop/run"), claim("shop/run", RESERVATION)])
    assert reading.is_held(SENT, [claim("shop/another")])
    assert reading.is_held(SENT, [claim("shop/run"), claim("", RESERVATION)])
    assert not reading.is_held(SENT, [])


def test_a_dataset_whose_schedule_has_stopped_is_missing_its_last_days(tmp_path: Path) -> None:
    counts = Counts("shop", 3, 3, 0, 0, 0, 0, 0, "2026-02-04", None, None, None, DAY, None)

    assert [reading.overview(counts, until)["missing"] for until in (None, "2026-02-03", "2026-02-10")] == [1, 1, 7]
    assert reading.overview(counts._replace(published=0, oldest=None, newest=None), "2026-02-10")["missing"] is None
    daily = reading.Daily({DAY: (1, 2, "me"), "2026-02-03": (1, 2, "me")}, {}, {}, set(), [])
    assert [daily.overview(until)["missing"] for until in (None, "2026-02-10")] == [1, 8]
    assert reading.Daily({}, {}, {}, set(), []).overview("2026-02-10")["missing"] is None
    with open_ledger(str(tmp_path / "state.db")) as ledger:
        ledger.define("shop", {"key": {}, "timezone": "Asia/Seoul", "grain": "day"}, {})
        ledger.define("shop", {"key": {}, "timezone": "Asia/Seoul", "grain": "day"}, {"orders": "count(*)"})
        assert ledger.zones() == {"shop": "Asia/Seoul"}


@pytest.mark.parametrize("text", [None, "", "anna", "anna#1a2b", "/x", "dag/"])
def test_what_is_no_run_of_airflow_has_no_link(text: str | None) -> None:
    assert reading.run_of(text) is None


def test_a_scheduled_dataset_goes_on_to_yesterday_in_its_zone(tmp_path: Path) -> None:
    with open_ledger(str(tmp_path / "state.db")) as ledger:
        ledger.define("shop", {"key": {}, "timezone": "Pacific/Kiritimati", "grain": "day"}, {})
        before = reading.yesterday("Pacific/Kiritimati")
        told = reading.dataset(ledger, "shop", until_yesterday=True)
        assert told["first"] == told["last"]
        assert before <= told["last"] <= reading.yesterday("Pacific/Kiritimati")
        assert told["states"] == reading.MISSING

        assert reading.dataset(ledger, "shop", until_yesterday=False)["keys"] == []


def test_reading_needs_nothing_of_airflow_but_the_plugins_name() -> None:
    assert "fastapi" not in vars(sys.modules["backfill_airflow.page"])


def test_keys_that_are_no_days_have_no_newest_and_no_holes_whatever_the_schedule(tmp_path: Path) -> None:
    counts = Counts("shop", 3, 3, 0, 1, 0, 0, 0, "PL", None, None, None, "DE", "DE")

    about = reading.overview(counts, "2026-02-10")
    assert (about["newest"], about["sealed_up_to"], about["missing"], about["published"]) == (None, None, None, 3)
    with open_ledger(str(tmp_path / "state.db")) as ledger:
        for grain in ("list", "none"):
            ledger.define(grain, {"key": {}, "timezone": "UTC", "grain": grain}, {})
        told = [reading.dataset(ledger, grain, until_yesterday=True) for grain in ("list", "none")]
    assert [one["keys"] for one in told] == [[], ["all"]]
    assert [one["states"] for one in told] == ["", reading.MISSING]
