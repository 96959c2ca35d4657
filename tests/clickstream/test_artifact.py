"""Export and import: the same history on another stand, or nothing."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from clickstream import verbs
from clickstream.broker import Broker
from clickstream.errors import ClickstreamError, DamagedError, RefusedError
from clickstream.topics import BROWSER, LOCATION, MANIFEST, STATE
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, days, held, manifest
from tests.clickstream.test_next_day import put, spelled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def exported(servers: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact of a history of two portions."""
    path = tmp_path_factory.mktemp("artifact") / "history.zip"
    broker = Broker(servers, "exported_")
    verbs.clear(Stand(broker))
    verbs.backfill(Stand(broker), **SMALL, days=1)
    verbs.next_day(Stand(broker))
    verbs.export(Stand(broker), str(path))
    broker.delete_topics()
    return path


def test_an_imported_history_is_the_same_and_goes_on_the_same(either_broker: Broker, exported: Path) -> None:
    stand = Stand(either_broker)

    answer = verbs.import_artifact(stand, str(exported))

    assert answer["boundaries"] == 3
    assert held(either_broker) == days(2)
    assert verbs.check(stand)["faults"] == []
    verbs.next_day(stand, expected_t_end=spelled(2))
    assert manifest(either_broker)["boundaries"] == [spelled(0), spelled(1), spelled(2), spelled(3)]
    assert held(either_broker) == days(3)


def test_the_same_history_exports_the_same_file(stand: Stand, exported: Path, tmp_path: Path) -> None:
    verbs.import_artifact(stand, str(exported))

    verbs.export(stand, str(tmp_path / "again.zip"))

    assert (tmp_path / "again.zip").read_bytes() == exported.read_bytes()


def test_an_old_manifest_without_boundaries_is_imported_as_it_is(stand: Stand, exported: Path, tmp_path: Path) -> None:
    def forget_boundaries(members: dict[str, bytes]) -> None:
        document = json.loads(members[f"{MANIFEST}.json"])
        del document["boundaries"]
        members[f"{MANIFEST}.json"] = json.dumps(document).encode()

    old = rewritten(exported, tmp_path, forget_boundaries)

    verbs.import_artifact(stand, str(old))

    assert "boundaries" not in manifest(stand.broker)
    verbs.next_day(stand)
    assert manifest(stand.broker)["boundaries"] == [spelled(0), spelled(2), spelled(3)]


def rewritten(artifact: Path, folder: Path, change: Callable[[dict[str, bytes]], None], *, seal: bool = True) -> Path:
    """The artifact with its members changed, and the table of contents brought up to date if `seal`."""
    import hashlib

    with zipfile.ZipFile(artifact) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if seal:
        contents: dict[str, Any] = json.loads(members["contents.json"])
        for name, text in members.items():
            if name != "contents.json":
                contents["members"][name] = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
        members["contents.json"] = json.dumps(contents).encode()
    path = folder / "rewritten.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def refused(stand: Stand, path: Path) -> DamagedError:
    """The refusal of an artifact, after which nothing is published."""
    with pytest.raises(DamagedError) as refusal:
        verbs.import_artifact(stand, str(path))
    with pytest.raises(RefusedError, match="stand is empty"):
        verbs.check(stand)
    return refusal.value


def test_an_artifact_cut_anywhere_is_refused_before_anything_is_published(
    stand: Stand, exported: Path, tmp_path: Path
) -> None:
    whole = exported.read_bytes()
    cut = tmp_path / "cut.zip"

    for length in [0, 1, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1]:
        cut.write_bytes(whole[:length])
        refused(stand, cut)


def test_one_byte_altered_anywhere_in_an_artifact_is_refused_or_changes_nothing(exported: Path, tmp_path: Path) -> None:
    from clickstream import artifact

    whole = bytearray(exported.read_bytes())
    altered = tmp_path / "altered.zip"
    with artifact.opened(str(exported)) as original:
        texts = (original.manifest_text, original.state_text, list(original.batches()))

    harmless = 0
    for position in range(0, len(whole), len(whole) // 150):
        whole[position] ^= 0x20
        altered.write_bytes(whole)
        whole[position] ^= 0x20
        try:
            with artifact.opened(str(altered)) as opened:
                assert (opened.manifest_text, opened.state_text, list(opened.batches())) == texts
                harmless += 1
        except DamagedError:
            pass

    assert harmless < 10  # bytes that mean nothing, such as a member's date


@pytest.mark.parametrize(
    ("member", "old", "new", "seal", "sentence"),
    [
        (f"{BROWSER}.jsonl", b"Chrome", b"Chrone", False, "checksum that the table of contents gives"),
        (f"{BROWSER}.jsonl", b"Chrome", b"Chrone", True, "its manifest says"),
        (f"{LOCATION}.jsonl", b"}\n", b"}", True, "its manifest says"),
        (f"{MANIFEST}.json", b'"t_end":"2024-03-01', b'"t_end":"2024-03-02', True, "boundaries"),
        (f"{STATE}.json", b'"t_end":"2024-03-01', b'"t_end":"2024-02-29', True, "2024-02-29T12:00:00Z"),
        (f"{STATE}.json", b'"seed":7', b'"sead":7', True, "no `seed`"),
        ("contents.json", b'"format": 1', b'"format": 9', False, "format 9"),
        ("contents.json", b'"members"', b'"numbers"', False, "damaged"),
        ("contents.json", b"{", b"[", False, "damaged"),
    ],
)
def test_an_artifact_that_contradicts_itself_is_refused(
    stand: Stand, exported: Path, tmp_path: Path, member: str, old: bytes, new: bytes, seal: bool, sentence: str
) -> None:
    def change(members: dict[str, bytes]) -> None:
        assert old in members[member]
        members[member] = members[member].replace(old, new, 1)

    path = rewritten(exported, tmp_path, change, seal=seal)

    assert sentence in str(refused(stand, path))


def test_an_artifact_that_lacks_a_member_or_has_one_more_is_refused(
    stand: Stand, exported: Path, tmp_path: Path
) -> None:
    lacking = rewritten(exported, tmp_path, lambda members: members.__delitem__(f"{STATE}.json"), seal=False)
    assert "it holds" in str(refused(stand, lacking))
    surplus = rewritten(exported, tmp_path, lambda members: members.update({"more": b""}), seal=False)
    assert "it holds" in str(refused(stand, surplus))


def test_a_zip_of_something_else_and_a_text_are_refused(stand: Stand, tmp_path: Path) -> None:
    path = tmp_path / "else.zip"
    path.write_text("a letter")
    assert "is no artifact" in str(refused(stand, path))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("letter.txt", "a letter")
    assert "is no artifact" in str(refused(stand, path))


@pytest.mark.parametrize("path", ["nowhere/artifact.zip", "."])
def test_a_file_that_can_not_be_read_or_written_is_one_sentence(stand: Stand, path: str, tmp_path: Path) -> None:
    with pytest.raises(ClickstreamError, match="can't be read"):
        verbs.import_artifact(stand, str(tmp_path / path))
    verbs.backfill(stand, **SMALL, days=1)
    with pytest.raises(ClickstreamError, match="can't be written"):
        verbs.export(stand, str(tmp_path / path))

    assert list(tmp_path.iterdir()) == []


def test_a_history_that_is_not_what_its_manifest_says_is_not_exported(stand: Stand, tmp_path: Path) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    wrong = json.loads(json.dumps(manifest(stand.broker)).replace('"checksum": "', '"checksum": "0', 1))
    wrong["topics"][BROWSER]["checksum"] = "00000000"
    put(stand.broker, MANIFEST, b"default", json.dumps(wrong).encode())

    with pytest.raises(DamagedError, match="isn't what the manifest says"):
        verbs.export(stand, str(tmp_path / "artifact.zip"))

    assert list(tmp_path.iterdir()) == []
