"""A whole target in one short file: a table that is one JSON file, replaced as a whole by each commit."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from backfill_core.errors import ChangedError, FencedError, FenceTimeoutError, TargetError
from backfill_core.target import WAIT_SECONDS, Audited, Expected, Fence, Finding, Measured, Side
from backfill_core.target.sides import staging_name, why_fenced

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from backfill_core.dataset import Dataset

    Rows = list[dict[str, Any]]


class JsonTarget:
    """The file at `dataset.table.where`: `{"rows": […], "sides": {key: […]}}`. A measure is `count`, or a column."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.path, self.day = dataset, dataset.table.where, dataset.table.day

    # one moment, and one commit

    def _read(self) -> dict[str, Any]:
        with open(self.path, encoding="utf-8") as file:
            table: dict[str, Any] = json.load(file)
        table["sides"] = {key: Side(*side) for key, side in table["sides"].items()}
        return table

    @contextmanager
    def _changing(self, wait: float) -> Iterator[dict[str, Any]]:
        """One commit: the file is another one, or the one that it was."""
        end = time.monotonic() + wait
        with open(f"{self.path}.lock", "w", encoding="utf-8") as lock:
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() > end:
                    raise FenceTimeoutError(f"{self.path}: another has had the file for {wait} seconds")
                time.sleep(0.005)
            table = self._read()
            yield table
            with open(f"{self.path}.new", "w", encoding="utf-8") as file:
                json.dump(table, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(f"{self.path}.new", self.path)

    # side rows

    def look(self, keys: Sequence[str]) -> Mapping[str, Side]:
        sides = self._read()["sides"]
        return {key: sides[key] for key in keys if key in sides}

    def fence(
        self, fences: Mapping[str, Fence], ledger: str, wait: float, *, former: frozenset[str] = frozenset()
    ) -> Mapping[str, Side]:
        with self._changing(wait) as table:
            sides = table["sides"]
            for key, fence in fences.items():
                side = sides.get(key, Side(None, 0, None, None, None))
                if side.ledger not in (None, ledger, *former):
                    raise FencedError(f"{key} was last written under another ledger", {key: side})
                sides[key] = side._replace(fence=max(side.fence, fence.number), ledger=ledger)
            return {key: sides[key] for key in fences}

    def mark(self, mark: str | None, expected: Mapping[str, Expected], ledger: str, wait: float) -> frozenset[str]:
        with self._changing(wait) as table:
            sides, done = table["sides"], []
            for key, one in expected.items():
                again = one._replace(mark=mark)
                if any(_is_as_expected(sides.get(key), there, {ledger}) for there in (one, again)):
                    sides[key] = sides[key]._replace(mark=mark, fence=one.number)
                    done.append(key)
            return frozenset(done)

    def set_tokens(
        self, table: dict[str, Any], expected: Mapping[str, Expected], token: str, ledger: str, ledgers: set[str]
    ) -> dict[str, str]:
        sides, now = table["sides"], datetime.now(timezone.utc).isoformat(timespec="microseconds")
        for key, one in expected.items():
            if not _is_as_expected(sides.get(key), one, ledgers):
                raise FencedError(f"{key} {why_fenced(sides.get(key), one, ledgers)}", sides)
            at = max(now, sides[key].published_at or "")
            sides[key] = Side(token, one.number, one.mark, ledger, at)
        return {key: sides[key].published_at for key in expected}

    # rows

    def measured(self, rows: Rows, key: str, *, digest: bool) -> Measured:
        rows = [row for row in rows if row[self.day] == key]
        figures = {
            name: str(len(rows)) if what == "count" else str(sum(row[what] for row in rows)) if rows else None
            for name, what in self.dataset.measures.items()
        }
        hashes = (int(sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16], 16) for row in rows)
        return Measured(len(rows), figures, f"json rows 1:{len(rows)},{sum(hashes)}" if digest else None)

    def measure(self, keys: Sequence[str], *, digest: bool) -> Mapping[str, Measured]:
        rows = self._read()["rows"]
        return {key: self.measured(rows, key, digest=digest) for key in keys}

    def adopt(
        self,
        token: str,
        expected: Mapping[str, Expected],
        measured: Mapping[str, Measured],
        ledger: str,
        *,
        former: frozenset[str] = frozenset(),
    ) -> Mapping[str, str]:
        with self._changing(WAIT_SECONDS) as table:
            for key in expected:
                if self.measured(table["rows"], key, digest=measured[key].digest is not None) != measured[key]:
                    raise ChangedError(f"{key} holds something else than was measured")
            return self.set_tokens(table, expected, token, ledger, {ledger, *former})

    def keyless(self) -> tuple[int, str]:
        count = sum(row[self.day] is None for row in self._read()["rows"])
        return count, "none" if count else ""

    def ask(self, select: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        with open(select.removesuffix(" whole"), encoding="utf-8") as file:
            return [tuple(row.values()) for row in json.load(file)["rows"] if row[self.day] in keys]

    def check(self) -> Sequence[Finding]:
        return []

    @contextmanager
    def writing(self, keys: Sequence[str], token: str, *, staged: bool) -> Iterator[JsonWrite]:
        write = JsonWrite(self, keys, token)
        try:
            if staged:
                with open(write.staging, "x", encoding="utf-8") as file:
                    json.dump({"rows": []}, file)
                write.fill(f"{write.staging} whole")
            yield write
        finally:
            self.sweep([token])

    def staging(self, token: str) -> str:
        return os.path.join(os.path.dirname(self.path), staging_name(token))

    def sweep(self, tokens: Sequence[str]) -> None:
        for token in tokens:
            with suppress(FileNotFoundError):
                os.remove(self.staging(token))

    def close(self) -> None:
        """Nothing is held between two calls."""


def _is_as_expected(side: Side | None, one: Expected, ledgers: Collection[str]) -> bool:
    there = side and (side.token, side.mark, side.fence <= one.number, side.ledger in ledgers)
    return there == (one.token, one.mark, True, True)


class JsonWrite:
    """A write: rows in memory until `publish` puts them in the place of the partitions'."""

    def __init__(self, target: JsonTarget, keys: Sequence[str], token: str) -> None:
        self._target, self._keys, self.staging = target, keys, target.staging(token)
        self._sources: list[str] = []
        self._rows: Rows = []
        self._audited: Audited | None = None

    def fill(self, select: str) -> None:
        """Add the rows of these days of a file, `source.json`, or all of its rows, `source.json whole`."""
        self._sources.append(select)

    def audit(self, *, digest: bool) -> Audited:
        target, day = self._target, self._target.day
        for source in self._sources:
            with open(source.removesuffix(" whole"), encoding="utf-8") as file:
                rows = json.load(file)["rows"]
            self._rows += [row for row in rows if source.endswith(" whole") or row[day] in self._keys]
        strange = [row[day] for row in self._rows if row[day] not in (None, *self._keys)]
        unique = target.dataset.unique
        times = Counter(tuple(row[name] for name in (*unique, day)) for row in self._rows if unique)
        repeats = [values for values, count in times.items() if count > 1]
        self._audited = Audited(
            {key: target.measured(self._rows, key, digest=digest) for key in self._keys},
            target.measure(self._keys, digest=digest),
            (len(strange), strange[0] if strange else ""),
            (sum(row[day] is None for row in self._rows), "none"),
            (sum(times[values] - 1 for values in repeats), ", ".join(map(str, repeats[0][:-1])) if repeats else ""),
        )
        if not self._audited.keyless[0]:
            self._audited = self._audited._replace(keyless=(0, ""))
        return self._audited

    def publish(self, expected: Mapping[str, Expected], token: str, ledger: str) -> Mapping[str, str]:
        target, audited, day = self._target, self._audited, self._target.day
        if audited is None:
            raise TargetError("nothing was audited")
        with target._changing(WAIT_SECONDS) as table:
            done = target.set_tokens(table, expected, token, ledger, {ledger})
            for key in expected:
                with_digest = audited.before[key].digest is not None
                if target.measured(table["rows"], key, digest=with_digest) != audited.before[key]:
                    raise ChangedError(f"{key} was changed after it was audited")
            kept = [row for row in table["rows"] if row[day] not in expected]
            table["rows"] = kept + [row for row in self._rows if row[day] in expected]
        return done
