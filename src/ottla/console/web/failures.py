"""What went wrong, as an answer: `{"error": {"code", "message", "field"?}}` with an HTTP status."""

from __future__ import annotations

import re
from typing import Any

from ottla.config.definitions import ConfigError
from ottla.errors import ErrorCode, KafkaError, OttlaError

_STATUS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.REASSIGNMENT_IN_PROGRESS: 409,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
    ErrorCode.SASL_AUTHENTICATION_FAILED: 401,
    ErrorCode.UNSUPPORTED_VERSION: 501,
    ErrorCode.UNKNOWN_SERVER_ERROR: 502,
    ErrorCode.REQUEST_TIMED_OUT: 504,
    ErrorCode.LEADER_NOT_AVAILABLE: 503,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 503,
    ErrorCode.NETWORK_EXCEPTION: 503,
    ErrorCode.BROKER_NOT_AVAILABLE: 503,
}


class ApiError(OttlaError):
    """`code` is Kafka's name of the error, or a word of the console's own in the same form."""

    def __init__(self, status: int, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field

    def to_json(self) -> dict[str, Any]:
        told = {"code": self.code, "message": str(self)}
        return {"error": told if self.field is None else {**told, "field": self.field}}


def invalid(message: str, field: str | None = None) -> ApiError:
    return ApiError(400, "INVALID_REQUEST", message, field)


def not_found(message: str) -> ApiError:
    return ApiError(404, "NOT_FOUND", message)


def from_exception(error: Exception, field: str | None = None) -> ApiError | None:
    """None for a mistake of the console's own."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, KafkaError):
        return ApiError(_STATUS.get(error.code, 400), error.code.name, str(error), field)
    if isinstance(error, ConfigError):
        return ApiError(400, "INVALID_CONFIG", str(error), field)
    if isinstance(error, OttlaError):
        return ApiError(502, "UNAVAILABLE", str(error) or type(error).__name__, field)
    if isinstance(error, TimeoutError):
        return ApiError(504, "REQUEST_TIMED_OUT", "The cluster did not answer in time.", field)
    if isinstance(error, OSError):
        return ApiError(503, "UNREACHABLE", f"The cluster cannot be reached: {error}.", field)
    return None


def from_validation(text: str) -> ApiError:
    """msgspec's words: "Expected `int`, got `str` - at `$.partitions`"."""
    message, _, where = text.partition(" - at ")
    path = re.match(r"`\$\.?([A-Za-z_][A-Za-z_0-9]*)?", where)
    return invalid(message.replace("`", ""), path.group(1) if path else None)
