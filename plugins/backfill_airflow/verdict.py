"""From the core's errors and answers to Airflow's verdicts: retry, fail for good, or skip."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from backfill_airflow.compat import AirflowException, AirflowFailException, AirflowSkipException
from backfill_core import BackfillError, PartitionError, SourceError, StoreError
from backfill_core.errors import ClaimLostError, HeldError, OvertakenError, SealedError, TargetError
from backfill_core.terminal import printable

WORTH_ANOTHER_TRY = (
    ClaimLostError, HeldError, OvertakenError, SealedError, SourceError, StoreError, TargetError,
)  # fmt: skip
"""What may be otherwise at the next try; one that meets a seal does as `on_sealed` says."""

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def airflow_verdict() -> Iterator[None]:
    """Turn the core's errors into Airflow's.

    A store, folder or table that can't be reached may be there again at the next try, and a claim that was lost may be
    had again, so Airflow retries. All else (a bad line, a bad date, no store, rows of another day) stays wrong until a
    person changes something, so it fails at once.
    """
    try:
        yield
    except PartitionError as error:
        raise AirflowFailException(printable(str(error))) from None
    except WORTH_ANOTHER_TRY as error:
        raise AirflowException(printable(str(error))) from None
    except BackfillError as error:
        raise AirflowFailException(printable(str(error))) from None


def conclude(action: str, sentence: str) -> NoReturn:
    """End the task as an `on_…` option says: `skip`, `fail` for good, or fail so that Airflow retries."""
    sentence = printable(sentence)
    if action == "skip":
        raise AirflowSkipException(sentence)
    if action == "fail":
        raise AirflowFailException(sentence)
    raise AirflowException(sentence)


def one_of(option: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return an option's value if it is allowed; a DAG with another one is not to be parsed.

    Raises:
        ValueError: it is not.
    """
    if value not in allowed:
        raise ValueError(f"{option} is {value!r}; it is one of {', '.join(allowed)}")
    return value
