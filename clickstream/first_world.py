"""The world of the first release, format 1 of a state: only histories that it began are gone on with by it.

A world draws its random numbers in the order in which things happen in model time, and only when they happen. Being
asked to stop at an instant draws nothing, so a history made in one go and one made in portions are the same bytes. Time
is whole microseconds and every sum is of integers: the same on every machine.

What is drawn is told as records some hundred page views later, as going through many of a kind at once is a lot faster.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from hashlib import blake2b
from heapq import heapify, heappop, heappush, heapreplace
from itertools import accumulate
from random import Random
from struct import Struct
from typing import TYPE_CHECKING, Any

from clickstream.first_catalogue import (
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
    Device,
    Place,
    Source,
)
from clickstream.instant import DAY, MINUTE, SECOND, Instant, parse, spell, spell_minute
from clickstream.topics import BROWSER, DEVICE, EVENT_TOPICS, GEO, LOCATION, Batch
from clickstream.world import FIRST_FORMAT, PLAIN, Donor, Parameters, World, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH_PAGE_VIEWS = 500
"""A batch holds the records of at most this many page views."""

_MINUTE_WEIGHTS = tuple(
    here * (60 - minute) + there * minute
    for here, there in zip(VISITS_BY_HOUR, VISITS_BY_HOUR[1:] + VISITS_BY_HOUR[:1], strict=True)
    for minute in range(60)
)
_BUSYNESS_BEFORE = tuple(accumulate((weight * MINUTE for weight in _MINUTE_WEIGHTS), initial=0))
_DAY_BUSYNESS = _BUSYNESS_BEFORE[-1]

_PAUSES = tuple(seconds * SECOND for seconds in PAUSE_SECONDS)
_MOST_PAGES = max(PAGES_IN_A_VISIT)
_PAGE_FIELDS = {page: f'"page_url":"{SITE}{page}","page_url_path":"{page}",' for page in NEXT_PAGE}
_SECONDS = tuple(f"{second:02d}." for second in range(60))
_FACTS = Struct(">BBBBHHBBxx16s")  # of a visitor: place, device, two names, latitude, longitude, address, domain id
_ID_ENDS = tuple(f"{number:04x}" for number in range(_MOST_PAGES + 1))


class Visit:
    """A visit of so many pages; what its records say is there once its birth is told."""

    __slots__ = ("bits", "browser_fields", "donor", "language_field", "location_fields", "pages", "prefix")

    bits: int
    """The 176 random ones that make it what it is."""
    pages: int
    prefix: str
    """Its click_id but for the last four digits, which number its page views in event_ids."""
    browser_fields: str
    language_field: str
    location_fields: str
    donor: Donor | None
    """Where a state said it; otherwise it follows from the bits."""

    def __init__(self, bits: int, pages: int, donor: Donor | None = None) -> None:
        self.bits = bits
        self.pages = pages
        self.donor = donor


PageView = tuple[int, int, int, str, Visit]
"""When, the number of its visit, which of the visit's page views it is (from 1), the page, the visit. At one instant,
visits take turns by their numbers."""


def births_of(parameters: Parameters) -> Callable[[int, int], Instant]:
    """Return what tells when visit `number` (from 0) is born, no earlier than the one before.

    Visits are born at an even `visits_a_day` over every 24 hours from t0. The second argument, the jitter, is 32 random
    bits.
    """
    midnight = parameters.t0 - parameters.t0 % DAY
    minute, rest = divmod(parameters.t0 - midnight, MINUTE)
    before_t0 = _BUSYNESS_BEFORE[minute] + _MINUTE_WEIGHTS[minute] * rest
    visits_a_day = parameters.visits_a_day

    def birth(number: int, jitter: int) -> Instant:
        since_t0 = (number * _DAY_BUSYNESS + (jitter * _DAY_BUSYNESS >> 32)) // visits_a_day
        days, busyness = divmod(before_t0 + since_t0, _DAY_BUSYNESS)
        minute = bisect_right(_BUSYNESS_BEFORE, busyness) - 1
        rest = (busyness - _BUSYNESS_BEFORE[minute]) // _MINUTE_WEIGHTS[minute]
        return Instant(midnight + days * DAY + minute * MINUTE + rest)

    return birth


class FirstWorld(World):
    """A world of format 1. It shares a `World`'s surface, and nothing else with it."""

    def __init__(self, parameters: Parameters) -> None:
        """Return a fresh world, at t0."""
        self.parameters = parameters
        self.now = parameters.t0
        self._random = Random(parameters.seed)  # noqa: S311 - it must be repeatable
        self._born = 0
        self._born_at = births_of(parameters)
        self._next_birth = self._born_at(0, self._random.getrandbits(32))
        self._open: list[PageView] = []  # a heap: the next page view of each open visit
        self._visitors = 4 * parameters.visits_a_day
        self._visitors_hash = blake2b(b"%d/" % parameters.seed, digest_size=28)

    def until(self, end: Instant) -> Iterator[Batch]:
        """Generate what happens in [now, end), in bounded batches; the world is at `end` when all are taken."""
        for births, page_views in self._happenings(end):
            batch: dict[str, list[str]] = {topic: [] for topic in EVENT_TOPICS}
            self._tell_births(births, batch)
            _tell_page_views(page_views, batch)
            yield {topic: "\n".join([*records, ""]).encode() for topic, records in batch.items()}

    def _happenings(self, end: Instant) -> Iterator[tuple[list[Visit], list[PageView]]]:
        """Draw what happens in [now, end), in bounded portions."""
        random_bits, to_come = self._random.getrandbits, self._open
        births: list[Visit] = []
        page_views: list[PageView] = []
        while True:
            newborn = not to_come or to_come[0][0] >= self._next_birth
            if (self._next_birth if newborn else to_come[0][0]) >= end:
                break
            if newborn:
                bits = random_bits(176)
                visit = Visit(bits, PAGES_IN_A_VISIT[bits >> 8 & 255])
                births.append(visit)
                page_view: PageView = (self._next_birth, self._born, 1, SOURCES[bits & 255].landing, visit)
                self._born += 1
                self._next_birth = self._born_at(self._born, random_bits(32))
            else:
                page_view = to_come[0]
            page_views.append(page_view)

            at, number, seen, page, visit = page_view
            if seen < visit.pages:
                bits = random_bits(48)
                pause = _PAUSES[bits >> 6 & 1023]
                at += pause + (pause * (bits >> 16) >> 32)
                later = at, number, seen + 1, NEXT_PAGE[page][bits & 63], visit
                if newborn:
                    heappush(to_come, later)
                else:
                    heapreplace(to_come, later)
            elif not newborn:
                heappop(to_come)

            if len(page_views) == BATCH_PAGE_VIEWS:
                yield births, page_views
                births, page_views = [], []
        self.now = end
        yield births, page_views

    def _tell_births(self, births: list[Visit], batch: dict[str, list[str]]) -> None:
        """Add the device and the geo record of each visit to the batch."""
        add_device, add_geo = batch[DEVICE].append, batch[GEO].append
        for visit in births:
            bits = visit.bits
            digits = bits.to_bytes(22, "big").hex()
            visit.prefix = prefix = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-{digits[18:26]}"
            place, device, custom_id, domain_id, latitude, longitude, ip_address = self._visitor(bits)
            add_device(
                f'{{"click_id":"{prefix}0000",{device.os_fields}"os_timezone":"{place.zone}",{device.type_fields}'
                f'"user_custom_id":"{custom_id}","user_domain_id":"{domain_id}"}}'
            )
            add_geo(
                f'{{"click_id":"{prefix}0000","geo_latitude":"{latitude}","geo_longitude":"{longitude}",'
                f'{place.geo_fields}"ip_address":"{ip_address}"}}'
            )
            visit.browser_fields = device.browser_fields
            visit.language_field = place.language_field
            visit.location_fields = SOURCES[bits & 255].location_fields

    def _visitor(self, bits: int) -> tuple[Place, Device, str, str, str, str, str]:
        """Return who makes the visit of these bits: place, device, custom id, domain id, latitude, longitude, address.

        A visitor always has the same facts. There are four visitors for each visit a day, and some come far more often
        than others.
        """
        chance = bits >> 16 & 0xFFFFFFFF
        number = (chance * chance >> 32) * self._visitors >> 32
        hashed = self._visitors_hash.copy()
        hashed.update(b"%d" % number)
        where, what, first, last, north, east, network, host, domain = _FACTS.unpack(hashed.digest())
        digits = domain.hex()
        place = PLACES[where]
        return (
            place,
            DEVICES[what],
            f"{FIRST_NAMES[first & 15]}.{LAST_NAMES[last & 15]}.{number}@example.com",
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}",
            f"{(place.latitude + (north >> 2) - 8192) / 100_000:.5f}",
            f"{(place.longitude + (east >> 2) - 8192) / 100_000:.5f}",
            f"{place.network}.{network}.{host}",
        )

    def _donor(self, visit: Visit) -> Donor:
        """Return the facts of a visit, for a state."""
        if visit.donor:
            return visit.donor
        place, device, custom_id, domain_id, latitude, longitude, ip_address = self._visitor(visit.bits)
        source = SOURCES[visit.bits & 255]
        return Donor(
            device.browser,
            device.user_agent,
            place.language,
            device.os,
            device.os_name,
            place.zone,
            device.device_type,
            device.is_mobile,
            custom_id,
            domain_id,
            latitude,
            longitude,
            place.country,
            place.zone,
            place.region,
            ip_address,
            source.referer_url,
            source.referer_medium,
            source.utm_medium,
            source.utm_source,
            source.utm_content,
            source.utm_campaign,
        )

    def state(self) -> bytes:
        """Return this world as one canonical line of JSON; `restore` makes the same world of it."""
        document = {
            "format": FIRST_FORMAT,
            "t_end": spell(self.now),
            "t0": spell(self.parameters.t0),
            "seed": self.parameters.seed,
            "visits_a_day": self.parameters.visits_a_day,
            "visits_born": self._born,
            "next_birth": self._next_birth,
            "random": self._random.getstate()[1],
            "donor_fields": Donor._fields,
            "open_visits": [
                [number, at, visit.prefix, page, view - 1, visit.pages, self._donor(visit)]
                for at, number, view, page, visit in sorted(self._open)
            ],
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def of(cls, document: dict[str, Any]) -> FirstWorld:
        """Return the world of a state's JSON; see World."""
        parameters = Parameters(parse(document["t0"]), whole(document, "seed"), whole(document, "visits_a_day"))
        world = cls(parameters)
        world.now = parse(document["t_end"])
        world._born = whole(document, "visits_born")
        world._next_birth = Instant(whole(document, "next_birth"))
        world._random.setstate((3, tuple(document["random"]), None))
        if document["donor_fields"] != list(Donor._fields):
            raise ValueError(f"its donors have the fields {document['donor_fields']}.")
        world._open = [_page_view(*entry, now=world.now, born=world._born) for entry in document["open_visits"]]
        heapify(world._open)
        if not parameters.t0 <= world.now <= world._next_birth:
            raise ValueError("its instants contradict each other.")
        if len({number for _, number, *_ in world._open}) != len(world._open):
            raise ValueError("it holds a visit twice.")
        return world


def _tell_page_views(page_views: list[PageView], batch: dict[str, list[str]]) -> None:
    """Add the browser and the location record of each page view to the batch."""
    add_browser, add_location = batch[BROWSER].append, batch[LOCATION].append
    minute_end, minute = -1, ""
    for at, _, seen, page, visit in page_views:
        if at >= minute_end:
            minute_end, minute = at - at % MINUTE + MINUTE, spell_minute(Instant(at))
        rest = at - minute_end + MINUTE
        stamp = f"{minute}{_SECONDS[rest // SECOND]}{str(rest % SECOND).zfill(6)}"
        prefix, end = visit.prefix, _ID_ENDS[seen]
        add_browser(
            f'{{"event_id":"{prefix}{end}","event_timestamp":"{stamp}","event_type":"pageview","click_id":"{prefix}0000",'
            f"{visit.browser_fields}{visit.language_field}"
        )
        add_location(f'{{"event_id":"{prefix}{end}",{_PAGE_FIELDS[page]}{visit.location_fields}')


def _page_view(
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
) -> PageView:
    donor = Donor(*facts)  # type: ignore[arg-type]  # they are checked here
    if not (donor.are_plain() and PLAIN.fullmatch(prefix)):
        raise ValueError(f"a fact of visit {number} can't be one.")
    if not (
        type(number) is int
        and type(seen) is int
        and type(pages) is int
        and 0 <= number < born
        and 0 < seen < pages <= _MOST_PAGES
    ):
        raise ValueError(f"the counters of visit {number} can't be.")
    if page not in NEXT_PAGE or len(prefix) != 32:
        raise ValueError(f"the page or the id of visit {number} can't be.")
    if type(at) is not int or at < now:
        raise ValueError(f"visit {number} is overdue.")
    visit = Visit(0, pages, donor)
    visit.prefix = prefix
    visit.browser_fields = Device("", "", "", False, donor.browser_name, donor.browser_user_agent).browser_fields
    visit.language_field = f'"browser_language":"{donor.browser_language}"}}'
    visit.location_fields = Source(*donor[-6:], landing="").location_fields
    return at, number, seen + 1, page, visit
