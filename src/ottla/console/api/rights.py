"""ACLs, of the page Rights: who may do what?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ottla.client.admin.acls import AclBinding
from ottla.console.commands import ottla
from ottla.console.web.failures import ApiError, invalid, not_found
from ottla.console.web.routes import Call, Handler, Route
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.acl_znodes import stored_name
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

if TYPE_CHECKING:
    from ottla.console.web.routes import Feed

# A page shows them all, and the browser has to hold them.
MAX_SHOWN = 20_000
MAX_NAME_CHARS = 32_767
# As kafka-acls has it: two types whose rights no answer lists (KIP-430) can have entries as well.
OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    kind: (*operations, Operation.ALL)
    for kind, operations in (
        SUPPORTED_OPERATIONS
        | {
            ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
            ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
        }
    ).items()
}
_FLAGS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
}

_NO_AUTHORIZER = (
    "This cluster has no authorizer: whoever reaches it may do everything, and ACLs would change "
    "nothing. authorizer.class.name=kafka.security.authorizer.AclAuthorizer in the brokers' "
    "properties turns it on (on KRaft, org.apache.kafka.metadata.authorizer.StandardAuthorizer)."
)

ResourceName = Literal["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN"]
PatternName = Literal["LITERAL", "PREFIXED"]
PermissionName = Literal["ALLOW", "DENY"]


class Acl(msgspec.Struct):
    """One entry. A type or an operation that is newer than this console is UNKNOWN."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class Acls(msgspec.Struct):
    acls: list[Acl]
    # All there are; `acls` has the first of them.
    total: int
    # What entries of each type of resource can be about.
    operations: dict[str, list[str]]


class NewAcls(msgspec.Struct):
    """The same for several operations."""

    resource_type: ResourceName
    resource_name: str
    principal: str
    operations: list[str]
    pattern_type: PatternName = "LITERAL"
    permission: PermissionName = "ALLOW"
    host: str = "*"


class Changed(msgspec.Struct):
    changed: int


async def listing(call: Call) -> Acls:
    everything = AclFilter(
        ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY
    )
    found = sorted(await call.admin.describe_acls(everything))
    return Acls(
        [
            Acl(
                pattern.type.name,
                pattern.name,
                pattern.pattern_type.name,
                entry.principal,
                entry.host,
                entry.operation.name,
                entry.permission.name,
            )
            for pattern, entry in found[:MAX_SHOWN]
        ],
        len(found),
        {
            kind.name: [operation.name for operation in operations]
            for kind, operations in OPERATIONS.items()
        },
    )


def bindings(body: NewAcls) -> list[AclBinding]:
    """Raises ApiError at the field that is wrong."""
    kind = ResourceType[body.resource_type]
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else body.resource_name.strip()
    if not name or len(name) > MAX_NAME_CHARS:
        raise invalid("Give a name, or * for all.", "resource_name")
    principal = body.principal.strip()
    principal_type, colon, principal_name = principal.partition(":")
    if not (principal_type and colon and principal_name) or len(principal) > MAX_NAME_CHARS:
        raise invalid("Write it as User:name; User:* is everybody.", "principal")
    host = body.host.strip() or "*"
    known = {operation.name: operation for operation in OPERATIONS[kind]}
    unknown = [operation for operation in body.operations if operation not in known]
    if unknown or not body.operations:
        raise invalid(f"Choose from {', '.join(map(stored_name, known.values()))}.", "operations")
    pattern = ResourcePattern(kind, name, PatternType[body.pattern_type])
    permission = Permission[body.permission]
    return [
        AclBinding(pattern, AclEntry(principal, host, known[operation], permission))
        for operation in dict.fromkeys(body.operations)
    ]


def _words(made: Sequence[AclBinding]) -> list[str]:
    """What kafka-acls needs to name these entries, which differ in their operation only."""
    pattern, first = made[0]
    verb = "allow" if first.permission is Permission.ALLOW else "deny"
    words = [f"--{verb}-principal", first.principal]
    if first.host != "*":
        words += [f"--{verb}-host", first.host]
    for binding in made:
        words += ["--operation", stored_name(binding.entry.operation)]
    words += [_FLAGS[pattern.type], pattern.name] if pattern.type in _FLAGS else ["--cluster"]
    if pattern.pattern_type is not PatternType.LITERAL:
        words += ["--resource-pattern-type", pattern.pattern_type.name.lower()]
    return words


async def add(call: Call) -> Changed:
    made = bindings(call.body)
    await call.admin.create_acls(made)
    return Changed(len(made))


def _add_commands(call: Call) -> list[str]:
    return [ottla(call.settings, "acls", "--add", *_words(bindings(call.body)))]


def binding_of(acl: Acl) -> AclBinding:
    try:
        return AclBinding(
            ResourcePattern(
                ResourceType[acl.resource_type], acl.resource_name, PatternType[acl.pattern_type]
            ),
            AclEntry(acl.principal, acl.host, Operation[acl.operation], Permission[acl.permission]),
        )
    except KeyError as error:
        raise invalid(f"{error.args[0]} is not a word of ACLs.") from None


async def remove(call: Call) -> Changed:
    pattern, entry = _removable(call.body)
    removed = await call.admin.delete_acls(
        [AclFilter(*pattern, entry.principal, entry.host, entry.operation, entry.permission)]
    )
    if not removed:
        raise not_found("This entry is not there any more.")
    return Changed(len(removed))


def _removable(acl: Acl) -> AclBinding:
    binding = binding_of(acl)
    # As a filter, ANY would mean all of them, and UNKNOWN nothing that a broker knows.
    codes = (*binding.pattern[::2], *binding.entry[2:])
    if any(code <= 1 for code in codes) or binding.pattern.pattern_type is PatternType.MATCH:
        raise invalid("Name one entry: use `ottla acls --remove` for more.")
    return binding


def _remove_commands(call: Call) -> list[str]:
    return [ottla(call.settings, "acls", "--remove", "--force", *_words([_removable(call.body)]))]


def needs(operation: Operation, handler: Handler) -> Handler:
    """Says what somebody has to ask an administrator for, where the cluster only says no."""

    async def explained(call: Call) -> Any:
        try:
            return await handler(call)
        except KafkaError as error:
            raise _in_words(error, call, operation) or error from None

    return explained


def _in_words(error: KafkaError, call: Call, operation: Operation) -> ApiError | None:
    if error.code is ErrorCode.SECURITY_DISABLED:
        return ApiError(409, error.code.name, _NO_AUTHORIZER)
    if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return None
    who = call.access.user
    principal = "User:ANONYMOUS" if who is None else f"User:{who}"
    entry = AclEntry(principal, "*", operation, Permission.ALLOW)
    wanted = AclBinding(ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME), entry)
    return ApiError(
        403,
        error.code.name,
        f"{who or 'Nobody here'} may not: it takes {stored_name(operation)} on the cluster. An "
        f"administrator gives it by: {ottla(call.settings, 'acls', '--add', *_words([wanted]))}",
    )


ROUTES = [
    Route("GET", "/acls", needs(Operation.DESCRIBE, listing), "ACLs: who may do what", answer=Acls),
    Route(
        "POST",
        "/acls",
        needs(Operation.ALTER, add),
        "Add ACLs",
        answer=Changed,
        body=NewAcls,
        commands=_add_commands,
    ),
    Route(
        "POST",
        "/acls/remove",
        needs(Operation.ALTER, remove),
        "Remove one ACL",
        answer=Changed,
        body=Acl,
        commands=_remove_commands,
    ),
]
FEEDS: list[Feed] = []
