"""What Java calls an error."""

from __future__ import annotations

import pytest

from ottla.cli.java_errors import java_exception
from ottla.errors import ErrorCode


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "UnknownTopicOrPartitionException"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "InvalidTopicException"),
        (ErrorCode.REQUEST_TIMED_OUT, "TimeoutException"),
        (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "PreferredLeaderNotAvailableException"),
    ],
)
def test_errors_have_javas_names(code: ErrorCode, name: str) -> None:
    assert java_exception(code) == name
