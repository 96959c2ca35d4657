"""Every statement of the ledger of datasets, by name, for SQLite and PostgreSQL.

Parameters are written `:name`. `:keys` is a JSON object with the keys as its names, in order. `:first` and `:last` are
inclusive.
"""

from __future__ import annotations

SCHEMA = "SELECT version FROM ledger_schema"
SET_SCHEMA = "UPDATE ledger_schema SET version = :version"

# one transaction's page
IDS = "SELECT id FROM ledger_ids ORDER BY position"
MAKE_ROWS = """
    INSERT INTO ledger_keys (dataset, key, number, version, seal, seals)
    SELECT :dataset, key, 0, 0, 0, 0 FROM json_each(:keys) WHERE true
    ON CONFLICT DO NOTHING RETURNING key
"""
_KEYS = "key IN (SELECT key FROM json_each(:keys))"
_KEYS_OF_FEW = f"({_KEYS}) IS TRUE"
"""The same where all else leaves few rows: PostgreSQL, which thinks that they are one, looks each key up in a hash."""
_ROW = (
    "key, number, token, measured, fingerprint, version, published_at, confirmed_at, owner, run, reason, seal, seals,"
    " mark, failure, failed_at, checked_at, drift, compared_at, late"
)
LOCKED_ROWS = f"SELECT {_ROW} FROM ledger_keys WHERE dataset = :dataset AND {_KEYS} ORDER BY key"
_CLAIM = "id, key, owner, kind, run, task, map_index, try_number, beneath, ended"
CLAIMS_OF_KEYS = f"SELECT {_CLAIM} FROM ledger_claims WHERE dataset = :dataset AND {_KEYS} ORDER BY key, since, id"
CLAIMS_OF_TASK = f"""
    SELECT {_CLAIM} FROM ledger_claims
    WHERE dataset = :dataset AND run = :run AND task = :task AND map_index = :map_index AND NOT ({_KEYS})
    ORDER BY key, id
"""
_INTENT = (
    "token, key, number, kind, state, owner, run, task, map_index, try_number, reason, before_token, measured,"
    " fingerprint, replaced, drift, version, noted_at"
)
OPEN_OF_KEYS = f"""
    SELECT {_INTENT} FROM ledger_intents
    WHERE dataset = :dataset AND state = 'open' AND {_KEYS_OF_FEW} ORDER BY key, number
"""
OF_TOKEN = f"SELECT {_INTENT} FROM ledger_intents WHERE token = :token AND dataset = :dataset ORDER BY key"
LATER_TRIES = f"""
    SELECT {_INTENT} FROM ledger_intents
    WHERE dataset = :dataset AND {_KEYS} AND run = :run AND task = :task AND map_index = :map_index
    AND try_number > :try_number ORDER BY try_number
"""
FREE = f"DELETE FROM ledger_claims WHERE dataset = :dataset AND id = :id AND {_KEYS_OF_FEW}"
END = f"UPDATE ledger_claims SET ended = 1 WHERE dataset = :dataset AND id = :id AND {_KEYS_OF_FEW}"
CLOSE = f"""
    UPDATE ledger_intents SET state = :state
    WHERE token = :token AND dataset = :dataset AND state = 'open' AND {_KEYS_OF_FEW}
"""
COUNT = """
    INSERT INTO ledger_counts
        (dataset, keys, published, held, sealed, failed, drifted, late, newest, latest_at, latest_by, checked_at)
    VALUES (
        :dataset, :keys, :published, :held, :sealed, :failed, :drifted, :late, :newest, :latest_at, :latest_by,
        :checked_at
    )
    ON CONFLICT (dataset) DO UPDATE SET
        keys = ledger_counts.keys + excluded.keys, published = ledger_counts.published + excluded.published,
        held = ledger_counts.held + excluded.held, sealed = ledger_counts.sealed + excluded.sealed,
        failed = ledger_counts.failed + excluded.failed, drifted = ledger_counts.drifted + excluded.drifted,
        late = ledger_counts.late + excluded.late,
        newest = CASE WHEN excluded.newest > COALESCE(ledger_counts.newest, '') THEN excluded.newest
                 ELSE ledger_counts.newest END,
        latest_at = CASE WHEN excluded.latest_at > COALESCE(ledger_counts.latest_at, '') THEN excluded.latest_at
                    ELSE ledger_counts.latest_at END,
        latest_by = CASE WHEN excluded.latest_at > COALESCE(ledger_counts.latest_at, '') THEN excluded.latest_by
                    ELSE ledger_counts.latest_by END,
        checked_at = CASE WHEN excluded.checked_at > COALESCE(ledger_counts.checked_at, '') THEN excluded.checked_at
                     ELSE ledger_counts.checked_at END
"""

# definitions and ids
DEFINITION = """
    SELECT version, fixed, measures FROM ledger_datasets WHERE dataset = :dataset ORDER BY version DESC LIMIT 1
"""
FIXED = "SELECT dataset, fixed FROM ledger_datasets WHERE version = 1"
DEFINE = """
    INSERT INTO ledger_datasets (dataset, version, fixed, measures, since)
    VALUES (:dataset, :version, :fixed, :measures, :since) ON CONFLICT DO NOTHING RETURNING version
"""
ADD_ID = """
    INSERT INTO ledger_ids (position, id, since)
    SELECT COALESCE(MAX(position), 0) + 1, :id, :since FROM ledger_ids
"""

# reading; an empty `:last` is no limit
_RANGE = "dataset = :dataset AND key >= :first AND (key <= :last OR :last = '')"
ROWS = f"SELECT {_ROW} FROM ledger_keys WHERE {_RANGE} ORDER BY key"
AT_A_GLANCE = """
    SELECT key, token IS NOT NULL, measured, published_at, owner, run, seal, failure IS NOT NULL, drift IS NOT NULL,
        late IS NOT NULL
    FROM ledger_keys WHERE dataset = :dataset ORDER BY key
"""
CLAIMS = f"SELECT {_CLAIM} FROM ledger_claims WHERE {_RANGE} ORDER BY key, since, id"
INTENTS = f"SELECT {_INTENT} FROM ledger_intents WHERE {_RANGE} AND state = 'open' ORDER BY key, number"
_ENTRY = (
    "key, what, number, token, before_token, owner, run, task, reason, published_at, at, seconds, measured, replaced,"
    " said, version"
)
HISTORY = f"SELECT {_ENTRY} FROM ledger_history WHERE {_RANGE} ORDER BY key, position"
AS_OF = f"""
    SELECT {_ENTRY} FROM ledger_history WHERE dataset = :dataset AND (key, position) IN (
        SELECT key, MAX(position) FROM ledger_history
        WHERE {_RANGE} AND what IN ('publish', 'adopt') AND published_at <= :moment GROUP BY key
    ) ORDER BY key
"""
_SEAL = "key, version, mark, token, measured, sealed_at, sealed_by, reason, unsealed_at, unsealed_by, unsealed_why"
SEALS = f"SELECT {_SEAL} FROM ledger_seals WHERE {_RANGE} ORDER BY key, version"
_CORRECTION = "key, seal, before_figures, after_figures, reason, owner, at"
CORRECTIONS = f"SELECT {_CORRECTION} FROM ledger_corrections WHERE {_RANGE} ORDER BY key, position"
COUNTS = """
    SELECT dataset, keys, published, held, sealed, failed, drifted, late, newest, latest_at, latest_by, checked_at,
        (SELECT key FROM ledger_keys AS k WHERE k.dataset = c.dataset AND k.token IS NOT NULL ORDER BY key LIMIT 1),
        CASE WHEN sealed > 0 THEN
            (SELECT key FROM ledger_keys AS k WHERE k.dataset = c.dataset AND k.seal > 0 ORDER BY key DESC LIMIT 1) END
    FROM ledger_counts AS c ORDER BY dataset
"""
FORGET = """
    DELETE FROM ledger_history WHERE dataset = :dataset AND at < :before AND (key, position) NOT IN (
        SELECT key, MAX(position) FROM ledger_history
        WHERE dataset = :dataset AND what IN ('publish', 'adopt') GROUP BY key
    ) RETURNING position
"""


def columns(names: str) -> tuple[str, ...]:
    """Return the names of a list of columns."""
    return tuple(name.strip() for name in names.split(","))


ROW_COLUMNS, CLAIM_COLUMNS, INTENT_COLUMNS = columns(_ROW), columns(_CLAIM), columns(_INTENT)
ENTRY_COLUMNS, SEAL_COLUMNS, CORRECTION_COLUMNS = columns(_ENTRY), columns(_SEAL), columns(_CORRECTION)


def insert(table: str, names: tuple[str, ...], rows: str) -> str:
    """Return the statement that adds rows. rows: a FROM item that has these columns, called `r`."""
    return f"INSERT INTO {table} ({', '.join(names)}) SELECT {_of_r(names)} FROM {rows} WHERE true"


def append(table: str, names: tuple[str, ...], rows: str) -> str:
    """Return the statement that adds rows, each at the end of its key's; their `position` counts those of a key.

    The key's row is locked, so nobody else appends there. A sequence would start again where a database was moved.
    """
    last = f"SELECT COALESCE(MAX(position), 0) FROM {table} AS t WHERE t.dataset = r.dataset AND t.key = r.key"
    others = tuple(name for name in names if name != "position")
    return (
        f"INSERT INTO {table} ({', '.join(others)}, position) SELECT {_of_r(others)}, r.position + ({last}) FROM {rows}"
    )


def put(table: str, names: tuple[str, ...], rows: str) -> str:
    """Return the statement that puts rows in the place of those with the same dataset and key."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in ("dataset", "key"))
    return f"{insert(table, names, rows)} ON CONFLICT (dataset, key) DO UPDATE SET {changes}"


def unseal(table: str, names: tuple[str, ...], rows: str) -> str:
    """Return the statement that writes beside versions of seals when, by whom and why they were taken away."""
    changes = ", ".join(f"{name} = r.{name}" for name in names if name.startswith("unsealed_"))
    there = " AND ".join(f"{table}.{name} = r.{name}" for name in ("dataset", "key", "version"))
    return f"UPDATE {table} SET {changes} FROM {rows} WHERE {there}"


def _of_r(names: tuple[str, ...]) -> str:
    return ", ".join(f"r.{name}" for name in names)
