"""Messages for Kafka's Java classes to encode: the cases, their JSON form, and the run of Java.

`python -m tests.support.peers.wire_java_cases` (with the venv's Python) writes the fixture of the
unit test anew: requests of ZooKeeper mode, and the versions that Kafka 4 and kio have dropped.
"""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.testing.java import missing_reason
from ottla.testing.peers import java, peer_jars
from ottla.wire import messages
from ottla.wire.codec import Message
from ottla.wire.schema import Field

PROGRAM = Path(__file__).parents[2] / "peers" / "wire_java" / "WireBytes.java"
READ_PROGRAM = PROGRAM.with_name("WireRead.java")
RECORDS_PROGRAM = PROGRAM.with_name("WireRecords.java")
# For the jars of 2.8.2, whose conversions are matched; Kafka 4 has dropped message sets.
MESSAGE_SETS_PROGRAM = PROGRAM.with_name("WireMessageSets.java")
FIXTURE = Path(__file__).parents[2] / "unit" / "wire" / "java_bytes.tsv"
# Jackson (for Kafka's JSON converters) and the compression codecs come with the broker's jars.
JAR_SETS = ("kafka-clients-3.9", "kafka-2.8.2")
ZOOKEEPER_ERA = ("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown")
# Their schemas are written by hand: no client jar has them, a broker's jar has the classes.
COORDINATOR_RECORDS = (
    "OffsetCommitKey",
    "OffsetCommitValue",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "TransactionLogKey",
    "TransactionLogValue",
)
# (API, below this version): what kio has no schema for.
DROPPED_IN_4 = {
    "Produce": 3,
    "Fetch": 4,
    "ListOffsets": 1,
    "OffsetCommit": 2,
    "OffsetFetch": 1,
    "JoinGroup": 2,
    "CreateTopics": 2,
    "DeleteTopics": 1,
    "OffsetForLeaderEpoch": 2,
    "DescribeAcls": 1,
    "CreateAcls": 1,
    "DeleteAcls": 1,
    "DescribeConfigs": 1,
    "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
    "DescribeDelegationToken": 1,
}
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}

Case = tuple[type[Message], int, Message]


class _Maker:
    """Seeded messages; the first of each version has only defaults, the second is large."""

    def __init__(self, kind: type[Message], version: int, seed: int) -> None:
        self._kind = kind
        self._version = version
        self._random = random.Random(f"{kind.__name__}-{version}-{seed}")
        self._items = (0, 3, 1)[seed % 3]
        self._plain = seed == 0

    def message(self) -> Message:
        return self._fill(self._kind, self._kind.SCHEMA.fields)

    def _fill(self, target: Any, fields: tuple[Field, ...]) -> Any:
        values = {f.name: self._value(f) for f in fields if self._version in f.versions}
        return target(**{name: v for name, v in values.items() if v is not ...})

    def _value(self, field: Field) -> Any:
        if self._version in field.nullable and self._random.random() < 0.3:
            return None
        if self._plain and field.default != "null":
            return ...
        if field.is_array:
            # Kafka keeps some arrays as sets: equal elements would be dropped.
            made = [self._one(field) for _ in range(self._items)]
            return [item for at, item in enumerate(made) if item not in made[:at]]
        return self._one(field)

    def _one(self, field: Field) -> Any:
        source, kind = self._random, field.element
        if kind in self._kind.SCHEMA.structs:
            return self._fill(getattr(self._kind, kind), self._kind.SCHEMA.structs[kind].fields)
        if kind in _BITS:
            bound = 1 << (_BITS[kind] - 1)
            return source.choice([source.randrange(-bound, bound), -1, 0, bound - 1, -bound])
        match kind:
            case "uint16":
                return source.choice([0, 65535, 9092])
            case "bool":
                return source.random() < 0.5
            case "float64":
                return source.choice([0.0, -1.5, 1e300])
            case "uuid":
                return source.choice([bytes(16), source.randbytes(16)])
            case "string":
                return source.choice(["", "topic-1", "Ämter", "名前", "x" * 200])
        # Records are opaque, but Kafka's class wants a whole batch or nothing.
        return b"" if kind == "records" else source.choice([b"", b"\x00\xff", b"b" * 130])


def cases_of(name: str, seeds: int, below: int | None = None) -> Iterator[Case]:
    kind: type[Message] = getattr(messages, name)
    first, last = kind.SCHEMA.versions
    for version in range(first, last + 1 if below is None else below):
        for seed in range(seeds):
            yield kind, version, _Maker(kind, version, seed).message()


def fixture_cases() -> Iterator[Case]:
    for suffix in ("Request", "Response"):
        for name in ZOOKEEPER_ERA:
            yield from cases_of(name + suffix, 3)
        for name, below in DROPPED_IN_4.items():
            yield from cases_of(name + suffix, 2, below)


def all_cases() -> Iterator[Case]:
    for name in messages.api_names().values():
        for suffix in ("Request", "Response"):
            yield from cases_of(name + suffix, 3)
    for name in ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"):
        yield from cases_of(name, 3)
    for name in ("RequestHeader", "ResponseHeader", "DefaultPrincipalData"):
        yield from cases_of(name, 3)


def coordinator_cases() -> Iterator[Case]:
    for name in COORDINATOR_RECORDS:
        yield from cases_of(name, 6)


def to_json(value: Any, fields: tuple[Field, ...], kind: type[Message], version: int) -> Any:
    """A message in the JSON form of Kafka's converters."""
    result = {}
    for field in fields:
        if version in field.versions:
            name = field.kafka_name[0].lower() + field.kafka_name[1:]
            item = getattr(value, field.name)
            if isinstance(item, list):
                result[name] = [_json_item(one, field, kind, version) for one in item]
            else:
                result[name] = _json_item(item, field, kind, version)
    return result


def _json_item(item: Any, field: Field, kind: type[Message], version: int) -> Any:
    if item is None:
        return None
    structs = kind.SCHEMA.structs
    if field.element in structs:
        return to_json(item, structs[field.element].fields, kind, version)
    if field.element == "uuid":
        return base64.urlsafe_b64encode(item).rstrip(b"=").decode()
    if field.element in ("bytes", "records"):
        return base64.b64encode(item).decode()
    return item


def to_text(value: Any, fields: tuple[Field, ...], kind: type[Message]) -> str:
    """What Kafka's classes print: every field, also those that the version lacks."""
    parts = []
    for field in fields:
        name = field.kafka_name[0].lower() + field.kafka_name[1:]
        item = getattr(value, field.name)
        if isinstance(item, list):
            text = "[" + ", ".join(_text_item(one, field, kind) for one in item) + "]"
        else:
            text = _text_item(item, field, kind)
        parts.append(f"{name}={text}")
    own_name = type(value).__name__
    return f"{own_name}({', '.join(parts)})"


def _text_item(item: Any, field: Field, kind: type[Message]) -> str:
    structs = kind.SCHEMA.structs
    if item is None:
        return "null"
    if field.element in structs:
        return to_text(item, structs[field.element].fields, kind)
    if field.element == "bytes":
        return str([byte - 256 if byte > 127 else byte for byte in item])
    return f"'{item}'" if field.element == "string" else str(item)


def case_line(case: Case) -> str:
    kind, version, message = case
    form = to_json(message, kind.SCHEMA.fields, kind, version)
    return f"{kind.__name__}\t{version}\t{json.dumps(form, ensure_ascii=False)}"


def missing() -> str | None:
    return missing_reason(*JAR_SETS)


def _client_jars() -> list[Path]:
    wanted = ("jackson-", "lz4-", "snappy-", "zstd-")
    helpers = [jar for jar in peer_jars(JAR_SETS[1]) or [] if jar.name.startswith(wanted)]
    return [*(peer_jars(JAR_SETS[0]) or []), *helpers]


def java_answers(
    lines: list[str], program: Path = PROGRAM, jars: list[Path] | None = None
) -> list[str]:
    """What a program in wire_java answers to each line; with the jars of 3.9 unless told."""
    path = os.pathsep.join(str(jar) for jar in jars or _client_jars())
    run = subprocess.run(
        [str(java()), "-Xmx256m", "-XX:+UseSerialGC", "-cp", path, str(program)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    if run.returncode != 0:
        raise AssertionError(run.stderr[-2000:])
    return run.stdout.splitlines()


def write_fixture() -> None:
    lines = [case_line(case) for case in fixture_cases()]
    answers = java_answers(lines)
    rows = []
    for line, answer in zip(lines, answers, strict=True):
        if not answer.startswith("ok "):
            raise SystemExit(f"{line}: {answer}")
        rows.append(f"{line}\t{answer.removeprefix('ok ')}")
    FIXTURE.write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_fixture()
