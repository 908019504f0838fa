"""kio as the oracle: every API and version that both know, byte for byte both ways."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import pkgutil
import typing
import uuid
from typing import Any

import kio.schema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from ottla.wire import messages
from ottla.wire.codec import Message
from ottla.wire.schema import Field, snake_case
from tests.support.conformance.wire_strategies import messages_of

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
# Per message and version: there are more than 450 of them.
_CAMPAIGN_EXAMPLES = 50
# kio follows Kafka 4, where some fields got another name for the same bytes,
_RENAMED = {
    "candidate_epoch": "replica_epoch",
    "candidate_id": "replica_id",
    "candidate_directory_id": "replica_directory_id",
}
# and where a message that was unstable in 3.9 got another field.
_CHANGED = {"ReadShareGroupStateSummaryResponse"}


def _cases() -> list[Any]:
    folders = {module.name for module in pkgutil.iter_modules(kio.schema.__path__)}
    cases = []
    names = [(n, s) for n in messages.api_names().values() for s in ("request", "response")]
    names += [("ConsumerProtocolSubscription", "data"), ("ConsumerProtocolAssignment", "data")]
    names += [("RequestHeader", "header"), ("ResponseHeader", "header")]
    for name, suffix in names:
        full = name + suffix.capitalize() if suffix in ("request", "response") else name
        message_class = getattr(messages, full)
        if snake_case(name) not in folders or full in _CHANGED:
            continue
        package = importlib.import_module(f"kio.schema.{snake_case(name)}")
        known = {module.name for module in pkgutil.iter_modules(package.__path__)}
        first, last = message_class.SCHEMA.versions
        for version in range(first, last + 1):
            if f"v{version}" in known:
                path = f"kio.schema.{snake_case(name)}.v{version}.{suffix}"
                cases.append(pytest.param(full, version, path, id=f"{full}-v{version}"))
    return cases


def _kio_type(field: dataclasses.Field[Any]) -> tuple[Any, str | None]:
    """The entity class below tuples and optionals, and kio's name of a primitive."""
    kind = field.type
    while typing.get_args(kind):
        kind = next(a for a in typing.get_args(kind) if a not in (type(None), Ellipsis))
    return kind, field.metadata.get("kafka_type")


def _kio_fields(
    message_class: type[Message], version: int, entity: type
) -> dict[tuple[str, str], dataclasses.Field[Any]]:
    """(struct, field) of ours -> kio's field, paired by their order in the schema."""
    pairs = {}
    schema = message_class.SCHEMA

    def walk(name: str, fields: tuple[Field, ...], kio_class: type) -> None:
        ours = [field for field in fields if version in field.versions]
        theirs = dataclasses.fields(kio_class)
        assert len(ours) == len(theirs), (name, ours, theirs)
        for field, other in zip(ours, theirs, strict=True):
            # kio leaves units out (max_wait for max_wait_ms) and avoids Python's names (type_).
            ours_name = _RENAMED.get(field.name, field.name)
            if not ours_name.startswith(other.name.strip("_")):
                assert field.name.replace("_", "") == other.name.replace("_", "")
            pairs[name, field.name] = other
            if field.element in schema.structs:
                walk(field.element, schema.structs[field.element].fields, _kio_type(other)[0])

    walk(message_class.__name__, schema.fields, entity)
    return pairs


def _narrowed(kafka_type: str | None) -> st.SearchStrategy[Any] | None:
    match kafka_type:
        case "error_code":
            return st.sampled_from(sorted(int(code.value) for code in ErrorCode))
        case "timedelta_i64":
            return st.integers(-(10**13), 10**13)
        case "datetime_i64":
            return st.integers(0, 253402300799000)
    return None


def _plain(value: Any) -> Any:
    """kio's values as the plain ones of our messages."""
    match value:
        case ErrorCode():
            return int(value.value)
        case datetime.timedelta():
            return value // _MILLISECOND
        case datetime.datetime():
            # kio goes by way of floats, which far from now are some microseconds off.
            return round((value - _EPOCH) / _MILLISECOND)
        case uuid.UUID():
            return value.bytes
        case tuple():
            return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return value


def _flat(value: Any, version: int, schema_fields: Any, structs: Any) -> Any:
    """Our message in the same nested-list form."""
    result = []
    for field in schema_fields:
        if version not in field.versions:
            continue
        item = getattr(value, field.name)
        if field.element in structs and item is not None:
            inner = structs[field.element].fields
            if field.is_array:
                item = [_flat(one, version, inner, structs) for one in item]
            else:
                item = _flat(item, version, inner, structs)
        elif field.element == "uuid":
            item = _uuid_form(item)
        elif isinstance(item, memoryview):
            item = bytes(item)
        result.append(item)
    return result


def _uuid_form(item: Any) -> Any:
    # kio shows the zero id as None.
    if isinstance(item, list):
        return [_uuid_form(one) for one in item]
    return None if item == bytes(16) else item


@pytest.mark.hypothesis  # which sees decorated tests only, not what is drawn inside of one
@pytest.mark.parametrize(("name", "version", "path"), _cases())
def test_same_bytes_as_kio(name: str, version: int, path: str) -> None:
    message_class: type[Message] = getattr(messages, name)
    entity: Any = getattr(importlib.import_module(path), name)
    pairs = _kio_fields(message_class, version, entity)

    def narrow(struct: str, field: Field) -> st.SearchStrategy[Any] | None:
        return _narrowed(_kio_type(pairs[struct, field.name])[1])

    read, write = entity_reader(entity), entity_writer(entity)
    schema = message_class.SCHEMA

    @settings(
        max_examples=5 if settings().derandomize else _CAMPAIGN_EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(messages_of(message_class, version, narrow))
    def check(message: Message) -> None:
        raw = message.encode(version)
        theirs, size = read(raw, 0)
        assert size == len(raw)
        assert _plain(theirs) == _flat(message, version, schema.fields, schema.structs)
        out = io.BytesIO()
        write(out, theirs)
        assert out.getvalue() == raw
        ours, end = message_class.decode(raw, version)
        assert end == len(raw)
        assert ours == message

    check()


def test_kio_is_compared_with_most_versions() -> None:
    compared = {(case.values[0], case.values[1]) for case in _cases()}
    assert len(compared) > 450
    assert {("ProduceRequest", 9), ("FetchResponse", 17), ("MetadataResponse", 12)} <= compared
