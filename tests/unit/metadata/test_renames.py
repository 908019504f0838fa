"""The entry of a rename in the store."""

from __future__ import annotations

import pytest

from ottla.metadata.renames import RenamePhase, RenameZnode, StoredRename

ID = b"i" * 16


@pytest.mark.parametrize("phase", list(RenamePhase))
def test_it_is_read_as_it_was_written(phase: RenamePhase) -> None:
    rename = StoredRename("old", "new", phase)
    assert RenameZnode.decode(RenameZnode.encode(rename)) == rename


def test_its_name_is_the_id() -> None:
    path = RenameZnode.path(ID)
    assert RenameZnode.topic_id(path.rpartition("/")[2]) == ID
    assert RenameZnode.topic_id("somebody's") is None


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"[]",
        b'{"version":1,"from":"a","to":"b"}',
        b'{"version":2,"from":"a","to":"b","phase":"moving"}',
        b'{"version":1,"from":"","to":"b","phase":"moving"}',
        b'{"version":1,"from":"a","to":3,"phase":"moving"}',
        b'{"version":1,"from":"a","to":"b","phase":["moving"]}',
        b'{"version":1,"from":"a/b","to":"b","phase":"moving"}',
        b'{"version":1,"from":"a","to":"..","phase":"moving"}',
        b'{"version":1,"from":"a","to":"\\ud800","phase":"moving"}',
    ],
)
def test_garbage_is_no_rename(data: bytes | None) -> None:
    assert RenameZnode.decode(data) is None
