"""What can't be guarded about a table in PostgreSQL, and what should be known, each with its cure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.target import Finding
from backfill_core.target import postgres_sql as sql
from backfill_core.target.statement import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from backfill_core.target.postgres import PostgresTarget
    from backfill_core.target.session import Session

OLDEST = 14
_TYPES = {
    "date": ("date",),
    "text": ("text", "character varying", "character"),
    "integer": ("integer", "bigint"),
    "instant": ("timestamp with time zone",),
    "local": ("timestamp without time zone",),
}
_NO_TABLES = {
    "v": ("is a view", "name the table that it shows"),
    "m": ("is a materialized view", "name a table, and refresh the view after it was published"),
    "f": ("is a foreign table, whose rows no transaction here can guard", "name the table in its own database"),
    "S": ("is a sequence", "name a table"),
    "c": ("is a type", "name a table"),
}
_ON_DELETE = {"c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT", "r": "RESTRICT", "a": "NO ACTION"}

_TABLE = """
    SELECT relkind::text, relpersistence::text, relispartition, row_security_active(pg_class.oid),
           EXISTS (SELECT FROM pg_inherits JOIN pg_class AS parent ON parent.oid = inhparent
                   WHERE (inhparent = pg_class.oid OR inhrelid = pg_class.oid) AND parent.relkind = 'r')
    FROM pg_catalog.pg_class WHERE oid = to_regclass(:name)
"""
_LEAVES = (
    f"SELECT oid::regclass::text, relkind::text, relpersistence::text FROM pg_catalog.pg_class WHERE oid IN {sql.PARTS}"
)
_CHILDREN = f"""
    SELECT DISTINCT conrelid::regclass::text, confdeltype::text FROM pg_catalog.pg_constraint
    WHERE contype = 'f' AND confrelid IN {sql.PARTS} ORDER BY 1
"""
_TRIGGERS = f"""
    SELECT DISTINCT tgname::text FROM pg_catalog.pg_trigger
    WHERE tgrelid IN {sql.PARTS} AND NOT tgisinternal AND tgenabled <> 'D' ORDER BY 1
"""
_RULES = f"""
    SELECT rulename::text FROM pg_catalog.pg_rewrite
    WHERE ev_class IN {sql.PARTS} AND rulename <> '_RETURN' ORDER BY 1
"""
_VIEWS = f"""
    SELECT DISTINCT ev_class::regclass::text FROM pg_catalog.pg_depend
    JOIN pg_catalog.pg_rewrite ON pg_rewrite.oid = objid JOIN pg_catalog.pg_class ON pg_class.oid = ev_class
    WHERE pg_depend.classid = 'pg_rewrite'::regclass AND refobjid IN {sql.PARTS} AND relkind = 'm' ORDER BY 1
"""
_INDEXED = """
    SELECT EXISTS (SELECT FROM pg_catalog.pg_index WHERE indrelid = :name ::regclass AND indisvalid
                   AND indpred IS NULL AND indkey[0] = attnum)
        OR EXISTS (SELECT FROM pg_catalog.pg_partitioned_table WHERE partrelid = :name ::regclass
                   AND partattrs[0] = attnum)
    FROM pg_catalog.pg_attribute WHERE attrelid = :name ::regclass AND attname = :column
"""
_FOLDS = """
    SELECT EXISTS (SELECT FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_collation ON pg_collation.oid = attcollation
                   WHERE attrelid = :name ::regclass AND attname = :column AND NOT collisdeterministic)
"""
_RIGHTS = """
    SELECT current_user::text, has_schema_privilege(:schema, 'USAGE'),
           has_table_privilege(:name, 'SELECT'), has_table_privilege(:name, 'INSERT'),
           has_table_privilege(:name, 'DELETE')
"""
_OUR_RIGHTS = """
    SELECT has_schema_privilege(:ours, 'USAGE'), has_schema_privilege(:ours, 'CREATE'), to_regclass(:side) IS NOT NULL
    FROM pg_catalog.pg_namespace WHERE nspname = :ours
"""
_SIDE_RIGHTS = """
    SELECT has_table_privilege(:side, 'SELECT') AND has_table_privilege(:side, 'INSERT')
           AND has_table_privilege(:side, 'UPDATE')
"""


def findings(target: PostgresTarget, session: Session) -> list[Finding]:
    """Look the table over, in one transaction."""
    look = _Look(target, session)
    found = list(look.table_itself())
    if any(finding.refuses for finding in found):
        return found  # what else there is can't be asked of it
    for part in (
        look.rights, look.our_rights, look.key_column, look.columns,
        look.children, look.what_fires, look.views, look.measures,
    ):  # fmt: skip
        found += part()
    return found


class _Look:
    def __init__(self, target: PostgresTarget, session: Session) -> None:
        self._target = target
        self._session = session
        self._table = target.table(session)
        self._column = target.dataset.column

    def _rows(self, statement: str, **more: Any) -> list[tuple[Any, ...]]:
        return self._session.rows(statement, {"name": self._table, **more})

    def table_itself(self) -> Iterator[Finding]:
        version = self._session.rows(sql.VERSION)[0][0]
        if version < OLDEST:
            yield Finding(True, f"the server is PostgreSQL {version}", f"move to PostgreSQL {OLDEST} or newer")
        schema, _, _ = self._target.place(self._session)
        if not self._session.rows("SELECT FROM pg_catalog.pg_namespace WHERE nspname = :schema", {"schema": schema}):
            yield Finding(
                True, f"there is no schema {schema}", "name the table as schema.table, as the database has it"
            )
            return
        if not self._session.rows("SELECT has_schema_privilege(:schema, 'USAGE')", {"schema": schema})[0][0]:
            yield Finding(
                True, f"the role may not use the schema {schema}", f"GRANT USAGE ON SCHEMA {quoted(schema)} TO …"
            )
            return
        found = self._rows(_TABLE)
        if not found:
            cure = "make it, or name it as the database has it, capitals too"
            yield Finding(True, f"there is no table {self._table}", cure)
            return
        kind, _, is_partition, secured, inherits = found[0]
        if kind in _NO_TABLES:
            what, cure = _NO_TABLES[kind]
            yield Finding(True, f"{self._table} {what}", cure)
            return
        yield from self._parts()
        if inherits:
            what = f"{self._table} inherits from another table or is inherited from, so its rows are not its own"
            yield Finding(True, what, "make it a partitioned table, or one that stands alone")
        if secured:
            what = "row-level security would hide rows from this role, so what is replaced is not the whole partition"
            yield Finding(True, what, "write as the table's owner without FORCE, or as a role with BYPASSRLS")
        if is_partition:
            yield Finding(
                False, f"{self._table} is one part of a partitioned table", "name the partitioned table itself"
            )

    def _parts(self) -> Iterator[Finding]:
        for name, kind, persistence in self._rows(_LEAVES):
            if persistence == "u":
                what = f"{name} is unlogged: a crash empties it, and nobody would know"
                yield Finding(True, what, f"ALTER TABLE {name} SET LOGGED")
            elif persistence == "t":
                yield Finding(
                    True, f"{name} is a temporary table, which only its session sees", "name a table that stays"
                )
            elif kind == "f":
                yield Finding(True, f"{name} {_NO_TABLES['f'][0]}", "detach it, or guard the table in its own database")

    def rights(self) -> Iterator[Finding]:
        schema, _, _ = self._target.place(self._session)
        role, _, *has = self._rows(_RIGHTS, schema=schema)[0]
        missing = [word for word, there in zip(("SELECT", "INSERT", "DELETE"), has, strict=True) if not there]
        if missing:
            cure = f"GRANT SELECT, INSERT, DELETE ON {self._table} TO {quoted(role)}"
            yield Finding(True, f"{role} may not {', '.join(missing)} on {self._table}", cure)

    def our_rights(self) -> Iterator[Finding]:
        ours = self._target.place(self._session)[2]
        side = self._target.beside(self._session, sql.SIDE)
        role = quoted(str(self._session.rows("SELECT current_user::text")[0][0]))
        given = {"ours": ours, "side": side}
        found = self._session.rows(_OUR_RIGHTS, given)
        if not found:
            cure = f"CREATE SCHEMA {quoted(ours)} AUTHORIZATION {role}, or name another by schema="
            yield Finding(True, f"there is no schema {ours}, where the side table goes", cure)
            return
        may_use, may_create, is_there = found[0]
        grant = f"GRANT USAGE, CREATE ON SCHEMA {quoted(ours)} TO {role}"
        if not may_use or not (may_create or is_there):
            yield Finding(True, f"the role may not make the side table in the schema {ours}", grant)
        elif is_there and not self._session.rows(_SIDE_RIGHTS, {"side": side})[0][0]:
            cure = f"GRANT SELECT, INSERT, UPDATE ON {side} TO {role}"
            yield Finding(True, f"the role may not read and write the side table {side}", cure)
        elif not may_create:
            what = f"the role may make no tables in the schema {ours}: a select works, what is staged by others doesn't"
            yield Finding(False, what, f"{grant}, or name another schema by schema=")

    def key_column(self) -> Iterator[Finding]:
        name, kind = self._column.name, self._column.kind
        if not name:
            what = "the whole table is one partition: each write replaces all of its rows, and measures them"
            yield Finding(False, what, "declare a key column where that is too much at once")
            return
        columns = {column.name: column for column in self._target.shape(self._session).columns}
        column = columns[name]
        if column.type not in _TYPES[kind]:
            fits = [word for word, types in _TYPES.items() if column.type in types]
            cure = f"declare kind='{fits[0]}'" if fits else f"use a column of the type {', '.join(_TYPES[kind])}"
            yield Finding(
                True, f"the key column {name} is a {column.type}, and was declared to be of the kind {kind}", cure
            )
        if column.is_generated:
            what = f"the key column {name} is generated: what it is made of decides the partition"
            yield Finding(False, what, "leave it out of the select")
        if self._column.values and self._rows(_FOLDS, column=name)[0][0]:
            what = f"the key column {name} has a collation for which different texts are one, such as small and capital"
            yield Finding(True, what, f'ALTER TABLE {self._table} ALTER COLUMN {quoted(name)} TYPE text COLLATE "C"')
        if not column.is_not_null:
            what = f"the key column {name} may be NULL; new rows without a key are refused, `drift` reports old ones"
            yield Finding(False, what, f"ALTER TABLE {self._table} ALTER COLUMN {quoted(name)} SET NOT NULL")
        if not self._rows(_INDEXED, column=name)[0][0]:
            what = f"no index begins with the key column {name}, so each replacement reads the whole table"
            yield Finding(False, what, f"CREATE INDEX CONCURRENTLY ON {self._table} ({quoted(name)})")

    def columns(self) -> Iterator[Finding]:
        columns = self._target.shape(self._session).columns
        known = {column.name for column in columns}
        dataset = self._target.dataset
        for word, listed in (("unique", dataset.unique), ("digest_columns", dataset.digest_columns or ())):
            if missing := [name for name in listed if name not in known]:
                what = f"{word} names a column {missing[0]}, which the table doesn't have"
                yield Finding(True, what, "name columns as the database has them, capitals too")
        if identities := [column.name for column in columns if column.is_identity]:
            what = f"{', '.join(identities)} is an identity: rows that are replaced get new ones"
            yield Finding(False, what, "let nothing refer to it, or put it into the select")
        if generated := [column.name for column in columns if column.is_generated]:
            yield Finding(False, f"{', '.join(generated)} is generated by the database", "leave it out of the select")
        volatile = [column.name for column in columns if column.is_volatile]
        if volatile and dataset.digest != "never" and dataset.digest_columns is None:
            what = f"{', '.join(volatile)} has a default that changes, so the digest leaves it out"
            yield Finding(False, what, "name the columns by digest_columns to have it another way")

    def children(self) -> Iterator[Finding]:
        for child, kind in self._rows(_CHILDREN):
            action = _ON_DELETE[kind]
            if action in ("CASCADE", "SET NULL", "SET DEFAULT"):
                what = f"{child} refers to the table with ON DELETE {action}: a replacement would change its rows"
                cure = f"make its foreign key ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED, or take it off {child}"
                yield Finding(True, what, cure)
            elif action == "RESTRICT":
                what = f"{child} refers to the table with ON DELETE RESTRICT: what it refers to can't be replaced"
                yield Finding(False, what, "make its foreign key ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED")
            else:
                what = f"{child} refers to the table: a replacement that lacks a row it refers to is refused"
                yield Finding(
                    False, what, "make its foreign key DEFERRABLE INITIALLY DEFERRED, so that it looks at the end"
                )

    def what_fires(self) -> Iterator[Finding]:
        if rules := [name for (name,) in self._rows(_RULES)]:
            what = f"the rule {rules[0]} makes other statements of ours, so what they do isn't known"
            yield Finding(True, what, f"DROP RULE {quoted(rules[0])} ON {self._table}; a trigger can do the same")
        if triggers := [name for (name,) in self._rows(_TRIGGERS)]:
            what = f"the trigger {', '.join(triggers)} fires for what goes and what comes at each replacement"
            yield Finding(False, what, "see that it does no harm twice; what it changes in the partition is measured")

    def views(self) -> Iterator[Finding]:
        for (view,) in self._rows(_VIEWS):
            what = f"the materialized view {view} shows the table as it was until it is refreshed"
            yield Finding(False, what, f"REFRESH MATERIALIZED VIEW {view} after a publication")

    def measures(self) -> Iterator[Finding]:
        from backfill_core.target.postgres import FLOATS

        dataset = self._target.dataset
        for name, expression in dataset.measures.items():
            self._session.run("SAVEPOINT measure")
            try:
                kind = self._session.rows(f"SELECT pg_typeof({expression})::text FROM {self._table} WHERE false")[0][0]
            except self._session.error as error:
                self._session.run("ROLLBACK TO SAVEPOINT measure")
                said = str(error).splitlines()[0]
                yield Finding(
                    True, f"the measure {name} can't be computed: {said}", "write one aggregate, such as sum(amount)"
                )
                continue
            except IndexError:
                yield Finding(True, f"the measure {name} is no aggregate", "write one aggregate, such as sum(amount)")
                continue
            if kind in FLOATS and name not in dataset.tolerance:
                what = f"the measure {name} is a float, which isn't the same twice"
                cure = f"keep a numeric column, or say tolerance={{'{name}': …}}"
                yield Finding(True, what, cure)
