"""`meta.properties`: whose data folders these are."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.runtime import SystemDisk
from ottla.storage import checkpoints
from ottla.storage.manager.identity import (
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
    with pytest.raises(ForeignData, match="is not a number"):
        read_identity(disk, [tmp_path / "x"])
