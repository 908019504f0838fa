"""`ottla dump-log` on files that a log wrote, and on files that none did."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from ottla.cli.main import run
from ottla.coordinator.groups.records import (
    CommittedOffset,
    GroupMember,
    GroupValue,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    offset_entries,
)
from ottla.runtime import Runtime, SystemClock, SystemDisk, SystemNetwork
from ottla.storage.append.checks import Origin
from ottla.storage.log.log import Log
from ottla.storage.segment.open_files import OpenFiles
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire import records

START_MS = 1_700_000_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    runtime = Runtime(SystemClock(), random.Random(1), SystemNetwork(), SystemDisk())
    settings = LogConfig(index_interval_bytes=100)
    log = Log.create(runtime, OpenFiles(4), TopicPartition("t", 0), tmp_path / "t-0", settings)
    for number in range(5):
        items = [records.Record(b"k\xff", b"v%d" % number, START_MS + number, (("h", b"1"),))]
        built = records.build_batch(items * 2, compression=number % 2)
        log.append_as_leader(memoryview(bytearray(built)), 3)
    sent = records.build_batch(
        [records.Record(b"k", None, START_MS)],
        producer_id=7,
        producer_epoch=1,
        base_sequence=0,
        transactional=True,
    )
    log.append_as_leader(memoryview(bytearray(sent)), 3)
    marker = records.build_marker(
        producer_id=7, producer_epoch=1, commit=False, coordinator_epoch=2, timestamp_ms=START_MS
    )
    log.append_as_leader(memoryview(bytearray(marker)), 3, Origin.COORDINATOR)
    log.roll()
    return log.folder


def dumped(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert run(["dump-log", "--output", "json", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_batches_and_records(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(folder / f"{0:020d}.log")
    batches = dumped(capsys, log)
    assert [row["baseOffset"] for row in batches] == [0, 2, 4, 6, 8, 10, 11]
    assert [row["compresscodec"] for row in batches[:2]] == ["NONE", "GZIP"]
    assert all(row["isvalid"] and row["partitionLeaderEpoch"] == 3 for row in batches)
    deep = [row for row in dumped(capsys, log, "--deep") if row["kind"] == "record"]
    assert [row["offset"] for row in deep] == list(range(12))
    assert (deep[0]["key"], deep[0]["payload"], deep[0]["headerKeys"]) == ("k\\xff", "v0", ["h"])
    assert (deep[10]["payload"], deep[10]["sequence"], deep[10]["valueSize"]) == (None, 0, -1)
    assert (deep[11]["endTxnMarker"], deep[11]["coordinatorEpoch"]) == ("ABORT", 2)


def test_the_other_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = f"{0:020d}"
    index = dumped(capsys, str(folder / f"{base}.index"))
    assert len(index) >= 2 and all(row["kind"] == "index" for row in index)
    times = dumped(capsys, str(folder / f"{base}.timeindex"))
    assert times[-1]["timestamp"] == START_MS + 4 and times[-1]["offset"] == 9
    [aborted] = dumped(capsys, str(folder / f"{base}.txnindex"))
    assert (aborted["firstOffset"], aborted["lastOffset"]) == (10, 11)
    [producer] = dumped(capsys, str(folder / f"{12:020d}.snapshot"))
    assert (producer["producerId"], producer["currentTxnFirstOffset"]) == (7, None)


def test_text_reads_as_kafkas(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = folder / f"{0:020d}.log"
    assert run(["dump-log", "--deep", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Dumping {log}"
    assert lines[1] == "Starting offset: 0"
    assert lines[2].startswith("baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 ")
    assert "isTransactional: false isControl: false position: 0 CreateTime: 17" in lines[2]
    assert lines[3].startswith("| offset: 0 isValid: true crc: null keySize: 2 valueSize: 2 ")
    assert lines[3].endswith("headerKeys: [h] key: k\\xff payload: v0")
    assert lines[18].startswith("| offset: 10 ") and lines[18].endswith("headerKeys: [] key: k")
    # Kafka's flags; without keys and values the rest of the lines is the same.
    assert run(["dump-log", "--files", f"{log},{log}", "--print-data-log"]) == 0
    assert capsys.readouterr().out.splitlines() == lines * 2
    assert run(["dump-log", "--deep-iteration", "--files", str(log)]) == 0
    bare = [line.partition(" key: ")[0] for line in lines]
    assert capsys.readouterr().out.splitlines() == bare


def test_records_of_the_coordinators_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = CommittedOffset(5, 0, "note", START_MS)
    assignment = m.ConsumerProtocolAssignment(
        assigned_partitions=[
            m.ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0, 1])
        ],
        user_data=None,
    ).encode(0)
    member = GroupMember("m-1", None, "c", "/h", 1, 1, b"", b"\0\0" + assignment)
    group = GroupValue("consumer", 3, "range", "m-1", START_MS, (member,))
    entries = [
        *offset_entries("g", {TopicPartition("t", 1): commit}),
        (encode_offset_key("g", TopicPartition("t", 1)), None),
        (encode_group_key("g"), encode_group_value(group)),
    ]
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(records.build_batch([records.Record(*entry, START_MS) for entry in entries]))
    assert run(["dump-log", "--offsets-decoder", str(log)]) == 0
    shown = [line.partition(" key: ")[2] for line in capsys.readouterr().out.splitlines()[3:]]
    assert shown == [
        "offset_commit::group=g,partition=t-1 payload: offset=5,metadata=note",
        "offset_commit::group=g,partition=t-1 payload: <DELETE>",
        'group_metadata::group=g payload: {"protocolType":"consumer","protocol":"range",'
        '"generationId":3,"assignment":"{m-1=[t-0, t-1]}"}',
    ]
    log.write_bytes(records.build_batch([records.Record(None, b"x", START_MS)]))
    for decoder in ("--offsets-decoder", "--transaction-log-decoder"):
        assert run(["dump-log", decoder, str(log)]) == 1
        assert capsys.readouterr().err.startswith(f"Error: {log}: a record is ")


def test_damage_is_told_after_what_could_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = folder / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-10])
    assert run(["dump-log", "--output", "json", str(log)]) == 1
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 6
    assert told.err.startswith(f"Error: {log}: a batch is cut off at position ")


@pytest.mark.parametrize("name", ["notes.txt", "x.log", f"{0:020d}.index"])
def test_files_that_are_none(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_bytes(b"12345")
    assert run(["dump-log", str(path)]) == 1
    assert str(path) in capsys.readouterr().err
    assert run(["dump-log", str(tmp_path / "none.log")]) == 1
    assert run(["dump-log", "--files", str(tmp_path / "none.log")]) == 1
    assert run(["dump-log"]) == 1
    assert "Traceback" not in capsys.readouterr().err
