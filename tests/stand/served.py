"""`python -m clickstream warehouse`, as a process of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def clickstream(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "clickstream", *arguments],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


class Served:
    """The warehouse in a folder, on a free port, from the beginning of the block to its end."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self._environ = {**os.environ, **environ}
        self.url = ""

    def __enter__(self) -> Served:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clickstream", "warehouse", "--folder", str(self.folder), "--port", "0"],
            cwd=ROOT,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        self.url = line.removeprefix("The warehouse is at ").strip()
        assert self.url.startswith("http://127.0.0.1:"), line
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> dict[str, object]:
        """End it as a user does, and return its answer."""
        self.process.terminate()
        answer, complaints = self.process.communicate(timeout=60)
        assert self.process.returncode in (0, -9), complaints
        return json.loads(answer) if answer else {}

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
