"""The teaching stand's tasks: where the clickstream, which knows nothing of Airflow, meets the library's rules.

The marts' days are partitions like any other. They have a store of their own, named by the connection `backfill_marts`,
in which a date's `orders` are the day's events and its `amount` the day's visits: what was published of that day. The
claim of a date covers the day in all marts.
"""

from __future__ import annotations

import atexit
import logging
import os
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

from backfill_airflow.claims import attempt
from backfill_airflow.compat import AirflowException, AirflowFailException, AirflowSkipException
from backfill_airflow.hook import BackfillHook
from backfill_airflow.owner import caller_of
from backfill_airflow.verdict import airflow_verdict
from backfill_core import Backfill, DateRange, EventFolder, Tally, create_store, open_store
from backfill_core.counting.facts import Counted
from backfill_core.guard import MAX_SHRINK, reason_to_skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backfill_airflow.compat import Context
    from backfill_core.answers import PartitionStatus
    from clickstream.broker import Broker
    from clickstream.etl import Etl

MARTS_CONN_ID = "backfill_marts"
PIPELINE = "etl_pipeline"

_log = logging.getLogger(__name__)


class MartDays(EventFolder):
    """The days of the warehouse's events as a source of partitions: (events, visits) a day."""

    def __init__(self, etl: Etl) -> None:
        super().__init__("dds.event", workers=1)
        self._etl = etl

    def file(self, dt: str) -> str:
        """Return what to call the day in a sentence."""
        return f"{self.path} of {dt}"

    def check(self) -> None:
        """Do nothing: a warehouse that can't be reached says so itself."""

    def fingerprint(self, dt: str) -> Any:
        """Return what changes with the day's events."""
        return self._etl.facts(date.fromisoformat(dt)).fingerprint

    def count(self, dt: str, stop: Callable[[], bool] | None = None) -> Counted:  # noqa: ARG002  one query
        """Count the day's events and visits. A day without events is a partition of none, not a missing one."""
        facts = self._etl.facts(date.fromisoformat(dt))
        return Counted(Tally(facts.events, facts.visits), facts.fingerprint)


# The load, one function a task of etl_pipeline


def precheck() -> dict[str, Any]:
    """Make what is missing, and see whether there is a whole history to load."""
    create_store(BackfillHook(MARTS_CONN_ID).settings().db)
    with _etl() as etl:
        return dict(etl.precheck(_broker()))


def load_stg() -> dict[str, int]:
    """Take in what Kafka has committed since."""
    with _etl() as etl:
        return etl.load_stg(_broker())


def load_ods(params: Any = None) -> dict[str, dict[str, int]]:
    """Type it. A full refresh begins here, from all that STG holds."""
    with _etl() as etl:
        if params["full_refresh"]:
            etl.empty("ods", "dds")
        return etl.load_ods()


def load_dds() -> dict[str, int]:
    """Put clicks and events together."""
    with _etl() as etl:
        return etl.load_dds()


def check_integrity() -> dict[str, int]:
    """Count what can't be paired; fail if anything was lost."""
    with _etl() as etl:
        return etl.check_integrity()


def days_due(params: Any = None) -> list[str]:
    """Find the days whose marts are no longer made of the events there are."""
    with _etl() as etl:
        return etl.days_due(every=params["full_refresh"])


def rebuild_day(day: str, **context: Any) -> dict[str, Any]:
    """Replace a day in all marts, in the name of this run: skipped if claimed by another, corrected beside if sealed.

    The day is built beside the marts first. What the store then says decides: it looks for a seal and a claim in the
    transaction that records the day's new sums, and only a day that it recorded is swapped in. A run may die between
    the two; so what the store recorded is first of all settled in the marts, even if the day was sealed meanwhile.
    """
    dates, caller = DateRange.parse(day, day), caller_of(context)  # type: ignore[arg-type]
    with _etl() as etl, _marts(etl) as backfill, attempt(backfill, dates, caller) as taken:
        [status] = backfill.status(dates)["partitions"]
        if taken.claim:
            etl.settle_day(dates.first, _recorded(status))
        owner = taken.owners.get(day, "")
        reason = reason_to_skip(status["sealed"], taken.denied.get(day), owner)
        if reason is None:
            etl.stage_day(dates.first)
            receipt = backfill.run(dates, owner, claim=taken.claim)
            if receipt["done"]:
                etl.swap_day(dates.first)
                return dict(receipt)
            etl.drop_day(dates.first)
            [[_, reason]] = receipt["skipped"]
        if reason == "sealed" and backfill.late(dates)["late"]:
            reason = f"late events, found by {context['run_id']}"
            return dict(backfill.amend(dates.first, reason, allow_empty=False, max_shrink=MAX_SHRINK))
        sentence = f"{day} is left alone: {reason}. The marts say what they said"
        _log.warning(sentence)
        raise AirflowSkipException(sentence)


def validate() -> dict[str, Any]:
    """Compare the marts with the events; a sealed day with what was sent of it, and one that is held with nothing.

    A held one is sealed or not: whatever died in the middle of it is settled by the first load after its release.
    """
    with _etl() as etl, _marts(etl) as backfill:
        due = [backfill.status(DateRange.parse(day, day))["partitions"][0] for day in etl.days_due()]
        held = [status["dt"] for status in due if status["claimed_by"]]
        sent = {s["dt"]: (_recorded(s) or (0, 0))[0] for s in due if s["sealed"] and not s["claimed_by"]}
        return {**etl.validate(left_alone=held, sent=sent), "left_alone": sorted([*held, *sent])}


def _recorded(status: PartitionStatus) -> tuple[int, int] | None:
    """Return the events and visits that the store holds of a day."""
    orders, amount = status["orders"], status["amount"]
    return None if orders is None or amount is None else (orders, amount)


# The generator, one function a verb of generator_control


def generate(verb: str, params: Any = None, **context: Any) -> dict[str, Any]:
    """Do one of the generator's verbs, unless etl_pipeline is at work."""
    from clickstream import verbs
    from clickstream.guards import clickhouse_staging

    stand = verbs.Stand(_broker(), pipeline_at_rest(context["ti"]), clickhouse_staging(_warehouse_url()))
    with _verdict():
        if verb == "check":
            answer: Any = verbs.check(stand)
            if answer["faults"]:
                raise AirflowFailException(f"The topics aren't what the manifest says: {answer['faults']}")
        elif verb == "next-day":
            answer = verbs.next_day(stand, expected_t_end=params["expected_t_end"] or None)
        elif verb == "import":
            answer = verbs.import_artifact(stand, params["artifact"])
        else:
            answer = verbs.backfill(
                stand,
                t0=params["t0"],
                days=params["days"],
                visits_a_day=params["visits_a_day"],
                seed=params["seed"],
                dirt=params["dirt"],
            )
    return dict(answer)


def pipeline_at_rest(ti: Any) -> Callable[[], str | None]:
    """Return the generator's guard: it asks Airflow, through the Task SDK, whether etl_pipeline is paused and idle."""

    def busy() -> str | None:
        if not ti.get_dag(PIPELINE).is_paused:
            return f"{PIPELINE} is not paused"
        runs = ti.get_dr_count(dag_id=PIPELINE, states=["queued", "running"])
        return f"{PIPELINE} is paused, but {runs} of its runs have not ended" if runs else None

    return busy


def say_why(context: Context) -> None:
    """Make the sentence of a failed try the last line of its log, behind the traceback and all that Airflow says."""
    atexit.register(_log.error, "%s", context.get("exception"))


# Where things are


def _broker() -> Broker:
    from clickstream.broker import Broker

    return Broker(
        os.environ.get("KAFKA_BOOTSTRAP_SERVERS") or "127.0.0.1:9092", os.environ.get("CLICKSTREAM_PREFIX", "")
    )


def _warehouse_url() -> str:
    from clickstream.warehouse import DEFAULT_URL

    return os.environ.get("CLICKHOUSE_URL") or DEFAULT_URL


@contextmanager
def _etl() -> Iterator[Etl]:
    from clickstream.etl import Etl
    from clickstream.warehouse import Warehouse

    with _verdict(), Warehouse.opened(_warehouse_url()) as warehouse:
        yield Etl(warehouse)


@contextmanager
def _marts(etl: Etl) -> Iterator[Backfill]:
    with airflow_verdict(), open_store(BackfillHook(MARTS_CONN_ID).settings().db) as store:
        yield Backfill(store, MartDays(etl))


@contextmanager
def _verdict() -> Iterator[None]:
    """Turn the clickstream's errors into Airflow's: a refusal isn't tried again, it needs a person."""
    from clickstream.errors import ClickstreamError, RefusedError, UsageError
    from clickstream.etl import LoadError

    try:
        yield
    except (RefusedError, UsageError, LoadError) as error:
        raise AirflowFailException(str(error)) from None
    except ClickstreamError as error:
        raise AirflowException(str(error)) from None
