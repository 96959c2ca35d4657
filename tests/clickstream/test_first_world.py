"""Histories that the first release began, format 1 of a state: they are checked, exported and gone on with as ever."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickstream import artifact, verbs
from clickstream.errors import DamagedError
from clickstream.first_world import FirstWorld
from clickstream.instant import DAY, LATEST, Instant, parse, spell
from clickstream.manifest import Manifest
from clickstream.topics import EVENT_TOPICS, MANIFEST, STATE
from clickstream.world import Parameters, World
from tests.clickstream.histories import T0, History, held, made, tallies
from tests.clickstream.test_next_day import spelled

if TYPE_CHECKING:
    from pathlib import Path

    from clickstream.verbs import Stand

PARAMETERS = Parameters(parse(T0), 7, 200)


def first(days: int) -> History:
    return made(PARAMETERS, [PARAMETERS.t0 + days * DAY], FirstWorld)


def test_the_bytes_are_those_of_the_first_release() -> None:
    three_days = tallies(first(3))

    assert {topic: (tally.records, f"{tally.checksum:08x}") for topic, tally in three_days.items()} == {
        "browser_events": (2395, "09212316"),
        "location_events": (2395, "3d25c019"),
        "device_events": (600, "8b6f432e"),
        "geo_events": (600, "bbcf1028"),
    }


@settings(max_examples=30, deadline=None)
@given(st.integers(0, LATEST - 5 * DAY), st.integers(0, 2**63 - 1), st.integers(1, 300), st.data())
def test_a_cut_at_any_microsecond_changes_nothing(t0: int, seed: int, visits_a_day: int, data: st.DataObject) -> None:
    parameters = Parameters(Instant(t0), seed, visits_a_day)
    end = t0 + 2 * DAY
    cuts = sorted(data.draw(st.lists(st.integers(t0, end), max_size=8)))

    assert made(parameters, [*cuts, end], FirstWorld) == made(parameters, [end], FirstWorld)


def exported(days: int, path: Path) -> Path:
    """An artifact of the first release."""
    history = first(days)
    end = Instant(PARAMETERS.t0 + days * DAY)
    manifest = Manifest.opening(PARAMETERS.t0).extended(end, tallies(history), portion_from=PARAMETERS.t0)
    lines = [*((topic, [history.topics[topic]]) for topic in EVENT_TOPICS)]
    artifact.write(str(path), [*lines, (STATE, [history.state]), (MANIFEST, [manifest.to_json()])])
    return path


def test_a_history_of_the_first_release_is_imported_checked_gone_on_with_and_exported(
    stand: Stand, tmp_path: Path
) -> None:
    verbs.import_artifact(stand, str(exported(2, tmp_path / "first.zip")))

    verbs.next_day(stand, expected_t_end=spelled(2))

    assert held(stand.broker) == first(3)
    assert verbs.check(stand)["faults"] == []
    assert verbs.chain_check(stand)["faults_found"] == 0
    assert verbs.export(stand, str(tmp_path / "again.zip"))["t_end"] == spell(Instant(PARAMETERS.t0 + 3 * DAY))
    with artifact.opened(str(tmp_path / "again.zip")) as again:
        assert again.state_text == first(3).state


def test_a_new_history_has_the_new_format() -> None:
    assert json.loads(first(1).state)["format"] == 1
    assert json.loads(made(PARAMETERS, []).state)["format"] == 2
    assert isinstance(World.restore(first(1).state), FirstWorld)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("t_end", "2024-03-01 12:00"), ("seed", -1), ("visits_a_day", 0), ("visits_born", 0), ("next_birth", 0),
        ("random", []), ("donor_fields", []), ("open_visits", None), ("open_visits", [[1]]),
    ],
)  # fmt: skip
def test_a_damaged_state_is_refused_loudly(field: str, value: object) -> None:
    document = json.loads(first(2).state)
    document[field] = value

    with pytest.raises(DamagedError, match="state"):
        World.restore(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("position", "value"),
    [(0, 10**9), (1, 0), (1, None), (2, 'x"' * 16), (2, "short"), (3, "/nowhere"), (4, 0), (5, 0), (6, ["x"])],
)
def test_a_damaged_visit_is_refused_loudly(position: int, value: object) -> None:
    document = json.loads(first(2).state)
    document["open_visits"][0][position] = value

    with pytest.raises(DamagedError, match="state is damaged"):
        World.restore(json.dumps(document).encode())
