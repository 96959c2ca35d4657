-- ODS: the records typed, one table a topic. What can't be typed is in ods.faulty with its reason and its text as it came:
-- a faulty record is never lost and never stops the load.
-- A load writes its portion into `…_portion` and attaches it in one piece: all of it is there, or none.

-- name: create
CREATE DATABASE IF NOT EXISTS ods;

CREATE TABLE IF NOT EXISTS ods.browser_events
(
    offset             UInt64,
    event_id           UUID,
    event_timestamp    DateTime64(6, 'UTC'),
    event_type         LowCardinality(String),
    click_id           UUID,
    browser_name       LowCardinality(String),
    browser_user_agent LowCardinality(String),
    browser_language   LowCardinality(String)
)
ENGINE = MergeTree
ORDER BY offset;

CREATE TABLE IF NOT EXISTS ods.location_events
(
    offset         UInt64,
    event_id       UUID,
    page_url       String,
    page_url_path  LowCardinality(String),
    referer_url    String,
    referer_medium LowCardinality(String),
    utm_medium     LowCardinality(String),
    utm_source     LowCardinality(String),
    utm_content    LowCardinality(String),
    utm_campaign   LowCardinality(String)
)
ENGINE = MergeTree
ORDER BY offset;

CREATE TABLE IF NOT EXISTS ods.device_events
(
    offset           UInt64,
    click_id         UUID,
    os               LowCardinality(String),
    os_name          LowCardinality(String),
    os_timezone      LowCardinality(String),
    device_type      LowCardinality(String),
    device_is_mobile Bool,
    user_custom_id   String,
    user_domain_id   String
)
ENGINE = MergeTree
ORDER BY offset;

CREATE TABLE IF NOT EXISTS ods.geo_events
(
    offset          UInt64,
    click_id        UUID,
    geo_latitude    Float64,
    geo_longitude   Float64,
    geo_country     LowCardinality(String),
    geo_timezone    LowCardinality(String),
    geo_region_name LowCardinality(String),
    ip_address      String
)
ENGINE = MergeTree
ORDER BY offset;

CREATE TABLE IF NOT EXISTS ods.faulty
(
    topic      LowCardinality(String),
    offset     UInt64,
    event_date Nullable(Date32) COMMENT 'where the record still tells it',
    reason     String,
    value      String
)
ENGINE = ReplacingMergeTree
ORDER BY (topic, offset);

-- name: next_offset
SELECT
    (SELECT ifNull(maxOrNull(offset) + 1, 0) FROM ods.browser_events)  AS browser_events,
    (SELECT ifNull(maxOrNull(offset) + 1, 0) FROM ods.location_events) AS location_events,
    (SELECT ifNull(maxOrNull(offset) + 1, 0) FROM ods.device_events)   AS device_events,
    (SELECT ifNull(maxOrNull(offset) + 1, 0) FROM ods.geo_events)      AS geo_events;

-- Each select below gives the records of one topic from offset `from` on, typed, with the reason why one is faulty or ''.
-- A field that is missing is NULL there. `not_text` names a field that should be a text and isn't one, which JSONExtract
-- would spell as if it were; only a record with a value that doesn't begin with a quote is searched for one.

-- name: browser_events
SELECT
    offset,
    value,
    toUUIDOrNull(fields.event_id)                             AS event_id,
    if(toString(moment) = fields.event_timestamp AND fields.event_timestamp BETWEEN '1900' AND '2300', moment, NULL) AS event_timestamp,
    fields.event_type                                         AS event_type,
    toUUIDOrNull(fields.click_id)                             AS click_id,
    fields.browser_name                                       AS browser_name,
    fields.browser_user_agent                                 AS browser_user_agent,
    fields.browser_language                                   AS browser_language,
    toDate32(event_timestamp)                                 AS event_date,
    multiIf(
        NOT isValidJSON(value),                                        'not JSON',
        event_id IS NULL,                                              'event_id is missing or not a UUID',
        event_timestamp IS NULL,                                       'event_timestamp is missing or not YYYY-MM-DD HH:MM:SS.ffffff from 1900 to 2299',
        event_type IS NULL,                                            'event_type is missing',
        click_id IS NULL,                                              'click_id is missing or not a UUID',
        browser_name IS NULL,                                          'browser_name is missing',
        browser_user_agent IS NULL,                                    'browser_user_agent is missing',
        browser_language IS NULL,                                      'browser_language is missing',
        not_text != '',                                                concat(not_text, ' is not a text'),
        '')                                                   AS reason
FROM
(
    SELECT
        offset,
        value,
        JSONExtract(value, 'Tuple(event_id Nullable(String), event_timestamp Nullable(String), event_type Nullable(String), click_id Nullable(String), browser_name Nullable(String), browser_user_agent Nullable(String), browser_language Nullable(String))') AS fields,
        toDateTime64OrNull(fields.event_timestamp, 6, 'UTC') AS moment,
        if(match(value, '"\\s*:\\s*[^\\s"]'), arrayFirst(field -> field.1 IN ('event_type', 'browser_name', 'browser_user_agent', 'browser_language') AND NOT startsWith(field.2, '"'), JSONExtractKeysAndValuesRaw(value)).1, '') AS not_text
    FROM stg.records FINAL
    WHERE topic = 'browser_events' AND offset >= {from:UInt64}
);

-- name: location_events
SELECT
    offset,
    value,
    toUUIDOrNull(fields.event_id) AS event_id,
    fields.page_url               AS page_url,
    fields.page_url_path          AS page_url_path,
    fields.referer_url            AS referer_url,
    fields.referer_medium         AS referer_medium,
    fields.utm_medium             AS utm_medium,
    fields.utm_source             AS utm_source,
    fields.utm_content            AS utm_content,
    fields.utm_campaign           AS utm_campaign,
    CAST(NULL, 'Nullable(Date32)') AS event_date,
    multiIf(
        NOT isValidJSON(value), 'not JSON',
        event_id IS NULL,       'event_id is missing or not a UUID',
        page_url IS NULL,       'page_url is missing',
        page_url_path IS NULL,  'page_url_path is missing',
        referer_url IS NULL,    'referer_url is missing',
        referer_medium IS NULL, 'referer_medium is missing',
        utm_medium IS NULL,     'utm_medium is missing',
        utm_source IS NULL,     'utm_source is missing',
        utm_content IS NULL,    'utm_content is missing',
        utm_campaign IS NULL,   'utm_campaign is missing',
        not_text != '',         concat(not_text, ' is not a text'),
        '')                       AS reason
FROM
(
    SELECT
        offset,
        value,
        JSONExtract(value, 'Tuple(event_id Nullable(String), page_url Nullable(String), page_url_path Nullable(String), referer_url Nullable(String), referer_medium Nullable(String), utm_medium Nullable(String), utm_source Nullable(String), utm_content Nullable(String), utm_campaign Nullable(String))') AS fields,
        if(match(value, '"\\s*:\\s*[^\\s"]'), arrayFirst(field -> field.1 IN ('page_url', 'page_url_path', 'referer_url', 'referer_medium', 'utm_medium', 'utm_source', 'utm_content', 'utm_campaign') AND NOT startsWith(field.2, '"'), JSONExtractKeysAndValuesRaw(value)).1, '') AS not_text
    FROM stg.records FINAL
    WHERE topic = 'location_events' AND offset >= {from:UInt64}
);

-- name: device_events
SELECT
    offset,
    value,
    toUUIDOrNull(fields.click_id) AS click_id,
    fields.os                     AS os,
    fields.os_name                AS os_name,
    fields.os_timezone            AS os_timezone,
    fields.device_type            AS device_type,
    fields.device_is_mobile       AS device_is_mobile,
    fields.user_custom_id         AS user_custom_id,
    fields.user_domain_id         AS user_domain_id,
    CAST(NULL, 'Nullable(Date32)') AS event_date,
    multiIf(
        NOT isValidJSON(value),   'not JSON',
        click_id IS NULL,         'click_id is missing or not a UUID',
        os IS NULL,               'os is missing',
        os_name IS NULL,          'os_name is missing',
        os_timezone IS NULL,      'os_timezone is missing',
        device_type IS NULL,      'device_type is missing',
        JSONType(value, 'device_is_mobile') != 'Bool', 'device_is_mobile is missing or neither true nor false',
        user_custom_id IS NULL,   'user_custom_id is missing',
        user_domain_id IS NULL,   'user_domain_id is missing',
        not_text != '',           concat(not_text, ' is not a text'),
        '')                       AS reason
FROM
(
    SELECT
        offset,
        value,
        JSONExtract(value, 'Tuple(click_id Nullable(String), os Nullable(String), os_name Nullable(String), os_timezone Nullable(String), device_type Nullable(String), device_is_mobile Nullable(Bool), user_custom_id Nullable(String), user_domain_id Nullable(String))') AS fields,
        if(match(value, '"\\s*:\\s*[^\\s"]'), arrayFirst(field -> field.1 IN ('os', 'os_name', 'os_timezone', 'device_type', 'user_custom_id', 'user_domain_id') AND NOT startsWith(field.2, '"'), JSONExtractKeysAndValuesRaw(value)).1, '') AS not_text
    FROM stg.records FINAL
    WHERE topic = 'device_events' AND offset >= {from:UInt64}
);

-- name: geo_events
SELECT
    offset,
    value,
    toUUIDOrNull(fields.click_id)         AS click_id,
    toFloat64OrNull(fields.geo_latitude)  AS geo_latitude,
    toFloat64OrNull(fields.geo_longitude) AS geo_longitude,
    fields.geo_country                    AS geo_country,
    fields.geo_timezone                   AS geo_timezone,
    fields.geo_region_name                AS geo_region_name,
    fields.ip_address                     AS ip_address,
    CAST(NULL, 'Nullable(Date32)')        AS event_date,
    multiIf(
        NOT isValidJSON(value),  'not JSON',
        click_id IS NULL,        'click_id is missing or not a UUID',
        NOT ifNull(abs(geo_latitude) <= 90, false), 'geo_latitude is missing or not a number from -90 to 90',
        NOT ifNull(abs(geo_longitude) <= 180, false), 'geo_longitude is missing or not a number from -180 to 180',
        geo_country IS NULL,     'geo_country is missing',
        geo_timezone IS NULL,    'geo_timezone is missing',
        geo_region_name IS NULL, 'geo_region_name is missing',
        ip_address IS NULL,      'ip_address is missing',
        not_text != '',          concat(not_text, ' is not a text'),
        '')                               AS reason
FROM
(
    SELECT
        offset,
        value,
        JSONExtract(value, 'Tuple(click_id Nullable(String), geo_latitude Nullable(String), geo_longitude Nullable(String), geo_country Nullable(String), geo_timezone Nullable(String), geo_region_name Nullable(String), ip_address Nullable(String))') AS fields,
        if(match(value, '"\\s*:\\s*[^\\s"]'), arrayFirst(field -> field.1 IN ('geo_country', 'geo_timezone', 'geo_region_name', 'ip_address') AND NOT startsWith(field.2, '"'), JSONExtractKeysAndValuesRaw(value)).1, '') AS not_text
    FROM stg.records FINAL
    WHERE topic = 'geo_events' AND offset >= {from:UInt64}
);

-- name: faulty
SELECT reason, topic, count() AS records FROM ods.faulty FINAL GROUP BY reason, topic ORDER BY topic, reason;
