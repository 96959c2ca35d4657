"""The ledger's tables, by the version of their shape; each version is made from the one before.

What goes out is written down here: CREATE and INDEX of a version never change once it was released.
"""

from __future__ import annotations

from backfill_core.ledger.sql import CREATE_CLAIMS

VERSION_1 = (
    "CREATE TABLE ledger_ids (position INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL, since TEXT NOT NULL)",
    """
    CREATE TABLE ledger_datasets (
        dataset TEXT NOT NULL, version INTEGER NOT NULL, fixed TEXT NOT NULL, measures TEXT NOT NULL,
        since TEXT NOT NULL, PRIMARY KEY (dataset, version)
    )
    """,
    """
    CREATE TABLE ledger_keys (
        dataset TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, token TEXT, measured TEXT, fingerprint TEXT,
        version INTEGER NOT NULL, published_at TEXT, confirmed_at TEXT, owner TEXT, run TEXT, reason TEXT,
        seal INTEGER NOT NULL, seals INTEGER NOT NULL, mark TEXT, failure TEXT, failed_at TEXT, checked_at TEXT,
        drift TEXT, PRIMARY KEY (dataset, key)
    )
    """,
    CREATE_CLAIMS,
    "CREATE INDEX IF NOT EXISTS ledger_claims_task ON ledger_claims (dataset, run, task, map_index)",
    """
    CREATE TABLE ledger_intents (
        token TEXT NOT NULL, dataset TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL,
        state TEXT NOT NULL, owner TEXT NOT NULL, run TEXT NOT NULL, task TEXT NOT NULL, map_index INTEGER NOT NULL,
        try_number INTEGER NOT NULL, reason TEXT NOT NULL, before_token TEXT, measured TEXT, fingerprint TEXT,
        replaced TEXT, drift TEXT, version INTEGER NOT NULL, noted_at TEXT NOT NULL,
        PRIMARY KEY (token, dataset, key)
    )
    """,
    "CREATE INDEX ledger_intents_open ON ledger_intents (dataset, key) WHERE state = 'open'",
    "CREATE INDEX ledger_intents_task ON ledger_intents (dataset, key, run, task, map_index)",
    """
    CREATE TABLE ledger_history (
        dataset TEXT NOT NULL, key TEXT NOT NULL, position INTEGER NOT NULL, what TEXT NOT NULL,
        number INTEGER NOT NULL, token TEXT, before_token TEXT, owner TEXT NOT NULL, run TEXT NOT NULL,
        task TEXT NOT NULL, reason TEXT NOT NULL, published_at TEXT, at TEXT NOT NULL, seconds REAL, measured TEXT,
        replaced TEXT, said TEXT, version INTEGER NOT NULL, PRIMARY KEY (dataset, key, position)
    )
    """,
    """
    CREATE TABLE ledger_seals (
        dataset TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, mark TEXT NOT NULL, token TEXT NOT NULL,
        measured TEXT, sealed_at TEXT NOT NULL, sealed_by TEXT NOT NULL, reason TEXT NOT NULL, unsealed_at TEXT,
        unsealed_by TEXT, unsealed_why TEXT, PRIMARY KEY (dataset, key, version)
    )
    """,
    """
    CREATE TABLE ledger_corrections (
        dataset TEXT NOT NULL, key TEXT NOT NULL, position INTEGER NOT NULL, seal INTEGER NOT NULL,
        before_figures TEXT NOT NULL, after_figures TEXT NOT NULL, reason TEXT NOT NULL, owner TEXT NOT NULL,
        at TEXT NOT NULL, PRIMARY KEY (dataset, key, position)
    )
    """,
    """
    CREATE TABLE ledger_counts (
        dataset TEXT NOT NULL PRIMARY KEY, keys INTEGER NOT NULL, published INTEGER NOT NULL, held INTEGER NOT NULL,
        sealed INTEGER NOT NULL, failed INTEGER NOT NULL, drifted INTEGER NOT NULL, newest TEXT, latest_at TEXT
    )
    """,
    "CREATE TABLE ledger_schema (version INTEGER NOT NULL PRIMARY KEY)",
    "INSERT INTO ledger_schema (version) VALUES (1)",
)

VERSION_2 = (
    "ALTER TABLE ledger_keys ADD COLUMN compared_at TEXT",
    "ALTER TABLE ledger_keys ADD COLUMN late TEXT",
    "ALTER TABLE ledger_counts ADD COLUMN late INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE ledger_counts ADD COLUMN latest_by TEXT",
    "ALTER TABLE ledger_counts ADD COLUMN checked_at TEXT",
    """
    UPDATE ledger_counts SET
        latest_by = (
            SELECT MAX(owner) FROM ledger_keys AS k
            WHERE k.dataset = ledger_counts.dataset AND k.confirmed_at = ledger_counts.latest_at
        ),
        checked_at = (SELECT MAX(checked_at) FROM ledger_keys AS k WHERE k.dataset = ledger_counts.dataset)
    """,
)

VERSIONS = (VERSION_1, VERSION_2)
"""What makes each version from the one before, the first from nothing."""
