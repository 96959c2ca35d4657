"""What the model world is made of: places, devices with the browsers of their year, sources of traffic, names.

Every text here goes into JSON as it stands, so none needs escaping (a test holds it). Weights are integers. The fields
that many records share are spelt once, as spelling is most of the work of generating.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

Item = TypeVar("Item")


def spread(weighted: Iterable[tuple[int, Item]], slots: int) -> tuple[Item, ...]:
    """Return a table of `slots` entries that holds each item in proportion to its weight, for random bits to pick from."""
    weights, items = zip(*weighted, strict=True)
    ends = [end * slots // sum(weights) for end in accumulate(weights, initial=0)]
    return tuple(item for item, (begin, end) in zip(items, pairwise(ends), strict=True) for _ in range(end - begin))


# ── where ──


@dataclass(frozen=True)
class Place:
    """Where visitors are; latitude and longitude in units of 10⁻⁵ degree, scattered by the world.

    `offset` is how many quarters of an hour its standard time is ahead of UTC; `summer` names the rule of its summer
    time. `late` is how many quarters later than elsewhere people do everything.
    """

    country: str
    region: str
    zone: str
    offset: int
    summer: str
    latitude: int
    longitude: int
    language: str
    network: str
    late: int = 0
    is_data_centre: bool = False

    @cached_property
    def language_end(self) -> str:
        """How the lines of the browser records of all visits from here end."""
        return f'"browser_language":"{self.language}"}}\n'

    @cached_property
    def latitudes(self) -> tuple[str, ...]:
        """The 64 latitudes around here that visitors have."""
        return tuple(f"{(self.latitude + 257 * step - 8224) / 100_000:.5f}" for step in range(64))

    @cached_property
    def longitudes(self) -> tuple[str, ...]:
        """The 64 longitudes around here that visitors have."""
        return tuple(f"{(self.longitude + 257 * step - 8224) / 100_000:.5f}" for step in range(64))

    @cached_property
    def geo_fields(self) -> str:
        """What the geo records of all visits from here have in common."""
        return f'"geo_country":"{self.country}","geo_timezone":"{self.zone}","geo_region_name":"{self.region}",'


PLACES = (
    (40, Place("US", "New York", "America/New_York", -20, "US", 40_71278, -74_00594, "en_US", "64.18")),
    (24, Place("US", "California", "America/Los_Angeles", -32, "US", 34_05223, -118_24368, "en_US", "64.52")),
    (14, Place("US", "Texas", "America/Chicago", -24, "US", 29_76328, -95_36327, "en_US", "64.91")),
    (20, Place("GB", "England", "Europe/London", 0, "EU", 51_50853, -12574, "en_GB", "81.12")),
    (24, Place("DE", "Berlin", "Europe/Berlin", 4, "EU", 52_52437, 13_41053, "de_DE", "84.17")),
    (12, Place("DE", "Bavaria", "Europe/Berlin", 4, "EU", 48_13743, 11_57549, "de_DE", "84.44")),
    (16, Place("FR", "Ile-de-France", "Europe/Paris", 4, "EU", 48_85341, 2_34880, "fr_FR", "86.19")),
    (10, Place("ES", "Madrid", "Europe/Madrid", 4, "EU", 40_41650, -3_70256, "es_ES", "88.23", late=4)),
    (12, Place("PL", "Mazovia", "Europe/Warsaw", 4, "EU", 52_22977, 21_01178, "pl_PL", "89.64")),
    (8, Place("NL", "North Holland", "Europe/Amsterdam", 4, "EU", 52_37403, 4_88969, "nl_NL", "92.70")),
    (8, Place("SE", "Stockholm", "Europe/Stockholm", 4, "EU", 59_33258, 18_06490, "sv_SE", "94.11")),
    (16, Place("IN", "Maharashtra", "Asia/Kolkata", 22, "", 19_07283, 72_88261, "en_IN", "103.25")),
    (12, Place("KR", "Seoul", "Asia/Seoul", 36, "", 37_56600, 126_97840, "ko_KR", "112.40")),
    (12, Place("JP", "Tokyo", "Asia/Tokyo", 36, "", 35_68950, 139_69171, "ja_JP", "113.55")),
    (12, Place("BR", "Sao Paulo", "America/Sao_Paulo", -12, "", -23_54750, -46_63611, "pt_BR", "177.32")),
    (8, Place("CA", "Ontario", "America/Toronto", -20, "US", 43_70011, -79_41630, "en_CA", "99.240")),
    (8, Place("AU", "New South Wales", "Australia/Sydney", 40, "AU", -33_86785, 151_20732, "en_AU", "110.140")),
    (
        3,
        Place(
            "US", "Virginia", "America/New_York", -20, "US", 39_04372, -77_48749, "en_US", "34.86", is_data_centre=True
        ),
    ),
)
"""How many of 259 visits come from each, over the year."""

# ── with what ──


@dataclass(frozen=True)
class Device:
    """What a visitor browses with."""

    os: str
    os_name: str
    device_type: str
    is_mobile: bool
    browser: str
    user_agent: str

    @cached_property
    def fields(self) -> tuple[str, str, str]:
        """The fields that records have in common, of three kinds, which follow."""
        return self.os_fields, self.type_fields, self.browser_fields

    @cached_property
    def os_fields(self) -> str:
        """How the device records of all such devices begin, after the click_id."""
        return f'"os":"{self.os}","os_name":"{self.os_name}",'

    @cached_property
    def type_fields(self) -> str:
        """How they go on, after the time zone."""
        return f'"device_type":"{self.device_type}","device_is_mobile":{"true" if self.is_mobile else "false"},'

    @cached_property
    def browser_fields(self) -> str:
        """What the browser records of all such devices have in common."""
        return f'"browser_name":"{self.browser}","browser_user_agent":"{self.user_agent}",'


class _Kind(NamedTuple):
    """A kind of device: its texts, in which a browser's name in braces stands for that one's version of the day."""

    os: str
    os_name: str
    device_type: str
    browser: str
    user_agent: str

    def of(self, versions: dict[str, str]) -> Device:
        os_name, user_agent = (text.format_map(versions) for text in (self.os_name, self.user_agent))
        return Device(self.os, os_name, self.device_type, self.device_type != "Computer", self.browser, user_agent)


_WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"
_MACOS = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
_LINUX = "Mozilla/5.0 (X11; Linux x86_64)"
_ANDROID = "Mozilla/5.0 (Linux; Android 10; K)"
_IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS {iOS} like Mac OS X)"
_IPAD = "Mozilla/5.0 (iPad; CPU OS {iOS} like Mac OS X)"
_BLINK = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{Chrome}.0.0.0"
_WEBKIT = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
_GECKO = "Gecko/20100101 Firefox/{Firefox}.0"

_COMPUTERS = (
    (40, _Kind("Windows", "Windows 11", "Computer", "Chrome", f"{_WINDOWS} {_BLINK} Safari/537.36")),
    (12, _Kind("Windows", "Windows 10", "Computer", "Chrome", f"{_WINDOWS} {_BLINK} Safari/537.36")),
    (16, _Kind("Windows", "Windows 11", "Computer", "Edge", f"{_WINDOWS} {_BLINK} Safari/537.36 Edg/{{Chrome}}.0.0.0")),
    (10, _Kind("Windows", "Windows 10", "Computer", "Firefox", f"{_WINDOWS[:-1]}; rv:{{Firefox}}.0) {_GECKO}")),
    (22, _Kind("macOS", "macOS 10.15", "Computer", "Safari", f"{_MACOS} {_WEBKIT} Version/{{Safari}} Safari/605.1.15")),
    (16, _Kind("macOS", "macOS 10.15", "Computer", "Chrome", f"{_MACOS} {_BLINK} Safari/537.36")),
    (6, _Kind("Linux", "Linux", "Computer", "Firefox", f"{_LINUX[:-1]}; rv:{{Firefox}}.0) {_GECKO}")),
    (4, _Kind("Linux", "Linux", "Computer", "Chrome", f"{_LINUX} {_BLINK} Safari/537.36")),
)  # fmt: skip
_HAND_HELDS = (
    (60, _Kind("Android", "Android 10", "Mobile", "Chrome", f"{_ANDROID} {_BLINK} Mobile Safari/537.36")),
    (8, _Kind("Android", "Android 10", "Mobile", "Samsung Internet", f"{_ANDROID} AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/{{Samsung}}.0 Chrome/{{Chrome}}.0.0.0 Mobile Safari/537.36")),
    (4, _Kind("Android", "Android 10", "Tablet", "Chrome", f"{_ANDROID} {_BLINK} Safari/537.36")),
    (46, _Kind("iOS", "iOS {Safari}", "Mobile", "Safari", f"{_IPHONE} {_WEBKIT} Version/{{Safari}} Mobile/15E148 Safari/604.1")),
    (6, _Kind("iOS", "iOS {Safari}", "Mobile", "Chrome", f"{_IPHONE} {_WEBKIT} CriOS/{{Chrome}}.0.0.0 Mobile/15E148 Safari/604.1")),
    (6, _Kind("iOS", "iPadOS {Safari}", "Tablet", "Safari", f"{_IPAD} {_WEBKIT} Version/{{Safari}} Mobile/15E148 Safari/604.1")),
)  # fmt: skip

BOTS = (
    Device(
        "Linux",
        "Linux",
        "Computer",
        False,
        "Googlebot",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    ),
    Device(
        "Linux",
        "Linux",
        "Computer",
        False,
        "bingbot",
        "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
    ),
    Device(
        "Linux",
        "Linux",
        "Computer",
        False,
        "AhrefsBot",
        "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
    ),
    Device(
        "Linux",
        "Linux",
        "Computer",
        False,
        "Chrome",
        f"{_LINUX} AppleWebKit/537.36 (KHTML, like Gecko) Chrome/88.0.4324.96 Safari/537.36",
    ),
)
"""The last one doesn't say that it is one."""

# Days since 1970 and the version that came out then; before the first one and after the last one, see `_version`.
_CHROME = (
    (15300, 16),
    (16436, 39),
    (17555, 64),
    (18646, 88),
    (18996, 97),
    (19367, 109),
    (19738, 121),
    (20102, 132),
    (20466, 144),
)
_FIREFOX = ((15370, 10), (17554, 58), (18653, 85), (19003, 96), (19374, 109), (19745, 122), (20095, 134), (20466, 147))
_SAMSUNG = ((17563, 7), (18293, 11), (19003, 16), (19367, 19), (19738, 23), (20102, 27), (20466, 29))


def _version(day: int, releases: tuple[tuple[int, int], ...], days_each: int) -> int:
    """Return a browser's version on a day: evenly between what is known, and from then on one more every `days_each`."""
    number = bisect_right(releases, (day, 1 << 30))
    if number == 0:
        return releases[0][1]
    since, version = releases[number - 1]
    if number == len(releases):
        return version + (day - since) // days_each
    until, later = releases[number]
    return version + (day - since) * (later - version) // (until - since)


def _safari(day: int) -> tuple[int, int]:
    """Return Safari's version: one each autumn, named after the coming year since 2025, and some small ones between."""
    autumns, days = divmod(max(day - 15596, 0), 365)  # since mid-September 2012, leap days left aside
    version = 6 + autumns
    return version + 7 if version > 18 else version, min(days // 60, 6)


@lru_cache(maxsize=8)
def devices_of(era: int) -> tuple[tuple[Device, ...], tuple[Device, ...]]:
    """Return the computers and the hand-held devices that people use in an era of 28 days, as tables of 256."""
    day = era * 28
    version, small = _safari(day)
    versions = {
        "Chrome": str(_version(day, _CHROME, 28)),
        "Firefox": str(_version(day, _FIREFOX, 28)),
        "Samsung": str(_version(day, _SAMSUNG, 120)),
        "Safari": f"{version}.{small}",
        "iOS": f"{version}_{small}" if version < 26 else "18_6",  # what Safari says since then
    }
    computers, hand_helds = (
        spread([(weight, kind.of(versions)) for weight, kind in kinds], 256) for kinds in (_COMPUTERS, _HAND_HELDS)
    )
    return computers, hand_helds


# ── whence ──

SITE = "https://shop.example.com"


@dataclass(frozen=True, eq=False)
class Source:
    """What led a visitor here; empty texts where a direct visit has none. `draw` says how far it draws them in, 0 to 3."""

    referer_url: str
    referer_medium: str
    utm_medium: str
    utm_source: str
    utm_content: str
    utm_campaign: str
    landing: str
    draw: int = 0

    @cached_property
    def location_end(self) -> str:
        """How the lines of the location records of all visits from here end."""
        return (
            f'"referer_url":"{self.referer_url}","referer_medium":"{self.referer_medium}","utm_medium":"{self.utm_medium}",'
            f'"utm_source":"{self.utm_source}","utm_content":"{self.utm_content}","utm_campaign":"{self.utm_campaign}"}}\n'
        )

    @cached_property
    def landing_url(self) -> str:
        """The page that it leads to, with its campaign."""
        tags = f"?utm_source={self.utm_source}&utm_medium={self.utm_medium}&utm_campaign={self.utm_campaign}&utm_content={self.utm_content}"
        return f"{SITE}{self.landing}{tags if self.utm_campaign else ''}"


# How many of each come by a computer, by a hand-held device, and those who come again by each of the two.
_SOURCES = (
    ((56, 36, 110, 80), Source("", "direct", "", "", "", "", "/home", 2)),
    ((48, 30, 30, 22), Source("https://www.google.com/", "search", "organic", "google", "", "", "/home", 1)),
    ((18, 12, 8, 6), Source("https://www.google.com/", "search", "organic", "google", "", "", "/blog/how-to-choose", 1)),
    ((24, 22, 16, 14), Source("https://www.google.com/", "paid", "cpc", "google", "text_ad_1", "brand", "/home", 2)),
    ((22, 20, 8, 8), Source("https://www.google.com/", "paid", "cpc", "google", "text_ad_2", "shoes", "/catalogue/shoes", 1)),
    ((12, 2, 6, 1), Source("https://www.bing.com/", "search", "organic", "bing", "", "", "/home", 1)),
    ((6, 1, 2, 1), Source("https://www.bing.com/", "paid", "cpc", "bing", "text_ad_1", "brand", "/home", 2)),
    ((5, 36, 3, 18), Source("https://www.instagram.com/", "social", "social", "instagram", "story_1", "looks", "/catalogue/bags")),
    ((6, 24, 3, 12), Source("https://www.facebook.com/", "social", "social", "facebook", "post_3", "looks", "/catalogue/coats")),
    ((4, 12, 2, 6), Source("https://www.pinterest.com/", "social", "social", "pinterest", "board_2", "ideas", "/catalogue/gifts")),
    ((6, 10, 3, 5), Source("https://www.youtube.com/", "social", "video", "youtube", "review_7", "ideas", "/product/lamp")),
    ((6, 8, 30, 34), Source("https://mail.example.com/", "email", "email", "newsletter", "top_banner", "weekly", "/sale", 3)),
    ((0, 0, 5, 6), Source("https://mail.example.com/", "email", "email", "newsletter", "cart_reminder", "cart", "/cart", 3)),
    ((12, 10, 6, 6), Source("https://partner.example.net/", "referral", "affiliate", "partner", "banner_4", "partners", "/sale", 1)),
    ((10, 4, 4, 2), Source("https://forum.example.org/", "referral", "", "", "", "", "/blog/how-to-choose", 1)),
    ((6, 3, 2, 1), Source("https://prices.example.net/", "referral", "cpc", "prices", "offer", "shoes", "/product/boots", 2)),
)  # fmt: skip
SOURCES = tuple(spread([(weights[who], source) for weights, source in _SOURCES], 256) for who in range(4))
"""By (comes again, hand-held), as two bits."""

UNKNOWN = Source("", "direct", "", "", "", "", "/home")
"""What is told of where a bot comes from."""


@lru_cache(maxsize=64)
def campaign_sources(campaign: str) -> tuple[Source, ...]:
    """Return what leads to the shop because of a campaign, as a table of 256."""
    return spread(
        [
            (5, Source("https://www.google.com/", "paid", "cpc", "google", "text_ad_3", campaign, "/sale", 2)),
            (4, Source("https://mail.example.com/", "email", "email", "newsletter", "top_banner", campaign, "/sale", 3)),
            (4, Source("https://www.instagram.com/", "social", "social", "instagram", "story_2", campaign, "/sale")),
            (2, Source("https://partner.example.net/", "referral", "affiliate", "partner", "banner_5", campaign, "/sale", 1)),
        ],
        256,
    )  # fmt: skip


# ── who ──

_FIRST_NAMES = (
    "anna", "boris", "chloe", "daniel", "elena", "felix", "grace", "hugo", "irene", "jonas", "kira", "liam",
    "maria", "noah", "olga", "paul",
)  # fmt: skip
_LAST_NAMES = (
    "adams", "bauer", "costa", "dubois", "evans", "fischer", "garcia", "hansen", "ivanov", "jung", "kim", "lopez",
    "meyer", "novak", "olsen", "patel",
)  # fmt: skip
NAMES = tuple(f"{first}.{last}." for first in _FIRST_NAMES for last in _LAST_NAMES)
"""How 256 custom ids begin."""
