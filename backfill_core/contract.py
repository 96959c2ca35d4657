"""The runner's contract: arguments → one call of the core → one JSON object → an exit code."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from backfill_core.progress import Bar

    Answer = Mapping[str, Any]

COMMANDS: dict[str, tuple[str, ...]] = {
    "init": (),
    "run": ("START", "END", "OWNER"),
    "claim": ("START", "END", "OWNER"),
    "release": ("START", "END", "OWNER"),
    "seal": ("START", "END"),
    "amend": ("DATE", "REASON"),
    "rollup-add": ("START", "END"),
    "rollup": (),
}
"""Each command and what it takes; dates are YYYY-MM-DD, ranges inclusive at both ends."""

COUNTING = ("run", "amend")
"""Those that read events; the others don't even load what that takes."""

DENIED, SKIPPED, INTERRUPTED = 4, 5, 130


def main(arguments: list[str]) -> int:
    """Carry out one command, print its answer as one JSON object, and return the exit code."""
    answer, code = carry_out(arguments)
    return code if _print(answer) else 1


def carry_out(arguments: list[str], *, quiet: bool = False) -> tuple[Answer, int]:
    """Carry out one command; return its answer and the exit code.

    quiet: show no progress, also on a terminal.

    An error is an answer too, `{"error": …}` with what was done before it.
    """
    stop = Stop()
    stop.listen()
    from backfill_core.errors import BackfillError

    try:
        answer = _answer_to(arguments, stop, quiet)
        code = _exit_code(answer)
    except BackfillError as error:
        answer, code = {"error": str(error), **(error.so_far or {})}, error.exit_code
    except Exception as error:  # noqa: BLE001  a fault of ours must not become a traceback of the user's
        answer, code = (
            {"error": f"this should not have happened, please report it: {error!r} {_place(error)}"},
            1,
        )
    if stop.signal is not None:
        told = f"interrupted by {stop.signal}; {answer.get('error', 'what is listed was done')}"
        answer, code = {**answer, "error": told}, INTERRUPTED
    return answer, code


class Stop:
    """Whether a signal has asked the process to end. Asked again more than two seconds later, it ends at once."""

    def __init__(self) -> None:
        self.signal: str | None = None
        self._heard = 0.0

    def listen(self) -> None:
        """Hear the signals from now on, but for those that whoever started us had ignored."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._hear)

    def _hear(self, number: int, _frame: object) -> None:
        if self.signal is not None and time.monotonic() - self._heard > 2:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self.signal is None:
            self.signal, self._heard = signal.Signals(number).name, time.monotonic()

    def __call__(self) -> bool:
        """Return whether to stop."""
        return self.signal is not None


def _answer_to(arguments: list[str], stop: Stop, quiet: bool) -> Answer:
    from backfill_core.errors import UsageError
    from backfill_core.settings import Settings
    from backfill_core.store import create_store, name_of, open_store

    command, values = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command not in COMMANDS:
        known = ", ".join(" ".join((name, *takes)) for name, takes in COMMANDS.items())
        raise UsageError(f"unknown command {command!r}; the commands are {known}")
    names = COMMANDS[command]
    if len(values) != len(names):
        raise UsageError(f"{command} takes {len(names)} arguments, not {len(values)}: {' '.join((command, *names))}")
    settings = Settings.from_env(os.environ)
    if command == "init":
        return {"db": name_of(settings.db), "tables": create_store(settings.db)}
    parsed = _parse(dict(zip(names, values, strict=True)))  # judged before there need be a store
    from backfill_core.backfill import Backfill

    source = None
    if command in COUNTING:
        from backfill_core.events import EventFolder

        source = EventFolder(settings.events, settings.engine, settings.workers)
    with open_store(settings.db) as store:
        backfill = Backfill(store, source, stop=stop)
        if command == "run":
            gc.enable()  # runner.py has it off, as what is loaded for a command is no garbage
            bar = None if quiet else _bar(len(parsed[0]))
            if bar is None:
                return backfill.run(*parsed)
            with bar:
                return backfill.run(*parsed, progress=bar.to)
        answer: Answer = getattr(backfill, command.replace("-", "_"))(*parsed)
        return answer


def _parse(given: dict[str, str]) -> list[Any]:
    from backfill_core.partition import DateRange, check_text, parse_date

    parsed: list[Any] = []
    if "START" in given:
        parsed.append(DateRange.parse(given["START"], given["END"]))
    if "DATE" in given:
        parsed.append(parse_date(given["DATE"]))
    parsed.extend(check_text(word.lower(), given[word]) for word in ("OWNER", "REASON") if word in given)
    return parsed


def _bar(days: int) -> Bar | None:
    if days < 2 or sys.stderr is None or not sys.stderr.isatty():
        return None
    from backfill_core.progress import Bar, on_terminal

    return Bar(days, on_terminal(os.environ))


def _exit_code(answer: Answer) -> int:
    if answer.get("failed"):
        return 1
    if answer.get("denied"):
        return DENIED
    if any(reason != "no_data" for _, reason in answer.get("skipped", ())):
        return SKIPPED
    return 0


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace else ""


def _print(answer: Answer) -> bool:
    import json

    if "error" in answer:
        tell(answer["error"])
    why_not = put(json.dumps(answer))
    if why_not is not None:
        tell(why_not)
    return why_not is None


def put(text: str) -> str | None:
    """Print an answer on standard output; return why it can't be printed, where it can't."""
    if sys.stdout is None:
        return "the answer can't be printed: standard output is closed"
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python tries once more at its end
        return f"the answer can't be printed: {error.strerror}"
    return None


def tell(sentence: str) -> None:
    """Print a sentence on standard error, where there is one."""
    if sys.stderr is not None:  # it is None where the caller closed it, and print would take standard output instead
        try:  # noqa: SIM105  contextlib would take a fortieth of the time of a short command
            print(sentence, file=sys.stderr, flush=True)
        except OSError:
            pass
