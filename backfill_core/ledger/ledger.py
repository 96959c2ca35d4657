"""The ledger over SQL: what a page shows and keeps, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.claims import Claim
from backfill_core.errors import NoStoreError, StoreError, UsageError
from backfill_core.ledger import Correction, Counts, Entry, Glance, Intent, KeyRow, SealRow, statements
from backfill_core.ledger.page import Page
from backfill_core.ledger.tables import VERSIONS
from backfill_core.target import Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Any, Protocol, TypeVar

    from backfill_core.claims import Caller

    T = TypeVar("T")
    Execute = Callable[[str, Mapping[str, Any]], Iterable[tuple[Any, ...]]]

    class Database(Protocol):
        """An open database that a ledger is in: transactions, and what differs between SQLite and PostgreSQL."""

        def reading(self) -> AbstractContextManager[Execute]:
            """One transaction that sees one moment and changes nothing."""

        def changing(self) -> AbstractContextManager[Execute]:
            """One transaction that locks the rows that it names."""

        def alone(self) -> AbstractContextManager[Execute]:
            """One transaction that is alone in making tables; `INTEGER` has 64 bits there."""

        def has(self, execute: Execute, table: str) -> bool:
            """Return whether there is a table of that name."""

        def now(self, execute: Execute) -> str:
            """Return the database's clock: UTC, ISO, with microseconds."""

        locking: str
        """What a SELECT ends with that locks its rows."""

        def rows(self, table: str, names: Sequence[str]) -> str:
            """Return what a FROM takes rows of a table's shape from, as `r`: `:rows`, a JSON array of objects."""

        def close(self) -> None:
            """Let it go."""


TOGETHER = 1_000
"""How many rows are read out of their JSON at once."""


class SqlLedger:
    """A ledger in a database; a context manager that closes it. It makes its tables where there are none.

    make: make them, and bring those of an earlier version up to date; else they have to be there.

    Raises:
        NoStoreError: there are none, and none were to be made.
        StoreError: the tables were made by another version, or can't be made.
    """

    def __init__(self, database: Database, *, make: bool = True) -> None:
        self._database = database
        try:
            self._migrate(make=make)
        except BaseException:
            database.close()
            raise

    # the tables

    def _migrate(self, *, make: bool) -> None:
        with self._database.reading() as execute:
            version = self._version(execute)
        if version > len(VERSIONS):
            raise StoreError(
                f"the ledger's tables are of version {version}, made by a later release; this one knows {len(VERSIONS)}"
            )
        if version == len(VERSIONS):
            return
        if not make and version == 0:
            raise NoStoreError("the store has no ledger of datasets yet; the first write of a dataset makes it")
        if not make:
            raise StoreError(
                f"the ledger's tables are of version {version}, and this release needs {len(VERSIONS)}; the next write"
                " of any dataset brings them up to date"
            )
        with self._database.alone() as execute:
            for number in range(self._version(execute), len(VERSIONS)):
                for statement in VERSIONS[number]:
                    execute(statement, {})
                execute(statements.SET_SCHEMA, {"version": number + 1})
            if not list(execute(statements.IDS, {})):
                execute(statements.ADD_ID, {"id": secrets.token_hex(16), "since": self._database.now(execute)})

    def _version(self, execute: Execute) -> int:
        if not self._database.has(execute, "ledger_schema"):
            return 0
        [(version,)] = execute(statements.SCHEMA, {})
        return int(version)

    # changing

    def change(
        self,
        dataset: str,
        keys: Sequence[str],
        step: Callable[[Page], T],
        *,
        token: str = "",
        caller: Caller | None = None,
    ) -> T:
        """Lock the keys' rows, made where missing, in key order; keep what `step` writes on their page.

        Without keys nothing is locked, and nothing can be written.
        """
        if not keys:
            with self._database.reading() as execute:
                return step(self._load(execute, dataset, keys, token, caller)[0])
        with self._database.changing() as execute:
            page, made = self._load(execute, dataset, keys, token, caller)
            answer = step(page)
            self._keep(execute, dataset, page, made)
        return answer

    def _load(
        self, execute: Execute, dataset: str, keys: Sequence[str], token: str, caller: Caller | None
    ) -> tuple[Page, int]:
        this = {"dataset": dataset, "keys": _as_keys(keys)}
        made: list[tuple[Any, ...]] = []
        rows: Iterable[tuple[Any, ...]] = ()
        claims: list[Claim] = []
        intents: list[Intent] = []
        latest: dict[str, Intent] = {}
        if keys:
            made = list(execute(statements.MAKE_ROWS, this))
            rows = execute(statements.LOCKED_ROWS + self._database.locking, this)
            claims += map(_claim, execute(statements.CLAIMS_OF_KEYS, this))
            intents += map(_intent, execute(statements.OPEN_OF_KEYS, this))
        if caller is not None and caller.run:
            task = {"run": caller.run, "task": caller.task, "map_index": caller.map_index}
            claims += map(_claim, execute(statements.CLAIMS_OF_TASK, this | task))
            tries = execute(statements.LATER_TRIES, this | task | {"try_number": caller.try_number})
            latest = {intent.key: intent for intent in map(_intent, tries)}
        if token:
            known = {(intent.token, intent.key) for intent in intents}
            of_token = map(_intent, execute(statements.OF_TOKEN, this | {"token": token}))
            intents += [intent for intent in of_token if (intent.token, intent.key) not in known]
        *former, ledger = [ledger_id for (ledger_id,) in execute(statements.IDS, {})]
        page = Page(
            ledger, frozenset(former), self._database.now(execute), map(_row, rows), claims, intents, latest
        )  # fmt: skip
        return page, len(made)

    def define(self, dataset: str, fixed: Mapping[str, Any], measures: Mapping[str, Any]) -> int:
        """Keep a dataset's definition; return its version: a new one where the measures are others than the last."""
        said = {"fixed": json.dumps(fixed, sort_keys=True), "measures": json.dumps(measures, sort_keys=True)}
        with self._database.reading() as execute:
            known = _definition(execute, dataset)
        while known is None or known.measures != said["measures"]:
            if known is not None:
                _refuse_other(dataset, known.fixed, said["fixed"])
            with self._database.changing() as execute:
                version = 1 if known is None else known.version + 1
                values = {"dataset": dataset, "version": version, "since": self._database.now(execute)}
                list(execute(statements.DEFINE, values | said))  # another may have been first with this version
                execute(statements.COUNT, _no_counts(dataset))
                known = _definition(execute, dataset)
        _refuse_other(dataset, known.fixed, said["fixed"])
        return known.version

    def definition(self, dataset: str) -> dict[str, Any] | None:
        """Return what is fixed of a dataset, its `key` column, `timezone` and `grain`; None where it isn't known."""
        with self._database.reading() as execute:
            known = _definition(execute, dataset)
        return None if known is None else json.loads(known.fixed)

    def zones(self) -> dict[str, str]:
        """Return the time zone of each dataset; it is fixed, so the first version of a definition has it."""
        with self._database.reading() as execute:
            return {name: json.loads(fixed)["timezone"] for name, fixed in execute(statements.FIXED, {})}

    def renew(self) -> str:
        """Give the ledger a new id, after it came from a backup; return it. The former ones are kept."""
        made = secrets.token_hex(16)
        with self._database.changing() as execute:
            execute(statements.ADD_ID, {"id": made, "since": self._database.now(execute)})
        return made

    def forget(self, dataset: str, before: str) -> int:
        """Drop the history from before a moment, but each key's last publication and no token; count the lines."""
        with self._database.changing() as execute:
            return len(list(execute(statements.FORGET, {"dataset": dataset, "before": before})))

    # keeping a page

    def _keep(self, execute: Execute, dataset: str, page: Page, made: int) -> None:
        """Write down what was written on a page; the dataset's counts last, as its keys share them."""
        for claim_id, keys in _keys_by(page.freed, lambda pair: pair[1], lambda pair: pair[0]):
            execute(statements.FREE, {"dataset": dataset, "id": claim_id, "keys": keys})
        claims = [
            claim._asdict() | {"ended": int(claim.ended), "attempt": number, "since": page.now}
            for claim, number in page.claimed
        ]
        self._add(execute, dataset, "ledger_claims", claims)
        for claim_id, keys in _keys_by(page.ended(), lambda claim: claim.id, lambda claim: claim.key):
            execute(statements.END, {"dataset": dataset, "id": claim_id, "keys": keys})
        self._add(execute, dataset, "ledger_intents", _values(page.noted))
        for (token, state), keys in _keys_by(
            page.closed, lambda pair: (pair[0].token, pair[1]), lambda pair: pair[0].key
        ):
            execute(statements.CLOSE, {"token": token, "dataset": dataset, "keys": keys, "state": state})
        self._add(execute, dataset, "ledger_seals", _values(page.seals))
        self._add(execute, dataset, "ledger_seals", _values(page.unseals), statements.unseal)
        self._add(execute, dataset, "ledger_corrections", _numbered(_values(page.corrections)), statements.append)
        self._add(execute, dataset, "ledger_history", _numbered(_values(page.entries)), statements.append)
        changed = page.changed()
        self._add(execute, dataset, "ledger_keys", _values(changed), statements.put)
        counts = _counts(dataset, page, changed, made)
        if any(value for name, value in counts.items() if name != "dataset"):
            execute(statements.COUNT, counts)

    def _add(
        self,
        execute: Execute,
        dataset: str,
        table: str,
        rows: Sequence[Mapping[str, Any]],
        statement: Callable[[str, tuple[str, ...], str], str] = statements.insert,
    ) -> None:
        """Write rows of a dataset into a table, by one statement."""
        if rows:
            names = (*rows[0], "dataset")
            said = json.dumps([{**row, "dataset": dataset} for row in rows], ensure_ascii=False)
            execute(statement(table, names, self._database.rows(table, names)), {"rows": said})

    # reading

    def _read(self, statement: str, make: Callable[[tuple[Any, ...]], T], **values: str) -> list[T]:
        with self._database.reading() as execute:
            return [make(row) for row in execute(statement, values)]

    def rows(self, dataset: str, first: str = "", last: str = "") -> Sequence[KeyRow]:
        """Return the rows of the keys from `first` to `last`, inclusive, in key order; of all without these."""
        return self._read(statements.ROWS, _row, dataset=dataset, first=first, last=last)

    def glances(self, dataset: str) -> Iterator[Glance]:
        """Tell of each key the little that a calendar shows, in key order: a tenth of the time that `rows` takes."""
        with self._database.reading() as execute:
            found = list(execute(statements.AT_A_GLANCE, {"dataset": dataset}))
        for start in range(0, len(found), TOGETHER):
            rows = found[start : start + TOGETHER]
            measured = json.loads(f"[{','.join(row[2] or 'null' for row in rows)}]")  # as one text: faster than each
            for row, one in zip(rows, measured, strict=True):
                yield Glance(row[0], row[1], {} if one is None else {**one[1], "rows": one[0]}, *row[3:])

    def claims(self, dataset: str, first: str = "", last: str = "") -> Sequence[Claim]:
        """Return the claims on the keys."""
        return self._read(statements.CLAIMS, _claim, dataset=dataset, first=first, last=last)

    def intents(self, dataset: str, first: str = "", last: str = "") -> Sequence[Intent]:
        """Return the open intents of the keys."""
        return self._read(statements.INTENTS, _intent, dataset=dataset, first=first, last=last)

    def find(self, dataset: str, token: str) -> Sequence[Intent]:
        """Return the intents of a token, open or not."""
        return self._read(statements.OF_TOKEN, _intent, dataset=dataset, token=token)

    def history(self, dataset: str, first: str = "", last: str = "") -> Sequence[Entry]:
        """Return the history of the keys, each key's oldest line first."""
        return self._read(statements.HISTORY, _entry, dataset=dataset, first=first, last=last)

    def as_of(self, dataset: str, moment: str, first: str = "", last: str = "") -> Sequence[Entry]:
        """Return of each key the line of what readers saw at a moment, by the target's clock."""
        return self._read(statements.AS_OF, _entry, dataset=dataset, moment=moment, first=first, last=last)

    def seals(self, dataset: str, first: str = "", last: str = "") -> Sequence[SealRow]:
        """Return the versions of the keys' seals, each key's oldest first."""
        return self._read(statements.SEALS, _seal, dataset=dataset, first=first, last=last)

    def corrections(self, dataset: str, first: str = "", last: str = "") -> Sequence[Correction]:
        """Return the keys' corrections, each key's oldest first."""
        return self._read(statements.CORRECTIONS, _correction, dataset=dataset, first=first, last=last)

    def counts(self) -> Sequence[Counts]:
        """Return every dataset at a glance, by name."""
        return self._read(statements.COUNTS, lambda row: Counts(*row))

    def close(self) -> None:
        """Let the database go."""
        self._database.close()

    def __enter__(self) -> SqlLedger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _as_keys(keys: Iterable[str]) -> str:
    return json.dumps(dict.fromkeys(sorted(keys)))


def _keys_by(rows: Iterable[T], group: Callable[[T], Any], key: Callable[[T], str]) -> Iterable[tuple[Any, str]]:
    """Return the keys of each group of rows, for a statement."""
    found: dict[Any, list[str]] = {}
    for row in rows:
        found.setdefault(group(row), []).append(key(row))
    return [(name, _as_keys(keys)) for name, keys in sorted(found.items())]


def _values(rows: Iterable[NamedTuple]) -> list[dict[str, Any]]:
    return [
        {
            _column(name, value): _figures(value) if isinstance(value, Measured) else value
            for name, value in row._asdict().items()
        }
        for row in rows
    ]


def _column(name: str, value: Any) -> str:
    if name in ("before", "after"):  # of two words that SQL knows, what they are of
        return f"{name}_figures" if isinstance(value, Measured) else f"{name}_token"
    return name


def _numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the rows of each key count from 1."""
    turns: Counter[str] = Counter()
    for row in rows:
        turns[row["key"]] += 1
        row["position"] = turns[row["key"]]
    return rows


def _counts(dataset: str, page: Page, changed: Sequence[KeyRow], made: int) -> dict[str, Any]:
    """Return by how much the dataset's counts move, and what its newest key and time may be now."""
    before = [page.before[row.key] for row in changed]
    keys = set(page.keys)
    published = [row for row in changed if row.token is not None]
    latest = max((row for row in published if row.confirmed_at), key=lambda row: row.confirmed_at or "", default=None)

    def more(has: Callable[[KeyRow], bool]) -> int:
        return sum(map(has, changed)) - sum(map(has, before))

    return {
        "dataset": dataset,
        "keys": made,
        "published": more(lambda row: row.token is not None),
        "held": len(page.held() & keys) - len(page.held_before & keys),
        "sealed": more(lambda row: row.seal > 0),
        "failed": more(lambda row: row.failure is not None),
        "drifted": more(lambda row: row.drift is not None),
        "late": more(lambda row: row.late is not None),
        "newest": max((row.key for row in published), default=None),
        "latest_at": latest and latest.confirmed_at,
        "latest_by": latest and latest.owner,
        "checked_at": max((at for row in changed for at in (row.checked_at, row.compared_at) if at), default=None),
    }


def _no_counts(dataset: str) -> dict[str, Any]:
    numbers = dict.fromkeys(("keys", "published", "held", "sealed", "failed", "drifted", "late"), 0)
    words = dict.fromkeys(("newest", "latest_at", "latest_by", "checked_at"))
    return {"dataset": dataset, **numbers, **words}


class _Definition(NamedTuple):
    version: int
    fixed: str
    measures: str


def _definition(execute: Execute, dataset: str) -> _Definition | None:
    found = [_Definition(*row) for row in execute(statements.DEFINITION, {"dataset": dataset})]
    return found[0] if found else None


def _refuse_other(dataset: str, known: str, said: str) -> None:
    if known == said:
        return
    before, now = json.loads(known), json.loads(said)
    word = next(word for word in sorted({*before, *now}) if before.get(word) != now.get(word))
    raise UsageError(
        f"{dataset}: {word} is {now.get(word)!r}, and it was {before.get(word)!r} when the ledger first knew it; what"
        " was published by the one can't be told by the other. Give the dataset another name, or put it back"
    )


# rows of the tables


def _figures(measured: Measured | None) -> str | None:
    return None if measured is None else json.dumps([measured.rows, dict(measured.measures), measured.digest])


def _measured(text: str | None) -> Measured | None:
    return None if text is None else Measured(*json.loads(text))


def _row(values: tuple[Any, ...]) -> KeyRow:
    return KeyRow._make([*values[:3], _measured(values[3]), *values[4:]])


def _claim(values: tuple[Any, ...]) -> Claim:
    return Claim._make([*values[:9], bool(values[9])])


def _intent(values: tuple[Any, ...]) -> Intent:
    return Intent._make([*values[:12], _measured(values[12]), values[13], _measured(values[14]), *values[15:]])


def _entry(values: tuple[Any, ...]) -> Entry:
    return Entry._make([*values[:12], _measured(values[12]), _measured(values[13]), *values[14:]])


def _seal(values: tuple[Any, ...]) -> SealRow:
    return SealRow._make([*values[:4], _measured(values[4]), *values[5:]])


def _correction(values: tuple[Any, ...]) -> Correction:
    key, seal, before, after, *rest = values
    return Correction(key, seal, Measured(*json.loads(before)), Measured(*json.loads(after)), *rest)
