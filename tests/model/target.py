"""A target in memory: partitions of whole numbers, and the side rows."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from backfill_core.errors import ChangedError, FencedError, FenceTimeoutError, HeldError, TargetError
from backfill_core.target import Audited, Finding, Measured, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from backfill_core.target import Expected, Fence

    Rows = tuple[int, ...]

NO_ROW = Side(None, 0, None, None, None)


def measured(rows: Rows, *, digest: bool) -> Measured:
    """Measure whole numbers: how many, and their sum, which is none where there are none."""
    made = f"simulated:{','.join(map(str, sorted(rows)))}" if digest else None
    return Measured(len(rows), {"orders": str(len(rows)), "amount": str(sum(rows)) if rows else None}, made)


class SimulatedTarget:
    """Partitions and side rows in dicts. `locks`: by key, the write whose transaction is open."""

    def __init__(self, now: Callable[[], str] | None = None) -> None:
        self.now = now
        self.commits = 0
        self.partitions: dict[str, Rows] = {}
        self.sides: dict[str, Side] = {}
        self.locks: dict[str, str] = {}
        self.staged: dict[str, dict[str, Rows]] = {}
        self.strange: tuple[int, str] = (0, "")
        self.without_key: tuple[int, str] = (0, "")

    seen: int | None = None
    """A digest of the content, once it was needed; a copy starts without."""

    def copy(self) -> SimulatedTarget:
        """Return another that is as this one is now."""
        made = type(self)(self.now)
        for name, value in vars(self).items():
            if name != "seen":
                setattr(made, name, value.copy() if isinstance(value, dict) else value)
        return made

    def content(self) -> tuple[object, ...]:
        """Return all that it holds, to compare and to hash."""
        return (
            sorted(self.partitions.items()),
            sorted(self.sides.items()),
            sorted(self.locks.items()),
            sorted(self.staged.items()),
        )

    def clock(self) -> str:
        """Return a time later than any before."""
        self.commits += 1
        return self.now() if self.now else f"2026-02-01T00:00:00.{self.commits:06}+00:00"

    def side(self, key: str) -> Side:
        """Return the side row, one that says nothing where there is none."""
        return self.sides.get(key, NO_ROW)

    # what a target does

    def check(self) -> Sequence[Finding]:
        return []

    def look(self, keys: Sequence[str]) -> Mapping[str, Side]:
        return {key: self.sides[key] for key in keys if key in self.sides}

    def fence(
        self,
        fences: Mapping[str, Fence],
        ledger: str,
        wait: float,  # noqa: ARG002
        *,
        former: frozenset[str] = frozenset(),
    ) -> Mapping[str, Side]:
        self.wait_for(fences)
        for key in fences:
            self.refuse_other_ledger(key, ledger, former)
        for key, fence in fences.items():
            self.sides[key] = self.side(key)._replace(fence=self.raised(key, fence.number), ledger=ledger)
        return {key: self.sides[key] for key in fences}

    def mark(self, mark: str | None, expected: Mapping[str, Expected], ledger: str, wait: float) -> frozenset[str]:  # noqa: ARG002
        self.wait_for(expected)
        done = [key for key, there in expected.items() if self.may_mark(key, mark, there, ledger)]
        for key in done:
            self.sides[key] = self.side(key)._replace(mark=mark, fence=expected[key].number)
        return frozenset(done)

    def may_mark(self, key: str, mark: str | None, there: Expected, ledger: str) -> bool:
        side = self.side(key)
        return (
            side.token == there.token
            and side.mark in (there.mark, mark)
            and side.fence <= there.number
            and side.ledger == ledger
        )

    def measure(self, keys: Sequence[str], *, digest: bool) -> Mapping[str, Measured]:
        return {key: measured(self.partitions.get(key, ()), digest=digest) for key in keys}

    def adopt(
        self,
        token: str,
        expected: Mapping[str, Expected],
        measured: Mapping[str, Measured],
        ledger: str,
        *,
        former: frozenset[str] = frozenset(),
    ) -> Mapping[str, str]:
        self.wait_for(expected)
        self.compare(expected, ledger, former)
        for key in expected:
            if self.measure([key], digest=measured[key].digest is not None)[key] != measured[key]:
                raise ChangedError(f"{key} changed while it was adopted")
        now = self.clock()
        for key, there in expected.items():
            self.sides[key] = self.side(key)._replace(token=token, fence=there.number, ledger=ledger, published_at=now)
        return dict.fromkeys(expected, now)

    def ask(self, select: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def keyless(self) -> tuple[int, str]:
        return self.without_key

    @contextmanager
    def writing(self, keys: Sequence[str], token: str, *, staged: bool) -> Iterator[SimulatedWrite]:
        write = SimulatedWrite(self, keys, token, staged=staged)
        write.begin()
        try:
            yield write
        finally:
            write.end()

    def sweep(self, tokens: Sequence[str]) -> None:
        for token in tokens:
            self.staged.pop(token, None)

    def close(self) -> None:
        pass

    # the rules

    def wait_for(self, keys: Mapping[str, Any], token: str = "") -> None:
        if busy := [key for key in keys if self.locks.get(key, token) != token]:
            raise FenceTimeoutError(f"{busy[0]} is being published")

    def raised(self, key: str, number: int) -> int:
        return max(self.side(key).fence, number)

    def refuse_other_ledger(self, key: str, ledger: str, former: frozenset[str]) -> None:
        if self.side(key).ledger not in (None, ledger, *former):
            raise FencedError(f"{key} was last written under another ledger", self.look([key]))

    def compare(self, expected: Mapping[str, Expected], ledger: str, former: frozenset[str] = frozenset()) -> None:
        for key, there in expected.items():
            self.refuse_other_ledger(key, ledger, former)
            if not self.is_as(self.side(key), there):
                raise FencedError(f"{key} is not as it was expected", self.look([key]))

    def is_as(self, side: Side, there: Expected) -> bool:
        return side.fence <= there.number and side.token == there.token and side.mark == there.mark

    def publish(
        self, token: str, rows: Mapping[str, Rows], audited: Audited, expected: Mapping[str, Expected], ledger: str
    ) -> Mapping[str, str]:
        self.wait_for(expected, token)
        self.compare(expected, ledger)
        for key in expected:
            with_digest = audited.partitions[key].digest is not None
            if (
                measured(rows.get(key, ()), digest=with_digest) != audited.partitions[key]
                or len(self.partitions.get(key, ())) != audited.before[key].rows
            ):
                raise ChangedError(f"{key} is not what was audited")
        now = self.clock()
        for key, there in expected.items():
            self.partitions[key] = rows.get(key, ())
            self.sides[key] = Side(token, there.number, None, ledger, now)
        return dict.fromkeys(expected, now)


class SimulatedWrite:
    """One write. Where it is not staged, its transaction holds the keys from the first statement on."""

    def __init__(self, target: SimulatedTarget, keys: Sequence[str], token: str, *, staged: bool) -> None:
        self.target, self.keys, self.token, self.is_staged = target, keys, token, staged
        self.staging = f"_bf_{token[:20]}"
        self.audited: Audited | None = None

    def begin(self) -> None:
        if not self.is_staged:
            if any(key in self.target.locks for key in self.keys):
                raise HeldError("another publication is under way")
            self.target.locks.update(dict.fromkeys(self.keys, self.token))
        self.target.staged[self.token] = {}

    def put(self, rows: Mapping[str, Rows]) -> None:
        self.target.staged[self.token] = {**self.rows(), **rows}

    def rows(self) -> dict[str, Rows]:
        """Return what was staged."""
        if self.token not in self.target.staged:
            raise TargetError("what was staged was swept away, as the attempt was overtaken")
        return self.target.staged[self.token]

    def fill(self, select: str) -> None:
        raise NotImplementedError

    def audit(self, *, digest: bool) -> Audited:
        staged = self.rows()
        strange = sorted(set(staged) - set(self.keys))
        self.audited = Audited(
            {key: measured(staged.get(key, ()), digest=digest) for key in self.keys},
            self.target.measure(self.keys, digest=digest),
            (len(strange), strange[0] if strange else ""),
            self.target.without_key,
            (0, ""),
        )
        return self.audited

    def publish(self, expected: Mapping[str, Expected], token: str, ledger: str) -> Mapping[str, str]:
        assert self.audited is not None
        try:
            return self.target.publish(token, self.rows(), self.audited, expected, ledger)
        finally:
            self.let_go()

    def let_go(self) -> None:
        for key in [key for key, token in self.target.locks.items() if token == self.token]:
            del self.target.locks[key]

    def end(self) -> None:
        self.let_go()
        self.target.staged.pop(self.token, None)
