"""When it is busy: each place's clock and calendar, the year, a slow trend, campaigns, and the outages of the shop.

All of it follows from the seed and the instant, in integers, so it is the same on every machine. Rules of summer time
are those of our days, whatever the year: a machine's own table of time zones would differ from another's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import NamedTuple

from clickstream.catalogue import PLACES, Device, Place, devices_of
from clickstream.instant import DAY, MINUTE, Instant

QUARTER = 15 * MINUTE
QUARTERS = 96
"""Quarters of an hour in a day."""

_WORKDAY = (12, 6, 4, 3, 3, 5, 13, 26, 38, 46, 52, 58, 66, 60, 54, 52, 54, 60, 72, 88, 98, 92, 64, 30)
_WEEKEND = (22, 13, 7, 4, 3, 4, 7, 14, 26, 42, 56, 66, 70, 70, 70, 68, 66, 64, 68, 76, 80, 72, 54, 34)
"""How busy each local hour begins, relative to the others; in between it goes straight from one to the next."""

_WEEK = (1100, 1080, 1060, 1050, 970, 840, 900)  # of 1000, from Monday on
_YEAR = (960, 920, 950, 970, 980, 960, 900, 880, 1000, 1060, 1180, 1240)  # of 1000, in the middle of each month
_HOLIDAY = 550  # of 1000
_NOISE = 80  # a day is busier or calmer than another by at most so many of 1000, for no reason

TREND_DAYS = 1460
"""After so many days the shop is half as busy again; it will never be twice as busy."""

_HOLIDAYS: dict[str, tuple[tuple[int, int], ...]] = {
    "US": ((1, 1), (7, 4), (12, 25)), "GB": ((1, 1), (12, 25), (12, 26)),
    "DE": ((1, 1), (5, 1), (10, 3), (12, 25), (12, 26)), "FR": ((1, 1), (5, 1), (7, 14), (8, 15), (12, 25)),
    "ES": ((1, 1), (1, 6), (10, 12), (12, 25)), "PL": ((1, 1), (5, 3), (11, 11), (12, 25), (12, 26)),
    "NL": ((1, 1), (4, 27), (12, 25), (12, 26)), "SE": ((1, 1), (6, 6), (12, 24), (12, 25)),
    "IN": ((1, 26), (8, 15), (10, 2)), "KR": ((1, 1), (3, 1), (8, 15), (10, 3)),
    "JP": ((1, 1), (1, 2), (1, 3), (11, 3)),
    "BR": ((1, 1), (9, 7), (11, 15), (12, 25)), "CA": ((1, 1), (7, 1), (12, 25)),
    "AU": ((1, 1), (1, 26), (12, 25), (12, 26)),
}  # fmt: skip


class Campaign(NamedTuple):
    """A campaign: so many visits more, of 1000, come because of it, and are tagged with its name."""

    name: str
    more: int


_CAMPAIGNS = (  # name, first day as (month, day), days, more
    ("winter_sale", (1, 8), 7, 350),
    ("spring_sale", (4, 10), 7, 300),
    ("summer_sale", (7, 1), 10, 350),
    ("gifts", (12, 4), 14, 250),
)
_BLACK_FRIDAY = Campaign("black_friday", 900)

_EPOCH = date(1970, 1, 1).toordinal()
_OUTAGE_EVERY = 28 * DAY


def drawn(seed: int, what: str, number: int) -> int:
    """Return 64 bits that are always the same for this seed, thing and number, and look random."""
    return int.from_bytes(blake2b(f"{seed}/{what}/{number}".encode(), digest_size=8).digest(), "big")


def _by_quarter(hours: tuple[int, ...]) -> tuple[int, ...]:
    """Return 96 weights whose mean is 1000, of 24."""
    total = 4 * sum(hours)
    return tuple(
        (here * (4 - part) + there * part) * 1000 * QUARTERS // 4 // total
        for here, there in zip(hours, hours[1:] + hours[:1], strict=True)
        for part in range(4)
    )


_CLOCKS = (_by_quarter(_WORKDAY), _by_quarter(_WEEKEND))
MEAN_BUSYNESS = 1000 * 10**6 * sum(share for share, _ in PLACES)
"""What `Tide.busyness` is on the average."""


def sunday(year: int, month: int, number: int) -> int:
    """Return the day (since 1970) of a Sunday of a month, the `number`-th; -1 for its last."""
    if number < 0:
        year, month, number = (year, month + 1, 0) if month < 12 else (year + 1, 1, 0)
    first = date(year, month, 1)
    return first.toordinal() - _EPOCH + (6 - first.weekday()) + 7 * (number - 1)


@lru_cache(maxsize=64)
def _summer(rule: str, offset: int, year: int) -> tuple[int, int]:
    """Return the quarters (since 1970) between which a year's clocks are an hour ahead, or, in the south, are not."""
    if rule == "EU":
        return sunday(year, 3, -1) * QUARTERS + 4, sunday(year, 10, -1) * QUARTERS + 4
    if rule == "US":
        return sunday(year, 3, 2) * QUARTERS + 8 - offset, sunday(year, 11, 1) * QUARTERS + 4 - offset
    return sunday(year, 4, 1) * QUARTERS + 8 - offset, sunday(year, 10, 1) * QUARTERS + 8 - offset


def local(place: Place, quarter: int) -> tuple[int, int]:
    """Return the local day (since 1970) and quarter of that day in a place, at a quarter (since 1970) of UTC."""
    ahead = place.offset
    if place.summer:
        year = date.fromordinal(_EPOCH + quarter // QUARTERS).year
        begin, end = _summer(place.summer, place.offset, year)
        if (begin <= quarter < end) != (place.summer == "AU"):
            ahead += 4
    return divmod(quarter + ahead, QUARTERS)


@lru_cache(maxsize=64)
def campaign_of(day: int) -> Campaign | None:
    """Return the campaign of a day."""
    today = date.fromordinal(_EPOCH + day)
    for name, first, days, more in _CAMPAIGNS:
        if 0 <= (today - date(today.year, *first)).days < days:
            return Campaign(f"{name}_{today.year}", more)
    if 0 <= day - black_friday(today.year) < 4:
        return Campaign(f"{_BLACK_FRIDAY.name}_{today.year}", _BLACK_FRIDAY.more)
    return None


def black_friday(year: int) -> int:
    """Return the day after the fourth Thursday of November, since 1970."""
    first = date(year, 11, 1)
    return first.toordinal() - _EPOCH + (3 - first.weekday()) % 7 + 22


def is_holiday(country: str, day: int) -> bool:
    """Whether shops are quiet in a country on a day, since 1970."""
    today = date.fromordinal(_EPOCH + day)
    return (today.month, today.day) in _HOLIDAYS[country]


def trend(days: int) -> int:
    """Return how busy the shop is after so many days, to 1000 at the beginning and before it."""
    return 1000 + 1000 * max(days, 0) // (max(days, 0) + TREND_DAYS)


def _season(day: int) -> int:
    """Return how busy the time of the year is, to 1000 over the whole year."""
    today = date.fromordinal(_EPOCH + day)
    month, passed = (today.month - 1, today.day - 15) if today.day >= 15 else (today.month - 2, today.day + 16)
    return (_YEAR[month % 12] * (31 - passed) + _YEAR[(month + 1) % 12] * passed) // 31


@dataclass(frozen=True, slots=True)
class Tide:
    """A quarter of an hour in the world, from `begin` until `end`: how busy it is, and where it is what time.

    `busyness` is MEAN_BUSYNESS on the average. `shares` are the places' parts in it, added up. Quarters (of the local
    day) and campaigns are by place, devices are those of the day and, for those who update late, of four weeks before.
    `outage` is when the one begins that `begin` lies in, or else the next one.
    """

    begin: Instant
    end: Instant
    busyness: int
    shares: tuple[int, ...]
    quarters: tuple[int, ...]
    campaigns: tuple[Campaign | None, ...]
    devices: tuple[tuple[tuple[Device, ...], tuple[Device, ...]], ...]
    outage: int


class Almanac:
    """All that a seed says about when it is busy, for a history that begins at t0."""

    def __init__(self, seed: int, t0: Instant) -> None:
        self._seed = seed
        self._first_day = t0 // DAY
        self._day = lru_cache(maxsize=128)(self._reckoned)

    def tide(self, at: Instant) -> Tide:
        """Return the quarter that an instant lies in."""
        number = at // QUARTER
        weights, quarters, campaigns = [], [], []
        for share, place in PLACES:
            day, quarter = local(place, number)
            clock, weight, campaign = self._day(place.country, day)
            if place.is_data_centre:
                weights.append(share * 1000 * 10**6)
                campaign = None
            else:
                weights.append(share * clock[(quarter - place.late) % QUARTERS] * weight)
            quarters.append(quarter)
            campaigns.append(campaign)
        shares = tuple(accumulate(weights))
        begin = number * QUARTER
        era = begin // DAY // 28
        return Tide(
            Instant(begin),
            Instant(begin + QUARTER),
            shares[-1],
            shares,
            tuple(quarters),
            tuple(campaigns),
            (devices_of(era), devices_of(era - 1)),
            self.outage(Instant(begin))[0],
        )

    def _reckoned(self, country: str, day: int) -> tuple[tuple[int, ...], int, Campaign | None]:
        """Return a local day's clock, how busy it is to 10⁶ on the average, and its campaign."""
        weekday = (day + 3) % 7
        quiet = is_holiday(country, day)
        campaign = campaign_of(day)
        noise = 1000 - _NOISE + drawn(self._seed, "noise", day) % (2 * _NOISE + 1)
        weight = _WEEK[weekday] * _season(day) * trend(day - self._first_day) * noise // 10**6
        weight = weight * (_HOLIDAY if quiet else 1000) // 1000
        weight = weight * (1000 + (campaign.more if campaign else 0)) // 1000
        return _CLOCKS[quiet or weekday > 4], weight, campaign

    def outage(self, at: Instant) -> tuple[int, int]:
        """Return the begin and the end of the outage that an instant lies in, or else of the next one.

        There is one in each 28 days, of half an hour to three hours.
        """
        begin, end = self._outage(at // _OUTAGE_EVERY)
        return (begin, end) if at < end else self._outage(at // _OUTAGE_EVERY + 1)

    def is_out(self, at: int) -> bool:
        """Whether an instant lies in an outage."""
        return self.outage(Instant(at))[0] <= at

    def _outage(self, number: int) -> tuple[int, int]:
        bits = drawn(self._seed, "outage", number)
        begin = number * _OUTAGE_EVERY + (bits >> 32) % (_OUTAGE_EVERY - DAY)
        return begin, begin + 30 * MINUTE + (bits & 0xFFFFFFFF) % (150 * MINUTE)


def _exponential() -> tuple[int, ...]:
    """Return the quantiles of the exponential distribution whose mean is 2²⁰, for 1,024 equal chances, and its end."""
    from math import log

    return (*(round(-log(1 - number / 1024) * 2**20) for number in range(1024)), round((log(1024) + 2) * 2**20))


_ENDS = _exponential()
WAITS = tuple((shortest, longest - shortest) for shortest, longest in pairwise(_ENDS))
"""Of 1,024 equal chances: the shortest wait, and how much longer the longest is."""


def wait(bits: int) -> int:
    """Return how long to wait for the next of things that come by chance, to 2²⁰ on the average, of 32 random bits."""
    shortest, more = WAITS[bits >> 22]
    return shortest + (more * (bits & 0x3FFFFF) >> 22)
