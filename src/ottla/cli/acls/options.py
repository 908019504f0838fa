"""What `ottla acls` was asked for, checked as kafka-acls does (AclCommandOptions), and the entries
that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ottla.errors import OttlaError
from ottla.metadata.acl_znodes import WILDCARD, stored_name
from ottla.security.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

ACTIONS = ("add", "remove", "list")
_NOT_WITH_LIST = (
    "producer", "consumer", "allow_host", "allow_principal", "deny_host", "deny_principal",
)  # fmt: skip
_INFERRED_BY_A_ROLE = ("operation", "deny_principal", "deny_host")
_CLUSTER = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
# Rights on these are never listed in answers (KIP-430), but can be given.
_OPERATIONS_OF: dict[ResourceType, tuple[Operation, ...]] = SUPPORTED_OPERATIONS | {
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
}
_PRODUCER_ON_TOPIC = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
_PRODUCER_ON_TRANSACTIONAL_ID = (Operation.WRITE, Operation.DESCRIBE)
_CONSUMER_ON_TOPIC = (Operation.READ, Operation.DESCRIBE)
_CONSUMER_ON_GROUP = (Operation.READ,)

# A resource, or what stands for several where the pattern type is ANY or MATCH.
Entries = Mapping[ResourcePattern, Sequence[AclEntry]]


class AclCommandError(OttlaError):
    """A request that fails before it reaches a broker."""


@dataclass(frozen=True, slots=True)
class AclOptions:
    """The flags of kafka-acls, empty or false where one was not given."""

    bootstrap_server: str | None = None
    command_config: Path | None = None
    output: str = "text"
    add: bool = False
    remove: bool = False
    list: bool = False
    topic: Sequence[str] = ()
    cluster: bool = False
    group: Sequence[str] = ()
    transactional_id: Sequence[str] = ()
    delegation_token: Sequence[str] = ()
    resource_pattern_type: PatternType = PatternType.LITERAL
    operation: Sequence[str] = ()
    allow_principal: Sequence[str] = ()
    deny_principal: Sequence[str] = ()
    allow_host: Sequence[str] = ()
    deny_host: Sequence[str] = ()
    principal: Sequence[str] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False
    force: bool = False

    def has(self, name: str) -> bool:
        return bool(getattr(self, name))

    @property
    def action(self) -> str:
        return next(name for name in ACTIONS if self.has(name))


def check_usage(options: AclOptions) -> None:
    """AclCommandOptions.checkArgs: raises click.UsageError with Kafka's texts."""
    if sum(options.has(action) for action in ACTIONS) != 1:
        raise click.UsageError("Command must include exactly one action: --list, --add, --remove. ")
    for used, excluded in (
        ("list", _NOT_WITH_LIST),
        ("producer", _INFERRED_BY_A_ROLE),
        ("consumer", _INFERRED_BY_A_ROLE),
    ):
        for name in excluded:
            if options.has(used) and options.has(name):
                raise click.UsageError(
                    f'Option "[{used}]" can\'t be used with option "[{name.replace("_", "-")}]"'
                )
    if options.principal and not options.list:
        raise click.UsageError("The --principal option is only available if --list is set")
    if options.producer and not options.topic:
        raise click.UsageError("With --producer you must specify a --topic")
    if options.idempotent and not options.producer:
        raise click.UsageError("The --idempotent option is only available if --producer is set")
    foreign = not options.producer and (options.cluster or options.transactional_id)
    if options.consumer and (not options.topic or not options.group or foreign):
        raise click.UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )


def resources(options: AclOptions) -> list[ResourcePattern]:
    """The resources that were named, each once."""
    kind = options.resource_pattern_type
    found = [ResourcePattern(ResourceType.TOPIC, name.strip(), kind) for name in options.topic]
    if kind is PatternType.LITERAL and (options.cluster or options.idempotent):
        found.append(_CLUSTER)
    for resource_type, names in (
        (ResourceType.GROUP, [name.strip() for name in options.group]),
        (ResourceType.TRANSACTIONAL_ID, options.transactional_id),
        (ResourceType.DELEGATION_TOKEN, [name.strip() for name in options.delegation_token]),
    ):
        found += [ResourcePattern(resource_type, name, kind) for name in names]
    return list(dict.fromkeys(found))


def entries_to_add(options: AclOptions) -> Entries:
    kind = options.resource_pattern_type
    if kind not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise click.UsageError(
            f"A '--resource-pattern-type' value of '{kind.name}' is not valid when adding acls."
        )
    found = entries_to_change(options)
    if not all(found.values()):
        raise click.UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    return found


def entries_to_change(options: AclOptions) -> Entries:
    """By resource; without an entry where all of a resource are meant."""
    named = resources(options)
    if not named:
        raise click.UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group "
            "<group> or --delegation-token <Delegation Token ID>"
        )
    wanted: dict[ResourcePattern, dict[AclEntry, None]] = {}

    def want(resource: ResourcePattern, operations: Iterable[Operation]) -> None:
        wanted.setdefault(resource, {}).update(dict.fromkeys(_entries(options, operations)))

    if not options.producer and not options.consumer:
        operations = [_operation(name) for name in options.operation or ("All",)]
        for resource in named:
            want(resource, operations)
    for resource in named if options.producer else ():
        if resource.type is ResourceType.TOPIC:
            want(resource, _PRODUCER_ON_TOPIC)
        elif resource.type is ResourceType.TRANSACTIONAL_ID:
            want(resource, _PRODUCER_ON_TRANSACTIONAL_ID)
    if options.idempotent:
        want(_CLUSTER, (Operation.IDEMPOTENT_WRITE,))
    for resource in named if options.consumer else ():
        if resource.type is ResourceType.TOPIC:
            want(resource, _CONSUMER_ON_TOPIC)
        elif resource.type is ResourceType.GROUP:
            want(resource, _CONSUMER_ON_GROUP)
    found = {resource: sorted(entries) for resource, entries in wanted.items()}
    _check_operations(found)
    return found


def _check_operations(found: Entries) -> None:
    for resource, entries in found.items():
        supported = (*_OPERATIONS_OF[resource.type], Operation.ALL)
        if not {entry.operation for entry in entries} <= set(supported):
            names = ",".join(operation.name for operation in supported)
            raise click.UsageError(
                f"ResourceType {resource.type.name} only supports operations {names}"
            )


def _entries(options: AclOptions, operations: Iterable[Operation]) -> list[AclEntry]:
    chosen = list(operations)
    found = []
    for permission, principals, hosts in (
        (Permission.ALLOW, options.allow_principal, options.allow_host),
        (Permission.DENY, options.deny_principal, options.deny_host),
    ):
        for principal in parse_principals(principals):
            for host in [host.strip() for host in hosts] or [WILDCARD]:
                found += [AclEntry(principal, host, each, permission) for each in chosen]
    return found


def parse_principals(given: Sequence[str]) -> list[str]:
    for principal in given:
        if ":" not in principal:
            raise AclCommandError(
                "expected a string in format principalType:principalName but got "
                + principal.strip()
            )
    return list(dict.fromkeys(principal.strip() for principal in given))


_OPERATIONS = {stored_name(operation).upper(): operation for operation in Operation}


def _operation(name: str) -> Operation:
    """`AlterConfigs`, in any case; another word becomes an operation that nothing supports."""
    return _OPERATIONS.get(name.strip().upper(), Operation.UNKNOWN)


def filter_of(resource: ResourcePattern | None, entry: AclEntry | None = None) -> AclFilter:
    """What matches a resource, or any, and one entry of it, or all."""
    kind, name, pattern_type = resource or (ResourceType.ANY, None, PatternType.ANY)
    principal, host, operation, permission = entry or (None, None, Operation.ANY, Permission.ANY)
    return AclFilter(kind, name, pattern_type, principal, host, operation, permission)
