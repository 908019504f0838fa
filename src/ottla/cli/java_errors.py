"""The names of Java's exceptions: Kafka's tools print them."""

from __future__ import annotations

from ottla.errors import ErrorCode

# Errors whose Java class is not named after the code.
_JAVA_NAMES = {
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
}


def java_exception(code: ErrorCode) -> str:
    """The class that Kafka's client throws for a code, as its tools print it."""
    if code in _JAVA_NAMES:
        return _JAVA_NAMES[code]
    name = "".join(word.capitalize() for word in code.name.split("_"))
    return name if name.endswith("Exception") else f"{name}Exception"
