"""A pseudo terminal, and what a process shows on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


class Terminal:
    """A terminal of so many columns, on which a process shows its standard output, its errors, or both."""

    def __init__(self, columns: int = 80) -> None:
        self._ours, self._its = pty.openpty()
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._shown = b""

    def start(
        self, command: Sequence[str], folder: Path, environ: Mapping[str, str], *, output: bool, errors: bool
    ) -> subprocess.Popen[bytes]:
        """Start a process that shows these here; the other one is piped."""
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=self._its if output else subprocess.PIPE,
            stderr=self._its if errors else subprocess.PIPE,
            start_new_session=True,
        )
        os.close(self._its)
        return process

    def pieces(self) -> Iterator[str]:
        """Yield all that is shown so far, each time that something comes, until nobody shows anything any more."""
        with contextlib.suppress(OSError):
            while more := os.read(self._ours, 4096):
                self._shown += more
                yield self._shown.decode()
        os.close(self._ours)

    def all(self) -> str:
        """Return all that is shown until nobody shows anything any more; a line ends with a newline."""
        for _ in self.pieces():
            pass
        return self._shown.decode().replace("\r\n", "\n")
