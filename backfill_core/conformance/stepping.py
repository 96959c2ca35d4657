"""Every call that the protocol makes of a ledger, a target or a write, as a step at which something may happen."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backfill_core.ledger import Ledger
    from backfill_core.target import Target

    Act = Callable[[str], None]

STEPS = {
    "ledger": ("change",),
    "target": ("look", "fence", "mark", "measure", "adopt", "sweep"),
    "write": ("fill", "audit", "publish"),
}


class Stepped:
    """A ledger, a target or a write whose calls are told before they are made."""

    def __init__(self, kind: str, real: Any, act: Act) -> None:
        self._kind, self._real, self._act = kind, real, act

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in STEPS[self._kind]:
            return found

        def step(*arguments: Any, **options: Any) -> Any:
            self._act(f"{self._kind}.{name}")
            return found(*arguments, **options)

        return step

    @contextmanager
    def writing(self, *arguments: Any, **options: Any) -> Iterator[Stepped]:
        self._act("write.begin")
        with self._real.writing(*arguments, **options) as write:
            try:
                yield Stepped("write", write, self._act)
            finally:
                self._act("write.end")


def stepped(act: Act) -> Callable[[Ledger, Target], tuple[Stepped, Stepped]]:
    """Return what a shop is opened around with: `act` is called before each step, with its name."""
    return lambda ledger, target: (Stepped("ledger", ledger, act), Stepped("target", target, act))


class At:
    """An act that happens once, before the numbered step, from 0; the names of all steps are kept.

    What comes after the last step comes before a step that there is not: see `after_all`.
    """

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self.names: list[str] = []
        self.happened = False
        self._number, self._do = number, act

    def __call__(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._number + 1:
            self.happened = True
            self._do()

    def after_all(self) -> None:
        self("the end")


class Died(BaseException):
    """An attempt goes no further."""


class Dies(At):
    """An attempt that dies before the numbered step: of what it does from then on nothing is heard."""

    def __init__(self, number: int) -> None:
        super().__init__(number, lambda: None)

    def __call__(self, name: str) -> None:
        super().__call__(name)
        if self.happened:
            raise Died
