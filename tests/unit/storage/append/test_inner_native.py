"""What native code says of every lie is what pure Python says; Apache Kafka judges the one that is
installed in tests/peers/test_batch_lies_kafka.py."""

from __future__ import annotations

from typing import Any

from ottla.errors import KafkaError
from ottla.storage.append.checks import Batch
from ottla.storage.append.inner import examined, holds_quickly
from ottla.storage.append.record_rules import RecordsRejected
from ottla.storage.append.steps import finished
from ottla.types import TopicPartition
from ottla.wire import records
from ottla.wire.primitives import WireError
from ottla.wire.records import HEADER
from tests.support.native import FORMS, in_force, native_code
from tests.support.peers.batch_lies import NOW_MS, TOPICS, Lie, all_lies
from tests.support.storage.log_helpers import settings

_SETTINGS = {
    "plain": settings(),
    "compacted": settings(cleanup_policy=frozenset({"compact"})),
    "bounded": settings(message_timestamp_difference_max_ms=1000),
    "append-time": settings(message_timestamp_type="LogAppendTime"),
    "uncompressed": settings(compression_type="uncompressed"),
    "gzip": settings(compression_type="gzip"),
}


def _outcome(lie: Lie) -> tuple[Any, ...]:
    """The batch as it is to be stored, or the whole of the error; and what the short way thinks."""
    view = memoryview(bytearray(lie.batch))
    fields = HEADER.unpack_from(view)
    is_quick = 0 <= fields[5] <= 4 and holds_quickly(view, fields, 5000)
    try:
        batch = Batch(view, records.read_header(view))
        stored = finished(examined(TopicPartition("t", 0), batch, _SETTINGS[lie.topic], NOW_MS))
    except RecordsRejected as rejected:
        return is_quick, rejected.code, str(rejected), rejected.record_errors
    except (KafkaError, WireError) as error:
        return is_quick, type(error), str(error), getattr(error, "code", None)
    return is_quick, bytes(stored.view), stored.header


def test_every_lie_comes_to_the_same_end() -> None:
    native_code()
    assert _SETTINGS.keys() == TOPICS.keys()
    found = []
    # Made once: gzip has the time in it.
    lies = all_lies()
    for form in FORMS:
        with in_force(form):
            found.append({(lie.name, lie.topic): _outcome(lie) for lie in lies})
    assert len(found[0]) > 700
    assert {outcome[0] for outcome in found[0].values()} == {True, False}
    different = {
        name: (it, found[1][name]) for name, it in found[0].items() if it != found[1][name]
    }
    assert different == {}
