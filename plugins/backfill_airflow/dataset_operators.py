"""The operators for what only datasets have: unseal, adopt, settle, check, drift."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from backfill_airflow.base import BackfillOperator
from backfill_airflow.compat import AirflowFailException
from backfill_airflow.datasets import DatasetPartitions, opened_dataset
from backfill_airflow.hook import DEFAULT_CONN_ID
from backfill_airflow.owner import caller_of
from backfill_airflow.verdict import airflow_verdict, one_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backfill_airflow.compat import Context
    from backfill_airflow.partitions import Keys
    from backfill_core.answers import (
        DriftAnswer,
        FindingAnswer,
        SettleAnswer,
        UnsealedAnswer,
        WriteAnswer,
    )
    from backfill_core.dataset import Dataset
    from backfill_core.guarded import Guarded

ON_FOUND = ("fail", "report")


class DatasetOperator(BackfillOperator):
    """What these operators share.

    :param dataset: whose partitions.
    :param conn_id: the connection of type `backfill`, in whose store the ledger is.
    """

    def __init__(self, *, dataset: Dataset, conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(dataset=dataset, conn_id=conn_id, **kwargs)
        self._of = dataset

    @contextmanager
    def guarded(self, context: Context) -> Iterator[Guarded]:
        """Open the dataset for as long as the block lasts; errors of the core leave it as Airflow's."""
        with airflow_verdict(), opened_dataset(self.conn_id, self._of, context["ti"]) as guarded:
            yield guarded


class DatasetRangeOperator(DatasetOperator):
    """What those over a range share.

    :param start: (templated) the first partition, YYYY-MM-DD. By default the one that the run means.
    :param end: (templated) the last one, inclusive. By default `start`.
    :param keys: (templated) of a dataset, in place of days: a key, a list of keys, or the JSON of one,
        `{{ params['keys'] | tojson }}`. By default of a list or a whole table all keys, or the run's partition key.
    :param claim_as: (templated) in whose name it is done; by default that of `owner` in the run's conf.
    """

    template_fields: Sequence[str] = (*DatasetOperator.template_fields, "start", "end", "keys", "claim_as")

    def __init__(
        self,
        *,
        start: str | None = None,
        end: str | None = None,
        keys: Keys | None = None,
        claim_as: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self.keys = keys
        self.claim_as = claim_as

    def keys_of(self, context: Context, guarded: Guarded) -> list[str]:
        """Return the partitions that are meant."""
        return DatasetPartitions(guarded).keys_of(context, self.start, self.end, self.keys)


class UnsealRangeOperator(DatasetRangeOperator):
    """Take the seals of a range away, for a reason; what was sent stays in the ledger as a version of the seal.

    :param reason: (templated) why.
    """

    template_fields: Sequence[str] = (*DatasetRangeOperator.template_fields, "reason")

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def execute(self, context: Context) -> UnsealedAnswer:
        """Unseal; see the class."""
        with self.guarded(context) as guarded:
            return guarded.unseal(self.keys_of(context, guarded), caller_of(context, self.claim_as), self.reason)


class AdoptRangeOperator(DatasetRangeOperator):
    """Take on what the table holds as it is: measured, and entered as published. The rows stay as they are.

    :param reason: (templated) why; `taken on from the old job`, say.
    """

    template_fields: Sequence[str] = (*DatasetRangeOperator.template_fields, "reason")

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def execute(self, context: Context) -> WriteAnswer:
        """Adopt; see the class."""
        with self.guarded(context) as guarded:
            answer = guarded.adopt(self.keys_of(context, guarded), caller_of(context, self.claim_as), self.reason)
        self.log.info("Adopted %s partitions of %s", len(answer["published"]), answer["dataset"])
        for key, why in answer["skipped"]:
            self.log.warning("%s was left alone: %s", key, why)
        return answer


class SettleOperator(DatasetOperator):
    """Find out what became of attempts that left something open, where their run or try has ended."""

    def execute(self, context: Context) -> SettleAnswer:
        """Settle; see the class."""
        with self.guarded(context) as guarded:
            answer = guarded.settle()
        for key, state in answer["settled"]:
            self.log.info("%s is %s", key, state)
        for key, holder in answer["open"]:
            self.log.warning("%s is being written by %s", key, holder)
        return answer


class CheckOperator(DatasetOperator):
    """Look a dataset's table over; fail, with the cure, where it can't be guarded."""

    def execute(self, context: Context) -> list[FindingAnswer]:
        """Check; see the class."""
        with self.guarded(context) as guarded:
            findings = guarded.check()
        for one in findings:
            self.log.info("%s: %s", one["what"], one["cure"])
        if refusals := [f"{one['what']}: {one['cure']}" for one in findings if one["refuses"]]:
            raise AirflowFailException(f"{self._of.name} can't be guarded: {'; '.join(refusals)}")
        return findings


class FindDriftOperator(DatasetRangeOperator):
    """Measure what the table holds, a scan, and fail where it isn't what was published: somebody wrote past us.

    Without `start` or `keys` it measures all partitions that were ever published.

    :param on_found: `fail`, or only `report` it in the log and the receipt.
    """

    def __init__(self, *, on_found: str = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.on_found = one_of("on_found", on_found, ON_FOUND)

    def execute(self, context: Context) -> DriftAnswer:
        """Find drift; see the class."""
        with self.guarded(context) as guarded:
            answer = guarded.drift(None if self.start is self.keys is None else self.keys_of(context, guarded))
        found = [f"{key}: {said}" for key, said in sorted(answer["drift"].items())]
        found += [
            f"{key}: {rows} rows that nobody of ours published" for key, rows in sorted(answer["unknown"].items())
        ]
        if answer["keyless"]:
            found.append(f"{answer['keyless']} rows belong to no partition, such as {answer['example']}")
        for line in found:
            self.log.warning("%s", line)
        self.log.info("%s: %s partitions were measured", answer["dataset"], answer["checked"])
        if found and self.on_found == "fail":
            context["ti"].xcom_push("return_value", dict(answer))
            raise AirflowFailException(f"{answer['dataset']} holds what was not published: {'; '.join(found)}")
        return answer
