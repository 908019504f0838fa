from __future__ import annotations

import pytest

from ottla.config.definitions import ConfigError
from ottla.console.web.failures import from_exception, from_validation, invalid
from ottla.errors import ErrorCode, KafkaError, OttlaError


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        (KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 403, "TOPIC_AUTHORIZATION_FAILED"),
        (KafkaError(ErrorCode.INVALID_PARTITIONS, "too few"), 400, "INVALID_PARTITIONS"),
        (ConfigError("no such config"), 400, "INVALID_CONFIG"),
        (OttlaError("gone"), 502, "UNAVAILABLE"),
        (TimeoutError(), 504, "REQUEST_TIMED_OUT"),
        (ConnectionRefusedError("refused"), 503, "UNREACHABLE"),
        (invalid("no", "name"), 400, "INVALID_REQUEST"),
    ],
)
def test_every_failure_has_a_status_and_a_name(error: Exception, status: int, code: str) -> None:
    found = from_exception(error)
    assert found is not None
    assert (found.status, found.code) == (status, code)
    assert str(found)


def test_a_mistake_of_our_own_is_not_told() -> None:
    assert from_exception(ValueError("/home/secret")) is None


def test_the_field_that_is_wrong() -> None:
    found = from_validation("Expected `int`, got `str` - at `$.partitions`")
    assert found.to_json() == {
        "error": {
            "code": "INVALID_REQUEST",
            "message": "Expected int, got str",
            "field": "partitions",
        }
    }
    assert from_validation("Expected `str`, got `int` - at `$.configs[...]`").field == "configs"
    assert from_validation("Expected `object`, got `array`").field is None
