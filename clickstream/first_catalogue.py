"""What the world of the first release is made of: places and devices, sources, pages, day and night.

Every text here goes into JSON as it stands, so none needs escaping (a test holds it). Weights are integers. The fields
that many records share are spelt once, as spelling is most of the work of generating.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

Item = TypeVar("Item")


def spread(weighted: list[tuple[int, Item]], slots: int) -> tuple[Item, ...]:
    """Return a table of `slots` entries that holds each item `weight` times, so that random bits pick by looking it up.

    Raises: ValueError when the weights don't add up to `slots`.
    """
    table = tuple(item for weight, item in weighted for _ in range(weight))
    if len(table) != slots:
        raise ValueError(f"The weights add up to {len(table)}, not to {slots}.")
    return table


@dataclass(frozen=True)
class Place:
    """Where a visitor is; latitude and longitude in units of 10⁻⁵ degree, scattered by the world."""

    country: str
    region: str
    zone: str
    latitude: int
    longitude: int
    language: str
    network: str

    @cached_property
    def language_field(self) -> str:
        """How the browser records of all visits from here end."""
        return f'"browser_language":"{self.language}"}}'

    @cached_property
    def geo_fields(self) -> str:
        """What the geo records of all visits from here have in common."""
        return f'"geo_country":"{self.country}","geo_timezone":"{self.zone}","geo_region_name":"{self.region}",'


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


@dataclass(frozen=True)
class Source:
    """What led a visitor here; empty texts where a direct visit has none."""

    referer_url: str
    referer_medium: str
    utm_medium: str
    utm_source: str
    utm_content: str
    utm_campaign: str
    landing: str

    @cached_property
    def location_fields(self) -> str:
        """How the location records of all visits from here end."""
        return (
            f'"referer_url":"{self.referer_url}","referer_medium":"{self.referer_medium}","utm_medium":"{self.utm_medium}",'
            f'"utm_source":"{self.utm_source}","utm_content":"{self.utm_content}","utm_campaign":"{self.utm_campaign}"}}'
        )


PLACES = spread(
    [
        (40, Place("US", "New York", "America/New_York", 40_71278, -74_00594, "en_US", "64.18")),
        (24, Place("US", "California", "America/Los_Angeles", 34_05223, -118_24368, "en_US", "64.52")),
        (14, Place("US", "Texas", "America/Chicago", 29_76328, -95_36327, "en_US", "64.91")),
        (20, Place("GB", "England", "Europe/London", 51_50853, -12574, "en_GB", "81.12")),
        (24, Place("DE", "Berlin", "Europe/Berlin", 52_52437, 13_41053, "de_DE", "84.17")),
        (12, Place("DE", "Bavaria", "Europe/Berlin", 48_13743, 11_57549, "de_DE", "84.44")),
        (16, Place("FR", "Ile-de-France", "Europe/Paris", 48_85341, 2_34880, "fr_FR", "86.19")),
        (10, Place("ES", "Madrid", "Europe/Madrid", 40_41650, -3_70256, "es_ES", "88.23")),
        (12, Place("PL", "Mazovia", "Europe/Warsaw", 52_22977, 21_01178, "pl_PL", "89.64")),
        (8, Place("NL", "North Holland", "Europe/Amsterdam", 52_37403, 4_88969, "nl_NL", "92.70")),
        (8, Place("SE", "Stockholm", "Europe/Stockholm", 59_33258, 18_06490, "sv_SE", "94.11")),
        (16, Place("IN", "Maharashtra", "Asia/Kolkata", 19_07283, 72_88261, "en_IN", "103.25")),
        (12, Place("KR", "Seoul", "Asia/Seoul", 37_56600, 126_97840, "ko_KR", "112.40")),
        (12, Place("JP", "Tokyo", "Asia/Tokyo", 35_68950, 139_69171, "ja_JP", "113.55")),
        (12, Place("BR", "Sao Paulo", "America/Sao_Paulo", -23_54750, -46_63611, "pt_BR", "177.32")),
        (8, Place("CA", "Ontario", "America/Toronto", 43_70011, -79_41630, "en_CA", "99.240")),
        (8, Place("AU", "New South Wales", "Australia/Sydney", -33_86785, 151_20732, "en_AU", "110.140")),
    ],
    256,
)

_WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"
_MACOS = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
_LINUX = "Mozilla/5.0 (X11; Linux x86_64)"
_ANDROID = "Mozilla/5.0 (Linux; Android 10; K)"
_IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X)"
_IPAD = "Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X)"
_BLINK = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0"
_WEBKIT = "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5"

DEVICES = spread(
    [
        (
            52,
            Device("Windows", "Windows 10", "Computer", False, "Chrome", f"{_WINDOWS} {_BLINK} Safari/537.36"),
        ),
        (
            16,
            Device("Windows", "Windows 10", "Computer", False, "Edge", f"{_WINDOWS} {_BLINK} Edg/126.0.0.0"),
        ),
        (
            10,
            Device(
                "Windows",
                "Windows 10",
                "Computer",
                False,
                "Firefox",
                f"{_WINDOWS} Gecko/20100101 Firefox/127.0",
            ),
        ),
        (
            22,
            Device("macOS", "macOS 10.15", "Computer", False, "Safari", f"{_MACOS} {_WEBKIT} Safari/605.1.15"),
        ),
        (16, Device("macOS", "macOS 10.15", "Computer", False, "Chrome", f"{_MACOS} {_BLINK} Safari/537.36")),
        (6, Device("Linux", "Linux", "Computer", False, "Firefox", f"{_LINUX} Gecko/20100101 Firefox/127.0")),
        (4, Device("Linux", "Linux", "Computer", False, "Chrome", f"{_LINUX} {_BLINK} Safari/537.36")),
        (
            60,
            Device("Android", "Android 10", "Mobile", True, "Chrome", f"{_ANDROID} {_BLINK} Mobile Safari/537.36"),
        ),
        (
            8,
            Device(
                "Android",
                "Android 10",
                "Mobile",
                True,
                "Samsung Internet",
                f"{_ANDROID} SamsungBrowser/25.0 {_BLINK}",
            ),
        ),
        (4, Device("Android", "Android 10", "Tablet", True, "Chrome", f"{_ANDROID} {_BLINK} Safari/537.36")),
        (
            46,
            Device("iOS", "iOS 17.5", "Mobile", True, "Safari", f"{_IPHONE} {_WEBKIT} Mobile/15E148 Safari/604.1"),
        ),
        (
            6,
            Device(
                "iOS",
                "iOS 17.5",
                "Mobile",
                True,
                "Chrome",
                f"{_IPHONE} CriOS/126.0 Mobile/15E148 Safari/604.1",
            ),
        ),
        (
            6,
            Device(
                "iOS",
                "iPadOS 17.5",
                "Tablet",
                True,
                "Safari",
                f"{_IPAD} {_WEBKIT} Mobile/15E148 Safari/604.1",
            ),
        ),
    ],
    256,
)

SOURCES = spread(
    [
        (56, Source("", "direct", "", "", "", "", "/home")),
        (40, Source("https://www.google.com/", "search", "organic", "google", "", "", "/home")),
        (12, Source("https://www.google.com/", "search", "organic", "google", "", "", "/blog/how-to-choose")),
        (24, Source("https://www.google.com/", "paid", "cpc", "google", "text_ad_1", "brand", "/home")),
        (
            20,
            Source("https://www.google.com/", "paid", "cpc", "google", "text_ad_2", "shoes", "/catalogue/shoes"),
        ),
        (8, Source("https://www.bing.com/", "search", "organic", "bing", "", "", "/home")),
        (4, Source("https://www.bing.com/", "paid", "cpc", "bing", "text_ad_1", "brand", "/home")),
        (
            16,
            Source(
                "https://www.instagram.com/",
                "social",
                "social",
                "instagram",
                "story_1",
                "autumn",
                "/catalogue/bags",
            ),
        ),
        (
            12,
            Source(
                "https://www.facebook.com/",
                "social",
                "social",
                "facebook",
                "post_3",
                "autumn",
                "/catalogue/coats",
            ),
        ),
        (
            6,
            Source(
                "https://www.pinterest.com/",
                "social",
                "social",
                "pinterest",
                "board_2",
                "gifts",
                "/catalogue/gifts",
            ),
        ),
        (
            8,
            Source("https://www.youtube.com/", "social", "video", "youtube", "review_7", "gifts", "/product/lamp"),
        ),
        (
            18,
            Source("https://mail.example.com/", "email", "email", "newsletter", "top_banner", "weekly", "/sale"),
        ),
        (
            8,
            Source("https://mail.example.com/", "email", "email", "newsletter", "cart_reminder", "cart", "/cart"),
        ),
        (
            12,
            Source(
                "https://partner.example.net/",
                "referral",
                "affiliate",
                "partner",
                "banner_4",
                "partners",
                "/sale",
            ),
        ),
        (8, Source("https://forum.example.org/", "referral", "", "", "", "", "/blog/how-to-choose")),
        (
            4,
            Source("https://prices.example.net/", "referral", "cpc", "prices", "offer", "shoes", "/product/boots"),
        ),
    ],
    256,
)

SITE = "https://shop.example.com"

_LINKS: dict[str, list[tuple[int, str]]] = {
    "/home": [(14, "/catalogue/shoes"), (12, "/catalogue/bags"), (10, "/catalogue/coats"), (6, "/catalogue/gifts"), (12, "/sale"), (6, "/blog"), (4, "/about")],
    "/catalogue/shoes": [(22, "/product/boots"), (18, "/product/sneakers"), (10, "/catalogue/bags"), (8, "/sale"), (6, "/home")],
    "/catalogue/bags": [(24, "/product/backpack"), (14, "/product/handbag"), (12, "/catalogue/coats"), (8, "/sale"), (6, "/home")],
    "/catalogue/coats": [(26, "/product/raincoat"), (14, "/product/parka"), (14, "/catalogue/shoes"), (10, "/home")],
    "/catalogue/gifts": [(26, "/product/lamp"), (18, "/product/mug"), (12, "/sale"), (8, "/home")],
    "/product/boots": [(16, "/cart"), (20, "/product/sneakers"), (14, "/catalogue/shoes"), (8, "/delivery"), (6, "/home")],
    "/product/sneakers": [(14, "/cart"), (22, "/product/boots"), (16, "/catalogue/shoes"), (12, "/home")],
    "/product/backpack": [(18, "/cart"), (18, "/product/handbag"), (16, "/catalogue/bags"), (12, "/home")],
    "/product/handbag": [(12, "/cart"), (20, "/product/backpack"), (20, "/catalogue/bags"), (12, "/home")],
    "/product/raincoat": [(16, "/cart"), (20, "/product/parka"), (16, "/catalogue/coats"), (12, "/delivery")],
    "/product/parka": [(14, "/cart"), (22, "/product/raincoat"), (16, "/catalogue/coats"), (12, "/delivery")],
    "/product/lamp": [(16, "/cart"), (22, "/product/mug"), (16, "/catalogue/gifts"), (10, "/home")],
    "/product/mug": [(20, "/cart"), (20, "/product/lamp"), (14, "/catalogue/gifts"), (10, "/home")],
    "/sale": [(14, "/product/sneakers"), (14, "/product/backpack"), (12, "/product/parka"), (10, "/product/mug"), (14, "/home")],
    "/cart": [(30, "/checkout"), (10, "/delivery"), (12, "/home"), (12, "/sale")],
    "/checkout": [(40, "/thank-you"), (14, "/cart"), (10, "/delivery")],
    "/thank-you": [(40, "/home"), (24, "/catalogue/gifts")],
    "/delivery": [(28, "/cart"), (20, "/home"), (16, "/about")],
    "/blog": [(44, "/blog/how-to-choose"), (20, "/home")],
    "/blog/how-to-choose": [(22, "/catalogue/shoes"), (16, "/catalogue/coats"), (14, "/blog"), (12, "/home")],
    "/about": [(34, "/home"), (16, "/delivery"), (14, "/blog")],
}  # fmt: skip
NEXT_PAGE = {page: spread(links, 64) for page, links in _LINKS.items()}

PAGES_IN_A_VISIT = spread(
    [
        (98, 1),
        (34, 2),
        (28, 3),
        (22, 4),
        (18, 5),
        (14, 6),
        (10, 7),
        (8, 8),
        (7, 10),
        (6, 12),
        (5, 15),
        (4, 20),
        (2, 30),
    ],
    256,
)

PAUSE_SECONDS = (*(4 + 12 * i // (1024 - i) for i in range(1021)), 6 * 3600, 18 * 3600, 40 * 3600)
"""How long a page is looked at, at least; at most twice as long. The last three of 1024 are tabs left open for hours or
days: visits that live through one model day's end, or several."""

VISITS_BY_HOUR = (22, 15, 10, 7, 6, 8, 14, 25, 38, 48, 54, 58, 62, 60, 57, 55, 56, 60, 68, 76, 80, 74, 56, 36)
"""How busy each UTC hour begins, relative to the others; in between it goes straight from one to the next."""

FIRST_NAMES = (
    "anna", "boris", "chloe", "daniel", "elena", "felix", "grace", "hugo", "irene", "jonas", "kira", "liam",
    "maria", "noah", "olga", "paul",
)  # fmt: skip
LAST_NAMES = (
    "adams", "bauer", "costa", "dubois", "evans", "fischer", "garcia", "hansen", "ivanov", "jung", "kim", "lopez",
    "meyer", "novak", "olsen", "patel",
)  # fmt: skip
