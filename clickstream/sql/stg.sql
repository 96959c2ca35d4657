-- STG: the records as they lay in Kafka, each under its topic and offset, so that loading one twice adds nothing.
-- A topic of the stand has one partition. Offsets have gaps: Kafka's transactions take some for themselves.

-- name: create
CREATE DATABASE IF NOT EXISTS stg;

CREATE TABLE IF NOT EXISTS stg.records
(
    topic     LowCardinality(String),
    offset    UInt64,
    value     String CODEC(ZSTD(1)),
    loaded_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree
ORDER BY (topic, offset);

-- name: last_record
SELECT offset, lower(hex(SHA256(value))) AS digest FROM stg.records WHERE topic = {topic:String} ORDER BY offset DESC LIMIT 1;

-- name: counts
SELECT topic, count() AS records FROM stg.records FINAL GROUP BY topic;

-- name: tables
-- The tables that hold something of some layers.
SELECT database || '.' || name AS table FROM system.tables WHERE database IN {layers:Array(String)} AND engine != 'View' ORDER BY table;
