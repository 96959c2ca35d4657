"""The trigger that watches claims while no worker slot is held."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from backfill_airflow.compat import BaseTrigger, TriggerEvent
from backfill_airflow.hook import BackfillHook, opened, opened_ledger
from backfill_core import BackfillError, DateRange
from backfill_core.claims import Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from backfill_core import Settings


class PartitionFreeTrigger(BaseTrigger):
    """Fires once the rules of claims let the caller into every date of the range, or at the deadline.

    :param conn_id: the connection of type `backfill`.
    :param first: the first day, YYYY-MM-DD.
    :param last: the last day, inclusive.
    :param caller: who wants in, a `Caller` or the list of its fields.
    :param kind: for what: a `reservation` or an `attempt`.
    :param poll_interval: how often it looks, in seconds.
    :param deadline: when it fires in any case, in seconds since 1970; None: it has none.
    :param dataset: the name of the dataset; None for the runner's `daily`.
    :param keys: those that count, where between the first and the last there are others; None for all.
    """

    def __init__(
        self,
        *,
        conn_id: str,
        first: str,
        last: str,
        caller: Sequence[Any],
        kind: str,
        poll_interval: float,
        deadline: float | None = None,
        dataset: str | None = None,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.first = first
        self.last = last
        self.caller = list(caller)
        self.kind = kind
        self.poll_interval = poll_interval
        self.deadline = deadline
        self.dataset = dataset
        self.keys = None if keys is None else list(keys)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments, for another process."""
        arguments = ("conn_id", "first", "last", "caller", "kind", "poll_interval", "deadline", "dataset", "keys")
        return "backfill_airflow.triggers.PartitionFreeTrigger", {name: getattr(self, name) for name in arguments}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until the range is free or the time is up, then fire once."""
        settings = await BackfillHook(self.conn_id).asettings()
        while not (free := await asyncio.to_thread(self._is_free, settings)):
            left = self.poll_interval if self.deadline is None else self.deadline - time.time()
            if left <= 0:
                break
            await asyncio.sleep(min(self.poll_interval, left))
        ended = "is free" if free else "is not free, and the time to wait is up"
        yield TriggerEvent(f"{self.first} to {self.last} {ended}")  # type: ignore[no-untyped-call]

    def _is_free(self, settings: Settings) -> bool:
        try:
            return not self._denied(settings, Caller(*self.caller))
        except BackfillError as error:
            self.log.warning("The claims can't be read now; looking again: %s", error)
            return False

    def _denied(self, settings: Settings, caller: Caller) -> dict[str, str]:
        if self.dataset is not None:
            from backfill_airflow.datasets import denied

            with opened_ledger(settings) as ledger:
                return denied(ledger, self.dataset, self.first, self.last, caller, self.kind, self.keys)
        with opened(settings) as backfill:
            return backfill.denied(DateRange.parse(self.first, self.last), caller, self.kind)
