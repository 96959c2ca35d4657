"""What can't be guarded about a table in a SQLite file, and what should be known, each with its cure."""

from __future__ import annotations

import os
import shutil
import sqlite3
from typing import TYPE_CHECKING

from backfill_core.target import Finding
from backfill_core.target.statement import SQLITE, quoted, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backfill_core.target.sqlite import SqliteTarget
    from backfill_core.target.sqlite_session import SqliteSession

MEGABYTE = 1_000_000
_CHILDREN = """
    SELECT child.name, fk.on_delete FROM main.sqlite_master AS child, pragma_foreign_key_list(child.name, 'main') AS fk
    WHERE child.type = 'table' AND fk."table" = :name COLLATE NOCASE ORDER BY 1
"""
_INDEXED = """
    SELECT 1 FROM pragma_index_list(:name, 'main') AS listed, pragma_index_info(listed.name, 'main') AS info
    WHERE NOT listed.partial AND info.seqno = 0 AND info.name = :column
"""


def findings(target: SqliteTarget, session: SqliteSession) -> list[Finding]:
    """Look the table over, in one transaction."""
    found = list(_table_itself(target, session))
    if any(finding.refuses for finding in found):
        return found
    for part in (_file, _key_column, _columns, _children, _triggers, _measures):
        found += part(target, session)
    return found


def _table_itself(target: SqliteTarget, session: SqliteSession) -> Iterator[Finding]:
    given = {"name": target.relation}
    kinds = session.rows("SELECT type, coalesce(sql, '') FROM main.sqlite_master WHERE name = :name", given)
    if not kinds:
        yield Finding(
            True, f"there is no table {target.relation} in {session.path}", "make it, or name it as it is written"
        )
    elif kinds[0][0] != "table":
        yield Finding(True, f"{target.relation} is a {kinds[0][0]}", "name the table that it shows")
    elif kinds[0][1].upper().startswith("CREATE VIRTUAL"):
        yield Finding(
            True, f"{target.relation} is a virtual table, which its module keeps", "name a table of SQLite's own"
        )
    elif target.dataset.column.name not in {"", *(column.name for column in target.columns(session))}:
        yield Finding(
            True, f"the table has no column {target.dataset.column.name}", "name the key column as it is written"
        )


def _file(_: SqliteTarget, session: SqliteSession) -> Iterator[Finding]:
    what = "one file has one writer, and nobody can stop one that stands still inside a transaction"
    yield Finding(False, what, "end its process; a write that waits in vain says which one it is")
    if session.rows("PRAGMA main.journal_mode") != [("wal",)]:
        what = "without a write-ahead log nobody can commit while a select reads"
        yield Finding(False, what, "PRAGMA journal_mode = WAL, once; it stays with the file")
    folder = os.path.dirname(session.path) or "."
    if not (os.access(session.path, os.W_OK) and os.access(folder, os.W_OK)):
        yield Finding(
            True, f"{session.path} and its folder can't both be written", "give this user the right to write them"
        )
    free, used = shutil.disk_usage(folder).free, os.path.getsize(session.path)
    if free < used:
        what = f"the disk has {free // MEGABYTE} MB free, and the file has {used // MEGABYTE}"
        yield Finding(False, what, "make room before large writes: each needs its rows three times at once")


def _key_column(target: SqliteTarget, session: SqliteSession) -> Iterator[Finding]:
    name, listed = target.dataset.column.name, target.dataset.column.values
    if not name:
        what = "the whole table is one partition: each write replaces all of its rows, and measures them"
        yield Finding(False, what, "declare a key column where that is too much at once")
        return
    column = next(column for column in target.columns(session) if column.name == name)
    if not column.is_not_null:
        what = f"the key column {name} may be NULL; new rows without a key are refused, `drift` reports old ones"
        yield Finding(False, what, f"declare {quoted(name)} NOT NULL")
    if not session.rows(_INDEXED, {"name": target.relation, "column": name}):
        what = f"no index begins with the key column {name}, so each replacement reads the whole table"
        yield Finding(False, what, f"CREATE INDEX … ON {quoted(target.relation)} ({quoted(name)})")
    found = session.rows(f"SELECT {quoted(name)} FROM {target.table} WHERE {quoted(name)} IS NOT NULL LIMIT 100")
    strange = [value for (value,) in found if not target.values.has(value)]
    if strange and listed:
        what = f"the key column {name} holds {strange[0]!r}, which is not in the list, so its rows are of no partition"
        yield Finding(False, what, "add it to the list, or mend the rows; `drift` counts them")
    elif strange:
        what = f"the key column {name} holds {strange[0]!r}, which is not written as was declared"
        yield Finding(True, what, "declare the kind and the format that the column has, or mend its rows")


def _columns(target: SqliteTarget, session: SqliteSession) -> Iterator[Finding]:
    columns = target.columns(session)
    known, dataset = {column.name for column in columns}, target.dataset
    for word, listed in (("unique", dataset.unique), ("digest_columns", dataset.digest_columns or ())):
        if missing := [name for name in listed if name not in known]:
            what = f"{word} names a column {missing[0]}, which the table doesn't have"
            yield Finding(True, what, "name columns as they are written")
    generated = {column.name for column in columns if column.is_generated}
    if generated:
        yield Finding(
            False, f"{', '.join(sorted(generated))} is generated by the database", "leave it out of the select"
        )
    said = {word for expression in dataset.measures.values() for word in words(expression, SQLITE)} | set(
        dataset.unique
    )
    if used := sorted(said & generated):
        what = f"{used[0]} is generated, so it can't be measured before the rows are in the table"
        yield Finding(True, what, "measure the expression that it is generated from")
    volatile = [column.name for column in columns if column.is_volatile]
    if volatile and dataset.digest != "never" and dataset.digest_columns is None:
        what = f"{', '.join(volatile)} has a default that changes, so the digest leaves it out"
        yield Finding(False, what, "name the columns by digest_columns to have it another way")


def _children(target: SqliteTarget, session: SqliteSession) -> Iterator[Finding]:
    for child, action in session.rows(_CHILDREN, {"name": target.relation}):
        if action in ("CASCADE", "SET NULL", "SET DEFAULT"):
            what = f"{child} refers to the table with ON DELETE {action}: a replacement would change its rows"
            yield Finding(
                True, what, f"make the foreign key of {child} DEFERRABLE INITIALLY DEFERRED without ON DELETE"
            )
        else:
            what = f"{child} refers to the table: a replacement that lacks a row it refers to is refused"
            yield Finding(
                False, what, "make its foreign key DEFERRABLE INITIALLY DEFERRED, so that it looks at the end"
            )


def _triggers(target: SqliteTarget, session: SqliteSession) -> Iterator[Finding]:
    given = {"name": target.relation}
    found = session.rows("SELECT name FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = :name", given)
    if found:
        what = (
            f"the trigger {', '.join(name for (name,) in found)} fires for what goes and what comes at each replacement"
        )
        yield Finding(False, what, "see that it does no harm twice; a partition that it changes is refused")


def _measures(target: SqliteTarget, session: SqliteSession) -> Iterator[Finding]:
    for name, expression in target.dataset.measures.items():
        try:
            found = session.rows(f"SELECT typeof({expression}), count(*) FROM {target.table} WHERE false")
        except sqlite3.Error as error:
            yield Finding(
                True, f"the measure {name} can't be computed: {error}", "write one aggregate, such as sum(amount)"
            )
            continue
        used = words(expression, SQLITE)
        floats = [column.name for column in target.columns(session) if column.name in used and _is_float(column.type)]
        if (found[0][0] == "real" or floats) and name not in target.dataset.tolerance:
            what = f"the measure {name} is a float, which isn't the same twice"
            yield Finding(True, what, f"keep integers (of cents), or say tolerance={{'{name}': …}}")


def _is_float(declared: str) -> bool:
    return any(word in declared.upper() for word in ("REAL", "FLOA", "DOUB"))
