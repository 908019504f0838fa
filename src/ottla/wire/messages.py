"""Every message of the protocol as a class, made on first access.

`messages.MetadataRequest` reads its schema file and builds the class; the types are in the
generated stub `messages.pyi`.
"""

from __future__ import annotations

from functools import lru_cache

from ottla.wire.codec import Message, UnsupportedVersion, build_message_class
from ottla.wire.schema import load_api_names, load_message

# Ottla's own calls, which Apache Kafka does not know. Keys 20000 to 20099 are theirs (ADR 41).
OWN_APIS = {
    20000: "DescribeStrayLogs",
    20001: "BrokerView",
    20002: "ControllerView",
    20003: "DescribeDeletedTopics",
    20004: "UndeleteTopics",
    20005: "PurgeDeletedTopics",
    20006: "RenameTopics",
    20007: "CarryOffsets",
    20008: "BeginResize",
    20009: "DescribeResize",
    20010: "FenceResize",
    20011: "FinishResize",
    20012: "AbortResize",
    20013: "ResizeOrder",
}


def __getattr__(name: str) -> type[Message]:
    schema = load_message(name)
    if schema is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message_class = globals()[name] = build_message_class(schema, __name__)
    return message_class


@lru_cache(maxsize=1)
def api_names() -> dict[int, str]:
    """API key -> Kafka's name, for every API of the schemas."""
    return load_api_names()


def request_class(api_key: int) -> type[Message]:
    """The request class of an API; UnsupportedVersion if there is no such API."""
    return _class_of(api_key, "Request")


def response_class(api_key: int) -> type[Message]:
    """The response class of an API; UnsupportedVersion if there is no such API."""
    return _class_of(api_key, "Response")


def _class_of(api_key: int, suffix: str) -> type[Message]:
    name = api_names().get(api_key) or OWN_APIS.get(api_key)
    if name is None:
        raise UnsupportedVersion(f"no API has key {api_key}")
    known = globals().get(name + suffix)
    found: type[Message] = known if known is not None else __getattr__(name + suffix)
    return found
