"""What members tell each other, and who gets which partitions."""

from __future__ import annotations

from ottla.client.groups.protocol import (
    Subscriber,
    assign_ranges,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.types import TopicPartition
from ottla.wire import messages as m

T, U = frozenset({"t"}), frozenset({"t", "u"})


def test_subscriptions() -> None:
    assert decode_subscription(encode_subscription(["t", "u"])) == U
    newest = m.ConsumerProtocolSubscription.MAX_VERSION
    message = m.ConsumerProtocolSubscription(topics=["t"], rack_id="r")
    data = message.encode(newest)
    assert decode_subscription(newest.to_bytes(2, "big") + data) == T
    assert decode_subscription((newest + 1).to_bytes(2, "big") + data + b"more") == T
    assert decode_subscription(b"") == decode_subscription(b"\0\0\xff") == frozenset()


def test_assignments() -> None:
    share = (TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1))
    assert decode_assignment(encode_assignment(reversed(share))) == share
    assert decode_assignment(encode_assignment(())) == ()
    assert decode_assignment(b"") == decode_assignment(b"\0\0\xff") == ()


def shares(*subscribers: Subscriber, **counts: int) -> dict[str, str]:
    found = assign_ranges(subscribers, counts)
    return {
        member: " ".join(f"{tp.topic}{tp.partition}" for tp in found[member]) for member in found
    }


def test_ranges() -> None:
    a, b, c = Subscriber("a", U), Subscriber("b", U), Subscriber("c", T)
    assert shares(b, a, t=3, u=3) == {"a": "t0 t1 u0 u1", "b": "t2 u2"}
    assert shares(a, b, c, t=7, u=1) == {"a": "t0 t1 t2 u0", "b": "t3 t4", "c": "t5 t6"}
    assert shares(a, b, c, t=1) == {"a": "t0", "b": "", "c": ""}
    assert shares(a, t=0) == {"a": ""}
    assert shares(c, u=5) == {"c": ""}


def test_static_members_come_first_by_their_names() -> None:
    fixed = [Subscriber("z", T, "1"), Subscriber("y", T, "2")]
    assert shares(Subscriber("a", T), *reversed(fixed), t=3) == {"z": "t0", "y": "t1", "a": "t2"}
