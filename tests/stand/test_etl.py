"""The load from STG to the marts: a repeat changes nothing, what is faulty is kept, and only a new day moves."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import date
from statistics import median
from typing import TYPE_CHECKING

import pytest

from clickstream.etl import MARTS, Etl, LoadError
from clickstream.topics import BROWSER, DEVICE, EVENT_TOPICS, GEO, LOCATION
from clickstream.warehouse import Warehouse
from tests.stand.history import History, by_day, carry, load
from tests.stand.served import Served

if TYPE_CHECKING:
    from pathlib import Path

    from clickstream.broker import Record


@pytest.fixture
def etl(warehouse: Warehouse) -> Etl:
    warehouse.create()
    return Etl(warehouse)


@pytest.mark.parametrize(
    ("t0", "expected"),
    [
        ("2026-01-01T00:00:00Z", [["2026-01-01"], ["2026-01-02"], ["2026-01-03"]]),
        (
            "2024-02-28T12:00:00Z",
            [["2024-02-28", "2024-02-29"], ["2024-02-29", "2024-03-01"], ["2024-03-01", "2024-03-02"]],
        ),
    ],
    ids=["from midnight", "from noon"],
)
def test_a_model_day_moves_the_dates_that_it_covers_and_no_other(etl: Etl, t0: str, expected: list[list[str]]) -> None:
    history = History(t0)
    for dates in expected:
        before = by_day(etl)

        due = load(etl, history.day())

        after = by_day(etl)
        moved = {day for mart, day in after if after[mart, day] != before.get((mart, day))}
        assert due == dates
        assert moved == set(dates)
        assert all(after[mart, day][1] >= before.get((mart, day), (0, 0))[1] for mart, day in after)


def test_the_marts_say_what_the_records_say(etl: Etl) -> None:
    records = History("2026-01-01T18:00:00Z", 400).day()
    views: dict[str, list[dict[str, str]]] = defaultdict(list)
    pages = {json.loads(record.value)["event_id"]: json.loads(record.value) for record in records[LOCATION]}
    devices = {json.loads(record.value)["click_id"]: json.loads(record.value) for record in records[DEVICE]}
    places = {json.loads(record.value)["click_id"]: json.loads(record.value) for record in records[GEO]}
    for record in records[BROWSER]:
        view = json.loads(record.value)
        facts = {**view, **pages[view["event_id"]], **devices[view["click_id"]], **places[view["click_id"]]}
        views[view["event_timestamp"][:10]].append(facts)

    load(etl, records)

    for day, seen in views.items():
        by_visit: dict[str, int] = defaultdict(int)
        bought = {view["click_id"] for view in seen if view["event_type"] == "purchase"}
        traffic: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
        by_page: dict[str, int] = defaultdict(int)
        for view in seen:
            by_visit[view["click_id"]] += view["event_type"] == "pageview"
            by_page[view["page_url_path"]] += view["event_type"] == "pageview"
            where = (view["geo_country"], view["device_type"], view["browser_name"])
            source = (view["utm_source"] or "(none)", view["utm_medium"] or "(none)")
            traffic[where + source].append(view)
        ranked = sorted(by_page.items(), key=lambda entry: (-entry[1], entry[0]))
        assert rows(
            etl, f"SELECT * EXCEPT (event_date, week, month) FROM dm.visits_daily WHERE event_date = '{day}'"
        ) == [
            (
                len(by_visit),
                sum(by_visit.values()),
                bounces := sum(count == 1 for count in by_visit.values()),
                pytest.approx(bounces / len(by_visit)),
                median(by_visit.values()),
                len(seen),
                len(bought),
            )
        ]
        assert rows(
            etl, f"SELECT rank, page, page_views FROM dm.top_pages_daily WHERE event_date = '{day}' ORDER BY rank"
        ) == [(rank, page, count) for rank, (page, count) in enumerate(ranked, 1)]
        assert set(
            rows(etl, f"SELECT * EXCEPT (event_date, week, month) FROM dm.daily_traffic WHERE event_date = '{day}'")
        ) == {
            (
                *facts,
                len(of),
                len({view["click_id"] for view in of}),
                len({view["user_custom_id"] for view in of} - {""}),
                len({view["click_id"] for view in of} & bought),
            )
            for facts, of in traffic.items()
        }


def test_loading_again_changes_nothing_in_any_layer(etl: Etl) -> None:
    history = History("2026-01-01T12:00:00Z")
    first, second = history.day(), history.day()
    load(etl, first)
    load(etl, second)
    before = by_day(etl)

    due = load(etl, first)

    assert due == []
    assert by_day(etl) == before
    assert rows(etl, "SELECT count() FROM stg.records FINAL") == [
        (sum(len(records) for day in (first, second) for records in day.values()),)
    ]


def test_a_full_refresh_from_staging_gives_the_same_marts(etl: Etl) -> None:
    history = History("2026-01-01T12:00:00Z")
    for _ in range(3):
        load(etl, history.day())
    before = by_day(etl)

    etl.empty("ods", "dds")
    due = carry(etl)

    assert due == []
    assert etl.days_due(every=True) == ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]
    assert by_day(etl) == before
    assert etl.validate() == {
        "days": 4,
        "events": sum(by_day(etl)["dq_summary", f"2026-01-0{day}"][1] for day in range(1, 5)),
    }


def test_faulty_records_are_kept_with_their_reason_and_stop_nothing(etl: Etl) -> None:
    history = History("2026-01-01T00:00:00Z")
    day = history.day()
    faults = faults_of(day)
    load(etl, day)
    before = by_day(etl)

    due = load(etl, history.values((topic, value) for topic, value, _ in faults))
    again = carry(etl)

    kept = etl.warehouse._client.query(
        "SELECT topic, value, reason FROM ods.faulty FINAL", query_formats={"String": "bytes"}
    ).result_rows
    told = {(topic.decode(), bytes(value)): reason.decode() for topic, value, reason in kept}
    assert told == {(topic, value): reason for topic, value, reason in faults}
    assert len(kept) == len(faults)
    assert (due, again) == (["2026-01-01"], [])
    assert {key: value for key, value in by_day(etl).items() if key[0] != "dq_summary"} == {
        key: value for key, value in before.items() if key[0] != "dq_summary"
    }
    assert etl.check_integrity() == {**dict.fromkeys(etl.check_integrity(), 0), "faulty_records": len(faults)}


def faults_of(day: dict[str, list[Record]]) -> list[tuple[str, bytes, str]]:
    """Faulty records, made of the day's sound ones, each with the reason why it is one."""
    sound = {topic: json.loads(day[topic][0].value) for topic in EVENT_TOPICS}

    def made(topic: str, reason: str, **fields: object) -> tuple[str, bytes, str]:
        return topic, json.dumps({**sound[topic], **fields}).encode(), reason

    return [
        (BROWSER, b"{", "not JSON"),
        (BROWSER, b"\xff\xfe", "not JSON"),
        (BROWSER, b"", "not JSON"),
        (BROWSER, b"[]", "event_id is missing or not a UUID"),
        made(BROWSER, "event_id is missing or not a UUID", event_id="7"),
        *(
            made(
                BROWSER,
                "event_timestamp is missing or not YYYY-MM-DD HH:MM:SS.ffffff from 1900 to 2299",
                event_timestamp=f"{wrong} 00:00:00.000000",
            )
            for wrong in ("2026-13-01", "2026-02-30", "1899-12-31", "2300-01-01", "9999-01-01")
        ),
        made(BROWSER, "click_id is missing or not a UUID", click_id=None),
        *(made(BROWSER, "event_type is not a text", event_type=wrong) for wrong in ({"a": 1}, [1, 2], 1.5, True)),
        (LOCATION, b'{"event_id":"' + sound[BROWSER]["event_id"].encode() + b'"}', "page_url is missing"),
        made(LOCATION, "page_url_path is not a text", page_url_path=[1, 2]),
        made(DEVICE, "os is not a text", os=1.5),
        *(
            made(DEVICE, "device_is_mobile is missing or neither true nor false", device_is_mobile=wrong)
            for wrong in ("so", "true", 0, 1, 7, None)
        ),
        made(GEO, "ip_address is not a text", ip_address={}),
        *(
            made(GEO, "geo_latitude is missing or not a number from -90 to 90", geo_latitude=wrong)
            for wrong in ("N52", "nan", "inf", "1e999", "1e300", "91.5", "-90.1")
        ),
        *(
            made(GEO, "geo_longitude is missing or not a number from -180 to 180", geo_longitude=wrong)
            for wrong in ("nan", "-inf", "180.1")
        ),
    ]


def test_the_dirt_of_a_stream_is_told_and_every_total_still_balances(etl: Etl) -> None:
    history = History("2026-01-01T00:00:00Z", 800, dirt=60)
    days = [history.day() for _ in range(3)]

    moved = [load(etl, day) for day in days]

    told = etl.check_integrity()
    assert all(told[what] > 0 for what in told if what not in ("locations_without_event", "clicks_without_event"))
    assert len(rows(etl, "SELECT DISTINCT topic, reason FROM ods.faulty FINAL WHERE reason != 'not JSON'")) > 8
    sums = ", ".join(f"sum({name})" for name in ("without_location", "without_device", "without_geo", "faulty_records"))
    assert all(rows(etl, f"SELECT {sums} FROM dm.dq_summary")[0])
    published = sum(len(day[BROWSER]) for day in days)
    broken = rows(etl, f"SELECT count() FROM ods.faulty FINAL WHERE topic = '{BROWSER}'")[0][0]
    assert etl.validate()["events"] == published - told["repeated_events"] - broken  # type: ignore[operator]
    assert {"2026-01-01", "2026-01-02"} <= set(moved[1])  # what came late moves a day that was there
    assert {"1970", "2025"} < {
        day[:4] for due in moved for day in due
    }  # and clocks that are wrong make days of their own


def test_what_is_at_the_edge_of_sound_is_typed(etl: Etl) -> None:
    history = History("2026-01-01T00:00:00Z", 50)
    day = history.day()
    place, view, device = (json.loads(day[topic][0].value) for topic in (GEO, BROWSER, DEVICE))
    edges = [
        (GEO, {**place, "geo_latitude": "-90", "geo_longitude": "180"}),
        (GEO, {**place, "geo_latitude": 90, "geo_longitude": -180}),
        (BROWSER, {**view, "event_type": '":1', "more": [1, {"event_type": 2}]}),
        (DEVICE, {**device, "os": "[1]", "device_is_mobile": True}),
    ]

    load(etl, history.values((topic, json.dumps(record).encode()) for topic, record in edges))

    assert rows(etl, "SELECT reason, value FROM ods.faulty FINAL") == []


@pytest.mark.parametrize(
    ("day", "week", "month"),
    [
        ("1900-01-01", "1900-01-01", "1900-01-01"),
        ("1960-01-01", "1959-12-28", "1960-01-01"),
        ("2149-06-07", "2149-06-02", "2149-06-01"),
        ("2200-01-05", "2199-12-30", "2200-01-01"),
        ("2299-12-31", "2299-12-25", "2299-12-01"),
    ],
)
def test_an_event_of_any_century_counts_on_its_own_date(etl: Etl, day: str, week: str, month: str) -> None:
    history = History("2026-01-01T00:00:00Z", 50)
    records = {topic: of[:1] for topic, of in history.day().items()}
    view = {**json.loads(records[BROWSER][0].value), "event_timestamp": f"{day} 23:59:59.999999"}
    records[BROWSER] = history.records(BROWSER, [json.dumps(view).encode()])

    due, again = load(etl, records), load(etl, records)

    assert (due, again) == ([day], [])
    assert {key: value[1] for key, value in by_day(etl).items()} == {(mart, day): 1 for mart in MARTS}
    for mart in MARTS:
        assert rows(etl, f"SELECT toString(week), toString(month) FROM dm.{mart}") == [(week, month)]
    etl.validate()
    etl.empty("stg", "ods", "dds")
    assert load(etl, {}) == [day]
    assert by_day(etl) == {}


def test_a_day_with_one_more_faulty_record_says_so(etl: Etl) -> None:
    history = History("2026-01-01T00:00:00Z", 50)
    day = history.day()
    view = {**json.loads(day[BROWSER][0].value), "click_id": "7"}
    dates = ("2026-01-01", "2026-01-01", "2026-03-01", "2026-02-30")
    views = [json.dumps({**view, "event_timestamp": f"{at} 00:00:00.000000"}).encode() for at in dates]
    load(etl, day)

    first = load(etl, history.values([(BROWSER, views[0])]))
    others = load(etl, history.values((BROWSER, value) for value in views[1:]))
    summary = rows(etl, "SELECT toString(event_date), events > 0, faulty_records FROM dm.dq_summary ORDER BY ALL")
    before = by_day(etl)
    etl.empty("ods", "dds")
    again = carry(etl)

    assert (first, others, again) == (["2026-01-01"], ["2026-01-01", "2026-03-01"], [])
    assert summary == [("2026-01-01", True, 2), ("2026-03-01", False, 1)]
    assert by_day(etl) == before
    assert rows(etl, "SELECT count() FROM ods.faulty FINAL WHERE event_date IS NULL") == [(1,)]
    etl.validate()


def test_halves_that_come_late_complete_their_event_and_its_day(etl: Etl) -> None:
    history = History("2026-01-01T00:00:00Z", 50)
    day, other = history.day(), history.day()
    late = {topic: [day[topic].pop()] for topic in (LOCATION, DEVICE, GEO)}
    load(etl, day)
    load(etl, other)
    unpaired = etl.check_integrity()
    summary = rows(
        etl, "SELECT without_location, without_device > 0, without_geo > 0 FROM dm.dq_summary ORDER BY event_date"
    )

    due = load(etl, {topic: history.records(topic, [record.value for record in late[topic]]) for topic in late})

    assert unpaired["events_without_location"] == 1
    assert unpaired["events_without_device"] > 0
    assert unpaired["events_without_geo"] > 0
    assert summary[0] == (1, True, True)
    assert "2026-01-01" in due
    assert set(etl.check_integrity().values()) == {0}
    etl.validate()


def test_an_event_that_is_published_twice_counts_once_and_is_told(etl: Etl) -> None:
    history = History("2026-01-01T00:00:00Z", 50)
    day = history.day()
    load(etl, day)
    before = by_day(etl)

    load(etl, {BROWSER: history.records(BROWSER, [day[BROWSER][0].value])})

    assert etl.check_integrity()["repeated_events"] == 1
    assert {key: value[:2] for key, value in by_day(etl).items()} == {key: value[:2] for key, value in before.items()}
    etl.validate()


def test_a_day_whose_events_are_gone_becomes_empty(etl: Etl) -> None:
    load(etl, History("2026-01-01T00:00:00Z", 50).day())
    etl.empty("stg", "ods", "dds")

    due = load(etl, History("2026-05-05T00:00:00Z", 50).day())

    assert due == ["2026-01-01", "2026-05-05"]
    assert {day for _, day in by_day(etl)} == {"2026-05-05"}


def test_a_lost_record_stops_the_load(etl: Etl) -> None:
    load(etl, History("2026-01-01T00:00:00Z", 50).day())
    etl.warehouse.command("TRUNCATE TABLE ods.geo_events")

    with pytest.raises(LoadError, match=r"Something was lost between the layers: geo_events: \d+ came in, 0 are there"):
        etl.check_integrity()


def test_a_mart_that_differs_from_its_events_is_told(etl: Etl) -> None:
    load(etl, History("2026-01-01T00:00:00Z", 50).day())
    etl.warehouse.command("ALTER TABLE dm.top_pages_daily DROP PARTITION '2026-01-01'")

    with pytest.raises(LoadError, match=r"top_pages_daily says 0 events on 2026-01-01, DDS \d+\. "):
        etl.validate()

    assert etl.validate(left_alone=["2026-01-01"])["days"] == 0


def test_a_day_that_was_built_but_not_swapped_leaves_no_trace(etl: Etl) -> None:
    load(etl, History("2026-01-01T00:00:00Z", 50).day())
    day = date(2026, 1, 1)
    before = by_day(etl)
    etl.stage_day(day)

    etl.drop_day(day)

    assert by_day(etl) == before
    assert rows(etl, "SELECT name FROM system.tables WHERE database = 'dm' ORDER BY name") == [
        (mart,) for mart in sorted(MARTS)
    ]


def test_a_warehouse_that_is_killed_in_the_middle_of_a_load_goes_on_from_there(tmp_path: Path) -> None:
    history = History("2026-01-01T00:00:00Z", 300)
    first, second = history.day(), history.day()
    with Served(tmp_path / "killed") as served, Warehouse.opened(served.url) as warehouse:
        etl = Etl(warehouse)
        load(etl, first)
        for topic in EVENT_TOPICS:
            etl.stage(topic, second[topic][:100] if topic == LOCATION else second[topic])
        etl.load_ods()
        served.kill()

    with Served(tmp_path / "killed") as served, Warehouse.opened(served.url) as warehouse:
        etl = Etl(warehouse)
        load(etl, second)
        recovered = by_day(etl)
        etl.validate()
    with Served(tmp_path / "straight") as served, Warehouse.opened(served.url) as warehouse:
        etl = Etl(warehouse)
        load(etl, first)
        load(etl, second)
        straight = by_day(etl)

    assert {key: value[:2] for key, value in recovered.items()} == {key: value[:2] for key, value in straight.items()}
    assert {key: value for key, value in recovered.items() if key[0] != "dq_summary"} == {
        key: value for key, value in straight.items() if key[0] != "dq_summary"
    }


def rows(etl: Etl, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in etl.warehouse._client.query(query).result_rows]
