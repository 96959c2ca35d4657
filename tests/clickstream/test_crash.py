"""Killed at every moment of a publication: what is committed stays right, and the documented recovery works."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from clickstream import verbs
from clickstream.broker import Broker
from clickstream.errors import RefusedError
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, command, days, held, manifest
from tests.clickstream.test_next_day import spelled

if TYPE_CHECKING:
    from pathlib import Path

MOMENTS = ["begun", "events", "state", "manifest"]


def die(moment: str, verb: str, broker: Broker, *more: str) -> None:
    """Run a verb that is killed with SIGKILL at that moment."""
    arguments = [moment, verb, broker.servers, broker.prefix, str(broker.transactions), *more]
    done = subprocess.run(
        [sys.executable, "-m", "tests.clickstream.dying", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("moment", MOMENTS)
def test_with_transactions_a_killed_day_never_was_and_is_simply_asked_for_again(broker: Broker, moment: str) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=1)

    die(moment, "next-day", broker)

    assert held(broker) == days(1)
    assert manifest(broker)["t_end"] == spelled(1)
    again = command(broker, "next-day", "--expected-t-end", spelled(1))
    assert again.code == 0, again.stderr
    assert held(broker) == days(2)
    assert verbs.check(Stand(broker))["faults"] == []


def test_without_transactions_a_day_killed_before_its_data_is_simply_asked_for_again(
    servers: str, broker: Broker
) -> None:
    plain = Broker(servers, broker.prefix, transactions=False)
    verbs.backfill(Stand(plain), **SMALL, days=1)

    die("begun", "next-day", plain)

    assert command(plain, "next-day").code == 0
    assert held(plain) == days(2)


@pytest.mark.parametrize(("moment", "reason"), [("events", "tail"), ("state", "wrong-state")])
def test_without_transactions_a_tail_is_reported_and_cured_by_importing_again(
    servers: str, broker: Broker, tmp_path: Path, moment: str, reason: str
) -> None:
    plain = Broker(servers, broker.prefix, transactions=False)
    verbs.backfill(Stand(plain), **SMALL, days=1)
    artifact = str(tmp_path / "artifact.zip")

    die(moment, "next-day", plain)

    assert manifest(plain)["t_end"] == spelled(1)
    refused = command(plain, "next-day")
    assert (refused.code, refused.answer["refused"]) == (4, reason)
    assert "After a death before the manifest" in refused.stderr
    assert command(plain, "check").code == 5
    assert [command(plain, *recovery).code for recovery in
            (["export", artifact], ["clear", "--yes"], ["import", artifact], ["check"])] == [0, 0, 0, 0]  # fmt: skip
    assert command(plain, "next-day", "--expected-t-end", spelled(1)).code == 0
    assert held(plain) == days(2)


def test_without_transactions_the_manifest_is_the_commit_point(servers: str, broker: Broker) -> None:
    plain = Broker(servers, broker.prefix, transactions=False)
    verbs.backfill(Stand(plain), **SMALL, days=1)

    die("manifest", "next-day", plain)

    assert held(plain) == days(2)
    again = command(plain, "next-day", "--expected-t-end", spelled(1))
    assert (again.code, again.answer["refused"]) == (4, "boundary")
    assert command(plain, "next-day", "--expected-t-end", spelled(2)).code == 0
    assert held(plain) == days(3)


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_import_that_is_killed_leaves_nothing_to_readers_and_can_be_repeated(
    broker: Broker, tmp_path: Path, moment: str
) -> None:
    artifact = str(tmp_path / "artifact.zip")
    stand = Stand(broker)
    verbs.backfill(stand, **SMALL, days=1)
    verbs.export(stand, artifact)
    verbs.clear(stand)

    die(moment, "import", broker, artifact)

    with pytest.raises(RefusedError, match="stand is empty"):
        verbs.check(stand)
    verbs.import_artifact(stand, artifact)
    assert held(broker) == days(1)


def test_a_backfill_that_is_killed_leaves_whole_days_which_next_day_goes_on_from(broker: Broker) -> None:
    die("committed", "backfill", broker)

    assert held(broker) == days(1)
    verbs.next_day(Stand(broker), expected_t_end=spelled(1))
    assert held(broker) == days(2)


def test_an_interrupted_day_is_taken_back_and_says_so(broker: Broker) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=1)

    def interrupt(moment: str) -> None:
        if moment == "state":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verbs.next_day(Stand(broker, progress=interrupt))

    assert held(broker) == days(1)
    verbs.next_day(Stand(broker))
    assert held(broker) == days(2)
