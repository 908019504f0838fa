"""`meta.properties`: whose data folders these are, and one that cannot be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.runtime import SystemDisk
from ottla.storage import checkpoints
from ottla.storage.manager.identity import (
    DamagedIdentity,
    ForeignData,
    Identity,
    check_identity,
    read_identity,
    write_identity,
)


def test_identity_files_and_their_conflicts(tmp_path: Path) -> None:
    disk = SystemDisk()
    x, y = tmp_path / "x", tmp_path / "y"
    for folder in (x, y):
        folder.mkdir()
    assert read_identity(disk, [x, y]) == Identity(None, None)
    write_identity(disk, [x, y], broker_id=4, cluster_id="cid", comment="now")
    assert (x / "meta.properties").read_text() == (
        "#\n#now\nbroker.id=4\nversion=0\ncluster.id=cid\n"
    )
    stored = read_identity(disk, [x, y])
    assert stored == Identity(4, "cid")
    check_identity(stored, broker_id=4, cluster_id="cid")
    with pytest.raises(ForeignData, match=r"Configured broker.id 5 doesn't match stored"):
        check_identity(stored, broker_id=5, cluster_id="cid")
    with pytest.raises(ForeignData, match="wrong cluster"):
        check_identity(stored, broker_id=4, cluster_id="other")
    write_identity(disk, [y], broker_id=9, cluster_id="cid", comment="now")
    with pytest.raises(ForeignData, match=r"not consistent across log\.dirs"):
        read_identity(disk, [x, y])
    (x / "meta.properties").write_text("version=1\nnode.id=1\n")
    with pytest.raises(ForeignData, match="unexpected version"):
        read_identity(disk, [x])
    (tmp_path / "x" / checkpoints.META_PROPERTIES).write_text("version=0\nbroker.id=--5\n")
    with pytest.raises(DamagedIdentity, match="is not a number"):
        read_identity(disk, [tmp_path / "x"])


def read(folder: Path, content: bytes) -> Identity:
    (folder / "meta.properties").write_bytes(content)
    return read_identity(SystemDisk(), [folder])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "it is empty"),
        (bytes(60), "it names no broker.id"),
        (b"\xff\xfe\x00version=0\nbroker.id=1\ncluster.id=c\n", "it is not text"),
        (b"version=0\nbroker.id=\ncluster.id=c\n", "broker.id '' is not a number"),
        (b"version=0\nbroker.id=1x\ncluster.id=c\n", "broker.id '1x' is not a number"),
        (b"version=0\nbroker.id=-1\ncluster.id=c\n", "broker.id '-1' is not a number"),
        (b"version=0\nbrojer.id=1\ncluster.id=c\n", "it names no broker.id"),
        (b"version=0\nbroker.id=1\nclusteq.id=c\n", "it names no cluster.id"),
        (b"version=0\nbroker.id=1\ncluster.id=\n", "it names no cluster.id"),
        (b"version=0\nbroker.id=1\n", "it names no cluster.id"),
        (b"version=0\nbroker.id=1\nclu", "it names no cluster.id"),
    ],
)
def test_what_is_damaged_is_said(tmp_path: Path, content: bytes, what: str) -> None:
    with pytest.raises(DamagedIdentity) as error:
        read(tmp_path, content)
    assert f"{tmp_path}/meta.properties is damaged: {what}." in str(error.value)
    assert "/cluster/id" in str(error.value)


def test_files_of_other_versions_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, b"broker.id=1\ncluster.id=c\n") == Identity(1, "c")
    newer = b"#x\nversion=0\nbroker.id=1\ncluster.id=c\ndirectory.id=d\nnew=1\n"
    assert read(tmp_path, newer) == Identity(1, "c")


def test_no_flipped_bit_passes_unseen(tmp_path: Path) -> None:
    """Refused as damaged or as another's, or it says the same as before."""
    write_identity(SystemDisk(), [tmp_path], broker_id=3, cluster_id="c_-9", comment="")
    good = (tmp_path / "meta.properties").read_bytes()
    for position in range(good.index(b"broker"), len(good)):
        for bit in range(8):
            flipped = bytearray(good)
            flipped[position] ^= 1 << bit
            try:
                stored = read(tmp_path, bytes(flipped))
                check_identity(stored, broker_id=3, cluster_id="c_-9")
            except (DamagedIdentity, ForeignData):
                continue
            assert stored == Identity(3, "c_-9"), flipped
