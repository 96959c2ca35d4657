"""The sensor that waits for a range to be free."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from backfill_airflow.compat import BaseSensorOperator, conf
from backfill_airflow.hook import DEFAULT_CONN_ID
from backfill_airflow.owner import caller_of
from backfill_airflow.partitions import opened_partitions, who_holds
from backfill_airflow.triggers import PartitionFreeTrigger
from backfill_airflow.verdict import airflow_verdict
from backfill_core.claims import RESERVATION
from backfill_core.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backfill_airflow.compat import Context
    from backfill_airflow.partitions import Keys
    from backfill_core.dataset import Dataset


class PartitionFreeSensor(BaseSensorOperator):
    """Succeeds once nobody else holds a date of the range. It claims nothing.

    It holds no worker slot while it waits: it is rescheduled, or with `deferrable` a trigger looks for it.

    :param start: (templated) the first day, YYYY-MM-DD. By default the one partition that the run means.
    :param end: (templated) the last day, inclusive. By default `start`.
    :param keys: (templated) of a dataset: the partitions, in place of `start` and `end`.
    :param claim_as: (templated) whose own claims do not count; by default those of the run.
    :param dataset: whose partitions; without one those of the runner's `daily`.
    :param deferrable: by default what `[operators] default_deferrable` says.
    :param conn_id: the connection of type `backfill`.
    """

    template_fields: Sequence[str] = ("start", "end", "keys", "claim_as")

    def __init__(
        self,
        *,
        start: str | None = None,
        end: str | None = None,
        keys: Keys | None = None,
        claim_as: str | None = None,
        dataset: Dataset | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        conn_id: str = DEFAULT_CONN_ID,
        mode: str = "reschedule",
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, **kwargs)
        self.start = start
        self.end = end
        self.keys = keys
        self.claim_as = claim_as
        self.dataset = dataset
        self.deferrable = deferrable
        self.conn_id = conn_id

    def execute(self, context: Context) -> Any:
        """Look once, and hand over to the trigger; or poke as any sensor."""
        if not self.deferrable:
            return super().execute(context)
        keys, denied = self._look(context)
        if denied:
            self.defer(
                trigger=PartitionFreeTrigger(
                    conn_id=self.conn_id,
                    dataset=self.dataset.name if self.dataset else None,
                    keys=None if self.dataset is None or self.dataset.column.has_days else keys,
                    first=keys[0],
                    last=keys[-1],
                    caller=caller_of(context, self.claim_as),
                    kind=RESERVATION,
                    poll_interval=self.poke_interval,
                ),
                method_name="resume",
                timeout=timedelta(seconds=self.timeout),
            )
        return None

    def resume(self, context: Context, event: Any) -> None:  # noqa: ARG002
        """End the deferral."""
        self.log.info("%s", event)

    def poke(self, context: Context) -> bool:
        """Return whether the range is free."""
        return not self._look(context)[1]

    def _look(self, context: Context) -> tuple[list[str], dict[str, str]]:
        """Return the partitions that are meant, and who holds some of them."""
        with airflow_verdict(), opened_partitions(self.conn_id, context, self.dataset) as partitions:
            keys = partitions.keys_of(context, self.start, self.end, self.keys)
            denied = partitions.denied(keys, caller_of(context, self.claim_as), RESERVATION)
        if denied:
            self.log.info("%s", printable(who_holds(denied)))
        return keys, denied
