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
        traffic: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
        by_page: dict[str, int] = defaultdict(int)
        for view in seen:
            by_visit[view["click_id"]] += 1
            by_page[view["page_url_path"]] += 1
            where = (view["geo_country"], view["device_type"], view["browser_name"])
            source = (view["utm_source"] or "(none)", view["utm_medium"] or "(none)")
            traffic[where + source].append(view)
        ranked = sorted(by_page.items(), key=lambda entry: (-entry[1], entry[0]))
        assert rows(
            etl, f"SELECT * EXCEPT (event_date, week, month) FROM dm.visits_daily WHERE event_date = '{day}'"
        ) == [
            (
                len(by_visit),
                len(seen),
                bounces := sum(count == 1 for count in by_visit.values()),
                pytest.approx(bounces / len(by_visit)),
                median(by_visit.values()),
            )
        ]
        assert rows(
            etl, f"SELECT rank, page, page_views FROM dm.top_pages_daily WHERE event_date = '{day}' ORDER BY rank"
        ) == [(rank, page, count) for rank, (page, count) in enumerate(ranked, 1)]
        assert set(
            rows(etl, f"SELECT * EXCEPT (event_date, week, month) FROM dm.daily_traffic WHERE event_date = '{day}'")
        ) == {
            (*facts, len(of), len({view["click_id"] for view in of}), len({view["user_custom_id"] for view in of}))
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
        "page_views": sum(by_day(etl)["dq_summary", f"2026-01-0{day}"][1] for day in range(1, 5)),
    }


def test_faulty_records_are_kept_with_their_reason_and_stop_nothing(etl: Etl) -> None:
    history = History("2026-01-01T00:00:00Z")
    day = history.day()
    sound = json.loads(day[BROWSER][0].value)
    faults: list[tuple[str, bytes, str]] = [
        (BROWSER, b"{", "not JSON"),
        (BROWSER, b"\xff\xfe", "not JSON"),
        (BROWSER, b"", "not JSON"),
        (BROWSER, b"[]", "event_id is missing or not a UUID"),
        (BROWSER, json.dumps({**sound, "event_id": "7"}).encode(), "event_id is missing or not a UUID"),
        (
            BROWSER,
            json.dumps({**sound, "event_timestamp": "2026-13-01 00:00:00.000000"}).encode(),
            "event_timestamp is missing or not YYYY-MM-DD HH:MM:SS.ffffff",
        ),
        (BROWSER, json.dumps({**sound, "click_id": None}).encode(), "click_id is missing or not a UUID"),
        (LOCATION, b'{"event_id":"' + sound["event_id"].encode() + b'"}', "page_url is missing"),
        (
            DEVICE,
            day[DEVICE][0].value.replace(b"true", b'"so"').replace(b"false", b'"so"'),
            "device_is_mobile is missing or neither true nor false",
        ),
        (
            GEO,
            day[GEO][0].value.replace(b'"geo_latitude":"', b'"geo_latitude":"N'),
            "geo_latitude is missing or not a number",
        ),
    ]
    load(etl, day)
    before = by_day(etl)

    due = load(
        etl,
        {topic: history.records(topic, [value for at, value, _ in faults if at == topic]) for topic in EVENT_TOPICS},
    )
    again = carry(etl)

    kept = etl.warehouse._client.query(
        "SELECT topic, value, reason FROM ods.faulty FINAL", query_formats={"String": "bytes"}
    ).result_rows
    assert {(topic.decode(), bytes(value), reason.decode()) for topic, value, reason in kept} == set(faults)
    assert len(kept) == len(faults)
    assert (due, again) == ([], [])
    assert by_day(etl) == before
    assert etl.check_integrity() == {**dict.fromkeys(etl.check_integrity(), 0), "faulty_records": len(faults)}


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

    with pytest.raises(LoadError, match=r"Something was lost between the layers: geo_events: 50 came in, 0 are there"):
        etl.check_integrity()


def test_a_mart_that_differs_from_its_events_is_told(etl: Etl) -> None:
    load(etl, History("2026-01-01T00:00:00Z", 50).day())
    etl.warehouse.command("ALTER TABLE dm.top_pages_daily DROP PARTITION '2026-01-01'")

    with pytest.raises(LoadError, match=r"top_pages_daily says 0 page views on 2026-01-01, DDS \d+\. "):
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
