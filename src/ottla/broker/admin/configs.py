"""What altering the configs of topics and of brokers has in common (ZkAdminManager, ConfigHelper):
rights, entries and changes of requests, the config znodes.

Any broker may write a config znode, and with it a change notification that makes every broker read
it again (`config_changes.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.bounds import batches
from ottla.broker.admin.topics import as_api_error, duplicates
from ottla.config.definitions import ConfigType, to_text
from ottla.config.resources import ConfigOperation, ResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata import znodes
from ottla.metadata.store import (
    Check,
    Create,
    CreateMode,
    NoNodeError,
    OpResult,
    RuntimeInconsistencyError,
    SetData,
)
from ottla.security import rights
from ottla.wire.primitives import MAX_STRING_BYTES

if TYPE_CHECKING:
    from ottla.config.definitions import ConfigDef
    from ottla.metadata.store import MetadataStore


# A result of either request: the two classes have the same fields.
_Result = TypeVar("_Result", bound=Any)


class Change(NamedTuple):
    """One entry of an IncrementalAlterConfigs request."""

    operation: int
    name: str
    value: str | None


def missing_config_right(
    requester: rights.Requester, operation: rights.Operation, resource_type: int, name: str
) -> ErrorCode:
    """NONE where the principal may; brokers and their loggers are a matter of the cluster."""
    if resource_type == ResourceType.TOPIC:
        if not rights.allowed(requester, operation, rights.ResourceType.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE
    of_broker = resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    if of_broker and not rights.allowed_on_cluster(requester, operation):
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


def check_entries(entries: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """The entries of an AlterConfigs request; raises KafkaError for a null."""
    empty = [name for name, value in entries if value is None]
    if empty:
        raise invalid_request(f"Null value not supported for : {','.join(empty)}")
    return {name: value for name, value in entries if value is not None}


def check_changes(changes: Sequence[Change]) -> None:
    """Raises KafkaError for a name that comes twice and for a null where a value is needed."""
    twice = duplicates([change.name for change in changes])
    if twice:
        raise invalid_request(f"Error due to duplicate config keys : {','.join(sorted(twice))}")
    empty = [
        f"{_operation_name(change.operation)}:{change.name}"
        for change in changes
        if change.value is None and change.operation != ConfigOperation.DELETE
    ]
    if empty:
        raise invalid_request(f"Null value not supported for : {','.join(empty)}")


def apply_changes(
    configs: Mapping[str, str],
    changes: Sequence[Change],
    definition_of: Callable[[str], ConfigDef],
) -> dict[str, str]:
    """The configs after the changes (ZkAdminManager.prepareIncrementalConfigs)."""
    changed = dict(configs)
    for operation, name, value in changes:
        if operation == ConfigOperation.DELETE:
            changed.pop(name, None)
        elif operation == ConfigOperation.SET:
            changed[name] = value or ""
        elif operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            change = Change(operation, name, value)
            changed[name] = _list_change(changed.get(name), change, definition_of(name))
        else:
            raise invalid_request(f"Unknown operation type {operation} for config key: {name}")
    return changed


def _list_change(present: str | None, change: Change, definition: ConfigDef) -> str:
    operation = ConfigOperation(change.operation)
    if definition.type is not ConfigType.LIST:
        verb = operation.name.lower()
        raise invalid_request(f"Config value {verb} is not allowed for config key: {change.name}")
    if present is None:
        present = to_text(definition.default) or ""
    items = present.split(",")
    given = (change.value or "").split(",")
    if operation is ConfigOperation.APPEND:
        items += given
    else:
        # Each takes away the first that is like it, in one pass: both lists may be long.
        left = Counter(given)
        items = [item for item in items if not _take(left, item)]
    return ",".join(items)


def _take(left: Counter[str], item: str) -> bool:
    if not left[item]:
        return False
    left[item] -= 1
    return True


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
    _check_size(configs, data)
    change = znodes.ConfigChangeZnode.encode(znodes.ConfigChange(f"{kind}/{entity}"))
    note = Create(znodes.ConfigChangeZnode.path(), change, CreateMode.PERSISTENT_SEQUENTIAL)
    conditions = [] if condition is None else [condition]
    results: list[OpResult] = []
    for write in (SetData(path, data), Create(path, data)):
        results = await store.multi([*conditions, write, note])
        if not isinstance(results[len(conditions)].error, NoNodeError):
            break
    return results


def _check_size(configs: Mapping[str, str], data: bytes) -> None:
    """What can neither be stored nor be shown again is refused. List configs grow by every APPEND;
    Kafka 2.8 has no bound, and fails to answer DescribeConfigs from then on."""
    long = [name for name, value in configs.items() if len(value.encode()) > MAX_STRING_BYTES]
    if long:
        raise invalid_request(f"The value of {long[0]} is longer than {MAX_STRING_BYTES} bytes.")
    if len(data) > znodes.MAX_ZNODE_BYTES:
        raise invalid_request(
            f"The configs have {len(data)} bytes together, at most {znodes.MAX_ZNODE_BYTES}."
        )


def raise_failure(results: list[OpResult]) -> None:
    """The cause of a multi that was not done."""
    for result in results:
        if result.error is not None and not isinstance(result.error, RuntimeInconsistencyError):
            raise result.error


async def alter_each(
    requester: rights.Requester,
    resources: Sequence[Any],
    result_type: Callable[..., _Result],
    alter: Callable[[Any], Awaitable[None]],
) -> list[_Result]:
    """Alters each resource that the client may alter; what fails is told in its own result."""
    batches.check_changes(len(resources))
    results = []
    async for resource in requester.turns.each(resources):
        kind, name = resource.resource_type, resource.resource_name
        result = result_type(error_message=None, resource_type=kind, resource_name=name)
        try:
            missing = missing_config_right(requester, rights.Operation.ALTER_CONFIGS, kind, name)
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


def _operation_name(operation: int) -> str:
    return ConfigOperation(operation).name if operation in list(ConfigOperation) else str(operation)


def invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
