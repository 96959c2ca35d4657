#!/usr/bin/env python3
"""Draw the pictures of docs/clickstream.md, of worlds made on the spot: `python tools/pictures.py [FOLDER]`.

They are drawn as SVG, with the standard library alone, and the same worlds give the same bytes.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from clickstream.almanac import QUARTER, local  # noqa: E402 - found by the path above
from clickstream.catalogue import PLACES  # noqa: E402
from clickstream.instant import DAY, Instant, parse  # noqa: E402
from clickstream.topics import BROWSER, DEVICE, GEO, LOCATION  # noqa: E402
from clickstream.world import Parameters, World  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH, HEIGHT = 860, 250
LEFT, TOP, RIGHT, BOTTOM = 52, 34, 12, 30
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")

Point = tuple[float, float]


class Picture:
    """Axes with a title, from (0, 0) to (most_x, most_y), and what is drawn between them."""

    def __init__(self, title: str, most_x: float, most_y: float) -> None:
        self._most = most_x, most_y
        self._parts: list[str] = []
        self.text(title, LEFT, 18, "start", 14)

    def text(self, text: str, x: float, y: float, anchor: str = "middle", size: int = 11) -> None:
        self._parts.append(f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}">{text}</text>')

    def place(self, point: Point) -> Point:
        across = (WIDTH - LEFT - RIGHT) * point[0] / self._most[0]
        return LEFT + across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * point[1] / self._most[1]

    def axes(self, ticks_x: Sequence[tuple[float, str]], ticks_y: Sequence[tuple[float, str]]) -> None:
        for at, name in ticks_y:
            _, y = self.place((0, at))
            self._parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
            self.text(name, LEFT - 6, y + 4, "end")
        for at, name in ticks_x:
            self.text(name, self.place((at, 0))[0], HEIGHT - 10)

    def line(self, points: Sequence[Point], colour: str) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(self.place, points))
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')

    def bar(self, at: float, width: float, height: float, colour: str) -> None:
        (x, y), (end, bottom) = self.place((at, height)), self.place((at + width, 0))
        self._parts.append(f'<path d="M{x:.1f} {bottom:.1f}V{y:.1f}H{end:.1f}V{bottom:.1f}Z" fill="{colour}"/>')

    def label(self, text: str, point: Point, colour: str = "#333", anchor: str = "middle") -> None:
        x, y = self.place(point)
        self._parts.append(
            f'<text x="{x:.0f}" y="{y - 5:.0f}" text-anchor="{anchor}" font-size="11" fill="{colour}">{text}</text>'
        )

    def svg(self) -> str:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">'
        return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *self._parts, "</svg>", ""])


def records(parameters: Parameters, days: int, *topics: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the records of some topics, with the topic, over so many days."""
    for batch in World(parameters).until(Instant(parameters.t0 + days * DAY)):
        for topic in topics:
            for line in batch[topic].splitlines():
                yield topic, json.loads(line)


def the_year() -> Picture:
    """Draw visits a day over 14 months."""
    first, days = datetime(2025, 1, 1, tzinfo=timezone.utc), 425
    seen: set[str] = set()
    counts: Counter[str] = Counter()
    for _, record in records(Parameters(parse("2025-01-01T00:00:00Z"), 1, 1000), days, BROWSER):
        if record["click_id"] not in seen:
            seen.add(record["click_id"])
            counts[record["event_timestamp"][:10]] += 1
    dates = [(first + timedelta(days=number)).date().isoformat() for number in range(days)]
    picture = Picture("Visits a day: weeks, seasons, growth, campaigns and a holiday", days, 3000)
    months = [(number, date[:7]) for number, date in enumerate(dates) if date.endswith("-01")][:-1:2]
    picture.axes(months, [(value, f"{value:,}") for value in (500, 1000, 1500, 2000, 2500, 3000)])
    picture.line([(number + 0.5, counts[date]) for number, date in enumerate(dates)], COLOURS[0])
    for name, date in (
        ("winter sale", "2025-01-13"), ("spring sale", "2025-04-14"), ("summer sale", "2025-07-02"),
        ("Black Friday", "2025-11-28"), ("gifts", "2025-12-15"), ("1 January", "2026-01-01"),
    ):  # fmt: skip
        height = counts[date] + (-420 if name == "1 January" else 60)
        picture.label(name, (dates.index(date), height), COLOURS[1])
    return picture


def the_clocks() -> Picture:
    """Draw when visits begin in three places, by the hour in UTC."""
    chosen = {"US": "New York", "DE": "Berlin", "KR": "Seoul"}
    region_of = {place.region: place for _, place in PLACES}
    hours: dict[str, Counter[int]] = defaultdict(Counter)
    where: dict[str, str] = {}
    for topic, record in records(Parameters(parse("2026-02-02T00:00:00Z"), 1, 4000), 12, GEO, BROWSER):
        if topic == GEO:
            where[record["click_id"]] = record["geo_region_name"]
        elif region := where.pop(record["click_id"], ""):
            quarter = parse(record["event_timestamp"] + "Z") // QUARTER
            if region in chosen.values() and local(region_of[region], quarter)[0] % 7 not in (2, 3):
                hours[region][quarter // 4 % 24] += 1
    picture = Picture("When visits begin on weekdays, by the hour in UTC: each place has its own evening", 24, 0.11)
    picture.axes(
        [(hour + 0.5, f"{hour}:00") for hour in range(0, 24, 3)], [(value / 100, f"{value} %") for value in (2, 5, 8)]
    )
    for (country, region), colour in zip(chosen.items(), COLOURS, strict=False):
        total = sum(hours[region].values())
        points = [(hour + 0.5, hours[region][hour] / total) for hour in range(24)]
        picture.line(points, colour)
        picture.label(f"{region}, {country}", max(points, key=lambda point: point[1]), colour)
    return picture


def the_lives() -> Picture:
    """Draw how many of those who came first on a day come again so many days later."""
    days, t0 = 130, parse("2025-03-01T00:00:00Z")
    person: dict[str, str] = {}
    seen: dict[str, set[int]] = defaultdict(set)
    for topic, record in records(Parameters(t0, 1, 1500), days, DEVICE, BROWSER):
        if topic == DEVICE:
            person[record["click_id"]] = record["user_custom_id"]
        elif who := person.pop(record["click_id"], ""):
            seen[who].add((parse(record["event_timestamp"] + "Z") - t0) // DAY)
    cohort = [days_seen for days_seen in seen.values() if 40 <= min(days_seen) < 70]
    again = Counter(day - min(days_seen) for days_seen in cohort for day in days_seen)
    picture = Picture("Of those whose first visit was a month or two ago, so many come again on a day", 61, 0.1)
    picture.axes([(day, f"day {day}") for day in (1, 7, 14, 30, 60)], [(v / 100, f"{v} %") for v in (2, 4, 6, 8)])
    picture.line([(day, again[day] / len(cohort)) for day in range(1, 60)], COLOURS[0])
    for day in (1, 7, 30):
        picture.label(f"{again[day] / len(cohort):.1%}", (day + 1.5, again[day] / len(cohort)), COLOURS[0])
    return picture


def what_sells() -> Picture:
    """Draw the share of visits with a purchase, by source and device."""
    media = ("social", "referral", "search", "paid", "direct", "email")
    device: dict[str, bool] = {}
    medium: dict[str, str] = {}
    click_of: dict[str, str] = {}
    bought: set[str] = set()
    t0 = parse("2026-02-01T00:00:00Z")
    for topic, record in records(Parameters(t0, 1, 2500), 28, DEVICE, BROWSER, LOCATION):
        if topic == DEVICE:
            if record["user_custom_id"]:
                device[record["click_id"]] = record["device_is_mobile"]
        elif topic == BROWSER:
            click_of[record["event_id"]] = record["click_id"]
            if record["event_type"] == "purchase":
                bought.add(record["click_id"])
        else:
            medium[click_of.pop(record["event_id"])] = record["referer_medium"]
    visits = Counter((medium[click], mobile) for click, mobile in device.items())
    sold = Counter((medium[click], device[click]) for click in bought & device.keys())
    picture = Picture("Visits in which something is bought", len(media), 0.16)
    picture.axes(
        [(number + 0.5, name) for number, name in enumerate(media)], [(v / 100, f"{v} %") for v in (5, 10, 15)]
    )
    for number, name in enumerate(media):
        for mobile in (False, True):
            value, at = sold[name, mobile] / visits[name, mobile], number + (0.5 if mobile else 0.2)
            picture.bar(at, 0.28, value, COLOURS[mobile])
            picture.label(f"{value:.1%}", (at + 0.14, value), COLOURS[mobile])
    picture.label("computers", (0.4, 0.14), COLOURS[0])
    picture.label("hand-held devices", (0.4, 0.125), COLOURS[1])
    return picture


PICTURES = {"world-year": the_year, "world-clocks": the_clocks, "world-lives": the_lives, "world-purchases": what_sells}


def main() -> None:
    """Draw them all."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().svg())
        print(folder / f"{name}.svg", flush=True)


if __name__ == "__main__":
    main()
