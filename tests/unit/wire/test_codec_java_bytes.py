"""Bytes made by Kafka 3.9's Java classes for the requests that no Python library knows any more.

The fixture is written by tests/support/peers/wire_java_cases.py: message, version, JSON, bytes.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ottla.wire import messages
from ottla.wire.codec import Message
from ottla.wire.schema import Field

_FIXTURE = Path(__file__).with_name("java_bytes.tsv")
_ZOOKEEPER_ERA = {"LeaderAndIsr": 7, "StopReplica": 4, "UpdateMetadata": 8, "ControlledShutdown": 3}


def _rows() -> list[tuple[str, int, Any, bytes]]:
    rows = []
    for line in _FIXTURE.read_text(encoding="utf-8").splitlines():
        name, version, text, raw = line.split("\t")
        rows.append((name, int(version), json.loads(text), bytes.fromhex(raw)))
    return rows


def _from_json(form: Any, kind: type[Message], target: Any, fields: tuple[Field, ...]) -> Any:
    values = {}
    for field in fields:
        name = field.kafka_name[0].lower() + field.kafka_name[1:]
        if name in form:
            item = form[name]
            many = isinstance(item, list)
            made = [_item(one, kind, field) for one in (item if many else [item])]
            values[field.name] = made if many else made[0]
    return target(**values)


def _item(item: Any, kind: type[Message], field: Field) -> Any:
    struct = kind.SCHEMA.structs.get(field.element)
    if item is None:
        return None
    if struct is not None:
        return _from_json(item, kind, getattr(kind, struct.name), struct.fields)
    if field.element == "uuid":
        return base64.urlsafe_b64decode(item + "==")
    if field.element in ("bytes", "records"):
        return base64.b64decode(item)
    return item


@pytest.mark.parametrize("name", sorted({row[0] for row in _rows()}))
def test_bytes_are_those_of_kafkas_java_classes(name: str) -> None:
    kind: type[Message] = getattr(messages, name)
    checked = 0
    for row_name, version, form, raw in _rows():
        if row_name == name:
            message = _from_json(form, kind, kind, kind.SCHEMA.fields)
            assert message.encode(version) == raw
            assert kind.decode(raw, version) == (message, len(raw))
            checked += 1
    assert checked > 0


def test_the_fixture_covers_every_version_of_the_zookeeper_era_requests() -> None:
    covered = {(name, version) for name, version, _, _ in _rows()}
    for name, last in _ZOOKEEPER_ERA.items():
        for suffix in ("Request", "Response"):
            assert {v for n, v in covered if n == name + suffix} == set(range(last + 1))
