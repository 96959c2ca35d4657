-- DM: the marts. Each is partitioned by the event's date (UTC), and a day is replaced whole or left alone.
-- A visit that is seen on two days counts on both: a day's numbers are made of that day's events and nothing else, so no
-- later day moves them. Totals over days are derived from these tables, never kept; visits and users don't add up over days.
-- `week` and `month` are columns, so that no tool has to call an expression by the name of the column it is made of. They
-- are reckoned from the date, as `toMonday` and `toStartOfMonth` give a Date, which ends in 2149.

-- name: create
CREATE DATABASE IF NOT EXISTS dm;

CREATE TABLE IF NOT EXISTS dm.daily_traffic
(
    event_date Date32,
    week       Date32 DEFAULT event_date - toDayOfWeek(event_date) + 1,
    month      Date32 DEFAULT event_date - toDayOfMonth(event_date) + 1,
    country    LowCardinality(String),
    device     LowCardinality(String),
    browser    LowCardinality(String),
    source     LowCardinality(String),
    medium     LowCardinality(String),
    events     UInt64,
    clicks     UInt64 COMMENT 'visits',
    users      UInt64 COMMENT 'who say who they are; bots do not',
    purchases  UInt64 COMMENT 'visits in which something was bought that day'
)
ENGINE = MergeTree
PARTITION BY event_date
ORDER BY (event_date, country, device, browser, source, medium);

CREATE TABLE IF NOT EXISTS dm.top_pages_daily
(
    event_date Date32,
    week       Date32 DEFAULT event_date - toDayOfWeek(event_date) + 1,
    month      Date32 DEFAULT event_date - toDayOfMonth(event_date) + 1,
    rank       UInt32 COMMENT 'from 1; pages with as many views are ranked by their path',
    page       String,
    page_views UInt64,
    visits     UInt64,
    users      UInt64 COMMENT 'who say who they are; bots do not',
    events     UInt64 COMMENT 'page views, and all else that was done on the page'
)
ENGINE = MergeTree
PARTITION BY event_date
ORDER BY (event_date, rank);

CREATE TABLE IF NOT EXISTS dm.visits_daily
(
    event_date        Date32,
    week              Date32 DEFAULT event_date - toDayOfWeek(event_date) + 1,
    month             Date32 DEFAULT event_date - toDayOfMonth(event_date) + 1,
    visits            UInt64 COMMENT 'seen that day',
    page_views        UInt64,
    bounces           UInt64 COMMENT 'visits with one page view that day',
    bounce_share      Float64,
    median_page_views Float64,
    events            UInt64,
    purchases         UInt64 COMMENT 'visits in which something was bought that day'
)
ENGINE = MergeTree
PARTITION BY event_date
ORDER BY event_date;

CREATE TABLE IF NOT EXISTS dm.dq_summary
(
    event_date       Date32,
    week             Date32 DEFAULT event_date - toDayOfWeek(event_date) + 1,
    month            Date32 DEFAULT event_date - toDayOfMonth(event_date) + 1,
    events           UInt64,
    visits           UInt64,
    without_location UInt64,
    without_device   UInt64,
    without_geo      UInt64,
    faulty_records   UInt64 COMMENT 'whose date can still be read; all of them are in ods.faulty',
    fingerprint      String COMMENT 'what this day''s marts were made of'
)
ENGINE = MergeTree
PARTITION BY event_date
ORDER BY event_date;

ALTER TABLE dm.daily_traffic ADD COLUMN IF NOT EXISTS purchases UInt64;
ALTER TABLE dm.top_pages_daily ADD COLUMN IF NOT EXISTS events UInt64;
ALTER TABLE dm.visits_daily ADD COLUMN IF NOT EXISTS events UInt64, ADD COLUMN IF NOT EXISTS purchases UInt64;

-- name: daily_traffic
SELECT
    event_date,
    if(geo_next = 0, '(unknown)', geo_country)                                        AS country,
    if(device_next = 0, '(unknown)', toString(event.device_type))                     AS device,
    browser_name                                                                      AS browser,
    multiIf(location_next = 0, '(unknown)', utm_source = '', '(none)', utm_source)    AS source,
    multiIf(location_next = 0, '(unknown)', utm_medium = '', '(none)', utm_medium)    AS medium,
    count()                                                                           AS events,
    uniqExact(click_id)                                                               AS clicks,
    uniqExactIf(user_custom_id, user_custom_id != '')                                 AS users,
    uniqExactIf(click_id, event_type = 'purchase')                                    AS purchases
FROM dds.event AS event FINAL
WHERE event_date = {day:Date32}
GROUP BY event_date, country, device, browser, source, medium;

-- name: top_pages_daily
SELECT
    event_date,
    row_number() OVER (ORDER BY page_views DESC, page) AS rank,
    page, page_views, visits, users, events
FROM
(
    SELECT
        event_date,
        if(location_next = 0, '(unknown)', toString(page_url_path)) AS page,
        countIf(event_type = 'pageview')                            AS page_views,
        uniqExact(click_id)                                         AS visits,
        uniqExactIf(user_custom_id, user_custom_id != '')           AS users,
        count()                                                     AS events
    FROM dds.event FINAL
    WHERE event_date = {day:Date32}
    GROUP BY event_date, page
);

-- name: visits_daily
SELECT
    event_date,
    count()                            AS visits,
    sum(views)                         AS page_views,
    countIf(views = 1)                 AS bounces,
    bounces / visits                   AS bounce_share,
    quantileExactInclusive(0.5)(views) AS median_page_views,
    sum(done)                          AS events,
    countIf(bought)                    AS purchases
FROM
(
    SELECT
        event_date,
        click_id,
        countIf(event_type = 'pageview')     AS views,
        count()                              AS done,
        countIf(event_type = 'purchase') > 0 AS bought
    FROM dds.event FINAL
    WHERE event_date = {day:Date32}
    GROUP BY event_date, click_id
)
GROUP BY event_date;

-- name: dq_summary
-- A day of which there are faulty records alone has its row too.
SELECT
    event_date,
    count(event_id)                AS events,
    uniqExact(click_id)            AS visits,
    countIf(location_next = 0)     AS without_location,
    countIf(device_next = 0)       AS without_device,
    countIf(geo_next = 0)          AS without_geo,
    countIf(event_id IS NULL)      AS faulty_records,
    lower(hex(groupBitXor(trace))) AS fingerprint
FROM dds.trace
WHERE event_date = {day:Date32}
GROUP BY event_date;

-- name: built
SELECT event_date, fingerprint FROM dm.dq_summary;

-- name: summary
-- What a day is summed up to in `dm.dq_summary`, or in the day that was built beside it.
SELECT sum(dq.events) AS events, sum(dq.visits) AS visits
FROM dm.{table:Identifier} AS dq
WHERE event_date = {day:Date32};

-- name: tables
SELECT name FROM system.tables WHERE database = 'dm';

-- name: counts
-- Every day of every mart: its rows, the events they add up to, and a checksum of all that they say.
SELECT * FROM
(
    SELECT 'daily_traffic' AS mart, event_date, count() AS rows, sum(daily_traffic.events) AS events, hex(groupBitXor(sipHash64(*))) AS checksum
    FROM dm.daily_traffic GROUP BY event_date
    UNION ALL
    SELECT 'top_pages_daily', event_date, count(), sum(events), hex(groupBitXor(sipHash64(*)))
    FROM dm.top_pages_daily GROUP BY event_date
    UNION ALL
    SELECT 'visits_daily', event_date, count(), sum(events), hex(groupBitXor(sipHash64(*)))
    FROM dm.visits_daily GROUP BY event_date
    UNION ALL
    SELECT 'dq_summary', event_date, count(), sum(events), hex(groupBitXor(sipHash64(*)))
    FROM dm.dq_summary GROUP BY event_date
)
ORDER BY event_date, mart;
