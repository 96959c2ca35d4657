"""Every statement that the stores run, by name. Parameters are written `:name`; ranges are inclusive.

Both databases understand them as they are. `:dts` is a JSON object with the dates as its keys, in order.
"""

TABLES = ("daily", "rollup", "claims", "seals", "corrections")

CREATE = (
    """
    CREATE TABLE IF NOT EXISTS daily (
        dt TEXT NOT NULL, orders INTEGER NOT NULL, amount INTEGER NOT NULL, owner TEXT NOT NULL
    )
    """,
    "CREATE TABLE IF NOT EXISTS rollup (metric TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS claims (dt TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS seals (dt TEXT NOT NULL PRIMARY KEY)",
    """
    CREATE TABLE IF NOT EXISTS corrections (
        dt TEXT NOT NULL, orders_before INTEGER NOT NULL, amount_before INTEGER NOT NULL,
        orders_after INTEGER NOT NULL, amount_after INTEGER NOT NULL, reason TEXT NOT NULL
    )
    """,
    # A plain index, not a unique one: replacement is ours to get right, and a delete by date must not scan.
    "CREATE INDEX IF NOT EXISTS daily_dt ON daily (dt)",
)

# daily
PUBLISHED = "SELECT dt, orders, amount, owner FROM daily WHERE dt BETWEEN :first AND :last ORDER BY dt"
DELETE_DAILY = "DELETE FROM daily WHERE dt = :dt"
INSERT_DAILY = "INSERT INTO daily (dt, orders, amount, owner) VALUES (:dt, :orders, :amount, :owner)"
# Summed as upper and lower 32 bits: SUM over 64 bits fails if it leaves them on the way, even if it comes back.
SUM_OF_ALL = """
    SELECT COALESCE(SUM(orders >> 32), 0), COALESCE(SUM(orders & 4294967295), 0),
           COALESCE(SUM(amount >> 32), 0), COALESCE(SUM(amount & 4294967295), 0)
    FROM daily
"""
SUM_OF_RANGE = f"{SUM_OF_ALL} WHERE dt BETWEEN :first AND :last"

# claims
GUARD = "SELECT (SELECT COUNT(*) FROM seals WHERE dt = :dt), (SELECT owner FROM claims WHERE dt = :dt)"
CLAIMS = "SELECT dt, owner FROM claims WHERE dt BETWEEN :first AND :last ORDER BY dt"
INSERT_CLAIMS = """
    INSERT INTO claims (dt, owner) SELECT key, :owner FROM json_each(:dts)
    WHERE NOT EXISTS (SELECT 1 FROM claims WHERE claims.dt = key)
"""
DELETE_CLAIMS = "DELETE FROM claims WHERE dt BETWEEN :first AND :last AND owner = :owner"

# seals
SEALS = "SELECT dt FROM seals WHERE dt BETWEEN :first AND :last ORDER BY dt"
INSERT_SEALS = """
    INSERT INTO seals (dt) SELECT key FROM json_each(:dts)
    WHERE NOT EXISTS (SELECT 1 FROM seals WHERE seals.dt = key)
"""

# corrections, oldest first: by a number that those before give to each, not a sequence that could begin again
CORRECTIONS = (
    "SELECT dt, orders_before, amount_before, orders_after, amount_after, reason FROM corrections"
    " WHERE dt BETWEEN :first AND :last ORDER BY dt, rowid"
)
INSERT_CORRECTION = (
    "INSERT INTO corrections (dt, orders_before, amount_before, orders_after, amount_after, reason, rowid)"
    " VALUES (:dt, :orders_before, :amount_before, :orders_after, :amount_after, :reason,"
    " (SELECT COALESCE(MAX(rowid), 0) + 1 FROM corrections))"
)
SAME_NUMBERS = "SELECT COUNT(*) - COUNT(DISTINCT rowid) FROM corrections"

# rollup
ROLLUP = "SELECT metric, value FROM rollup WHERE metric IN ('order_total', 'amount_total')"
DELETE_ROLLUP = "DELETE FROM rollup WHERE metric IN ('order_total', 'amount_total')"
INSERT_ROLLUP = "INSERT INTO rollup (metric, value) VALUES ('order_total', :orders), ('amount_total', :amount)"

# every date that any table names
DATES = """
    SELECT dt FROM (
        SELECT dt FROM daily UNION SELECT dt FROM claims UNION SELECT dt FROM seals UNION SELECT dt FROM corrections
    ) AS named WHERE dt IS NOT NULL ORDER BY dt
"""
