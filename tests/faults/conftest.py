from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import OwnPostgres


@pytest.fixture
def proxy(own_postgres: OwnPostgres) -> Iterator[Proxy]:
    made = Proxy(own_postgres.port)
    yield made
    made.close()


@pytest.fixture
def small_disk() -> Iterator[Callable[[str], Path]]:
    """Mount file systems of a given size in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = Path(tempfile.mkdtemp(prefix="backfill-disks-"))  # where a server of another user can go, too
    folder.chmod(0o755)
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        place = folder / f"disk-{len(mounted)}"
        place.mkdir()
        if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, f"size={size}".encode()) != 0:
            reason = os.strerror(ctypes.get_errno())
            pytest.fail(f"a full disk needs a small one, and mounting a tmpfs needs root ({reason}); run as root")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        libc.umount2(os.fsencode(place), 2)
    shutil.rmtree(folder)
