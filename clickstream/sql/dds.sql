-- DDS: what happened. A click is a visit with its device and its geography; an event is something done, with its page, its
-- source and the facts of its visit, so that a mart reads one table.
-- `…_next` is the offset after that of the record a half came from, and 0 where that half isn't there (yet). Halves that
-- come late are no special case: what a new record belongs to is written once more, with a higher version.

-- name: create
CREATE DATABASE IF NOT EXISTS dds;

CREATE TABLE IF NOT EXISTS dds.click
(
    click_id         UUID,
    os_name          LowCardinality(String),
    os_timezone      LowCardinality(String),
    device_type      LowCardinality(String),
    device_is_mobile Bool,
    user_custom_id   String,
    user_domain_id   String,
    geo_country      LowCardinality(String),
    geo_region_name  LowCardinality(String),
    geo_timezone     LowCardinality(String),
    geo_latitude     Float64,
    geo_longitude    Float64,
    ip_address       String,
    device_next      UInt64,
    geo_next         UInt64,
    version          UInt64 DEFAULT device_next + geo_next
)
ENGINE = ReplacingMergeTree(version)
ORDER BY click_id;

CREATE TABLE IF NOT EXISTS dds.event
(
    event_date       Date32 DEFAULT toDate32(event_timestamp),
    event_id         UUID,
    event_timestamp  DateTime64(6, 'UTC'),
    event_type       LowCardinality(String),
    click_id         UUID,
    browser_name     LowCardinality(String),
    browser_language LowCardinality(String),
    page_url_path    LowCardinality(String),
    referer_medium   LowCardinality(String),
    utm_medium       LowCardinality(String),
    utm_source       LowCardinality(String),
    utm_campaign     LowCardinality(String),
    device_type      LowCardinality(String),
    user_custom_id   String,
    geo_country      LowCardinality(String),
    browser_next     UInt64,
    location_next    UInt64,
    device_next      UInt64,
    geo_next         UInt64,
    version          UInt64 DEFAULT browser_next + location_next + device_next + geo_next
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (event_date, event_id);

-- All that a day's marts are made of: its events, and the faulty records whose date can still be read, which have no
-- event_id here. `trace` tells each of them, and each version of an event, from all others.
CREATE VIEW IF NOT EXISTS dds.trace AS
SELECT event_date, event_id, click_id, location_next, device_next, geo_next, sipHash64(event_id, version) AS trace
FROM dds.event FINAL
UNION ALL
SELECT assumeNotNull(event_date), NULL, NULL, NULL, NULL, NULL, sipHash64(topic, offset)
FROM ods.faulty FINAL
WHERE event_date IS NOT NULL;

-- name: click_from
SELECT max(device_next) AS device_from, max(geo_next) AS geo_from FROM dds.click;

-- name: click
WITH touched AS
(
    SELECT click_id FROM ods.device_events WHERE offset >= {device_from:UInt64}
    UNION DISTINCT
    SELECT click_id FROM ods.geo_events WHERE offset >= {geo_from:UInt64}
)
SELECT
    click_id,
    os_name, os_timezone, device_type, device_is_mobile, user_custom_id, user_domain_id,
    geo_country, geo_region_name, geo_timezone, geo_latitude, geo_longitude, ip_address,
    device_next, geo_next
FROM touched
LEFT JOIN
(
    SELECT *, offset + 1 AS device_next FROM ods.device_events
    WHERE click_id IN touched ORDER BY offset LIMIT 1 BY click_id
) AS device USING click_id
LEFT JOIN
(
    SELECT *, offset + 1 AS geo_next FROM ods.geo_events
    WHERE click_id IN touched ORDER BY offset LIMIT 1 BY click_id
) AS geo USING click_id;

-- name: event_from
SELECT
    max(browser_next)  AS browser_from,
    max(location_next) AS location_from,
    max(device_next)   AS device_from,
    max(geo_next)      AS geo_from
FROM dds.event;

-- name: event
WITH
touched_click AS
(
    SELECT click_id FROM ods.device_events WHERE offset >= {device_from:UInt64}
    UNION DISTINCT
    SELECT click_id FROM ods.geo_events WHERE offset >= {geo_from:UInt64}
),
touched AS
(
    SELECT event_id FROM ods.browser_events WHERE offset >= {browser_from:UInt64} OR click_id IN touched_click
    UNION DISTINCT
    SELECT event_id FROM ods.location_events WHERE offset >= {location_from:UInt64}
)
SELECT
    event_id, event_timestamp, event_type, browser.click_id AS click_id, browser_name, browser_language,
    page_url_path, referer_medium, utm_medium, utm_source, utm_campaign,
    click.device_type AS device_type, click.user_custom_id AS user_custom_id, click.geo_country AS geo_country,
    browser_next, location_next, click.device_next AS device_next, click.geo_next AS geo_next
FROM
(
    SELECT *, offset + 1 AS browser_next FROM ods.browser_events
    WHERE event_id IN touched ORDER BY offset LIMIT 1 BY event_id
) AS browser
LEFT JOIN
(
    SELECT *, offset + 1 AS location_next FROM ods.location_events
    WHERE event_id IN touched ORDER BY offset LIMIT 1 BY event_id
) AS location USING event_id
LEFT JOIN
(
    SELECT * FROM dds.click FINAL
    WHERE click_id IN (SELECT click_id FROM ods.browser_events WHERE event_id IN touched)
) AS click ON click.click_id = browser.click_id;

-- name: integrity
-- What can't be paired, over everything that is loaded; each number is 0 in a sound history.
SELECT
    (SELECT countIf(location_next = 0) FROM dds.event FINAL)                                             AS events_without_location,
    (SELECT countIf(device_next = 0) FROM dds.event FINAL)                                               AS events_without_device,
    (SELECT countIf(geo_next = 0) FROM dds.event FINAL)                                                  AS events_without_geo,
    (SELECT count() FROM ods.location_events WHERE event_id NOT IN (SELECT event_id FROM ods.browser_events)) AS locations_without_event,
    (SELECT count() FROM dds.click FINAL WHERE click_id NOT IN (SELECT click_id FROM ods.browser_events)) AS clicks_without_event,
    (SELECT count() - uniqExact(event_id) FROM ods.browser_events)                                       AS repeated_events,
    (SELECT count() FROM ods.faulty FINAL)                                                               AS faulty_records;

-- name: conservation
-- Nothing is lost on the way: every record of STG is typed or faulty, and every typed event is an event here.
SELECT
    topic,
    uniqExact(offset)                            AS staged,
    any(typed.records) + any(rejected.records)   AS accounted
FROM stg.records
LEFT JOIN
(
    SELECT 'browser_events' AS topic, uniqExact(offset) AS records FROM ods.browser_events
    UNION ALL SELECT 'location_events', uniqExact(offset) FROM ods.location_events
    UNION ALL SELECT 'device_events', uniqExact(offset) FROM ods.device_events
    UNION ALL SELECT 'geo_events', uniqExact(offset) FROM ods.geo_events
) AS typed USING topic
LEFT JOIN
(
    SELECT topic, count() AS records FROM ods.faulty FINAL GROUP BY topic
) AS rejected USING topic
GROUP BY topic
UNION ALL
SELECT 'events', (SELECT uniqExact(event_id) FROM ods.browser_events), (SELECT count() FROM dds.event FINAL);

-- name: days
-- Each day's events, visits and a fingerprint that changes with anything a mart of that day is made of.
SELECT
    event_date,
    count(event_id)                AS events,
    uniqExact(click_id)            AS visits,
    lower(hex(groupBitXor(trace))) AS fingerprint
FROM dds.trace
GROUP BY event_date
ORDER BY event_date;

-- name: day
SELECT
    count(event_id)                AS events,
    uniqExact(click_id)            AS visits,
    lower(hex(groupBitXor(trace))) AS fingerprint
FROM dds.trace
WHERE event_date = {day:Date32};
