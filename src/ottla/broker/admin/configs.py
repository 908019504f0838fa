"""Reads and alters the configs of topics (ZkAdminManager.alterConfigs, ConfigHelper); those of
brokers are altered in `dynamic_config.py`.

Any broker may write them: the config znode, and with it a change notification that makes every
broker read it again (`config_changes.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.broker.admin.automatic_topics import is_legal
from ottla.broker.admin.topics import as_api_error, duplicates
from ottla.config.definitions import ConfigType, to_text
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata import znodes
from ottla.metadata.store import (
    ANY_VERSION,
    Check,
    Create,
    CreateMode,
    NoNodeError,
    OpResult,
    RuntimeInconsistencyError,
    SetData,
)
from ottla.security import rights as auth
from ottla.topics.configs import topic_definitions, validate_topic_configs

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.broker.context.services import BrokerServices
    from ottla.config.definitions import ConfigDef
    from ottla.metadata.store import MetadataStore


# A result of either request: the two classes have the same fields.
_Result = TypeVar("_Result", bound=Any)


class ResourceType(IntEnum):
    """ConfigResource.Type."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class Operation(IntEnum):
    """AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One entry of an IncrementalAlterConfigs request."""

    operation: int
    name: str
    value: str | None


def missing_config_right(
    ctx: RequestContext, operation: auth.Operation, resource_type: int, name: str
) -> ErrorCode:
    """NONE where the principal may; brokers and their loggers are a matter of the cluster."""
    if resource_type == ResourceType.TOPIC:
        if not auth.allowed(ctx, operation, auth.ResourceType.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE
    of_broker = resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    if of_broker and not auth.allowed_on_cluster(ctx, operation):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.NONE


async def read_topic_config(store: MetadataStore, topic: str) -> dict[str, str]:
    """The topic's own configs, empty where it has no config znode."""
    return await read_config(store, znodes.ConfigZnode.TOPICS, topic)


async def read_config(store: MetadataStore, entity_type: str, entity: str) -> dict[str, str]:
    """An entity's own configs, empty where it has no config znode."""
    try:
        data, _ = await store.get(znodes.ConfigZnode.path(entity_type, entity))
    except NoNodeError:
        return {}
    return znodes.ConfigZnode.decode(data)


async def replace_topic_config(
    services: BrokerServices,
    topic: str,
    entries: Sequence[tuple[str, str | None]],
    *,
    validate_only: bool,
) -> None:
    """AlterConfigs: what is not named goes back to its default."""
    await _store_config(services, topic, check_entries(entries), validate_only=validate_only)


def check_entries(entries: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """The entries of an AlterConfigs request; raises KafkaError for a null."""
    empty = [name for name, value in entries if value is None]
    if empty:
        raise invalid_request(f"Null value not supported for : {','.join(empty)}")
    return {name: value for name, value in entries if value is not None}


async def change_topic_config(
    services: BrokerServices, topic: str, changes: Sequence[Change], *, validate_only: bool
) -> None:
    """IncrementalAlterConfigs (KIP-339): only what is named changes."""
    check_changes(changes)
    configs = await read_topic_config(services.store, topic) if is_legal(topic) else {}
    await _store_config(
        services, topic, apply_changes(configs, changes), validate_only=validate_only
    )


def check_changes(changes: Sequence[Change]) -> None:
    """Raises KafkaError for a name that comes twice and for a null where a value is needed."""
    twice = duplicates([change.name for change in changes])
    if twice:
        raise invalid_request(f"Error due to duplicate config keys : {','.join(sorted(twice))}")
    empty = [
        f"{_operation_name(change.operation)}:{change.name}"
        for change in changes
        if change.value is None and change.operation != Operation.DELETE
    ]
    if empty:
        raise invalid_request(f"Null value not supported for : {','.join(empty)}")


def _topic_definition(name: str) -> ConfigDef:
    definition = topic_definitions().get(name)
    if definition is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    return definition


def apply_changes(
    configs: Mapping[str, str],
    changes: Sequence[Change],
    definition_of: Callable[[str], ConfigDef] = _topic_definition,
) -> dict[str, str]:
    """The configs after the changes (ZkAdminManager.prepareIncrementalConfigs)."""
    changed = dict(configs)
    for operation, name, value in changes:
        if operation == Operation.DELETE:
            changed.pop(name, None)
        elif operation == Operation.SET:
            changed[name] = value or ""
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            change = Change(operation, name, value)
            changed[name] = _list_change(changed.get(name), change, definition_of(name))
        else:
            raise invalid_request(f"Unknown operation type {operation} for config key: {name}")
    return changed


def _list_change(present: str | None, change: Change, definition: ConfigDef) -> str:
    operation = Operation(change.operation)
    if definition.type is not ConfigType.LIST:
        verb = operation.name.lower()
        raise invalid_request(f"Config value {verb} is not allowed for config key: {change.name}")
    if present is None:
        present = to_text(definition.default) or ""
    items = present.split(",")
    given = (change.value or "").split(",")
    if operation is Operation.APPEND:
        items += given
    else:
        for item in given:
            if item in items:
                items.remove(item)
    return ",".join(items)


async def _store_config(
    services: BrokerServices, topic: str, configs: Mapping[str, str], *, validate_only: bool
) -> None:
    if not services.metadata_cache.contains_topic(topic):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist."
        )
    try:
        validate_topic_configs(configs)
    except KafkaError as error:
        if error.message is None or not error.message.startswith("Invalid value "):
            raise
        # Kafka tells a bad value (ConfigException) from an unknown name here, unlike at creation.
        raise invalid_request(
            "Invalid config value for resource "
            f"ConfigResource(type=TOPIC, name='{topic}'): {error.message}"
        ) from None
    if validate_only:
        return
    # The metadata cache may not know yet that the topic is gone, and nobody would remove a config
    # that is written after its topic's end: the topic has to be there in the same moment.
    is_there = Check(znodes.TopicZnode.path(topic), ANY_VERSION)
    results = await store_with_note(
        services.store, znodes.ConfigZnode.TOPICS, topic, configs, condition=is_there
    )
    if isinstance(results[0].error, NoNodeError):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist."
        )
    raise_failure(results)


async def store_with_note(
    store: MetadataStore,
    kind: str,
    entity: str,
    configs: Mapping[str, str],
    *,
    condition: Check | None = None,
) -> list[OpResult]:
    """Sets or creates a config znode and leaves the note that has every broker read it again.

    Kafka does so in two steps; a writer that loses its session between them leaves a config that
    nobody hears of. Here it is one. The result of the `condition` comes first.
    """
    path, data = znodes.ConfigZnode.path(kind, entity), znodes.ConfigZnode.encode(configs)
    change = znodes.ConfigChangeZnode.encode(znodes.ConfigChange(f"{kind}/{entity}"))
    note = Create(znodes.ConfigChangeZnode.path(), change, CreateMode.PERSISTENT_SEQUENTIAL)
    conditions = [] if condition is None else [condition]
    results: list[OpResult] = []
    for write in (SetData(path, data), Create(path, data)):
        results = await store.multi([*conditions, write, note])
        if not isinstance(results[len(conditions)].error, NoNodeError):
            break
    return results


def raise_failure(results: list[OpResult]) -> None:
    """The cause of a multi that was not done."""
    for result in results:
        if result.error is not None and not isinstance(result.error, RuntimeInconsistencyError):
            raise result.error


async def alter_each(
    ctx: RequestContext,
    resources: Iterable[Any],
    result_type: Callable[..., _Result],
    alter: Callable[[Any], Awaitable[None]],
) -> list[_Result]:
    """Alters each resource that the client may alter; what fails is told in its own result."""
    results = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        result = result_type(error_message=None, resource_type=kind, resource_name=name)
        try:
            missing = missing_config_right(ctx, auth.Operation.ALTER_CONFIGS, kind, name)
            if missing is not ErrorCode.NONE:
                raise KafkaError(missing)
            await alter(resource)
        except KafkaError as error:
            result.error_code, result.error_message = as_api_error(error)
        results.append(result)
    return results


def unsupported_resource(resource_type: int) -> KafkaError:
    """Why a resource that is neither a topic nor a broker cannot be altered."""
    known = resource_type in ResourceType._value2member_map_
    kind = ResourceType(resource_type) if known else ResourceType.UNKNOWN
    return invalid_request(f"Unexpected resource type {kind.name}")


def _path(topic: str) -> str:
    return znodes.ConfigZnode.path(znodes.ConfigZnode.TOPICS, topic)


def _operation_name(operation: int) -> str:
    return Operation(operation).name if operation in list(Operation) else str(operation)


def invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
