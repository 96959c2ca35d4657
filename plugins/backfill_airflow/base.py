"""What the operators share: the way to the partitions, Airflow's verdicts, asset events, and giving way to others."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from backfill_airflow.compat import AirflowFailException, BaseOperator, is_asset, stamp_partition, triggerer_is_there
from backfill_airflow.hook import DEFAULT_CONN_ID
from backfill_airflow.owner import caller_of
from backfill_airflow.partitions import DeniedError, opened_partitions
from backfill_airflow.source import source_of
from backfill_airflow.triggers import PartitionFreeTrigger
from backfill_airflow.verdict import airflow_verdict, conclude, one_of
from backfill_core.claims import ATTEMPT
from backfill_core.errors import HeldError
from backfill_core.guard import MAX_SHRINK
from backfill_core.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backfill_airflow.compat import Context
    from backfill_airflow.partitions import Corrected, Partitions
    from backfill_airflow.source import Fill, Fingerprint
    from backfill_core.claims import Caller
    from backfill_core.dataset import Dataset

ON_CLAIMED = ("defer", "retry", "skip", "fail")
EVENT_KEYS = ("run", "date")
TRIGGERER_GRACE = timedelta(minutes=10)
"""How much later than a task's own deadline Airflow takes its trigger for dead."""


class BackfillOperator(BaseOperator):
    """What all operators share.

    `dataset` and `conn_id` are among the templated fields, so that Airflow keeps them with the DAG: so the page of
    partitions knows which DAGs write a dataset.

    :param dataset: whose partitions; without one those of the runner's `daily`.
    :param conn_id: the connection of type `backfill`, in whose store claims, seals and history are; see `BackfillHook`.
    """

    template_fields: Sequence[str] = ("dataset", "conn_id")
    ui_color = "#e8f0e4"
    event_key = "run"
    select: str | None = None
    fill: Fill | None = None
    fingerprint: Fingerprint | None = None
    max_shrink: float = MAX_SHRINK

    def __init__(self, *, dataset: Dataset | None = None, conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.conn_id = conn_id

    @contextmanager
    def partitions(self, context: Context) -> Iterator[Partitions]:
        """Open the partitions for as long as the block lasts; errors of the core leave it as Airflow's."""
        with airflow_verdict():
            source = source_of(self.select, self.fill, self.fingerprint)
            with opened_partitions(self.conn_id, context, self.dataset, source, self.max_shrink) as partitions:
                yield partitions

    def announce(
        self, context: Context, measures: Mapping[str, Mapping[str, Any]], corrections: Sequence[Corrected] = ()
    ) -> None:
        """Say in the asset event of each outlet what is right of partitions now; send none where that is of none."""
        reasons = {one.key: one.reason for one in corrections}
        measures = {**measures, **{one.key: one.measures for one in corrections}}
        if not measures:
            self.outlets = []  # Airflow sends an event for each outlet that it finds when the task has succeeded
        for outlet in filter(is_asset, self.outlets):
            event: Any = context["outlet_events"][outlet]
            event.extra = self._extra(measures, reasons)
            if self.event_key == "date":
                for key in measures:
                    stamp_partition(event, key)

    def _extra(self, measures: Mapping[str, Mapping[str, Any]], reasons: Mapping[str, str]) -> dict[str, Any]:
        if self.dataset is not None:
            extra = {"dataset": self.dataset.name, "keys": sorted(measures), "measures": dict(measures)}
            return {**extra, "reasons": dict(reasons)} if reasons else extra
        written = [
            {"dt": dt, **figures, **({"reason": reasons[dt]} if dt in reasons else {})}
            for dt, figures in measures.items()
        ]
        return written[0] if len(written) == 1 else {"partitions": written}


class SourceOperator(BackfillOperator):
    """What the operators share that read a dataset's source, or have to tell what it says.

    :param select: (templated) the query that makes the rows: its text, or a file that Airflow's template search path
        finds, `sql/orders.sql`. `:start`, `:end` and `:key` in it are bound by the driver, never pasted.
    :param fill: instead of `select` a function that is called with the partitions, `.keys`, `.start`, `.end`, and puts
        their rows into the table `.staging`.
    """

    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers = {"select": "sql"}  # noqa: RUF012  Airflow's own way

    def __init__(
        self, *, dataset: Dataset | None = None, select: str | None = None, fill: Fill | None = None, **kwargs: Any
    ) -> None:
        super().__init__(dataset=dataset, **kwargs)
        if dataset is None and not (select is None and fill is None):
            raise ValueError("select and fill make the rows of a dataset; give the operator its dataset too")
        if not (select is None or fill is None):
            raise ValueError("select and fill both make the rows; give one of them")
        self.select = select
        self.fill = fill


class WaitingOperator(BackfillOperator):
    """What an operator does that meets another's claim: it neither waits nor overwrites.

    :param on_claimed: what to do where somebody else holds a partition. `defer` gives the worker slot back and comes
        again as soon as the partitions are free; where no triggerer runs it does as `retry`. `retry` fails, so that
        Airflow calls again by the task's `retries`, and then calls a person; `skip`; `fail` at once for good.
    :param poll_interval: how often a deferred task looks, in seconds.
    :param defer_timeout: for how long a task waits in all, however often it is deferred; then it fails for good.
    """

    kind = ATTEMPT
    claim_as: str | None = None

    def __init__(
        self,
        *,
        on_claimed: str = "defer",
        poll_interval: float = 30,
        defer_timeout: timedelta = timedelta(days=1),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.on_claimed = one_of("on_claimed", on_claimed, ON_CLAIMED)
        self.poll_interval = poll_interval
        self.defer_timeout = defer_timeout
        self._deadline: float | None = None

    def execute(self, context: Context) -> Any:
        """Do the operator's work; see the class."""
        return self.act(context)

    def resume(self, context: Context, event: Any, deadline: float) -> Any:
        """Go on after a deferral: do all of it again, as the partitions may have been taken once more.

        deadline: until when the task may wait, in seconds since 1970; set by its first deferral.
        """
        self.log.info("%s", event)
        self._deadline = deadline
        return self.act(context)

    def act(self, context: Context) -> Any:
        """Do the operator's work, or give way."""
        with self.partitions(context) as partitions:
            keys, caller = self.keys_of(context, partitions), caller_of(context, self.claim_as)
            try:
                return self.work(context, partitions, keys, caller)
            except (DeniedError, HeldError) as error:
                self.give_way(keys, caller, str(error))

    def keys_of(self, context: Context, partitions: Partitions) -> list[str]:
        """Return the partitions that are meant."""
        raise NotImplementedError

    def work(self, context: Context, partitions: Partitions, keys: list[str], caller: Caller) -> Any:
        """Do the operator's work, or raise DeniedError."""
        raise NotImplementedError

    def give_way(
        self, keys: Sequence[str], caller: Caller, held: str, what_of_it: str = "nothing was written"
    ) -> NoReturn:
        """End the task as `on_claimed` says; `held` says by whom, and `what_of_it` what became of the write."""
        if self.on_claimed == "defer" and triggerer_is_there():
            self._wait(keys, caller, held, what_of_it)
        conclude("retry" if self.on_claimed == "defer" else self.on_claimed, f"{held}; {what_of_it}")

    def _wait(self, keys: Sequence[str], caller: Caller, held: str, what_of_it: str) -> None:
        """Defer until the partitions are free or the time is up.

        Airflow's own timeout is for a triggerer that dies meanwhile. It comes later, and the task is tried again.
        """
        deadline = self._deadline or time.time() + self.defer_timeout.total_seconds()
        left = timedelta(seconds=deadline - time.time())
        if left <= timedelta(0):
            raise AirflowFailException(f"{printable(held)}, still, after {self.defer_timeout}; {what_of_it}")
        self.log.info("%s; waiting until it is free, for %s at most", printable(held), left)
        self.defer(
            trigger=PartitionFreeTrigger(
                conn_id=self.conn_id,
                dataset=self.dataset.name if self.dataset else None,
                keys=None if self.dataset is None or self.dataset.column.has_days else keys,
                first=keys[0],
                last=keys[-1],
                caller=caller,
                kind=self.kind,
                poll_interval=self.poll_interval,
                deadline=deadline,
            ),
            method_name="resume",
            kwargs={"deadline": deadline},
            timeout=left + TRIGGERER_GRACE,
        )
