"""Whatever a stranger sends, it gets a step: an answer, or a refusal that says why."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.requests.authentication import Authentication
from ottla.runtime import SystemClock
from ottla.security.sasl.mechanisms import SaslSettings, SaslUsers
from ottla.security.scram_users import ScramUserCache
from ottla.wire import framing
from ottla.wire import messages as m
from ottla.wire.codec import Message

USERS = {"alice": "secret"}


def _frame(message: Message, version: int) -> bytes:
    return b"".join(framing.encode_request(message, version, 7, "c"))[4:]


VERSIONS = m.ApiVersionsRequest(client_software_name="t", client_software_version="1")
GOOD = [
    _frame(VERSIONS, 3),
    _frame(m.SaslHandshakeRequest(mechanism="PLAIN"), 1),
    _frame(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2),
]
OTHERS = [
    _frame(m.SaslHandshakeRequest(mechanism="PLAIN"), 0),
    _frame(m.SaslHandshakeRequest(mechanism="OTHER"), 1),
    _frame(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 0),
    _frame(m.MetadataRequest(topics=None), 9),
    _frame(m.ProduceRequest(acks=0), 8),
    _frame(m.UpdateMetadataRequest(), 6),
    b"\0alice\0secret",
    b"",
]


def _drive(frames: Iterable[bytes]) -> Authentication:
    """Feeds frames until the connection would be closed or is through."""
    authentication = Authentication(
        SaslSettings(("PLAIN",), USERS), SaslUsers(ScramUserCache(), lambda: "nonce"), SystemClock()
    )
    for frame in frames:
        step = authentication.take(memoryview(bytearray(frame)))
        if step.refusal is not None or authentication.authenticated is not None:
            break
        assert step.chunks, "neither an answer nor a refusal"
    return authentication


def test_the_way_in() -> None:
    through = _drive(GOOD).authenticated
    assert through is not None and through.identity.principal == "User:alice"


_FRAMES = st.one_of(
    st.sampled_from(GOOD + OTHERS),
    st.binary(max_size=64),
    st.tuples(st.sampled_from(GOOD + OTHERS), st.integers(0, 40), st.integers(0, 255)).map(
        lambda t: t[0][: t[1]] + bytes([t[2]]) + t[0][t[1] + 1 :]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_FRAMES, max_size=6))
def test_any_order_and_any_bytes(frames: list[bytes]) -> None:
    through = _drive(frames).authenticated
    if through is not None:
        # Nobody gets in without showing the password.
        assert through.identity.principal == "User:alice"
        assert any(b"\0alice\0secret" in frame for frame in frames)
