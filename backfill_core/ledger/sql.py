"""Every statement that the ledger runs, by name, for SQLite and PostgreSQL. Parameters are written `:name`."""

CREATE_CLAIMS = """
    CREATE TABLE IF NOT EXISTS ledger_claims (
        dataset TEXT NOT NULL, key TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, kind TEXT NOT NULL,
        run TEXT NOT NULL, task TEXT NOT NULL, map_index INTEGER NOT NULL, try_number INTEGER NOT NULL,
        beneath TEXT NOT NULL, ended INTEGER NOT NULL, attempt INTEGER NOT NULL, since TEXT NOT NULL,
        PRIMARY KEY (dataset, key, id)
    )
"""
"""`attempt` is the number of the try at its key, 0 for a reservation and `daily`; `since` is the database's clock."""
