"""The model world: visits are born, look at pages and end, in one order that no boundary can change.

A world draws its random numbers in the order in which things happen in model time, and only when they happen. Being
asked to stop at an instant draws nothing, so a history made in one go and one made in portions are the same bytes. Time
is whole microseconds and every sum is of integers: the same on every machine.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from hashlib import blake2b
from heapq import heapify, heappop, heappush, heapreplace
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from clickstream.catalogue import (
    DEVICES,
    FIRST_NAMES,
    LAST_NAMES,
    NEXT_PAGE,
    PAGES_IN_A_VISIT,
    PAUSE_SECONDS,
    PLACES,
    SITE,
    SOURCES,
    VISITS_BY_HOUR,
    Source,
)
from clickstream.errors import DamagedError, UsageError
from clickstream.instant import DAY, MINUTE, SECOND, Instant, parse, spell, spell_minute
from clickstream.topics import BROWSER, DEVICE, EVENT_TOPICS, GEO, LOCATION, Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT = 1
BATCH_PAGE_VIEWS = 1000
"""A batch holds the records of at most this many page views."""

MOST_VISITS_A_DAY = 10_000_000

_MINUTE_WEIGHTS = tuple(
    here * (60 - minute) + there * minute
    for here, there in zip(VISITS_BY_HOUR, VISITS_BY_HOUR[1:] + VISITS_BY_HOUR[:1], strict=True)
    for minute in range(60)
)
_BUSYNESS_BEFORE = tuple(accumulate(_MINUTE_WEIGHTS, initial=0))
_DAY_BUSYNESS = _BUSYNESS_BEFORE[-1] * MINUTE

_PAUSES = tuple(seconds * SECOND for seconds in PAUSE_SECONDS)
_PAGE_FIELDS = {page: f'"page_url":"{SITE}{page}","page_url_path":"{page}",' for page in NEXT_PAGE}


class Donor(NamedTuple):
    """The facts that stay the same for a whole visit."""

    browser_name: str
    browser_user_agent: str
    browser_language: str
    os: str
    os_name: str
    os_timezone: str
    device_type: str
    device_is_mobile: bool
    user_custom_id: str
    user_domain_id: str
    geo_latitude: str
    geo_longitude: str
    geo_country: str
    geo_timezone: str
    geo_region_name: str
    ip_address: str
    referer_url: str
    referer_medium: str
    utm_medium: str
    utm_source: str
    utm_content: str
    utm_campaign: str

    def device_record(self, click_id: str) -> str:
        """Return the one device record of a visit."""
        return (
            f'{{"click_id":"{click_id}","os":"{self.os}","os_name":"{self.os_name}","os_timezone":"{self.os_timezone}",'
            f'"device_type":"{self.device_type}","device_is_mobile":{"true" if self.device_is_mobile else "false"},'
            f'"user_custom_id":"{self.user_custom_id}","user_domain_id":"{self.user_domain_id}"}}'
        )

    def geo_record(self, click_id: str) -> str:
        """Return the one geo record of a visit."""
        return (
            f'{{"click_id":"{click_id}","geo_latitude":"{self.geo_latitude}","geo_longitude":"{self.geo_longitude}",'
            f'"geo_country":"{self.geo_country}","geo_timezone":"{self.geo_timezone}",'
            f'"geo_region_name":"{self.geo_region_name}","ip_address":"{self.ip_address}"}}'
        )

    def browser_fields(self) -> str:
        """Return the end of each of a visit's browser records."""
        return (
            f'"browser_name":"{self.browser_name}","browser_user_agent":"{self.browser_user_agent}",'
            f'"browser_language":"{self.browser_language}"}}'
        )

    def location_fields(self) -> str:
        """Return the end of each of a visit's location records."""
        return (
            f'"referer_url":"{self.referer_url}","referer_medium":"{self.referer_medium}","utm_medium":"{self.utm_medium}",'
            f'"utm_source":"{self.utm_source}","utm_content":"{self.utm_content}","utm_campaign":"{self.utm_campaign}"}}'
        )


class Visit:
    """A visit of so many pages, `pages_seen` of them behind it; it will look at `page` next."""

    __slots__ = ("browser_fields", "donor", "location_fields", "page", "pages", "pages_seen", "prefix")

    def __init__(self, prefix: str, donor: Donor, page: str, pages_seen: int, pages: int) -> None:
        """`prefix` is the visit's click_id but for the last four digits, which number its page views in event_ids."""
        self.prefix = prefix
        self.donor = donor
        self.page = page
        self.pages_seen = pages_seen
        self.pages = pages
        self.browser_fields = f'"event_type":"pageview","click_id":"{prefix}0000",{donor.browser_fields()}'
        self.location_fields = donor.location_fields()


@dataclass(frozen=True, slots=True)
class Parameters:
    """What makes a world the one it is. Visits are born at an even `visits_a_day` over every 24 hours from t0."""

    t0: Instant
    seed: int
    visits_a_day: int

    def __post_init__(self) -> None:
        if not 1 <= self.visits_a_day <= MOST_VISITS_A_DAY:
            raise UsageError(f"{self.visits_a_day} visits a day: give a number from 1 to {MOST_VISITS_A_DAY:,}.")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"The seed {self.seed} is not a number from 0 to 2⁶³ - 1.")

    def birth(self, number: int, jitter: int) -> Instant:
        """Return when visit `number` (from 0) is born, no earlier than the one before; `jitter` is 32 random bits."""
        start, since_midnight = divmod(self.t0, DAY)
        minute, rest = divmod(since_midnight, MINUTE)
        before_t0 = _BUSYNESS_BEFORE[minute] * MINUTE + _MINUTE_WEIGHTS[minute] * rest
        busyness = before_t0 + ((number << 32 | jitter) * _DAY_BUSYNESS) // (self.visits_a_day << 32)
        days, busyness = divmod(busyness, _DAY_BUSYNESS)
        minute = bisect_right(_BUSYNESS_BEFORE, busyness // MINUTE) - 1
        rest = (busyness - _BUSYNESS_BEFORE[minute] * MINUTE) // _MINUTE_WEIGHTS[minute]
        return Instant((start + days) * DAY + minute * MINUTE + rest)


class World:
    """All that generation needs to go on from `now`. Only `until` changes it."""

    def __init__(self, parameters: Parameters) -> None:
        """Return a fresh world, at t0."""
        self.parameters = parameters
        self.now = parameters.t0
        self._random = Random(parameters.seed)  # noqa: S311 - it must be repeatable
        self._born = 0
        self._next_birth = parameters.birth(0, self._random.getrandbits(32))
        self._open: list[tuple[int, int, Visit]] = []  # a heap of (next page view, number of the visit, visit)

    def until(self, end: Instant) -> Iterator[Batch]:
        """Generate what happens in [now, end), in bounded batches; the world is at `end` when all are taken."""
        random_bits, open_visits = self._random.getrandbits, self._open
        batch: dict[str, list[str]] = {topic: [] for topic in EVENT_TOPICS}
        add_browser, add_location = batch[BROWSER].append, batch[LOCATION].append
        minute_end, minute = -1, ""
        room = BATCH_PAGE_VIEWS
        while True:
            at = open_visits[0][0] if open_visits else self._next_birth
            if newborn := at >= self._next_birth:
                at = self._next_birth
            if at >= end:
                break
            if newborn:
                number, visit = self._born, self._bear(batch)
            else:
                _, number, visit = open_visits[0]

            if at >= minute_end:
                minute_end, minute = at - at % MINUTE + MINUTE, spell_minute(Instant(at))
            rest = at - minute_end + MINUTE
            visit.pages_seen = seen = visit.pages_seen + 1
            head = f'{{"event_id":"{visit.prefix}{seen:04x}",'
            page = visit.page
            add_browser(
                f'{head}"event_timestamp":"{minute}{rest // SECOND:02d}.{rest % SECOND:06d}",{visit.browser_fields}'
            )
            add_location(f"{head}{_PAGE_FIELDS[page]}{visit.location_fields}")

            if seen < visit.pages:
                bits = random_bits(48)
                visit.page = NEXT_PAGE[page][bits & 63]
                pause = _PAUSES[bits >> 6 & 1023]
                later = (at + pause + (pause * (bits >> 16) >> 32), number, visit)
                if newborn:
                    heappush(open_visits, later)
                else:
                    heapreplace(open_visits, later)
            elif not newborn:
                heappop(open_visits)

            room -= 1
            if not room:
                yield _taken(batch)
                room = BATCH_PAGE_VIEWS
        self.now = end
        yield _taken(batch)

    def _bear(self, batch: dict[str, list[str]]) -> Visit:
        """Return the visit that is due; its device and geo records go into the batch."""
        bits = self._random.getrandbits(176)
        digits = f"{bits >> 64:028x}"
        prefix = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-{digits[18:26]}"
        source = SOURCES[bits & 255]
        donor = self._donor(bits >> 16 & 0xFFFFFFFF, source)
        click_id = f"{prefix}0000"
        batch[DEVICE].append(donor.device_record(click_id))
        batch[GEO].append(donor.geo_record(click_id))
        self._born += 1
        self._next_birth = self.parameters.birth(self._born, self._random.getrandbits(32))
        return Visit(prefix, donor, source.landing, 0, PAGES_IN_A_VISIT[bits >> 8 & 255])

    def _donor(self, chance: int, source: Source) -> Donor:
        """Return a visitor, who always has the same facts, led here by `source`; `chance` is 32 random bits.

        There are four visitors for each visit a day, and some come far more often than others.
        """
        visitor = (chance * chance >> 32) * 4 * self.parameters.visits_a_day >> 32
        facts = blake2b(b"%d/%d" % (self.parameters.seed, visitor), digest_size=28).digest()
        digits = facts[12:].hex()
        place, device = PLACES[facts[0]], DEVICES[facts[1]]
        return Donor(
            device.browser,
            device.user_agent,
            place.language,
            device.os,
            device.os_name,
            place.zone,
            device.device_type,
            device.is_mobile,
            f"{FIRST_NAMES[facts[2] & 15]}.{LAST_NAMES[facts[3] & 15]}.{visitor}@example.com",
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}",
            _degrees(place.latitude + (facts[4] << 6 | facts[5] >> 2) - 8192),
            _degrees(place.longitude + (facts[6] << 6 | facts[7] >> 2) - 8192),
            place.country,
            place.zone,
            place.region,
            f"{place.network}.{facts[8]}.{facts[9]}",
            *source[:6],
        )

    def state(self) -> bytes:
        """Return this world as one canonical line of JSON; `restore` makes the same world of it."""
        document = {
            "format": FORMAT,
            "t_end": spell(self.now),
            "t0": spell(self.parameters.t0),
            "seed": self.parameters.seed,
            "visits_a_day": self.parameters.visits_a_day,
            "visits_born": self._born,
            "next_birth": self._next_birth,
            "random": self._random.getstate()[1],
            "donor_fields": Donor._fields,
            "open_visits": [
                [
                    number,
                    at,
                    visit.prefix,
                    visit.page,
                    visit.pages_seen,
                    visit.pages,
                    visit.donor,
                ]
                for at, number, visit in sorted(self._open, key=lambda entry: entry[:2])
            ],
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def restore(cls, state: bytes) -> World:
        """Return the world that `state` describes.

        Raises: DamagedError with what is wrong. Nothing is guessed.
        """
        try:
            document = json.loads(state)
        except ValueError as error:
            raise DamagedError(f"The state is not JSON: {error}.") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            found = document.get("format") if isinstance(document, dict) else None
            raise DamagedError(f"The state has format {found!r}; this version reads format {FORMAT}.")
        try:
            return cls._of(document)
        except KeyError as error:
            raise DamagedError(f"The state has no `{error.args[0]}`.") from None
        except (AttributeError, TypeError, ValueError, UsageError) as error:
            raise DamagedError(f"The state is damaged: {error}") from None

    @classmethod
    def _of(cls, document: dict[str, Any]) -> World:
        parameters = Parameters(parse(document["t0"]), _whole(document, "seed"), _whole(document, "visits_a_day"))
        world = cls(parameters)
        world.now = parse(document["t_end"])
        world._born = _whole(document, "visits_born")
        world._next_birth = Instant(_whole(document, "next_birth"))
        world._random.setstate((3, tuple(document["random"]), None))
        if document["donor_fields"] != list(Donor._fields):
            raise ValueError(f"its donors have the fields {document['donor_fields']}.")
        world._open = [_open_visit(*entry, now=world.now, born=world._born) for entry in document["open_visits"]]
        heapify(world._open)
        if not parameters.t0 <= world.now <= world._next_birth:
            raise ValueError("its instants contradict each other.")
        if len({number for _, number, _ in world._open}) != len(world._open):
            raise ValueError("it holds a visit twice.")
        return world


def _taken(batch: dict[str, list[str]]) -> Batch:
    """Return what the lists hold, as lines; the lists are empty again."""
    lines = {topic: "\n".join([*records, ""]).encode() for topic, records in batch.items()}
    for records in batch.values():
        records.clear()
    return lines


def _degrees(hundred_thousandths: int) -> str:
    whole, rest = divmod(abs(hundred_thousandths), 100_000)
    return f"{'-' if hundred_thousandths < 0 else ''}{whole}.{rest:05d}"


def _whole(document: dict[str, Any], field: str) -> int:
    value = document[field]
    if type(value) is not int or value < 0:
        raise ValueError(f"`{field}` is {value!r}, not a whole number.")
    return value


def _open_visit(
    number: object,
    at: object,
    prefix: str,
    page: str,
    seen: object,
    pages: object,
    facts: list[object],
    *,
    now: int,
    born: int,
) -> tuple[int, int, Visit]:
    donor = Donor(*facts)  # type: ignore[arg-type]  # they are checked here
    texts = [fact for fact in (*donor, prefix) if fact is not donor.device_is_mobile]
    if type(donor.device_is_mobile) is not bool or any(json.dumps(text) != f'"{text}"' for text in texts):
        raise ValueError(f"a fact of visit {number} can't be one.")
    if not (
        type(number) is int and type(seen) is int and type(pages) is int and 0 <= number < born and 0 < seen < pages
    ):
        raise ValueError(f"the counters of visit {number} can't be.")
    if page not in NEXT_PAGE or len(prefix) != 32:
        raise ValueError(f"the page or the id of visit {number} can't be.")
    if type(at) is not int or at < now:
        raise ValueError(f"visit {number} is overdue.")
    return at, number, Visit(prefix, donor, page, seen, pages)
