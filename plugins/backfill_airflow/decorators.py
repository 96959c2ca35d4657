"""`@task.replace_partition`: a function of your own, Python, Spark, dbt or anything, fills a dataset's partitions."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from backfill_airflow.compat import DecoratedOperator, task_decorator_factory
from backfill_airflow.operators import ReplacePartitionOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backfill_airflow.compat import Context
    from backfill_airflow.partitions import Partitions
    from backfill_core.guarded import Partition

PARTITION = "partition"
WHICH = ("date", "start", "end", "keys")
"""The function's own arguments that say which partitions are meant: so it can be mapped over them."""


class ReplacePartitionDecoratedOperator(DecoratedOperator, ReplacePartitionOperator):
    """A `ReplacePartitionOperator` whose rows a decorated function makes; see `replace_partition`."""

    custom_operator_name = "@task.replace_partition"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *(field for field in ReplacePartitionOperator.template_fields if field != "select"),
    )
    template_fields_renderers = DecoratedOperator.template_fields_renderers
    template_ext: Sequence[str] = ()  # an argument that ends in `.sql` is the function's own

    def act(self, context: Context) -> Any:
        """Claim, call the function, audit, publish, give back."""
        self.fill = functools.partial(self._call, context)
        return super().act(context)

    def _call(self, context: Context, partition: Partition) -> None:
        function: Callable[..., object] = self.python_callable.__wrapped__  # type: ignore[attr-defined]
        call = inspect.signature(function).bind_partial()
        call.arguments.update({**self._given(context), PARTITION: partition})
        function(*call.args, **call.kwargs)

    def _given(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Return the function's arguments by name: its own, and what it asks for of the context."""
        signature = inspect.signature(self.python_callable)
        own = signature.bind_partial(*self.op_args, **self.op_kwargs).arguments
        asked_for = {name: context[name] for name in signature.parameters if name in context}
        rest = [name for name, one in signature.parameters.items() if one.kind is one.VAR_KEYWORD]
        others = {name: value for name, value in context.items() if name not in (*signature.parameters, PARTITION)}
        return {**asked_for, **own, **{name: {**others, **own.get(name, {})} for name in rest}}

    def keys_of(self, context: Context, partitions: Partitions) -> list[str]:
        """Return the partitions that are meant: by the decorator, by the function's own arguments, or by the run."""
        bound = inspect.signature(self.python_callable).bind_partial(*self.op_args, **self.op_kwargs).arguments
        for which in WHICH:
            if getattr(self, which) is None and bound.get(which) is not None:
                setattr(self, which, bound[which])
        return super().keys_of(context, partitions)


def replace_partition(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Make a function into a task that replaces a dataset's partitions.

        @task.replace_partition(dataset=orders_daily)          # where this package is installed
        def load(partition):
            spark.sql(f"… where day between '{partition.start:%Y-%m-%d}' …").write.saveAsTable(partition.staging)

    In a plugins folder, where no provider is installed: `from backfill_airflow.decorators import replace_partition`.

    The function is called with `partition`: `.keys` (those that are sealed, or held by others, are not among them),
    `.start` and `.end`, half-open instants, `.spans`, and `.staging`, the table to fill. It is not called where there
    is nothing to write. When it returns, what is in that table is audited and published, whole; if it raises, nothing
    is. What it returns counts for nothing: the task's result is the receipt.

    Other arguments are the function's own, as with any task. Those named `date`, `start`, `end` or `keys` say which
    partitions are meant, if the decorator doesn't: so `load.expand(date=[…])` makes a task a day.

    :param dataset: whose partitions. All other arguments are those of `ReplacePartitionOperator`.
    """
    if kwargs.get("dataset") is None:
        raise TypeError("replace_partition needs a dataset: @task.replace_partition(dataset=…)")

    def decorate(function: Callable[..., Any]) -> Any:
        return task_decorator_factory(
            python_callable=_without_partition(function),
            multiple_outputs=False,
            decorated_operator_class=ReplacePartitionDecoratedOperator,
            **kwargs,
        )

    return decorate if python_callable is None else decorate(python_callable)


def _without_partition(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as Airflow is to see it: without the argument that is there only while it runs."""
    signature = inspect.signature(function)
    if PARTITION not in signature.parameters:
        raise TypeError(f"{function.__name__} needs an argument {PARTITION!r}: what it is to fill")

    @functools.wraps(function)
    def as_a_task(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    others = [one for name, one in signature.parameters.items() if name != PARTITION]
    as_a_task.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return as_a_task
