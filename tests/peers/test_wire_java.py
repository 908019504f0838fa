"""Kafka 3.9's own Java classes as the oracle: every message and version, byte for byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing.peers import peer_jars
from ottla.wire import records
from ottla.wire.records import Record
from ottla.wire.schema import SCHEMA_FOLDER
from tests.support.judges import need
from tests.support.peers import wire_java_cases as java_cases

pytestmark = pytest.mark.peers


def _need_java() -> None:
    need(java_cases.missing())


def test_every_message_has_the_bytes_of_kafkas_classes() -> None:
    _need_java()
    cases = list(java_cases.all_cases())
    answers = java_cases.java_answers([java_cases.case_line(case) for case in cases])
    assert len(answers) == len(cases) > 1900
    wrong = []
    for (kind, version, message), answer in zip(cases, answers, strict=True):
        raw = message.encode(version)
        decoded, end = kind.decode(raw, version)
        if answer != f"ok {raw.hex()}" or decoded != message or end != len(raw):
            wrong.append((kind.__name__, version, answer[:100]))
    assert wrong == []


def test_the_brokers_classes_read_our_coordinator_records() -> None:
    _need_java()
    cases = list(java_cases.coordinator_cases())
    lines, wanted = [], []
    for kind, version, message in cases:
        raw = message.encode(version)
        assert kind.decode(raw, version) == (message, len(raw))
        lines.append(f"{kind.__name__}\t{version}\t{raw.hex()}")
        wanted.append(f"0\t{raw.hex()}\t{java_cases.to_text(message, kind.SCHEMA.fields, kind)}")
    jars = peer_jars("kafka-2.8.2")
    assert java_cases.java_answers(lines, java_cases.READ_PROGRAM, jars) == wanted
    assert len(wanted) > 60


def test_the_fixture_of_the_unit_tests_is_what_java_says_today() -> None:
    _need_java()
    rows = java_cases.FIXTURE.read_text(encoding="utf-8").splitlines()
    lines, hexes = zip(*(row.rsplit("\t", 1) for row in rows), strict=True)
    assert java_cases.java_answers(list(lines)) == [f"ok {text}" for text in hexes]
    assert list(lines) == [java_cases.case_line(case) for case in java_cases.fixture_cases()]


def test_the_schema_files_are_what_the_tool_derives_from_the_jar(tmp_path: Path) -> None:
    _need_java()
    jars = [jar for jar in peer_jars("kafka-clients-3.9") or [] if "kafka-clients" in jar.name]
    tool = Path(__file__).parents[2] / "tools" / "derive_schemas.py"
    target = tmp_path / "schemas"
    subprocess.run([sys.executable, str(tool), str(jars[0]), str(target)], check=True)
    derived = {path.name: path.read_text() for path in target.iterdir()}
    assert len(derived) > 90
    assert {name: (SCHEMA_FOLDER / name).read_text() for name in derived} == derived


def _java_form(record: Record) -> str:
    parts = [str(record.offset), str(record.timestamp)]
    parts += ["null" if part is None else part.hex() for part in (record.key, record.value)]
    for key, value in record.headers:
        parts += [key, "null" if value is None else value.hex()]
    return ":".join(parts)


def _items(count: int) -> list[Record]:
    headers = [("h", None), ("i", b"\x01")]
    return [
        Record(None if i % 3 == 0 else b"key-%d" % i, b"value-%d" % i * (i % 7), 1000 + i, headers)
        for i in range(count)
    ]


def test_java_reads_our_batches_and_we_read_javas_in_every_codec() -> None:
    _need_java()
    # Enough for several blocks of each codec.
    count = 8000
    ours = [records.build_batch(_items(count), compression=codec) for codec in range(5)]
    lines = [f"read {batch.hex()}" for batch in ours]
    lines += [f"build {codec} {count}" for codec in range(5)]
    answers = java_cases.java_answers(lines, java_cases.RECORDS_PROGRAM)
    wanted = [item._replace(offset=i) for i, item in enumerate(_items(count))]
    for codec in range(5):
        assert answers[codec] == " ".join(_java_form(record) for record in wanted)
        batch = bytes.fromhex(answers[5 + codec])
        records.verify_crc(batch)
        assert records.read_header(batch).codec == codec
        found = list(records.iter_records(batch))
        assert [_java_form(record) for record in found] == answers[codec].split(" ")
    assert bytes.fromhex(answers[5]) == ours[0], "uncompressed: the same bytes"


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_markers_have_javas_bytes(outcome: str) -> None:
    _need_java()
    (answer,) = java_cases.java_answers([f"marker {outcome} 9"], java_cases.RECORDS_PROGRAM)
    ours = records.build_marker(
        producer_id=42,
        producer_epoch=5,
        commit=outcome == "commit",
        coordinator_epoch=9,
        timestamp_ms=1_700_000_000_000,
        base_offset=7,
        leader_epoch=3,
    )
    assert ours.hex() == answer
