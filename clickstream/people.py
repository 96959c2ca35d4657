"""Who visits: persons with a home, one or two devices and a life, of which nothing needs to be remembered.

A person has a number, made of the place, the day of the first visit, and how many others came there before on that day.
All facts follow from it. A person's rank among those of that day says how often it returns, and for how long: whoever
comes again is drawn by saying how long ago their first day was, and the rank is then drawn from those who still come.
"""

from __future__ import annotations

from hashlib import blake2b

from clickstream.almanac import QUARTERS, trend
from clickstream.catalogue import PLACES
from clickstream.instant import DAY, Instant

NEW = 110
"""So many of 256 visits are the first of a new person."""

REGULAR_RANKS = 5_200
"""The ranks of those who come often, of 65,536; they come before the others, and make better use of the shop."""

_OFTEN, _RARELY = (0, REGULAR_RANKS, 30, 42), (REGULAR_RANKS, 18_000, 20, 22)
"""Their first rank, how many ranks they are; the days after which a quarter still comes; their part in 64 returns."""

_LONGEST_LIFE = 400
_DAYS_BEFORE = 4096  # the first days of those who came long before 1970
_SCATTER = 2654435769
_GATHER = pow(_SCATTER, -1, 1 << 32)

FACTS = 50
"""All that there is to know of a person follows from so many bytes."""

OWN_TWO = 6
"""So many of 16 have a second device, of the other kind."""
_TOTAL = sum(share for share, _ in PLACES)


Return = tuple[int, int, int]
"""How many days ago somebody's first day was, and which ranks still come: from which on, and so many of 65,536."""


def _returns() -> tuple[Return, ...]:
    """Return a table of 2,048 that random bits pick a return from."""
    table: list[Return] = []
    for first, ranks, half_life, part in (_OFTEN, _RARELY):
        living = [half_life**2 * 2**20 // (half_life + days) ** 2 for days in range(_LONGEST_LIFE)]
        weights = [alive * (12 + days) // (3 + days) for days, alive in enumerate(living)]  # eager at first
        slots, total, weight_before = part * 32, sum(weights), 0
        for days, weight in enumerate(weights):
            begin, end = (until * slots // total for until in (weight_before, weight_before + weight))
            table += [(days, first, max(ranks * living[days] >> 20, 1))] * (end - begin)
            weight_before += weight
    return tuple(table)


RETURNS = _returns()


def _nights() -> tuple[tuple[bool, ...], ...]:
    """Return, for 16 habits, whether one is awake in each quarter of the day: all but two sleep by night."""
    begins = [(87 + habit) % QUARTERS for habit in range(14)] + [32, 40]
    return tuple(tuple((quarter - begin) % QUARTERS >= 32 for quarter in range(QUARTERS)) for begin in begins)


AWAKE = _nights()


class _Sizes(dict[int, tuple[int, int]]):
    """How many new persons a day has, about, and how many bits hold their orders: by month of 32 days, plus place."""

    def __init__(self, visits_a_day: int, t0: Instant) -> None:
        self._first_day = t0 // DAY
        self._newcomers = [visits_a_day * share * NEW for share, _ in PLACES]

    def __missing__(self, key: int) -> tuple[int, int]:
        days = key // 32 * 32 - self._first_day
        size = self._newcomers[key % 32] * trend(days) // (_TOTAL * 256 * 1000) + 1
        self[key] = size, (size - 1).bit_length()
        return self[key]


class People:
    """All who visit a world of this seed and size."""

    def __init__(self, seed: int, visits_a_day: int, t0: Instant) -> None:
        self._hash = blake2b(f"{seed}/person/".encode(), digest_size=FACTS)
        self._sizes = _Sizes(visits_a_day, t0)

    def returning(self, place: int, today: int, came: int, bits: int) -> tuple[int, bool]:
        """Return one who came first on an earlier day, or is among the `came` of today, and whether it is a regular.

        bits: 32 random ones. The number is -1 where they hit nobody.
        """
        days, first, ranks = RETURNS[bits & 2047]
        if days:
            size, scale = self._sizes[(today - days) // 32 * 32 + place]
        else:
            size, scale = came, (came - 1).bit_length()
        rank = (first + (ranks * (bits >> 11) >> 21)) << scale >> 16
        order = rank * _GATHER & (1 << scale) - 1
        if order >= size:
            return -1, False
        return (today - days + _DAYS_BEFORE) << 40 | place << 32 | order, first == 0

    def newcomer(self, place: int, today: int, came: int) -> tuple[int, bool]:
        """Return who comes first after `came` others did today, and whether it will be a regular."""
        _, scale = self._sizes[today // 32 * 32 + place]
        number = (today + _DAYS_BEFORE) << 40 | place << 32 | came
        return number, (came * _SCATTER & (1 << scale) - 1) << 16 >> scale < REGULAR_RANKS

    def facts(self, number: int) -> bytes:
        """Return FACTS random bytes, which are always the same for this person."""
        hashed = self._hash.copy()
        hashed.update(b"%d" % number)
        return hashed.digest()
