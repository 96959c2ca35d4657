"""What can go wrong, with the exit code of each.

ClickstreamError      1  something failed: the broker is away, an answer can't be understood
├── UsageError        2  the call itself is wrong
└── RefusedError      4  a check said no; nothing was published
    └── DamagedError  4  a state, a manifest or an artifact is not what it claims to be

Faults that `check` and `chain-check` find are answers, not errors; their exit code is FAULTS_FOUND. A run that was
interrupted by a signal ends with INTERRUPTED.
"""

from __future__ import annotations

from typing import Literal

FAULTS_FOUND = 5
INTERRUPTED = 130

Reason = Literal[
    "no-history", "wrong-state", "generator-running", "tail", "missing-records", "boundary", "not-clean",
    "pipeline-busy", "fenced", "foreign-records", "unfit-topic", "damaged",
]  # fmt: skip


class ClickstreamError(Exception):
    """Something failed; the message is a sentence for the user."""

    exit_code = 1


class UsageError(ClickstreamError):
    """The call itself is wrong."""

    exit_code = 2


class RefusedError(ClickstreamError):
    """A check said no, before anything was published.

    `reason` is the check's name, for programs; the message is for people.
    """

    exit_code = 4

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason: Reason = reason


class DamagedError(RefusedError):
    """A state, a manifest or an artifact is not what it claims to be."""

    def __init__(self, sentence: str) -> None:
        super().__init__("damaged", sentence)
