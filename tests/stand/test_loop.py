"""The whole loop on the stand of `make stand`, as a person has it: only the new model day moves, and once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_native import ROOT
from clickstream.history import published
from clickstream.instant import spell
from stand_native import Stand, native_stand, show_loop
from tests.servers import wait_until
from tests.stand.loops import (
    boundaries,
    clickstream,
    counts,
    covered,
    emptied,
    events,
    everywhere,
    moved,
    said_last,
    succeeded,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with native_stand(tmp_path_factory.mktemp("stand"), Path(sys.executable).parent, login=True) as stand:
        yield stand


def test_the_loop_moves_one_model_day_at_a_time(stand: Stand) -> None:
    # An empty stand has nothing to go on from.
    refused = stand.generate("next-day")
    assert refused.state() == "failed"
    assert said_last(refused, "next-day").startswith("The stand is empty")
    assert refused.tasks()["next-day"] == [("failed", 1)]

    history = succeeded(
        stand.generate("backfill", t0="2026-01-01T00:00:00Z", days=2, visits_a_day=300, seed=3)
    ).receipt("backfill")
    succeeded(stand.load())
    before = counts(stand)
    assert set(before) == everywhere("2026-01-01", "2026-01-02")
    assert events(stand) == history["published"]["browser_events"]
    links = boundaries(stand)

    t_end = history["t_end"]
    for day in ("2026-01-03", "2026-01-04"):
        answer = succeeded(stand.generate("next-day", expected_t_end=t_end)).receipt("next-day")
        succeeded(stand.load())
        after = counts(stand)

        assert covered(t_end) == [day]
        assert moved(before, after) == everywhere(day)
        assert (
            events(stand)
            == sum(value[1] for key, value in before.items() if key[0] == "visits_daily")
            + (answer["published"]["browser_events"])
        )
        assert boundaries(stand) == links + 1
        before, links, t_end = after, links + 1, answer["t_end"]

    # Loading once more changes nothing, and finds no day to build.
    again = succeeded(stand.load())
    assert again.receipt("days_due") == []
    assert again.receipt("load_stg") == dict.fromkeys(history["published"], 0)
    assert counts(stand) == before

    # The same day can't be asked for twice.
    repeated = stand.generate("next-day", expected_t_end="2026-01-04T00:00:00Z")
    assert repeated.state() == "failed"
    assert said_last(repeated, "next-day").startswith(
        "Expected the history to end at 2026-01-04T00:00:00Z, but it ends at 2026-01-05T00:00:00Z."
    )
    assert boundaries(stand) == links

    # Nor under a load.
    stand.pause("etl_pipeline", paused=False)
    busy = stand.generate("next-day")
    stand.pause("etl_pipeline")
    assert busy.state() == "failed"
    assert said_last(busy, "next-day").startswith("etl_pipeline is not paused")
    assert boundaries(stand) == links
    assert succeeded(stand.generate("check")).receipt("check")["faults"] == []


def test_an_exported_history_comes_back_through_the_dag_with_the_same_marts(stand: Stand, tmp_path: Path) -> None:
    emptied(stand)
    succeeded(stand.generate("backfill", t0="2026-03-01T06:00:00Z", days=2, visits_a_day=100, seed=5))
    history = succeeded(stand.generate("next-day")).receipt("next-day")
    succeeded(stand.load())
    before, links = counts(stand), boundaries(stand)
    artifact = str(tmp_path / "history.zip")
    clickstream(stand, "export", artifact)

    onto_the_other = stand.generate("import", artifact=artifact)
    emptied(stand)
    imported = succeeded(stand.generate("import", artifact=artifact)).receipt("import")
    loaded = succeeded(stand.load())

    assert onto_the_other.state() == "failed"
    assert "a history begins on a clean stand" in said_last(onto_the_other, "import")
    assert imported["t_end"] == history["t_end"]
    assert loaded.receipt("load_stg") == imported["published"]
    assert {day for _, day in counts(stand)} == {f"2026-03-0{day}" for day in range(1, 5)}
    # Offsets are new ones, and the fingerprint in dq_summary is made of them.
    assert {mart for mart, _ in moved(before, counts(stand))} <= {"dq_summary"}
    assert events(stand) == imported["published"]["browser_events"]
    assert boundaries(stand) == links
    assert succeeded(stand.generate("check")).receipt("check")["faults"] == []


def test_next_day_is_refused_while_a_live_generator_runs_and_goes_on_from_where_that_ended(stand: Stand) -> None:
    emptied(stand)
    began = succeeded(stand.generate("backfill", t0="2026-05-01T00:00:00Z", days=1, visits_a_day=100, seed=5))
    links = boundaries(stand)

    with live(stand) as generator:
        wait_until(lambda: t_end(stand) > began.receipt("backfill")["t_end"], "the live generator has committed")
        refused = stand.generate("next-day")
        generator.terminate()
        answer = json.loads(generator.communicate()[0])
    ended = t_end(stand)
    accepted = stand.generate("next-day", expected_t_end=ended)

    assert refused.state() == "failed"
    assert refused.tasks()["next-day"] == [("failed", 1)]
    assert said_last(refused, "next-day").startswith("Another generator is at work: continue ")
    assert (generator.returncode, answer["t_end"]) == (0, ended)
    assert succeeded(accepted).receipt("next-day")["t_end"] > ended
    assert boundaries(stand) == links + 2
    assert succeeded(stand.load()).receipt("validate")["events"] == events(stand)


def test_a_start_goes_on_where_another_one_was_ended_with_a_load_under_way(stand: Stand) -> None:
    emptied(stand)
    succeeded(stand.generate("backfill", t0="2026-07-01T00:00:00Z", days=1, visits_a_day=100, seed=5))
    links = boundaries(stand)
    left = stand.start("etl_pipeline", {})
    refused = stand.generate("next-day")

    show_loop(stand, t0="2026-07-01T00:00:00Z", days=1, visits_a_day=100)

    assert said_last(refused, "next-day").startswith("etl_pipeline is paused, but 1 of its runs have not ended")
    assert refused.reason() == f"next-day: {said_last(refused, 'next-day')}"
    assert left.state() == "success"
    assert boundaries(stand) == links + 1
    assert t_end(stand) == "2026-07-03T00:00:00Z"
    assert {day for _, day in counts(stand)} == {"2026-07-01", "2026-07-02"}
    assert succeeded(stand.generate("check")).receipt("check")["faults"] == []


@contextmanager
def live(stand: Stand) -> Iterator[subprocess.Popen[str]]:
    """The live generator, half a model minute a second."""
    command = [sys.executable, "-m", "clickstream", "continue", "--tick-seconds", "0.5", "--speed", "30"]
    environ = {**os.environ, **stand.environ}
    with subprocess.Popen(command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, text=True) as generator:
        try:
            yield generator
        finally:
            generator.kill()


def t_end(stand: Stand) -> str:
    return spell(published(stand.broker).manifest.t_end)
