from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickstream.errors import DamagedError, UsageError
from clickstream.instant import DAY, HOUR, LATEST, Instant, parse, spell_in_record
from clickstream.topics import BROWSER, DEVICE, GEO, LOCATION, key_of
from clickstream.world import Parameters, World
from tests.clickstream.histories import History, days, made, tallies

FIELDS = {
    BROWSER: "event_id event_timestamp event_type click_id browser_name browser_user_agent browser_language",
    LOCATION: "event_id page_url page_url_path "
    "referer_url referer_medium utm_medium utm_source utm_content utm_campaign",
    DEVICE: "click_id os os_name os_timezone device_type device_is_mobile user_custom_id user_domain_id",
    GEO: "click_id geo_latitude geo_longitude geo_country geo_timezone geo_region_name ip_address",
}


def records(history: History, topic: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in history.topics[topic].splitlines()]


worlds = st.builds(
    Parameters,
    t0=st.integers(0, LATEST - 5 * DAY).map(Instant),
    seed=st.integers(0, 2**63 - 1),
    visits_a_day=st.integers(1, 300),
    dirt=st.sampled_from([0, 0, 100]),
)


@settings(max_examples=60, deadline=None)
@given(worlds, st.integers(1, 5), st.data())
def test_any_division_into_days_gives_the_same_bytes_and_the_same_state(
    parameters: Parameters, number: int, data: st.DataObject
) -> None:
    end = parameters.t0 + number * DAY
    cuts = data.draw(st.sets(st.integers(1, number), max_size=number))

    in_one_go = made(parameters, [end])
    divided = made(parameters, [*(parameters.t0 + cut * DAY for cut in sorted(cuts)), end])

    assert divided == in_one_go
    assert tallies(divided) == tallies(in_one_go)


@settings(max_examples=60, deadline=None)
@given(worlds, st.data())
def test_a_cut_at_any_microsecond_changes_nothing(parameters: Parameters, data: st.DataObject) -> None:
    end = parameters.t0 + 2 * DAY
    clean = replace(parameters, dirt=0)
    events = [parse(record["event_timestamp"] + "Z") for record in records(made(clean, [end]), BROWSER)]
    anywhere = st.integers(parameters.t0, end)
    at_an_event = st.sampled_from(events).flatmap(lambda at: st.sampled_from([at, at + 1])) if events else anywhere
    cuts = sorted(cut for cut in data.draw(st.lists(anywhere | at_an_event, max_size=8)) if cut <= end)

    divided = made(parameters, [*cuts, end])

    assert divided == made(parameters, [end])


def test_another_process_with_other_hashes_makes_the_same_bytes() -> None:
    code = "from tests.clickstream.histories import *; import hashlib; h = days(3)\n"
    code += "print(hashlib.sha256(b''.join(h.topics.values()) + h.state).hexdigest())"

    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ".", "LC_ALL": locale, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, locale, zone in [("0", "C", "UTC"), ("12345", "C.UTF-8", "Asia/Kolkata")]
    }

    assert len(digests) == 1


def test_the_bytes_stay_those_of_this_format() -> None:
    three_days = tallies(days(3))

    assert {topic: (tally.records, f"{tally.checksum:08x}") for topic, tally in three_days.items()} == GOLDEN


GOLDEN = {
    "browser_events": (2418, "42e62802"),
    "location_events": (2418, "6b0f154c"),
    "device_events": (581, "0576e5e2"),
    "geo_events": (581, "19143973"),
}


@pytest.mark.parametrize(
    ("parameters", "digest"),
    [
        (
            Parameters(parse("2026-01-07T05:00:00Z"), 1, 8_000),
            "25a771d5001dde1541d12cdb79364cc026c2ab4397e560c1a47b70d89b04529c",
        ),
        (
            Parameters(parse("2025-11-27T00:00:00Z"), 2**63 - 1, 4_000, dirt=100),
            "553c73e483b412b8a998d76f1fac0c1bf3c5469c4da6c8110885818a2c084a80",
        ),
        (
            Parameters(parse("2024-02-28T12:00:00Z"), 7, 20),
            "8a52c15e54bad0738747603de1bb85f2815a206dd90b145e21340ef6d51f2e6e",
        ),
    ],
    ids=["a campaign begins", "dirt on a black friday", "hardly anybody"],
)
def test_every_byte_stays_that_of_this_format(parameters: Parameters, digest: str) -> None:
    history = made(parameters, [parameters.t0 + 5 * HOUR + 1, parameters.t0 + DAY, parameters.t0 + 30 * HOUR])

    sha = hashlib.sha256(b"".join(history.topics.values()) + history.state)
    assert sha.hexdigest() == digest


def test_events_lie_in_the_half_open_days_in_ascending_order() -> None:
    whole, first = days(2), days(1)
    start = parse("2024-02-28T12:00:00Z")

    stamps = [record["event_timestamp"] for record in records(whole, BROWSER)]

    assert stamps == sorted(stamps)
    assert all(spell_in_record(start) <= stamp < spell_in_record(Instant(start + 2 * DAY)) for stamp in stamps)
    in_first = sum(stamp < spell_in_record(Instant(start + DAY)) for stamp in stamps)
    assert in_first == len(records(first, BROWSER))


def test_a_leap_day_is_a_day_like_any_other() -> None:
    history = days(3, t0="2024-02-28T00:00:00Z")

    dates = Counter(record["event_timestamp"][:10] for record in records(history, BROWSER))

    assert sorted(dates) == ["2024-02-28", "2024-02-29", "2024-03-01"]


def test_a_day_at_noon_ends_at_noon_and_bears_its_visits_through_midnight() -> None:
    history = days(1)

    stamps = [record["event_timestamp"] for record in records(history, BROWSER)]

    assert min(stamps) >= "2024-02-28 12:00"
    assert max(stamps) < "2024-02-29 12:00"
    assert {stamp[:10] for stamp in stamps} == {"2024-02-28", "2024-02-29"}


def test_every_record_has_its_fields_in_order_and_its_id_for_a_key() -> None:
    history = days(1)

    for topic, fields in FIELDS.items():
        for line in history.topics[topic].splitlines():
            record = json.loads(line)
            assert list(record) == fields.split()
            assert key_of(line).decode() == next(iter(record.values()))
            assert line.isascii()


def test_every_page_view_is_paired_and_every_visit_has_one_device_and_one_place() -> None:
    history = days(3)
    browser = records(history, BROWSER)

    event_ids = [record["event_id"] for record in browser]
    clicks = {record["click_id"] for record in browser}

    assert len(set(event_ids)) == len(event_ids)
    assert [record["event_id"] for record in records(history, LOCATION)] == event_ids
    assert Counter(record["click_id"] for record in records(history, DEVICE)) == Counter(clicks)
    assert Counter(record["click_id"] for record in records(history, GEO)) == Counter(clicks)


def test_a_visit_that_crosses_three_boundaries_keeps_its_facts() -> None:
    parameters = Parameters(parse("2024-02-28T12:00:00Z"), 7, 2000)
    ends = [parameters.t0 + day * DAY for day in range(1, 7)]
    history = made(parameters, ends)
    visits: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = defaultdict(list)
    for view, place in zip(records(history, BROWSER), records(history, LOCATION), strict=True):
        visits[view["click_id"]].append((view, place))

    def boundaries_crossed(visit: list[tuple[dict[str, Any], dict[str, Any]]]) -> int:
        first, last = (parse(view["event_timestamp"] + "Z") for view, _ in (visit[0], visit[-1]))
        return sum(first < end <= last for end in ends)

    travellers = [visit for visit in visits.values() if boundaries_crossed(visit) >= 3]

    assert travellers
    for visit in travellers:
        facts = {
            tuple(view[name] for name in FIELDS[BROWSER].split()[3:])
            + tuple(place[name] for name in FIELDS[LOCATION].split()[3:])
            for view, place in visit
        }
        assert len(facts) == 1


def test_another_seed_makes_another_world() -> None:
    assert not set(days(1).topics[BROWSER].splitlines()) & set(days(1, seed=8).topics[BROWSER].splitlines())


@pytest.mark.parametrize("visits_a_day", [0, -1, 10_000_001])
def test_a_world_of_no_visits_or_too_many_is_refused(visits_a_day: int) -> None:
    with pytest.raises(UsageError, match=r"visits a day: give a number from 1 to 10,000,000"):
        Parameters(Instant(0), 1, visits_a_day)


@pytest.mark.parametrize("dirt", [-1, 1001])
def test_more_dirt_than_there_are_events_is_refused(dirt: int) -> None:
    with pytest.raises(UsageError, match=r"of how many of 1,000 events, from 0 to 1,000"):
        Parameters(Instant(0), 1, 100, dirt)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", 3), ("format", None), ("t_end", "2024-03-01 12:00"), ("t0", None), ("seed", True), ("seed", -1),
        ("visits_a_day", 0), ("visits_born", "400"), ("visits_born", 0), ("events_told", -1), ("next_birth", 0),
        ("random", []), ("random", ["x"] * 625), ("random_steps", [1]), ("came_today", [1]), ("came_today", ["1"] * 18),
        ("busy", [[1]]), ("busy", [[1, "2"]]), ("donor_fields", []), ("open_visits", None), ("open_visits", [[1]]),
    ],
)  # fmt: skip
def test_a_damaged_state_is_refused_loudly(field: str, value: object) -> None:
    document = json.loads(days(2).state)
    document[field] = value

    with pytest.raises(DamagedError, match="state"):
        World.restore(json.dumps(document).encode())


@pytest.mark.parametrize("field", ["t_end", "seed", "random", "open_visits", "next_birth", "visits_born", "busy"])
def test_a_state_that_lacks_a_field_says_which(field: str) -> None:
    document = json.loads(days(2).state)
    del document[field]

    with pytest.raises(DamagedError, match=f"no `{field}`"):
        World.restore(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, 10**9),
        (1, 'x"' * 18),
        (1, "short"),
        (1, None),
        (2, ["x"]),
        (3, []),
        (3, [[0, 1, "pageview", "https://shop.example.com/home"]]),
        (3, [[None, 1, "pageview", "https://shop.example.com/home"]]),
        (3, [[10**17, -1, "pageview", "https://shop.example.com/home"]]),
        (3, [[10**17, 1, "pageview", "https://elsewhere.example.com/home"]]),
        (3, [[10**17, 1, 'page"view', "https://shop.example.com/home"]]),
    ],
)
def test_a_damaged_visit_is_refused_loudly(position: int, value: object) -> None:
    document = json.loads(days(2).state)
    document["open_visits"][0][position] = value

    with pytest.raises(DamagedError, match="state is damaged"):
        World.restore(json.dumps(document).encode())


@pytest.mark.parametrize("text", [b"", b"null", b"[]", b"{", b"\xff", b'{"format": 1}'])
def test_what_is_no_state_at_all_is_refused_loudly(text: bytes) -> None:
    with pytest.raises(DamagedError, match="state"):
        World.restore(text)


def test_a_great_day_is_made_in_bounded_batches() -> None:
    world = World(Parameters(Instant(0), 1, 1_000_000))

    largest = max(sum(lines.count(b"\n") for lines in batch.values()) for batch in world.until(Instant(HOUR // 4)))

    assert largest <= 4000
