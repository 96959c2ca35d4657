"""A whole target in one short file: a table that is one JSON file, replaced as a whole by each commit."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_core.errors import ChangedError, FenceTimeoutError
from backfill_core.keys import WHOLE
from backfill_core.target import WAIT_SECONDS, Audited, Defaults, Expected, Fence, Measured, Side
from backfill_core.target.figures import misfits
from backfill_core.target.sides import raise_fences, set_marks, set_tokens, staging_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from backfill_core.dataset import Dataset

    Rows = list[dict[str, Any]]


class JsonTarget(Defaults):
    """The file at `dataset.table.where`: `{"rows": […], "sides": {key: […]}}`. A measure is `count`, or a column."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.path, self.column = dataset, dataset.table.where, dataset.column

    def key_of(self, row: dict[str, Any]) -> str | None:
        return row[self.column.name] if self.column.name else WHOLE

    def read(self) -> tuple[Rows, dict[str, Side]]:
        """Return the rows and the side rows, as they are at one moment."""
        table = json.loads(Path(self.path).read_text(encoding="utf-8"))
        return table["rows"], {key: Side(*side) for key, side in table["sides"].items()}

    @contextmanager
    def changing(self, wait: float) -> Iterator[tuple[Rows, dict[str, Side]]]:
        """One commit: what the block leaves there takes the place of the file; nothing does where it raises."""
        end = time.monotonic() + wait
        with open(f"{self.path}.lock", "w", encoding="utf-8") as lock:
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() > end:
                    raise FenceTimeoutError(f"{self.path}: another has had the file for {wait} seconds")
                time.sleep(0.005)
            rows, sides = self.read()
            yield rows, sides
            with open(f"{self.path}.new", "w", encoding="utf-8") as file:
                json.dump({"rows": rows, "sides": sides}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(f"{self.path}.new", self.path)

    def look(self, keys: Sequence[str]) -> Mapping[str, Side]:
        return {key: side for key, side in self.read()[1].items() if key in keys}

    def fence(
        self, fences: Mapping[str, Fence], ledger: str, wait: float, *, former: frozenset[str] = frozenset()
    ) -> Mapping[str, Side]:
        with self.changing(wait) as (_, sides):
            return raise_fences(sides, fences, ledger, former)

    def mark(self, mark: str | None, expected: Mapping[str, Expected], ledger: str, wait: float) -> frozenset[str]:
        with self.changing(wait) as (_, sides):
            return set_marks(sides, mark, expected, ledger)

    def measure(self, keys: Collection[str], *, digest: bool, rows: Rows | None = None) -> dict[str, Measured]:
        rows = self.read()[0] if rows is None else rows
        return {key: self.measured([row for row in rows if self.key_of(row) == key], digest=digest) for key in keys}

    def measured(self, rows: Rows, *, digest: bool) -> Measured:
        figures = {
            name: str(len(rows)) if what == "count" else str(sum(row[what] for row in rows)) if rows else None
            for name, what in self.dataset.measures.items()
        }
        hashes = (int(sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16], 16) for row in rows)
        return Measured(len(rows), figures, f"json rows 1:{len(rows)},{sum(hashes)}" if digest else None)

    def replace(
        self, token: str, expected: Mapping[str, Expected], measured: Mapping[str, Measured], ledger: str,
        *, former: frozenset[str] = frozenset(), by: Rows | None = None,
    ) -> Mapping[str, str]:  # fmt: skip
        """Put the token beside the rows that were measured, or beside those that take their place."""
        with self.changing(WAIT_SECONDS) as (rows, sides):
            now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
            done = set_tokens(sides, expected, token, ledger, former, now)
            with_digest = any(measured[key].digest for key in expected)
            if self.measure(expected, digest=with_digest, rows=rows) != {key: measured[key] for key in expected}:
                raise ChangedError(f"{self.path}: the rows are others than were measured; nothing was changed")
            if by is not None:
                stay = [row for row in rows if self.key_of(row) not in expected]
                rows[:] = stay + [row for row in by if self.key_of(row) in expected]
        return done

    adopt = replace

    def keyless(self) -> tuple[int, str]:
        strange = [key or "NULL" for key in map(self.key_of, self.read()[0]) if not (key and self.column.has(key))]
        return len(strange), strange[0] if strange else ""

    @contextmanager
    def writing(self, keys: Sequence[str], token: str, *, staged: bool) -> Iterator[JsonWrite]:
        write = JsonWrite(self, keys, f"{self.path}.{staging_name(token)}")
        try:
            if staged:
                write.fill(f"{write.staging} whole")
                with open(write.staging, "x", encoding="utf-8") as file:
                    file.write('{"rows": []}')
            yield write
        finally:
            self.sweep([token])

    def sweep(self, tokens: Sequence[str]) -> None:
        for token in tokens:
            Path(f"{self.path}.{staging_name(token)}").unlink(missing_ok=True)


class JsonWrite:
    """A write: rows in memory until `publish` puts them in the place of the partitions'."""

    def __init__(self, target: JsonTarget, keys: Sequence[str], staging: str) -> None:
        self.target, self.keys, self.staging, self.sources = target, keys, staging, list[str]()

    def fill(self, select: str) -> None:
        """Add the rows of these days of a file, `source.json`, or all of its rows, `source.json whole`."""
        self.sources.append(select)

    def audit(self, *, digest: bool) -> Audited:
        target, unique = self.target, self.target.dataset.unique
        self.rows: Rows = []
        for source in self.sources:
            rows = json.loads(Path(source.removesuffix(" whole")).read_text(encoding="utf-8"))["rows"]
            self.rows += [row for row in rows if source.endswith(" whole") or target.key_of(row) in self.keys]
        apart = misfits(((target.key_of(row), tuple(row[name] for name in unique)) for row in self.rows), self.keys)
        partitions = target.measure(self.keys, digest=digest, rows=self.rows)
        self.audited = Audited(partitions, target.measure(self.keys, digest=digest), **apart)
        return self.audited

    def publish(self, expected: Mapping[str, Expected], token: str, ledger: str) -> Mapping[str, str]:
        return self.target.replace(token, expected, self.audited.before, ledger, by=self.rows)
