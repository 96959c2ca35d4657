"""What docs/clickstream.md says there is to find, each claim as the records have it. The seeds are fixed."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from itertools import pairwise
from statistics import fmean, median, pvariance
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from clickstream.almanac import Almanac
from clickstream.instant import DAY, HOUR, MINUTE, SECOND, Instant, parse
from clickstream.people import REGULAR_RANKS
from clickstream.topics import BROWSER, DEVICE, EVENT_TOPICS, GEO, LOCATION
from clickstream.world import REST, Parameters, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SEED = 1
T0, DAYS = "2025-10-15T00:00:00Z", 120
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass
class Seen:
    """A visit as its records tell it: its facts, and its events as (when, kind, path, address)."""

    facts: dict[str, Any]
    events: list[tuple[int, str, str, str]]

    @property
    def born(self) -> int:
        return self.events[0][0]

    @cached_property
    def views(self) -> int:
        return sum(kind == "pageview" for _, kind, _, _ in self.events)

    @cached_property
    def bought(self) -> bool:
        return any(kind == "purchase" for _, kind, _, _ in self.events)

    @cached_property
    def local(self) -> datetime:
        return (EPOCH + timedelta(microseconds=self.born)).astimezone(ZoneInfo(self.facts["geo_timezone"]))

    @property
    def is_bot(self) -> bool:
        return bool(self.facts["geo_region_name"] == "Virginia")

    @property
    def person(self) -> str:
        return str(self.facts["user_custom_id"])


def records(parameters: Parameters, days: int) -> dict[str, list[dict[str, Any]]]:
    told: dict[str, list[dict[str, Any]]] = {topic: [] for topic in EVENT_TOPICS}
    for batch in World(parameters).until(Instant(parameters.t0 + days * DAY)):
        for topic, lines in batch.items():
            told[topic] += map(json.loads, lines.splitlines())
    return told


def visits_of(told: dict[str, list[dict[str, Any]]]) -> list[Seen]:
    visits = {
        device["click_id"]: Seen({**device, **geo}, []) for device, geo in zip(told[DEVICE], told[GEO], strict=True)
    }
    for browser, location in zip(told[BROWSER], told[LOCATION], strict=True):
        visit = visits[browser["click_id"]]
        visit.facts |= {**browser, **location}
        at = parse(browser["event_timestamp"] + "Z")
        visit.events.append((at, browser["event_type"], location["page_url_path"], location["page_url"]))
    return list(visits.values())


@pytest.fixture(scope="module")
def told() -> dict[str, list[dict[str, Any]]]:
    return records(Parameters(parse(T0), SEED, 800), DAYS)


@pytest.fixture(scope="module")
def visits(told: dict[str, list[dict[str, Any]]]) -> list[Seen]:
    return visits_of(told)


@pytest.fixture(scope="module")
def people(visits: list[Seen]) -> list[Seen]:
    return [visit for visit in visits if not visit.is_bot]


@pytest.fixture(scope="module")
def years() -> Counter[str]:
    """The births of four years, by month."""
    return Counter(
        browser["event_timestamp"][:7]
        for browser in first_events(records(Parameters(parse("2023-01-01T00:00:00Z"), SEED, 40), 4 * 365)[BROWSER])
    )


def first_events(browser: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    firsts: dict[str, dict[str, Any]] = {}
    for record in browser:
        firsts.setdefault(record["click_id"], record)
    return list(firsts.values())


def by_day(visits: Iterable[Seen]) -> Counter[str]:
    """Visits by the local date of their places."""
    return Counter(visit.local.date().isoformat() for visit in visits)


def share(of: Iterable[Seen], what: Callable[[Seen], bool]) -> float:
    found = list(of)
    assert len(found) > 200
    return sum(map(what, found)) / len(found)


# ── when ──


def test_weekends_are_quieter_and_no_two_days_are_alike(people: list[Seen]) -> None:
    days = {day: count for day, count in by_day(people).items() if "2025-10-16" <= day <= "2025-11-26"}
    weekdays = defaultdict(list)
    for day, count in days.items():
        weekdays[datetime.fromisoformat(day).weekday()].append(count)

    means = {weekday: fmean(counts) for weekday, counts in weekdays.items()}

    assert means[5] < 0.85 * means[1]
    assert means[6] < 0.95 * means[1]
    assert fmean(pvariance(counts) / fmean(counts) for counts in weekdays.values()) > 1.3


def test_visits_arrive_by_chance(visits: list[Seen]) -> None:
    minutes = Counter(visit.born // (3 * MINUTE) for visit in visits)
    quarters = range(parse(T0) // (15 * MINUTE), parse(T0) // (15 * MINUTE) + DAYS * 96)

    counts = [[minutes[quarter * 5 + part] for part in range(5)] for quarter in quarters]
    spread = sum(pvariance(five) * 5 / 4 for five in counts) / sum(fmean(five) for five in counts)

    assert 0.97 < spread < 1.03


def test_each_country_has_its_own_evening_and_night(people: list[Seen]) -> None:
    hours: dict[str, Counter[int]] = defaultdict(Counter)
    for visit in people:
        if visit.local.weekday() < 5:
            hours[visit.facts["geo_country"]][visit.local.hour] += 1

    for country, counts in hours.items():
        evening = sum(counts[hour] for hour in range(18, 23))
        night = sum(counts[hour] for hour in range(1, 6))
        assert evening > 8 * night, country
    assert max(range(24), key=lambda hour: hours["ES"][hour]) >= max(range(24), key=lambda hour: hours["US"][hour])


def test_the_year_has_its_seasons_and_the_shop_grows(years: Counter[str]) -> None:
    for year in (2023, 2024, 2025, 2026):
        assert years[f"{year}-12"] > 1.2 * years[f"{year}-08"]
    assert years["2025-03"] > 1.12 * years["2023-03"]
    assert years["2026-03"] > years["2024-03"]


def test_a_campaign_brings_visits_that_bear_its_name(people: list[Seen]) -> None:
    days = by_day(people)
    tagged = [visit for visit in people if visit.facts["utm_campaign"] == "black_friday_2025"]

    assert days["2025-11-28"] > 1.5 * days["2025-11-21"]
    assert {visit.local.date().isoformat() for visit in tagged} == {
        "2025-11-28", "2025-11-29", "2025-11-30", "2025-12-01",
    }  # fmt: skip
    assert 0.35 < len(tagged) / sum(days[f"2025-{day}"] for day in ("11-28", "11-29", "11-30", "12-01")) < 0.6
    assert {visit.facts["utm_campaign"] for visit in people} > {"gifts_2025", "winter_sale_2026", "brand", "weekly"}


def test_a_holiday_is_quiet_where_it_is_one(people: list[Seen]) -> None:
    def christmas(countries: set[str]) -> float:
        days = by_day(visit for visit in people if visit.facts["geo_country"] in countries)
        return days["2025-12-25"] / fmean(days[f"2025-12-{day}"] for day in (18, 22, 23, 29, 30))

    assert christmas({"US", "GB", "DE", "FR"}) < 0.75
    assert christmas({"JP", "KR", "IN"}) > 0.75


def test_an_outage_leaves_a_gap_in_every_four_weeks(told: dict[str, list[dict[str, Any]]]) -> None:
    stamps = [parse(record["event_timestamp"] + "Z") for record in told[BROWSER]]
    almanac, end = Almanac(SEED, parse(T0)), parse(T0) + DAYS * DAY

    gaps = [(before, after) for before, after in pairwise(stamps) if after - before > 25 * MINUTE]

    assert len(gaps) in (4, 5)
    for before, after in gaps:
        begin, over = almanac.outage(Instant((before + after) // 2))
        assert before < begin < over <= after < end
        assert 30 * MINUTE <= over - begin <= 3 * HOUR


# ── who ──


@pytest.fixture(scope="module")
def lives(people: list[Seen]) -> dict[str, list[Seen]]:
    """Each person's visits, in order."""
    lives: dict[str, list[Seen]] = defaultdict(list)
    for visit in people:
        lives[visit.person].append(visit)
    return lives


def test_new_persons_come_all_the_time(lives: dict[str, list[Seen]]) -> None:
    last_month = parse(T0) + (DAYS - 30) * DAY
    recent = [visits for visits in lives.values() if visits[-1].born >= last_month]

    new = sum(visits[0].born >= last_month for visits in recent) / len(recent)

    assert 0.5 < new < 0.95


def test_few_come_again_and_fewer_each_week(lives: dict[str, list[Seen]]) -> None:
    cohort = [life for life in lives.values() if 30 * DAY <= life[0].born - parse(T0) < 60 * DAY]

    def back(first: int, last: int) -> float:
        """The share that comes on a day, on the average of the days first to last after their first."""
        days = sum(
            len({(visit.born // DAY) - (life[0].born // DAY) for visit in life} & set(range(first, last + 1)))
            for life in cohort
        )
        return days / len(cohort) / (last - first + 1)

    assert len(cohort) > 5000
    assert 0.04 < back(1, 1) < 0.15
    assert back(1, 2) > 1.5 * back(7, 9) > 1.5 * back(25, 34) > 0


def test_some_come_often_most_only_once_and_all_stop(lives: dict[str, list[Seen]]) -> None:
    visits = sorted((len(life) for life in lives.values()), reverse=True)
    tenth = len(visits) // 10

    assert sum(count == 1 for count in visits) > 0.6 * len(visits)
    assert sum(visits[:tenth]) > 0.3 * sum(visits)
    assert max(max(by_day(life).values()) for life in lives.values()) <= 8
    early = [life for life in lives.values() if life[0].born < parse(T0) + 30 * DAY]
    assert sum(life[-1].born > parse(T0) + (DAYS - 30) * DAY for life in early) < 0.2 * len(early)


def test_some_have_two_devices_and_each_device_its_cookie(lives: dict[str, list[Seen]]) -> None:
    regulars = [life for life in lives.values() if len(life) >= 8]
    kinds: dict[str, set[str]] = defaultdict(set)
    for life in lives.values():
        for visit in life:
            kinds[visit.facts["user_domain_id"]].add(visit.facts["device_type"])

    two = sum(len({visit.facts["user_domain_id"] for visit in life}) == 2 for life in regulars) / len(regulars)

    assert 0.2 < two < 0.5
    assert all(len({visit.facts["user_domain_id"] for visit in life}) <= 2 for life in lives.values())
    assert all(len(types) == 1 for types in kinds.values())


def test_nobody_is_in_two_places_at_once(lives: dict[str, list[Seen]]) -> None:
    for life in lives.values():
        assert len({(visit.facts["geo_latitude"], visit.facts["geo_longitude"]) for visit in life}) == 1
        assert all(before.events[-1][0] + REST <= after.born for before, after in pairwise(life))


def test_everybody_sleeps(lives: dict[str, list[Seen]]) -> None:
    regulars = [life for life in lives.values() if len(life) >= 12]

    assert len(regulars) > 100
    for life in regulars:
        quarters = sorted({visit.local.hour * 4 + visit.local.minute // 15 for visit in life})
        asleep = max(after - before - 1 for before, after in pairwise([*quarters, quarters[0] + 96]))
        assert asleep >= 31, life[0].person


def test_those_who_come_often_are_few() -> None:
    assert 0.05 < REGULAR_RANKS / 65536 < 0.1


def test_bots_are_known_by_what_bots_do(visits: list[Seen], people: list[Seen]) -> None:
    bots = [visit for visit in visits if visit.is_bot]
    hours = Counter(visit.born // HOUR % 24 for visit in bots)
    honest = [visit for visit in bots if "ot/" in visit.facts["browser_user_agent"]]
    pauses = [after[0] - before[0] for visit in bots for before, after in pairwise(visit.events)]

    assert 0.005 < len(bots) / len(visits) < 0.02
    assert 0.65 < len(honest) / len(bots) < 0.85
    assert max(hours.values()) < 2 * min(hours.values())
    assert median(visit.views for visit in bots) > 2 * median(visit.views for visit in people)
    assert max(pauses) < 3 * SECOND
    assert {visit.person for visit in bots} == {""}
    assert len({visit.facts["user_domain_id"] for visit in bots}) == len(bots)
    assert len({visit.facts["ip_address"] for visit in bots}) == 4
    assert not any(visit.bought for visit in bots)


# ── what ──


def from_medium(people: list[Seen], medium: str) -> list[Seen]:
    return [visit for visit in people if visit.facts["referer_medium"] == medium]


def test_bounces_depend_on_where_visitors_come_from(people: list[Seen]) -> None:
    bounces = {
        medium: share(from_medium(people, medium), lambda visit: visit.views == 1)
        for medium in ("social", "search", "direct", "email")
    }

    assert bounces["social"] > bounces["search"] + 0.05
    assert bounces["search"] > bounces["direct"] + 0.05
    assert bounces["direct"] > bounces["email"] + 0.05
    assert 0.3 < share(people, lambda visit: visit.views == 1) < 0.5


def test_purchases_depend_on_source_and_device(people: list[Seen]) -> None:
    bought = {
        medium: share(from_medium(people, medium), lambda visit: visit.bought)
        for medium in ("social", "search", "direct", "email")
    }
    computers = [visit for visit in people if visit.facts["device_type"] == "Computer"]
    phones = [visit for visit in people if visit.facts["device_is_mobile"]]

    assert bought["email"] > 1.5 * bought["direct"] > 1.5 * bought["search"] > 1.5 * bought["social"] > 0
    assert share(computers, lambda visit: visit.bought) > 1.3 * share(phones, lambda visit: visit.bought)
    assert 0.01 < share(people, lambda visit: visit.bought) < 0.05


def test_hand_held_visits_are_shorter_in_pages_and_in_time(people: list[Seen]) -> None:
    def pause(mobile: bool) -> float:
        return median(
            after[0] - before[0]
            for visit in people
            if visit.facts["device_is_mobile"] is mobile
            for before, after in pairwise(visit.events)
            if before[1:3] == ("pageview", "/sale")
        )

    def views(mobile: bool) -> float:
        return fmean(visit.views for visit in people if visit.facts["device_is_mobile"] is mobile)

    assert pause(True) < 0.8 * pause(False)
    assert views(True) < 0.9 * views(False)


def test_who_read_the_guide_fills_the_cart_more_readily(people: list[Seen]) -> None:
    added: Counter[bool] = Counter()
    looked: Counter[bool] = Counter()
    for visit in from_medium(people, "search"):
        informed = False
        for (_, kind, path, _), after in pairwise([*visit.events, (0, "", "", "")]):
            informed = informed or path in ("/blog/how-to-choose", "/delivery")
            if kind == "pageview" and path.startswith("/product/"):
                looked[informed] += 1
                added[informed] += after[1] == "add_to_cart"

    assert min(looked.values()) > 1000
    assert added[True] / looked[True] > 1.4 * added[False] / looked[False]


def test_there_is_more_to_do_than_to_look(people: list[Seen]) -> None:
    kinds = Counter(kind for visit in people for _, kind, _, _ in visit.events)

    assert set(kinds) == {
        "pageview", "search", "add_to_cart", "remove_from_cart", "purchase", "sign_up", "video_play",
    }  # fmt: skip
    assert kinds["pageview"] > 0.85 * sum(kinds.values())
    for visit in people:
        for before, after in pairwise(visit.events):
            if after[1] == "purchase":
                assert before[1:3] == ("pageview", "/thank-you")
            if after[1] == "add_to_cart":
                assert before[2] == after[2]


def test_the_first_address_tells_the_campaign(people: list[Seen]) -> None:
    for visit in people:
        addresses = [address for _, _, _, address in visit.events]
        campaign = visit.facts["utm_campaign"]
        assert (f"utm_campaign={campaign}" in addresses[0]) == bool(campaign)
        assert all("?" not in address for address in addresses[1:])
        assert all("?" not in path and address.startswith("https://shop") for _, _, path, address in visit.events)


def test_ids_say_nothing(told: dict[str, list[dict[str, Any]]]) -> None:
    ids = [record["event_id"] for record in told[BROWSER][:50_000]] + [
        record["click_id"] for record in told[DEVICE][:50_000]
    ]
    digits = Counter("".join(uuid[:13] + uuid[20:] for uuid in ids).replace("-", ""))

    assert all(UUID(uuid).version == 4 for uuid in ids[::50])
    assert len({uuid[:13] for uuid in ids}) == len(ids)
    assert max(digits.values()) < 1.02 * min(digits.values())
    people = {device["user_custom_id"] for device in told[DEVICE]}
    assert all(re.fullmatch(r"[a-z]+\.[a-z]+\.[0-9a-f]{12}@example\.com", person) for person in people - {""})


@pytest.mark.parametrize(
    ("t0", "chrome", "safari"),
    [("2019-06-15", {72, 73, 74, 75, 76}, "Version/12."), ("2024-07-01", {124, 125, 126}, "Version/17."),
     ("2026-02-01", {143, 144, 145}, "Version/26.")],
)  # fmt: skip
def test_browsers_are_those_of_the_year(t0: str, chrome: set[int], safari: str) -> None:
    agents = {
        record["browser_user_agent"]
        for record in records(Parameters(parse(f"{t0}T00:00Z"), SEED, 2000), 1)[BROWSER]
        if record["browser_language"] != "en_US"
    }

    versions = {int(found[1]) for agent in agents if (found := re.search(r"Chrome/(\d+)", agent))}
    assert versions <= chrome
    assert len(versions) == 2
    assert any(safari in agent for agent in agents)


# ── dirt ──


def test_dirt_spoils_about_the_share_that_was_asked_for_and_keeps_the_ids() -> None:
    parameters = Parameters(parse("2026-01-01T00:00:00Z"), SEED, 2000, dirt=100)
    clean = records(Parameters(parameters.t0, SEED, 2000), 2)
    lines: dict[str, list[bytes]] = {topic: [] for topic in EVENT_TOPICS}
    for batch in World(parameters).until(Instant(parameters.t0 + 2 * DAY)):
        for topic, text in batch.items():
            lines[topic] += text.splitlines()

    stamps = [found[1].decode() for line in lines[BROWSER] if (found := re.search(rb'stamp":"([-0-9: .]{26})"', line))]
    broken = {topic: sum(not sound(line, clean[topic][0]) for line in lines[topic]) for topic in EVENT_TOPICS}
    repeated = sum(before == after for before, after in pairwise(lines[BROWSER]))
    late = sum(before > after for before, after in pairwise(stamps))

    assert {line[13:49] for line in lines[DEVICE]} == {record["click_id"].encode() for record in clean[DEVICE]}
    assert 0.01 < broken[BROWSER] / len(lines[BROWSER]) < 0.02
    assert 0.01 < broken[LOCATION] / len(lines[LOCATION]) < 0.02
    assert 0.015 < broken[DEVICE] / len(lines[DEVICE]) < 0.035
    assert 0.015 < broken[GEO] / len(lines[GEO]) < 0.035
    assert 0.01 < repeated / len(lines[BROWSER]) < 0.03
    assert late / len(lines[BROWSER]) > 0.01
    assert {"1970", "2025"} <= {stamp[:4] for stamp in stamps}


def sound(line: bytes, like: dict[str, Any]) -> bool:
    """Whether a record has the fields that it should, of their types, and is JSON."""
    try:
        record = json.loads(line)
    except ValueError:
        return False
    same = record.keys() == like.keys() and all(type(record[field]) is type(like[field]) for field in like)
    return same and not re.search(rb'":"(on |click-|N\d|N-|9999)', line)
