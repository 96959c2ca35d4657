"""Processes that count spans of files for this one, asked over a pipe and answering over another, in JSON lines.

A worker is a fresh Python, not a fork: it shares no store, no thread and no signal handler with whoever started it. It
holds nothing that has to be put in order, so it may be killed at any moment. It ends when its pipe does, and in the
middle of a span as soon as it sees that its parent is gone, so that even a parent that was killed leaves none behind.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections import deque
from contextlib import suppress

from backfill_core.counting.facts import Fingerprint
from backfill_core.counting.spans import FileChanged, Part, count_span, load_engine
from backfill_core.errors import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ASKED_AT_ONCE = 2
"""Questions that a worker has at a time: one to work on, and one so that it need not wait for the next."""


class Question:
    """A span to be counted. `answered` once there is an answer; then `part` is it, None where none could be given."""

    __slots__ = ("answered", "part", "words")

    def __init__(self, path: str, dt: str, fingerprint: Fingerprint, start: int, end: int) -> None:
        self.words = (path, dt, fingerprint, start, end)
        self.answered = False
        self.part: Part | None = None

    def answer(self, part: Part | None) -> None:
        """Settle it."""
        self.answered, self.part = True, part


class Workers:
    """At most `number` processes, each started when there is a question that none of those before is free for.

    engine: the name that `load_engine` takes.
    """

    def __init__(self, number: int, engine: str | None) -> None:
        self._number = number
        self._engine = engine
        self._workers: list[_Worker] = []
        self._waiting: deque[Question] = deque()

    def ask(self, questions: Sequence[Question]) -> None:
        """Have them answered, after those asked before."""
        self._waiting.extend(questions)
        self._hand_out()

    def take_in(self, seconds: float) -> None:
        """Settle the questions that have been answered; wait for at most so long for the first."""
        poll = select.poll()
        by_descriptor = {worker.replies: worker for worker in self._workers}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(seconds * 1000):
            worker = by_descriptor[descriptor]
            if not worker.take_in():
                self._lose(worker)
        self._hand_out()

    def close(self) -> None:
        """End the processes, whatever they are at."""
        while self._workers:
            self._workers.pop().end()

    def _hand_out(self) -> None:
        while self._waiting:
            worker = min(self._workers, key=lambda worker: len(worker.asked), default=None)
            if (worker is None or worker.asked) and len(self._workers) < self._number:
                worker = self._start()
            if worker is None:  # there is none, and none to be had
                self._waiting.popleft().answer(None)
            elif len(worker.asked) < ASKED_AT_ONCE:
                if not worker.ask(self._waiting.popleft()):
                    self._lose(worker)
            else:
                break

    def _start(self) -> _Worker | None:
        try:
            self._workers.append(_Worker(self._engine))
        except OSError:  # no more processes to be had: those that there are have to do
            self._number = len(self._workers)
        return self._workers[-1] if self._workers else None

    def _lose(self, worker: _Worker) -> None:
        """Do without a worker that has ended on its own: what it was asked is left without an answer."""
        self._workers.remove(worker)
        self._number -= 1
        worker.end()


class _Worker:
    """One process, and the two pipes to it. `asked` are the questions that it has not answered yet, oldest first.

    Raises:
        OSError: it can't be started.
    """

    def __init__(self, engine: str | None) -> None:
        self.asked: deque[Question] = deque()
        self._unread = b""
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        program = (
            f"import sys; sys.path[:] = {[here, *sys.path]!r}\n"
            f"from backfill_core.counting.workers import serve; serve({os.getpid()}, {engine!r})"
        )
        questions, self.questions = os.pipe()
        self.replies, replies = os.pipe()
        try:
            self._process = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-c", program],
                {**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # no threads of a library that numpy is not asked for
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, questions, 0),
                    (os.POSIX_SPAWN_DUP2, replies, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setsigmask=[signal.SIGINT],  # Ctrl-C reaches every process of a terminal; the parent hears it for all
            )
        except BaseException:
            os.close(self.questions)
            os.close(self.replies)
            raise
        finally:
            os.close(questions)
            os.close(replies)

    def ask(self, question: Question) -> bool:
        """Send a question; return whether there is still somebody to ask."""
        self.asked.append(question)
        try:
            os.write(self.questions, json.dumps(question.words).encode() + b"\n")
        except OSError:
            return False
        return True

    def take_in(self) -> bool:
        """Settle the questions that were answered; return whether there is still somebody."""
        received = os.read(self.replies, 1 << 16)
        *replies, self._unread = (self._unread + received).split(b"\n")
        for reply in replies:
            part = json.loads(reply)
            self.asked.popleft().answer(part and Part(*part))
        return bool(received)

    def end(self) -> None:
        """End the process; what it was asked stays without an answer."""
        os.close(self.questions)
        os.close(self.replies)
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._process, 0)
        while self.asked:
            self.asked.popleft().answer(None)


def serve(parent: int, engine_name: str | None) -> None:
    """Answer the questions on standard input, until there are no more or the parent is gone."""
    engine = load_engine(engine_name)

    def is_orphan() -> bool:
        return os.getppid() != parent

    with suppress(Stopped, BrokenPipeError):
        for question in sys.stdin.buffer:
            path, dt, fingerprint, start, end = json.loads(question)
            try:
                part = count_span(path, dt, Fingerprint(*fingerprint), start, end, engine, is_orphan)
            except (FileChanged, OSError):
                part = None
            os.write(1, json.dumps(part).encode() + b"\n")
