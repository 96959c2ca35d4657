"""A portable artifact: a published history in one compressed file (zip), with its table of contents and checksums.

Members, in this order: the four event topics as `TOPIC.jsonl` (one record a line, in order), `generator_state.json` and
`generator_manifest.json` (the records as published), and `contents.json` with the size and SHA-256 of each. The same
history gives the same file, byte for byte, under the same version of zlib.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO

from clickstream.errors import ClickstreamError, DamagedError
from clickstream.instant import spell
from clickstream.manifest import Manifest
from clickstream.topics import EVENT_TOPICS, MANIFEST, STATE, Batch, no_records
from clickstream.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FORMAT = 1
CONTENTS = "contents.json"
_READ_BYTES = 1 << 20
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    RuntimeError,
)


def _member(topic: str) -> str:
    return f"{topic}.jsonl" if topic in EVENT_TOPICS else f"{topic}.json"


_MEMBERS = tuple(_member(topic) for topic in (*EVENT_TOPICS, STATE, MANIFEST))


def write(path: str, topics: Iterable[tuple[str, Iterable[bytes]]]) -> None:
    """Write an artifact of (topic, pieces of its text), in the order of the members; replace a file of that name whole.

    Raises: ClickstreamError when the file can't be written; whatever the pieces raise, and then no file is left.
    """
    unfinished = f"{path}.{os.getpid()}.unfinished"
    try:
        try:
            with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
                members = {_member(topic): _write_member(archive, _member(topic), pieces) for topic, pieces in topics}
                contents = json.dumps({"format": FORMAT, "members": members}, indent=1).encode()
                _write_member(archive, CONTENTS, [contents])
            os.replace(unfinished, path)
        finally:
            if os.path.exists(unfinished):
                os.unlink(unfinished)
    except OSError as error:
        raise ClickstreamError(f"The artifact {path} can't be written: {error.strerror or error}.") from error


def _write_member(archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes]) -> dict[str, int | str]:
    digest, size = sha256(), 0
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        for piece in pieces:
            member.write(piece)
            digest.update(piece)
            size += len(piece)
    return {"bytes": size, "sha256": digest.hexdigest()}


class Artifact:
    """An open artifact, verified whole: every checksum, the manifest's tallies, and a state that restores."""

    def __init__(self, path: str, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        self.manifest_text = b""
        self.state_text = b""
        with self._damage_named():
            self._verify()

    def batches(self) -> Iterator[Batch]:
        """Return the events, topic by topic, in batches of bounded size.

        Raises: DamagedError when the file was changed since it was verified.
        """
        with self._damage_named():
            for topic in EVENT_TOPICS:
                for lines in _whole_lines(self._pieces(_member(topic))):
                    yield {topic: lines}

    def _verify(self) -> None:
        names = self._archive.namelist()
        if sorted(names) != sorted((*_MEMBERS, CONTENTS)):
            raise DamagedError(f"{self._path} is no artifact of a history: it holds {names}.")
        contents = json.loads(self._archive.read(CONTENTS))
        if contents["format"] != FORMAT:
            raise DamagedError(f"{self._path} has format {contents['format']!r}; this version reads format {FORMAT}.")
        self._contents: dict[str, dict[str, Any]] = contents["members"]
        self.state_text = b"".join(self._pieces(_member(STATE)))
        self.manifest_text = b"".join(self._pieces(_member(MANIFEST)))
        self.manifest = Manifest.from_json(self.manifest_text)
        world = World.restore(self.state_text)
        if world.now != self.manifest.t_end or world.parameters.t0 != self.manifest.t0:
            raise DamagedError(
                f"{self._path}: the state is of {spell(world.now)}, the manifest ends at {spell(self.manifest.t_end)}."
            )
        tallies = no_records()
        for batch in self.batches():
            for topic, lines in batch.items():
                tallies[topic] = tallies[topic].extended(lines)
        for topic in EVENT_TOPICS:
            if tallies[topic] != self.manifest.tallies[topic]:
                raise DamagedError(
                    f"{self._path}: {topic} holds {tallies[topic]}, its manifest says {self.manifest.tallies[topic]}."
                )

    def _pieces(self, name: str) -> Iterator[bytes]:
        """Return the bytes of a member; its checksum is compared at the end."""
        digest = sha256()
        with self._archive.open(name) as member:
            while piece := member.read(_READ_BYTES):
                digest.update(piece)
                yield piece
        if digest.hexdigest() != self._contents[name]["sha256"]:
            raise DamagedError(f"{self._path}: {name} doesn't have the checksum that the table of contents gives.")

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            raise DamagedError(f"{self._path} is damaged: {error}") from error


@contextmanager
def opened(path: str) -> Iterator[Artifact]:
    """Open and verify an artifact.

    Raises: DamagedError when it is cut or damaged; ClickstreamError when it can't be read.
    """
    try:
        file: BinaryIO
        with open(path, "rb") as file, _as_zip(path, file) as archive:
            yield Artifact(path, archive)
    except OSError as error:
        raise ClickstreamError(f"The artifact {path} can't be read: {error.strerror or error}.") from error


def _as_zip(path: str, file: BinaryIO) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise DamagedError(f"{path} is no artifact, or is cut: {error}.") from error


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        lines, newline, rest_of_piece = piece.rpartition(b"\n")
        if newline:
            yield rest + lines + newline
            rest = rest_of_piece
        else:
            rest += piece
    if rest:
        raise ValueError("the last line of a topic is cut.")
