"""What becomes of a request whose handler, and then whose error form, fails."""

from __future__ import annotations

import pytest

from ottla.broker.context.request import CloseConnection
from ottla.broker.requests import dispatch
from ottla.errors import ErrorCode, KafkaError
from ottla.wire import framing
from ottla.wire import messages as m


def test_an_error_that_cannot_be_said_ends_the_connection() -> None:
    """Otherwise the peer would wait for an answer for good."""
    topic = m.CreateTopicsRequest.CreatableTopic(name="t")
    request = m.CreateTopicsRequest(topics=[topic])
    frame = b"".join(framing.encode_request(request, 5, 1, None))[4:]
    call = dispatch.read(memoryview(frame))
    call.request.topics[0].name = "x" * 40_000  # more than any answer may carry
    with pytest.raises(CloseConnection, match="CreateTopics failed, and so did its error form"):
        dispatch.encode_whole(dispatch.encode_failure(call, KafkaError(ErrorCode.INVALID_REQUEST)))
