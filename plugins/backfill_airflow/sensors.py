"""The sensor that waits for a range to be free."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from backfill_airflow.claims import who_holds
from backfill_airflow.compat import BaseSensorOperator, conf
from backfill_airflow.hook import DEFAULT_CONN_ID, BackfillHook
from backfill_airflow.owner import caller_of
from backfill_airflow.partition import dates_of
from backfill_airflow.triggers import PartitionFreeTrigger
from backfill_airflow.verdict import airflow_verdict, one_line
from backfill_core.claims import RESERVATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backfill_airflow.compat import Context


class PartitionFreeSensor(BaseSensorOperator):
    """Succeeds once nobody else holds a date of the range. It claims nothing.

    It holds no worker slot while it waits: it is rescheduled, or with `deferrable` a trigger looks for it.

    :param start: (templated) the first day, YYYY-MM-DD. By default the one partition that the run means.
    :param end: (templated) the last day, inclusive. By default `start`.
    :param claim_as: (templated) whose own claims do not count; by default those of the run.
    :param deferrable: by default what `[operators] default_deferrable` says.
    :param conn_id: the connection of type `backfill`.
    """

    template_fields: Sequence[str] = ("start", "end", "claim_as")

    def __init__(
        self,
        *,
        start: str | None = None,
        end: str | None = None,
        claim_as: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        conn_id: str = DEFAULT_CONN_ID,
        mode: str = "reschedule",
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, **kwargs)
        self.start = start
        self.end = end
        self.claim_as = claim_as
        self.deferrable = deferrable
        self.conn_id = conn_id

    def execute(self, context: Context) -> Any:
        """Look once, and hand over to the trigger; or poke as any sensor."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            dates = dates_of(context, self.start, self.end)
            self.defer(
                trigger=PartitionFreeTrigger(
                    conn_id=self.conn_id,
                    first=dates.first.isoformat(),
                    last=dates.last.isoformat(),
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
        with airflow_verdict(), BackfillHook(self.conn_id).backfill() as backfill:
            dates = dates_of(context, self.start, self.end)
            denied = backfill.denied(dates, caller_of(context, self.claim_as), RESERVATION)
        if denied:
            self.log.info("%s", one_line(who_holds(denied)))
        return not denied
