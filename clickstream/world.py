"""The model world: visits are born, go their ways and end, in one order that no boundary can change.

A world draws its random numbers in the order in which visits are born, and only then: a visit's whole path is drawn at
its birth. Being asked to stop at an instant draws nothing, so a history made in one go and one made in portions are the
same bytes. Time is whole microseconds and every sum is of integers: the same on every machine.

Where it is known when it is busy, who there is and what people do: `almanac`, `people` and `behaviour`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from operator import itemgetter
from random import Random
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from clickstream.almanac import MEAN_BUSYNESS, WAITS, Almanac, Tide, wait
from clickstream.behaviour import (
    MOST_STEPS,
    Sight,
    Step,
    beginning,
    left_open,
    machine_net,
    sight,
)
from clickstream.catalogue import (
    BOTS,
    NAMES,
    PLACES,
    SITE,
    SOURCES,
    UNKNOWN,
    Device,
    Place,
    Source,
    campaign_sources,
)
from clickstream.dirt import MOST, Dirt
from clickstream.errors import DamagedError, UsageError
from clickstream.identity import Uuids, spelt
from clickstream.instant import DAY, MINUTE, SECOND, Instant, parse, spell, spell_minute
from clickstream.people import AWAKE, NEW, OWN_TWO, People
from clickstream.topics import BROWSER, DEVICE, GEO, LOCATION, Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT = 2
FIRST_FORMAT = 1
"""The format of the first release, whose worlds `first_world` goes on with."""

BATCH_EVENTS = 500
"""A batch holds the records of at most this many events, and of as many births."""

MOST_VISITS_A_DAY = 10_000_000

REST = 30 * MINUTE
"""So long after the last event of a visit, at least, the same person doesn't begin another one."""

_LONGEST_WINDOW = 5 * MINUTE
_MOST_TRIES = 64
_SEQUENCE = range(MOST_STEPS)
_NEW_BITS = NEW << 24
(_DATA_CENTRE,) = (number for number, (_, place) in enumerate(PLACES) if place.is_data_centre)
_BYTES = tuple(str(number) for number in range(256))
_FACTS = Struct("x10B33x6s")
_COOKIE, _SECOND_COOKIE, _NO_COOKIE = slice(12, 28), slice(28, 44), bytes(16)
_UNIT = MEAN_BUSYNESS * DAY << 20
_SECONDS = tuple(f"{second:02d}." for second in range(60))
_at = itemgetter(0)
_THOUSANDTHS = tuple(f"{number:03d}" for number in range(1000))
PLAIN = re.compile(r"[ !#-\[\]-~]*")  # goes into JSON as it stands


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

    def are_plain(self) -> bool:
        """Whether all of them are of their types, and texts that go into JSON as they stand."""
        texts = [fact for fact in self if fact is not self.device_is_mobile]
        return type(self.device_is_mobile) is bool and PLAIN.fullmatch("".join(texts)) is not None  # type: ignore[arg-type]


class Visit:
    """A visit: the lines that are told of it at its birth, and what its events' lines have in common."""

    __slots__ = ("browser_end", "click_id", "device_line", "geo_line", "late", "location_end")

    click_id: str
    device_line: str
    geo_line: str
    browser_end: str
    location_end: str
    late: int
    """How much later than they happened its events are published."""

    def delayed(self, delay: int) -> Visit:
        """Return this visit with events that are published so much later."""
        visit = copy(self)
        visit.late = delay
        return visit

    @property
    def donor(self) -> Donor:
        """The facts that stay the same for the whole of it, as its records tell them."""
        lines = self.device_line, self.geo_line, f'{{"click_id":"{self.browser_end}', f"{{{self.location_end}"
        facts = {field: value for line in lines for field, value in json.loads(line).items()}
        return Donor(*(facts[field] for field in Donor._fields))

    @classmethod
    def of(cls, click_id: str, donor: Donor, number: object) -> Visit:
        """Return a visit that is open, with the facts that a state gives.

        Raises: ValueError.
        """
        if not (donor.are_plain() and PLAIN.fullmatch(click_id)):
            raise ValueError(f"a fact of visit {number} can't be one.")
        if len(click_id) != 36:
            raise ValueError(f"the id of visit {number} can't be.")
        device = Device(
            donor.os, donor.os_name, donor.device_type, donor.device_is_mobile, donor.browser_name,
            donor.browser_user_agent,
        )  # fmt: skip
        place = Place(
            donor.geo_country, donor.geo_region_name, donor.geo_timezone, 0, "", 0, 0, donor.browser_language, ""
        )
        own = donor.user_custom_id, donor.user_domain_id, donor.geo_latitude, donor.geo_longitude, donor.ip_address
        return _visit(click_id, place, device, Source(*donor[-6:], landing=""), *own)


def _visit(
    click_id: str,
    place: Place,
    device: Device,
    source: Source,
    custom_id: str,
    domain_id: str,
    latitude: str,
    longitude: str,
    address: str,
) -> Visit:
    """Return a visit. This is no `__init__`, as calling one takes far longer."""
    visit = Visit()
    os_fields, type_fields, browser_fields = device.fields
    visit.click_id = click_id
    visit.device_line = (
        f'{{"click_id":"{click_id}",{os_fields}"os_timezone":"{place.zone}",{type_fields}'
        f'"user_custom_id":"{custom_id}","user_domain_id":"{domain_id}"}}\n'
    )
    visit.geo_line = (
        f'{{"click_id":"{click_id}","geo_latitude":"{latitude}","geo_longitude":"{longitude}",{place.geo_fields}'
        f'"ip_address":"{address}"}}\n'
    )
    visit.browser_end = f'{click_id}",{browser_fields}{place.language_end}'
    visit.location_end = source.location_end
    visit.late = 0
    return visit


Birth = tuple[int, Tide, int, int, int, bytes, int, bool, bool]
"""When, the quarter of an hour, the number of the place, random bits, the person (-1: a bot), what chance says of it,
how much more it wants something for having come before, whether it comes again, and whether by its second device."""

Event = tuple[int, int, int, Sight, Visit]
"""When, the number of its visit, which of the visit's events it is (from 0), what it is, the visit. At one instant,
visits take turns by their numbers."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What makes a world the one it is. Over the year, about `visits_a_day` are born a day, and more as years go by.

    `dirt` says of how many of 1,000 events, and visits, something goes wrong on the way.
    """

    t0: Instant
    seed: int
    visits_a_day: int
    dirt: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.visits_a_day <= MOST_VISITS_A_DAY:
            raise UsageError(f"{self.visits_a_day} visits a day: give a number from 1 to {MOST_VISITS_A_DAY:,}.")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"The seed {self.seed} is not a number from 0 to 2⁶³ - 1.")
        if not 0 <= self.dirt <= MOST:
            raise UsageError(f"Dirt {self.dirt}: say of how many of 1,000 events, from 0 to {MOST:,}.")


class World:
    """All that generation needs to go on from `now`. Only `until` changes it."""

    def __init__(self, parameters: Parameters) -> None:
        """Return a fresh world, at t0."""
        self.parameters = parameters
        self.now = parameters.t0
        self._random = Random(parameters.seed)  # noqa: S311 - it must be repeatable
        self._random_steps = Random(f"{parameters.seed}/steps")  # noqa: S311 - likewise
        self._window = max(SECOND, min(_LONGEST_WINDOW, 256 * DAY // parameters.visits_a_day))
        self._almanac = Almanac(parameters.seed, parameters.t0)
        self._people = People(parameters.seed, parameters.visits_a_day, parameters.t0)
        self._dirt = Dirt(parameters.seed, parameters.dirt) if parameters.dirt else None
        self._born = self._told = 0
        self._came = [0] * len(PLACES)  # the new persons of the day (UTC), by place
        self._busy: dict[int, int] = {}  # by person, until when; some of it is over
        self._most_busy = 1000  # when it holds more, what is over is left out
        self._to_come: defaultdict[int, list[Event]] = defaultdict(list)  # by window of time
        self._click_ids = Uuids(parameters.seed, "visit", 0)
        self._event_ids = Uuids(parameters.seed, "event", 0)
        self._tide = self._almanac.tide(parameters.t0)
        self._outage = self._almanac.outage(parameters.t0)
        self._reckon()
        self._next_birth = Instant(self._birth_after(parameters.t0))

    # ── generating ──

    def until(self, end: Instant) -> Iterator[Batch]:
        """Generate what happens in [now, end), in bounded batches; the world is at `end` when all are taken."""
        visits: list[Visit] = []
        events: list[Event] = []
        while self.now < end:
            until = Instant(min(end, self.now - self.now % self._window + self._window))
            visits += self._born_until(until)
            events += self._events(until)
            self.now = until
            while len(events) >= BATCH_EVENTS or len(visits) >= BATCH_EVENTS:
                yield self._batch(visits[:BATCH_EVENTS], events[:BATCH_EVENTS])
                del visits[:BATCH_EVENTS], events[:BATCH_EVENTS]
        yield self._batch(visits, events)

    def _events(self, until: Instant) -> list[Event]:
        """Take out what happens in [now, until), which lies in one window, in order."""
        window = self.now // self._window
        events = self._to_come.pop(window, [])
        if self._dirt:
            events.sort()
        else:
            events.sort(key=_at)  # at one instant, they are in the order of their numbers already
        if until % self._window:
            cut = bisect_left(events, (until,))
            if cut < len(events):
                self._to_come[window] = events[cut:]
                del events[cut:]
        return self._in_time(events, self._dirt) if self._dirt else events

    def _in_time(self, events: list[Event], dirt: Dirt) -> list[Event]:
        """Return the events that are published when they happen; the others come later, longer than a window."""
        in_time = []
        for event in events:
            at, number, sequence, seen, visit = event
            late_from, delay, _ = dirt.fate(visit.click_id)
            if not delay or visit.late or sequence < late_from:
                in_time.append(event)
            else:
                self._to_come[(at + delay) // self._window].append(
                    (at + delay, number, sequence, seen, visit.delayed(delay))
                )
        return in_time

    def _batch(self, visits: list[Visit], events: list[Event]) -> Batch:
        browser, location = self._tell(events)
        device = "".join([visit.device_line for visit in visits]).encode()
        geo = "".join([visit.geo_line for visit in visits]).encode()
        if self._dirt:
            browser, location = _spoiled_events(self._dirt, events, browser, location)
            device, geo = _spoiled_births(self._dirt, visits, device, geo)
        return {BROWSER: browser, LOCATION: location, DEVICE: device, GEO: geo}

    def _tell(self, events: list[Event]) -> tuple[bytes, bytes]:
        """Return the browser and the location records of events."""
        browser: list[str] = []
        location: list[str] = []
        add_browser, add_location = browser.append, location.append
        minute_begin, minute_end, minute = 0, -1, ""
        for event_id, (at, _, _, seen, visit) in zip(self._event_ids.take(len(events)), events, strict=True):
            if at >= minute_end:
                minute_begin = at - at % MINUTE
                minute_end = minute_begin + MINUTE
                minute = spell_minute(Instant(at))
            rest = at - minute_begin
            micros = rest % 1_000_000
            add_browser(
                f'{{"event_id":"{event_id}","event_timestamp":"{minute}{_SECONDS[rest // 1_000_000]}'
                f'{_THOUSANDTHS[micros // 1000]}{_THOUSANDTHS[micros % 1000]}",{seen.type_field}{visit.browser_end}'
            )
            add_location(f'{{"event_id":"{event_id}",{seen.page_fields}{visit.location_end}')
        self._told += len(events)
        return "".join(browser).encode(), "".join(location).encode()

    # ── being born ──

    def _born_until(self, until: Instant) -> list[Visit]:
        """Have all be born that are before `until`, with their paths.

        One thing is done for all of them, then the next: that takes half the time. Whoever visits is busy for longer
        than a window, so nothing that comes later has to wait for what a path turns out to be.
        """
        births = self._births(until)
        click_ids = self._click_ids.take(len(births))
        domain_ids = spelt(
            b"".join([birth[5][_SECOND_COOKIE if birth[8] else _COOKIE] or _NO_COOKIE for birth in births])
        )
        visits = [
            self._bot(birth, click_id) if birth[4] < 0 else self._human(birth, click_id, domain_id)
            for birth, click_id, domain_id in zip(births, click_ids, domain_ids, strict=True)
        ]
        self._walk(births, visits)
        return [visit for visit, _, _ in visits]

    def _births(self, until: Instant) -> list[Birth]:
        """Draw who is born before `until`, and from where; most of it is written out, as calls take time."""
        births: list[Birth] = []
        add, random_bits, facts_of, returning = (
            births.append,
            self._random.getrandbits,
            self._people.facts,
            self._people.returning,
        )
        tide, pause, busy, came, calm_until = self._tide, self._pause, self._busy, self._came, self._calm_until
        at: int = self._next_birth
        while at < until:
            place = bisect_right(tide.shares, random_bits(32) * tide.busyness >> 32)
            bits = random_bits(32)
            if place == _DATA_CENTRE:
                add((at, tide, place, bits, -1, b"", 0, False, False))
            else:
                again, today, quarter = False, at // DAY, tide.quarters[place]
                if bits >= _NEW_BITS:
                    for _ in range(_MOST_TRIES):
                        person, regular = returning(place, today, came[place], random_bits(32))
                        if person >= 0 and (person not in busy or busy[person] <= at):
                            facts = facts_of(person)
                            if AWAKE[facts[0] & 15][quarter]:
                                again = True
                                break
                if not again:
                    person, regular, facts = self._newcomer(place, today, quarter)
                busy[person] = at + REST
                second = not bits & 3 and facts[0] >> 4 < OWN_TWO
                add((at, tide, place, bits, person, facts, again + regular, again, second))
            bits = random_bits(32)
            shortest, more = WAITS[bits >> 22]
            left = shortest + (more * (bits & 0x3FFFFF) >> 22)
            later = at + (left * pause >> 40)
            if later >= calm_until:
                later = self._later(at, left)
                tide, pause, busy, came, calm_until = self._tide, self._pause, self._busy, self._came, self._calm_until
            at = later
        self._next_birth = Instant(at)
        return births

    def _newcomer(self, place: int, today: int, quarter: int) -> tuple[int, bool, bytes]:
        """Return who comes for the first time, whether it will be a regular, and what chance says of it."""
        came = self._came
        for _ in range(_MOST_TRIES):
            person, regular = self._people.newcomer(place, today, came[place])
            came[place] += 1
            facts = self._people.facts(person)
            if AWAKE[facts[0] & 15][quarter]:
                break
        return person, regular, facts

    def _birth_after(self, at: int) -> int:
        """Return when the next visit is born: at random, as often as it is busy, and never in an outage."""
        left = wait(self._random.getrandbits(32))
        later = at + (left * self._pause >> 40)
        return later if later < self._calm_until else self._later(at, left)

    def _later(self, at: int, left: int) -> int:
        """Return when so much of a wait that began at `at` is over; it outlasts this quarter of an hour."""
        while True:
            left -= ((self._calm_until - at) << 40) // self._pause
            at = self._go_on(self._calm_until)
            later = at + (left * self._pause >> 40)
            if later < self._calm_until:
                return later

    def _go_on(self, at: int) -> int:
        """Enter the next quarter of an hour, or the time after an outage; return when it begins."""
        outage, outage_end = self._outage
        if outage <= at:
            at = outage_end
            self._outage = self._almanac.outage(Instant(at))
        day = self._tide.begin // DAY
        if at >= self._tide.end:
            self._tide = self._almanac.tide(Instant(at))
            if len(self._busy) > self._most_busy:
                self._busy = {person: until for person, until in self._busy.items() if until > at}
                self._most_busy = 2 * len(self._busy) + 1000
            if self._tide.begin // DAY != day:
                self._came = [0] * len(PLACES)
        self._reckon()
        return at

    def _reckon(self) -> None:
        """Reckon how long it is between births now (in 2²⁰ths of a microsecond), and until when that is so."""
        self._pause = _UNIT // (self._tide.busyness * self.parameters.visits_a_day)
        self._calm_until = min(self._tide.end, self._outage[0])

    def _human(self, birth: Birth, click_id: str, domain_id: str) -> tuple[Visit, Sight, Step]:
        """Return the visit of a person, what it sees first, and as which step of its path."""
        _, tide, number, bits, _, facts, wish, again, second = birth
        place = PLACES[number][1]
        lags, model, north, east, network, host, name, other_model, other_network, other_host, own = _FACTS.unpack(
            facts
        )
        hand_held = lags & 4 > 0
        if second:
            hand_held, model, network, host = not hand_held, other_model, other_network, other_host
        campaign = tide.campaigns[number]
        if campaign and (bits >> 10 & 1023) * (1000 + campaign.more) >> 10 < campaign.more:
            source = campaign_sources(campaign.name)[bits >> 2 & 255]
        else:
            source = SOURCES[2 * again + hand_held][bits >> 2 & 255]
        visit = _visit(
            click_id,
            place,
            tide.devices[lags & 3 == 0][hand_held][model],
            source,
            f"{NAMES[name]}{own.hex()}@example.com",
            domain_id,
            place.latitudes[north & 63],
            place.longitudes[east & 63],
            f"{place.network}.{_BYTES[network]}.{_BYTES[host]}",
        )
        seen, step = beginning(source, source.draw + wish, hand_held)
        return visit, seen, step

    def _bot(self, birth: Birth, click_id: str) -> tuple[Visit, Sight, Step]:
        """Return the visit of a bot: it keeps no cookie, and tells nothing of itself but what it is."""
        place, which = PLACES[birth[2]][1], birth[3] & 3
        address = f"{place.network}.{16 + which}.{7 + 40 * which}"
        domain_id = str(UUID(bytes=blake2b(click_id.encode(), digest_size=16).digest(), version=4))
        own = "", domain_id, place.latitudes[32], place.longitudes[32], address
        step = machine_net()[UNKNOWN.landing]
        return _visit(click_id, place, BOTS[which], UNKNOWN, *own), step.sight, step

    def _walk(self, births: list[Birth], visits: list[tuple[Visit, Sight, Step]]) -> None:
        """Draw the paths of visits."""
        random_bits, window, to_come, busy = self._random_steps.getrandbits, self._window, self._to_come, self._busy
        number = self._born
        for (at, tide, _, _, person, *_), (visit, seen, step) in zip(births, visits, strict=True):
            outage = tide.outage
            add = to_come[at // window].append
            window_end = at - at % window + window
            for sequence in _SEQUENCE:
                add((at, number, sequence, seen, visit))
                bits = random_bits(32)
                following = step.following[bisect_right(step.chances, bits & 255)]
                if following is None or sequence == MOST_STEPS - 1:
                    break
                factor = step.stretch[bits >> 8 & 1023]
                if factor:
                    later = at + (step.about * factor * (16384 + (bits >> 18)) >> 24)
                else:
                    later = at + left_open(bits >> 8 & 1023, bits >> 18)
                if later >= outage and self._almanac.is_out(later):
                    break
                at, step = later, following
                seen = step.sight
                if at >= window_end:
                    add = to_come[at // window].append
                    window_end = at - at % window + window
            number += 1
            if person >= 0:
                busy[person] = at + REST
        self._born = number

    # ── the state ──

    def state(self) -> bytes:
        """Return this world as one canonical line of JSON; `restore` makes the same world of it."""
        document = {
            "format": FORMAT,
            "t_end": spell(self.now),
            "t0": spell(self.parameters.t0),
            "seed": self.parameters.seed,
            "visits_a_day": self.parameters.visits_a_day,
            "dirt": self.parameters.dirt,
            "visits_born": self._born,
            "events_told": self._told,
            "next_birth": self._next_birth,
            "came_today": self._came,
            "busy": sorted([person, until] for person, until in self._busy.items() if until > self._next_birth),
            "random": self._random.getstate()[1],
            "random_steps": self._random_steps.getstate()[1],
            "donor_fields": Donor._fields,
            "open_visits": self._open_visits(),
        }
        return json.dumps(document, separators=(",", ":")).encode()

    def _open_visits(self) -> list[list[Any]]:
        """Return of each open visit: its number, its id, its donor, and when it goes on, with what, where, how late."""
        open_visits: dict[int, tuple[Visit, list[list[Any]]]] = {}
        for at, number, sequence, seen, visit in sorted(event for events in self._to_come.values() for event in events):
            _, events = open_visits.setdefault(number, (visit, []))
            events.append([at, sequence, seen.event_type, seen.page_url, visit.late])
        return [
            [number, visit.click_id, visit.donor, events] for number, (visit, events) in sorted(open_visits.items())
        ]

    def go_to(self, state: bytes) -> None:
        """Become the world that `state` describes: this one, generated further elsewhere."""
        self.__dict__ = World.restore(state).__dict__

    @classmethod
    def restore(cls, state: bytes) -> World:
        """Return the world that `state` describes.

        Raises: DamagedError with what is wrong. Nothing is guessed.
        """
        try:
            document = json.loads(state)
        except ValueError as error:
            raise DamagedError(f"The state is not JSON: {error}.") from None
        found = document.get("format") if isinstance(document, dict) else None
        try:
            if found == FORMAT:
                return World.of(document)
            if found == FIRST_FORMAT:
                from clickstream.first_world import FirstWorld

                return FirstWorld.of(document)
        except KeyError as error:
            raise DamagedError(f"The state has no `{error.args[0]}`.") from None
        except (AttributeError, TypeError, ValueError, UsageError) as error:
            raise DamagedError(f"The state is damaged: {error}") from None
        raise DamagedError(f"The state has format {found!r}; this version reads formats {FIRST_FORMAT} and {FORMAT}.")

    @classmethod
    def of(cls, document: dict[str, Any]) -> World:
        """Return the world of a state's JSON.

        Raises: KeyError, AttributeError, TypeError, ValueError or UsageError with what is wrong.
        """
        seed, visits_a_day, dirt = (whole(document, field) for field in ("seed", "visits_a_day", "dirt"))
        parameters = Parameters(parse(document["t0"]), seed, visits_a_day, dirt)
        world = cls(parameters)
        world.now = parse(document["t_end"])
        world._born = whole(document, "visits_born")
        world._told = whole(document, "events_told")
        world._next_birth = Instant(whole(document, "next_birth"))
        if not parameters.t0 <= world.now <= world._next_birth:
            raise ValueError("its instants contradict each other.")
        world._random.setstate((3, tuple(document["random"]), None))
        world._random_steps.setstate((3, tuple(document["random_steps"]), None))
        world._came = [_whole(value, "came_today") for value in document["came_today"]]
        if len(world._came) != len(PLACES):
            raise ValueError(f"`came_today` is of {len(world._came)} places, not of {len(PLACES)}.")
        world._busy = {_whole(person, "busy"): _whole(until, "busy") for person, until in document["busy"]}
        if document["donor_fields"] != list(Donor._fields):
            raise ValueError(f"its donors have the fields {document['donor_fields']}.")
        numbers = [world._reopen(*entry) for entry in document["open_visits"]]
        if len(set(numbers)) != len(numbers):
            raise ValueError("it holds a visit twice.")
        world._tide = world._almanac.tide(world._next_birth)
        world._outage = world._almanac.outage(world._next_birth)
        world._reckon()
        world._click_ids = Uuids(parameters.seed, "visit", world._born)
        world._event_ids = Uuids(parameters.seed, "event", world._told)
        return world

    def _reopen(self, number: object, click_id: str, facts: list[object], events: list[list[Any]]) -> int:
        """Take in an open visit of a state, and return its number."""
        visit = Visit.of(click_id, Donor(*facts), number)  # type: ignore[arg-type]  # they are checked there
        if type(number) is not int or not 0 <= number < self._born or not events:
            raise ValueError(f"the number of visit {number} can't be.")
        for at, sequence, event_type, page_url, late in events:
            if type(late) is not int or late < 0:
                raise ValueError(f"the delay of visit {number} can't be.")
            if type(at) is not int or at < self.now:
                raise ValueError(f"visit {number} is overdue.")
            if type(sequence) is not int or not 0 <= sequence < MOST_STEPS:
                raise ValueError(f"the counters of visit {number} can't be.")
            if not (page_url.startswith(SITE) and PLAIN.fullmatch(page_url) and PLAIN.fullmatch(event_type)):
                raise ValueError(f"the page of visit {number} can't be.")
            self._to_come[at // self._window].append(
                (at, number, sequence, sight(event_type, page_url), visit.delayed(late))
            )
        return number


def _spoiled_events(dirt: Dirt, events: list[Event], browser: bytes, location: bytes) -> tuple[bytes, bytes]:
    spoiled = []
    for (at, _, sequence, _, visit), *lines in zip(
        events, browser.splitlines(keepends=True), location.splitlines(keepends=True), strict=True
    ):
        clock = dirt.fate(visit.click_id).clock
        happened = at - visit.late
        told = clock(happened) if clock else happened
        spoiled.append(dirt.events(visit.click_id, sequence, told, (lines[0], lines[1])))
    return _joined(spoiled)


def _spoiled_births(dirt: Dirt, visits: list[Visit], device: bytes, geo: bytes) -> tuple[bytes, bytes]:
    lines = zip(visits, device.splitlines(keepends=True), geo.splitlines(keepends=True), strict=True)
    return _joined([dirt.birth(visit.click_id, *both) for visit, *both in lines])


def _joined(pairs: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    return b"".join([one for one, _ in pairs]), b"".join([other for _, other in pairs])


def whole(document: dict[str, Any], field: str) -> int:
    """Return a field that is a whole number from 0 on.

    Raises: ValueError.
    """
    return _whole(document[field], field)


def _whole(value: object, field: str) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"`{field}` is {value!r}, not a whole number.")
    return value
