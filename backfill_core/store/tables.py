"""The five tables inside one transaction: what can be asked of them and done to them, on any database."""

from __future__ import annotations

import json

from backfill_core.errors import StoreError
from backfill_core.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from backfill_core.ledger.daily import RunClaims
    from backfill_core.partition import DateRange

    Execute = Callable[[str, Mapping[str, str | int]], Iterable[tuple[Any, ...]]]
    Sum = tuple[int, int]


class Tables:
    """A view of the five tables that lives as long as one transaction. It neither begins nor commits.

    Ranges are inclusive. Sums are pairs (orders, amount).
    """

    __slots__ = ("_execute", "_find_table")

    def __init__(self, execute: Execute, find_table: str) -> None:
        self._execute = execute
        self._find_table = find_table

    # daily

    def published(self, dates: DateRange) -> Iterable[tuple[str, int, int, str]]:
        """Return the rows (dt, orders, amount, owner) of the range, in date order.

        Raises:
            StoreError: somebody else wrote what is no whole number there.
        """
        rows = list(self._execute(sql.PUBLISHED, _bounds(dates)))
        for dt, orders, amount, _ in rows:
            if type(orders) is not int or type(amount) is not int:
                raise StoreError(f"daily holds no whole numbers for {dt}: {orders!r} and {amount!r}; run it again")
        return rows

    def replace(self, dt: str, orders: int, amount: int, owner: str) -> None:
        """Put one row in the place of all that the partition had."""
        self._execute(sql.DELETE_DAILY, {"dt": dt})
        self._execute(sql.INSERT_DAILY, {"dt": dt, "orders": orders, "amount": amount, "owner": owner})

    def sum_of(self, dates: DateRange | None = None) -> Sum:
        """Return what `daily` adds up to in the range, or as a whole: exact, also beyond 64 bits."""
        rows = self._execute(sql.SUM_OF_ALL, {}) if dates is None else self._execute(sql.SUM_OF_RANGE, _bounds(dates))
        [(upper_orders, lower_orders, upper_amount, lower_amount)] = rows
        return (upper_orders << 32) + lower_orders, (upper_amount << 32) + lower_amount

    # claims

    def guard(self, dt: str) -> tuple[bool, str | None]:
        """Return whether the date is sealed, and who holds it."""
        [(sealed, holder)] = self._execute(sql.GUARD, {"dt": dt})
        return bool(sealed), holder

    def holders(self, dates: DateRange) -> dict[str, str]:
        """Return the owner of each claimed date of the range."""
        return dict(self._execute(sql.CLAIMS, _bounds(dates)))

    def claim(self, dates: DateRange, owner: str) -> None:
        """Give the owner each date of the range that nobody holds."""
        self._execute(sql.INSERT_CLAIMS, {"dts": _as_keys(dates), "owner": owner})

    def release(self, dates: DateRange, owner: str) -> None:
        """Free the dates of the range that this owner holds."""
        self._execute(sql.DELETE_CLAIMS, _bounds(dates) | {"owner": owner})

    def run_claims(self) -> RunClaims:
        """Return the claims of Airflow's runs, for which `claims` has no room; the runner never asks for them."""
        from backfill_core.ledger.daily import RunClaims

        return RunClaims(self._execute, is_there=self.has("ledger_claims"))

    def has(self, table: str) -> bool:
        """Return whether there is a table of that name."""
        return bool(list(self._execute(self._find_table, {"table": table})))

    # seals and corrections

    def sealed(self, dates: DateRange) -> set[str]:
        """Return the sealed dates of the range."""
        return {dt for (dt,) in self._execute(sql.SEALS, _bounds(dates))}

    def seal(self, dates: DateRange) -> None:
        """Seal every date of the range that is not sealed yet."""
        self._execute(sql.INSERT_SEALS, {"dts": _as_keys(dates)})

    def corrections(self, dates: DateRange) -> Iterable[tuple[str, int, int, int, int, str]]:
        """Return the rows (dt, orders and amount before, orders and amount after, reason), each date's oldest first."""
        return self._execute(sql.CORRECTIONS, _bounds(dates))

    def last_corrections(self, dates: DateRange) -> dict[str, tuple[Sum, str]]:
        """Return the value and the reason of each date's last correction: a later one takes the place of an earlier.

        Raises:
            StoreError: a date has several, and which of them is the last is not certain.
        """
        rows = list(self.corrections(dates))
        last = {dt: ((orders_after, amount_after), reason) for dt, _, _, orders_after, amount_after, reason in rows}
        if len(last) < len(rows):
            [(same_numbers,)] = self._execute(sql.SAME_NUMBERS, {})
            if same_numbers:
                raise StoreError(
                    "which of a date's corrections is the last is not certain: some have the same number, as after a"
                    ' move to a server that began to count again; see "Moving a store" in docs/postgresql.md'
                )
        return last

    def correct(self, dt: str, before: Sum, after: Sum, reason: str) -> None:
        """Add one correction; none is ever changed."""
        self._execute(
            sql.INSERT_CORRECTION,
            {
                "dt": dt,
                "orders_before": before[0],
                "amount_before": before[1],
                "orders_after": after[0],
                "amount_after": after[1],
                "reason": reason,
            },
        )

    # rollup

    def rollup(self) -> Sum:
        """Return the totals as they stand, 0 for one that was never written."""
        totals: dict[str, int] = dict(self._execute(sql.ROLLUP, {}))
        return totals.get("order_total", 0), totals.get("amount_total", 0)

    def set_rollup(self, totals: Sum) -> None:
        """Overwrite both totals."""
        self._execute(sql.DELETE_ROLLUP, {})
        self._execute(sql.INSERT_ROLLUP, {"orders": totals[0], "amount": totals[1]})

    def dates(self) -> list[str]:
        """Return every date that any of the tables names, in order."""
        return [dt for (dt,) in self._execute(sql.DATES, {})]


def _bounds(dates: DateRange) -> dict[str, str]:
    return {"first": dates.first.isoformat(), "last": dates.last.isoformat()}


def _as_keys(dates: DateRange) -> str:
    return json.dumps(dict.fromkeys(dates))
