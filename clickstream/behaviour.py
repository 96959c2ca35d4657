"""What people do: from each thing they look at or do to the next, as chance, their reasons and their device have it.

A path goes from step to step. A step is a thing done on a page in a mood: arriving, looking around, informed (having
read what helps to decide), with something in the cart, or having bought. Where visitors come from and what they hold in
their hand choose between whole nets of such steps, which differ in how often a path ends and something is bought.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

from clickstream.catalogue import SITE
from clickstream.instant import DAY, MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clickstream.catalogue import Source

PAGEVIEW = "pageview"
MOST_STEPS = 120
"""No path is longer."""

LEVELS = 6
"""How much a visitor wants something: from 0 to 5."""

_ARRIVING, _LOOKING, _INFORMED, _CART, _BOUGHT = range(5)

_LINKS: dict[str, list[tuple[int, str]]] = {
    "/home": [(14, "/catalogue/shoes"), (12, "/catalogue/bags"), (10, "/catalogue/coats"), (6, "/catalogue/gifts"), (12, "/sale"), (6, "/blog"), (4, "/about")],
    "/catalogue/shoes": [(22, "/product/boots"), (18, "/product/sneakers"), (10, "/catalogue/bags"), (8, "/sale"), (6, "/home")],
    "/catalogue/bags": [(24, "/product/backpack"), (14, "/product/handbag"), (12, "/catalogue/coats"), (8, "/sale"), (6, "/home")],
    "/catalogue/coats": [(26, "/product/raincoat"), (14, "/product/parka"), (14, "/catalogue/shoes"), (10, "/home")],
    "/catalogue/gifts": [(26, "/product/lamp"), (18, "/product/mug"), (12, "/sale"), (8, "/home")],
    "/product/boots": [(20, "/product/sneakers"), (14, "/catalogue/shoes"), (8, "/delivery"), (6, "/home")],
    "/product/sneakers": [(22, "/product/boots"), (16, "/catalogue/shoes"), (4, "/delivery"), (8, "/home")],
    "/product/backpack": [(18, "/product/handbag"), (16, "/catalogue/bags"), (4, "/delivery"), (8, "/home")],
    "/product/handbag": [(20, "/product/backpack"), (20, "/catalogue/bags"), (4, "/delivery"), (8, "/home")],
    "/product/raincoat": [(20, "/product/parka"), (16, "/catalogue/coats"), (12, "/delivery")],
    "/product/parka": [(22, "/product/raincoat"), (16, "/catalogue/coats"), (12, "/delivery")],
    "/product/lamp": [(22, "/product/mug"), (16, "/catalogue/gifts"), (10, "/home")],
    "/product/mug": [(20, "/product/lamp"), (14, "/catalogue/gifts"), (10, "/home")],
    "/sale": [(14, "/product/sneakers"), (14, "/product/backpack"), (12, "/product/parka"), (10, "/product/mug"), (14, "/home")],
    "/cart": [(6, "/delivery"), (8, "/home"), (8, "/sale")],
    "/checkout": [(12, "/cart"), (6, "/delivery")],
    "/thank-you": [(30, "/home"), (14, "/catalogue/gifts")],
    "/delivery": [(20, "/home"), (16, "/sale"), (6, "/about")],
    "/blog": [(44, "/blog/how-to-choose"), (20, "/home")],
    "/blog/how-to-choose": [(22, "/catalogue/shoes"), (16, "/catalogue/coats"), (14, "/blog"), (12, "/home")],
    "/about": [(34, "/home"), (16, "/delivery"), (14, "/blog")],
}  # fmt: skip
PAGES = tuple(_LINKS)
PRODUCTS = tuple(page for page in PAGES if page.startswith("/product/"))
_SEARCHED = ("/home", "/catalogue/shoes", "/catalogue/bags", "/catalogue/coats", "/catalogue/gifts", "/sale")
_HELPFUL = ("/blog/how-to-choose", "/delivery")

_ENDS = (92, 66, 52, 42, 34, 28)
"""How readily a path ends on each level, to 64 that its links weigh."""
_BUYS = (1, 4, 6, 9, 11, 14)
"""How readily something is put into the cart, likewise."""

_SECONDS = {"": 9, "/product": 16, "/blog": 50, "/checkout": 45, "/delivery": 25, "/about": 25, "/cart": 14}
"""How long a page is looked at, about."""


class Sight:
    """A thing that is done at an address, with the fields that say so in records."""

    __slots__ = ("event_type", "page_fields", "page_url", "type_field")

    def __init__(self, event_type: str, page_url: str) -> None:
        self.event_type = event_type
        self.page_url = page_url
        self.type_field = f'"event_type":"{event_type}","click_id":"'
        path = page_url.removeprefix(SITE).partition("?")[0]
        self.page_fields = f'"page_url":"{page_url}","page_url_path":"{path}",'


@cache
def sight(event_type: str, page_url: str) -> Sight:
    """Return the one sight of this kind at this address."""
    return Sight(event_type, page_url)


class Step:
    """A step of a path: what is seen, how long until the next step, and what that is (None: the end).

    Of 256 chances, those below `chances[0]` lead to `following[0]`, and so on. A pause is `about` microseconds,
    stretched by one of 1,024 factors.
    """

    __slots__ = ("about", "chances", "following", "sight", "stretch")

    def __init__(self, shown: Sight, about: int, stretch: tuple[int, ...]) -> None:
        self.sight = shown
        self.about = about
        self.stretch = stretch
        self.chances: tuple[int, ...] = ()
        self.following: tuple[Step | None, ...] = ()

    def lead(self, weighted: Iterable[tuple[int, Step | None]]) -> None:
        """Say what may follow, and how often in proportion to the others."""
        possible = [(weight, step) for weight, step in weighted if weight]
        total = sum(weight for weight, _ in possible)
        self.chances = tuple(end * 256 // total for end in accumulate(weight for weight, _ in possible))
        self.following = tuple(step for _, step in possible)


_EVEN = (1024,) * 1024
_HUMAN = (*(256 + 1024 * number // (1100 - number) for number in range(1020)), 0, 0, 0, 0)

LEFT_OPEN = 1020
"""From this factor on, a tab is left open."""

_DAYS_OPEN = (1, 1, 1, 3)


def left_open(number: int, chance: int) -> int:
    """Return how long a tab is left open: until about the same time of another day. `chance` is one of 16,384."""
    return _DAYS_OPEN[number - LEFT_OPEN] * DAY + (chance - 8192) * 15 * MINUTE // 8192


def _about(event_type: str, page: str, hand_held: bool) -> int:
    """Return how long something takes, about, in microseconds."""
    if event_type != PAGEVIEW:
        return SECOND
    seconds = _SECONDS.get("/" + page.split("/")[1], _SECONDS[""])
    return seconds * SECOND * (7 if hand_held else 10) // 10


@cache
def net(level: int, hand_held: bool) -> dict[str, Step]:
    """Return where the paths of visitors of this level on such a device begin, by page."""
    steps: dict[tuple[int, str, str], Step] = {}

    def step(mood: int, event_type: str, page: str) -> Step:
        key = mood, event_type, page
        if key not in steps:
            stretch = _HUMAN if event_type == PAGEVIEW else _EVEN
            steps[key] = Step(sight(event_type, SITE + page), _about(event_type, page, hand_held), stretch)
            steps[key].lead(
                (weight, None if following is None else step(*following))
                for weight, following in _following(mood, event_type, page, level, hand_held)
            )
        return steps[key]

    return {page: step(_CART if page == "/cart" else _ARRIVING, PAGEVIEW, page) for page in PAGES}


@cache
def beginning(source: Source, level: int, hand_held: bool) -> tuple[Sight, Step]:
    """Return what a visitor sees first, with its campaign in the address, and the step that this is."""
    return sight(PAGEVIEW, source.landing_url), net(min(level, LEVELS - 1), hand_held)[source.landing]


def _following(
    mood: int, event_type: str, page: str, level: int, hand_held: bool
) -> Iterable[tuple[int, tuple[int, str, str] | None]]:
    """Return what may follow a step, and how often: weights, and mood, kind and page, or None for the end."""
    ends = _ENDS[level] * (5 if hand_held else 4) * (10, 4, 3, 3, 12)[mood] // 40
    buys = _BUYS[level] * (5 if hand_held else 9) * (10, 10, 24, 6, 2)[mood] // 90
    if event_type == PAGEVIEW and mood in (_ARRIVING, _LOOKING):
        mood = _INFORMED if page in _HELPFUL else _LOOKING
    links = [(weight, (mood, PAGEVIEW, target)) for weight, target in _LINKS[page]]
    match event_type, page:
        case "add_to_cart", _:
            return [(40, (_CART, PAGEVIEW, "/cart")), (12, None), *((weight // 2, link) for weight, link in links)]
        case "remove_from_cart", _:
            return [(30, None), *((weight, (_LOOKING, PAGEVIEW, target)) for weight, target in _LINKS[page])]
        case "search", _:
            found = PRODUCTS if page == "/home" else [target for _, target in _LINKS[page] if target in PRODUCTS]
            return [(ends // 3, None), *((8, (mood, PAGEVIEW, product)) for product in found or PRODUCTS)]
        case "purchase", _:
            return [(140, None), *links]
        case "sign_up" | "video_play", _:
            return [(ends // 2, None), *links]
        case _, "/cart":
            on = [(28 + 5 * level, (mood, PAGEVIEW, "/checkout"))] if mood == _CART else []
            return [*on, (8, (mood, "remove_from_cart", page)), (ends * 2 // 3, None), *links]
        case _, "/checkout":
            return [(44 + 6 * level, (_BOUGHT, PAGEVIEW, "/thank-you")), (ends * 2 // 3, None), *links]
        case _, "/thank-you":
            return [(1, (_BOUGHT, "purchase", page))]
    more: list[tuple[int, tuple[int, str, str] | None]] = [(ends, None)]
    if page in PRODUCTS:
        more.append((buys, (mood if mood == _BOUGHT else _CART, "add_to_cart", page)))
    if page in _SEARCHED:
        more.append((8, (mood, "search", page)))
    if page == "/product/lamp":
        more.append((12, (_INFORMED if mood == _LOOKING else mood, "video_play", page)))
    if page == "/blog":
        more.append((3, (mood, "sign_up", page)))
    return [*more, *links]


@cache
def machine_net() -> dict[str, Step]:
    """Return where a bot's paths begin, by page: it looks at page after page, at a machine's pace."""
    pages = [page for page in PAGES if page not in ("/cart", "/checkout", "/thank-you")]
    steps = {page: Step(sight(PAGEVIEW, SITE + page), SECOND, _EVEN) for page in pages}
    for step in steps.values():
        step.lead([(1, None), *((1, other) for other in steps.values())])
    return steps
