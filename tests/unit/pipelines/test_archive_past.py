"""What is said of an archive with rows after its checkpoint: only what helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.pipelines import Archive, Source
from ottla.pipelines.archive_files import batch_file
from ottla.pipelines.archive_past import ArchivePast

QUERY = "6a3c1f0e-0000-4000-8000-000000000001"
ENDS = '{"clicks":{"id":"x","partitions":{"0":30}}}'
WATERMARK = '{"batchWatermarkMs":0,"conf":{}}'
LOG = f"v1\n{WATERMARK}\n{ENDS}"


def past(folder: Path, offsets: bytes | None, starting: str = "earliest", batch: int = 2):
    """Of a checkpoint that ends with a batch, and an archive that holds rows of four more."""
    checkpoint, archive = folder / "checkpoint", folder / "archive"
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    archive.mkdir()
    (checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))
    for number in range(batch + 1):
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")
    if offsets is not None:
        (checkpoint / "offsets" / str(batch)).write_bytes(offsets)
    for number in range(batch + 5):
        (archive / batch_file(QUERY, number, 0)).touch()
    job = Archive(
        name="a", from_=(Source("clicks", "clicks"),), path=str(archive), starting=starting
    )
    return ArchivePast(None, job, str(checkpoint))


def test_where_the_end_is_known_the_rows_can_be_set_aside(tmp_path):
    found = past(tmp_path, LOG.encode())
    assert found.can_set_aside
    words = found.wrong()
    assert "ends with batch 2" in words and "batches up to 6" in words
    assert "Put the newer one back, or --adopt a moves the rows after it" in words


@pytest.mark.parametrize(
    "offsets",
    [
        None,
        b"",
        b"v1\n",
        b"\x00\xff\xfe",
        f"v1\n{WATERMARK}".encode(),
        f"v1\n{WATERMARK}\n-".encode(),
        f"v1\n{{}}\n{ENDS[:-3]}".encode(),
        f"v1\n{WATERMARK}\n{ENDS}\n{ENDS}".encode(),
    ],
    ids=["gone", "empty", "short", "no text", "no source", "nothing", "cut", "two sources"],
)
def test_where_it_cannot_be_told_adopt_is_not_offered(tmp_path, offsets):
    """It would be refused with the same words again."""
    found = past(tmp_path, offsets)
    assert not found.can_set_aside
    words = found.wrong()
    assert "Put the newer one back, or --reset a and name another 'path'" in words
    assert "--adopt cannot help" in words


@pytest.mark.parametrize(("starting", "can"), [("earliest", True), ("latest", False)])
def test_a_checkpoint_before_its_first_batch(tmp_path, starting, can):
    """Whoever begins at the latest would not read those rows again."""
    assert past(tmp_path, None, starting, batch=-1).can_set_aside is can
