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

# claims on the runner's `daily`: the rows that count are those whose owner `claims` names
CLAIMS_ON_DAILY = """
    SELECT claims.dt, claims.owner, l.id, l.kind, l.run, l.task, l.map_index, l.try_number, l.beneath, l.ended
    FROM claims LEFT JOIN ledger_claims AS l ON l.dataset = 'daily' AND l.key = claims.dt AND l.owner = claims.owner
    WHERE claims.dt BETWEEN :first AND :last ORDER BY claims.dt, l.kind DESC, l.id
"""
HELD_ON_DAILY = """
    SELECT claims.dt, claims.owner, l.run
    FROM ledger_claims AS l JOIN claims ON claims.dt = l.key AND claims.owner = l.owner
    WHERE l.dataset = 'daily' AND l.id = :id AND l.key BETWEEN :first AND :last ORDER BY claims.dt
"""
ENTER_DAILY = """
    INSERT INTO ledger_claims
        (dataset, key, id, owner, kind, run, task, map_index, try_number, beneath, ended, attempt, since)
    SELECT 'daily', key, :id, :owner, :kind, :run, :task, :map_index, :try_number, :beneath, 0, 0,
           CAST(CURRENT_TIMESTAMP AS TEXT)
    FROM json_each(:dts)
"""
LEAVE_DAILY = "DELETE FROM ledger_claims WHERE dataset = 'daily' AND id = :id AND key BETWEEN :first AND :last"
END_ON_DAILY = "UPDATE ledger_claims SET ended = 1 WHERE dataset = 'daily' AND key = :dt AND id = :id"
FREE_DAILY = """
    DELETE FROM claims WHERE owner = :owner AND dt IN (SELECT key FROM json_each(:dts)) AND NOT EXISTS (
        SELECT 1 FROM ledger_claims AS l WHERE l.dataset = 'daily' AND l.key = claims.dt AND l.owner = claims.owner
    )
"""
FORGET_ON_DAILY = """
    DELETE FROM ledger_claims WHERE dataset = 'daily' AND key BETWEEN :first AND :last AND NOT EXISTS (
        SELECT 1 FROM claims WHERE claims.dt = ledger_claims.key AND claims.owner = ledger_claims.owner
    )
"""
