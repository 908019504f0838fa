"""The authoriser: Kafka's ACL znodes, followed by every broker, written by any (AclAuthorizer).

Other brokers learn of a change by a note; this one knows its own changes at once. Decisions are
kept until an ACL changes, so that a busy producer costs one look into a dictionary per request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.bounds.repeated_lines import RepeatedLines
from ottla.bounds.turns import Turns
from ottla.config.definitions import ConfigError
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.acl_znodes import (
    RESOURCE_TYPES,
    AclChangeZnode,
    AclEntry,
    AclZnode,
    Operation,
    PatternType,
    ResourcePattern,
    ResourceType,
    stored_name,
)
from ottla.metadata.change_notes import ChangeNotes
from ottla.metadata.store import (
    BadVersionError,
    CreateMode,
    NodeExistsError,
    NoNodeError,
    StoreError,
)
from ottla.metadata.znodes import MAX_ZNODE_BYTES
from ottla.security.acls import NO_ENTRIES, AclFilter, AclTable
from ottla.topics.names import SHADOW_PREFIX

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Runtime

logger = logging.getLogger(__name__)
audit_log = logging.getLogger("kafka.authorizer.logger")

CLASS_NAMES = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",  # its name before Kafka 2.4
)
_TRACE = 5
_STORED_PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
_WRITE_ATTEMPTS = 11  # the first and ten more
_WRITE_PAUSE_MS = (100, 150)
_MAX_KEPT_DECISIONS = 10_000

# Principal, host, operation, type and name; no name stands for any resource of the type.
_Decision = tuple[str, str, Operation, ResourceType, str | None]
_Change = Callable[[frozenset[AclEntry]], frozenset[AclEntry]]


class AuthorizerSettings(NamedTuple):
    super_users: frozenset[str]
    allow_everyone_if_no_acl_found: bool


def authorizer_settings(properties: Mapping[str, str]) -> AuthorizerSettings | None:
    """None where no authoriser is asked for; raises ConfigError for one that is not there."""
    class_name = properties.get("authorizer.class.name", "").strip()
    if not class_name:
        return None
    if class_name not in CLASS_NAMES:
        raise ConfigError(
            f"authorizer.class.name {class_name} is not supported; supported: {CLASS_NAMES[0]}"
        )
    if "authorizer.zookeeper.url" in properties:
        raise ConfigError(
            "authorizer.zookeeper.url is not supported: ACLs are kept in zookeeper.connect"
        )
    given = (part.strip() for part in properties.get("super.users", "").split(";"))
    super_users = frozenset(part for part in given if part)
    for principal in super_users:
        if not _is_principal(principal):
            raise ConfigError(
                "super.users: expected a string in format principalType:principalName but got "
                f"{principal}"
            )
    everyone = properties.get("allow.everyone.if.no.acl.found", "").strip().lower() == "true"
    return AuthorizerSettings(super_users, everyone)


def _is_principal(text: str) -> bool:
    kind, colon, name = text.partition(":")
    return bool(kind and colon and name)


class AclAuthorizer:
    """All ACLs of the cluster in memory: what they allow, how they are changed in the store, and
    how changes by other brokers reach this one."""

    def __init__(
        self, runtime: Runtime, store: MetadataStore, settings: AuthorizerSettings
    ) -> None:
        self._random = runtime.random
        self._turns = Turns()
        self._refusals = RepeatedLines(audit_log, runtime.clock)
        self._store = store
        self._settings = settings
        self._table = AclTable()
        # The version of each pattern's znode as last read or written.
        self._versions: dict[ResourcePattern, int] = {}
        self._kept: dict[_Decision, bool] = {}
        self._changing = asyncio.Lock()
        # The name of the topic that a resize copies into this one; None where there is none.
        self.shadowed_topic: Callable[[str], str | None] = lambda name: None
        self._notes = [
            ChangeNotes(
                store,
                runtime.clock,
                AclChangeZnode.parent(pattern_type),
                AclChangeZnode.PREFIX,
                partial(self._take_note, pattern_type),
            )
            for pattern_type in _STORED_PATTERNS
        ]

    # following the store

    async def start(self) -> None:
        """Listens first, then loads: no change can fall between the two. Raises BadZnodeError
        where an ACL cannot be read: to start without it could allow what it denies."""
        await self._create_folders()
        for notes in self._notes:
            await notes.start()
        await self._load_all()

    async def stop(self) -> None:
        for notes in self._notes:
            await notes.stop()

    def on_new_session(self) -> None:
        for notes in self._notes:
            notes.on_new_session()

    async def _create_folders(self) -> None:
        for pattern_type in _STORED_PATTERNS:
            folders = [AclZnode.folder(pattern_type, kind) for kind in RESOURCE_TYPES.values()]
            for folder in (*folders, AclChangeZnode.parent(pattern_type)):
                await _create_with_parents(self._store, folder)

    async def _load_all(self) -> None:
        for pattern_type in _STORED_PATTERNS:
            for type_name in await self._store.children(AclZnode.folder(pattern_type)):
                resource_type = RESOURCE_TYPES.get(type_name)
                if resource_type is None:
                    logger.warning("ACLs of the unknown resource type %s are ignored", type_name)
                    continue
                folder = AclZnode.folder(pattern_type, resource_type)
                names = await self._store.children(folder)
                patterns = [ResourcePattern(resource_type, name, pattern_type) for name in names]
                await asyncio.gather(*(self._reload(pattern) for pattern in patterns))

    async def _take_note(self, pattern_type: PatternType, data: bytes | None) -> None:
        pattern = AclChangeZnode.decode(pattern_type, data)
        async with self._changing:
            await self._reload(pattern)
        logger.info("ACLs of %s were read again", _shown(pattern))

    async def _reload(self, pattern: ResourcePattern) -> None:
        entries, version = await self._read(pattern)
        self._remember(pattern, entries, version)

    async def _read(self, pattern: ResourcePattern) -> tuple[frozenset[AclEntry], int | None]:
        """The entries and the znode's version, None where there is no znode."""
        path = AclZnode.path(pattern)
        try:
            data, stat = await self._store.get(path)
        except NoNodeError:
            return NO_ENTRIES, None
        return AclZnode.decode(path, data), stat.version

    def _remember(
        self, pattern: ResourcePattern, entries: frozenset[AclEntry], version: int | None
    ) -> None:
        if self._table.set(pattern, entries):
            self._kept.clear()
        if version is None:
            self._versions.pop(pattern, None)
        else:
            self._versions[pattern] = version

    # decisions

    def authorize(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        request: str,
        references: int = 1,
        log_denied: bool = True,
        log_allowed: bool = True,
    ) -> bool:
        """Whether the principal may do this; the audit log hears of it."""
        if resource_type is ResourceType.TOPIC and name.startswith(SHADOW_PREFIX):
            # It has the records of another topic: whoever may use that one may use it.
            shadowed = self.shadowed_topic(name)
            if shadowed is None:
                return principal in self._settings.super_users
            name = shadowed
        key = principal, host, operation, resource_type, name
        allowed = self._kept.get(key)
        if allowed is None:
            allowed = principal in self._settings.super_users or self._table.allows(
                *key, if_no_entry=self._settings.allow_everyone_if_no_acl_found
            )
            self._keep(key, allowed)
        if allowed:
            level = logging.DEBUG if log_allowed else _TRACE
        else:
            level = logging.INFO if log_denied else _TRACE
        if audit_log.isEnabledFor(level):
            line = _decision_line(key, allowed, request, references)
            if allowed:
                audit_log.log(level, *line)
            else:
                self._refusals.log(level, principal, (operation, resource_type, name), *line)
        return allowed

    def authorize_on_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there is any resource of the type with which the principal may do this."""
        key = principal, host, operation, resource_type, None
        allowed = self._kept.get(key)
        if allowed is None:
            allowed = principal in self._settings.super_users or self._table.allows_on_any(
                principal,
                host,
                operation,
                resource_type,
                if_no_entry=self._settings.allow_everyone_if_no_acl_found,
            )
            self._keep(key, allowed)
        return allowed

    def _keep(self, key: _Decision, allowed: bool) -> None:
        if len(self._kept) >= _MAX_KEPT_DECISIONS:
            self._kept.clear()
        self._kept[key] = allowed

    # the ACL APIs

    def entries(self, pattern: ResourcePattern) -> frozenset[AclEntry]:
        """Those of one pattern, as this broker knows them."""
        return self._table.get(pattern) or NO_ENTRIES

    def describe(self, wanted: AclFilter) -> dict[ResourcePattern, list[AclEntry]]:
        found: dict[ResourcePattern, list[AclEntry]] = {}
        for pattern, entry in self._table.find(wanted):
            found.setdefault(pattern, []).append(entry)
        return found

    async def create(
        self, bindings: Sequence[tuple[ResourcePattern, AclEntry]]
    ) -> list[KafkaError | None]:
        """One outcome per binding; those of one pattern are written together or not at all."""
        by_pattern: dict[ResourcePattern, list[AclEntry]] = {}
        for pattern, entry in bindings:
            by_pattern.setdefault(pattern, []).append(entry)
        outcomes: dict[ResourcePattern, KafkaError | None] = {}
        for pattern, entries in by_pattern.items():
            outcomes[pattern] = await self._add(pattern, entries)
        return [outcomes[pattern] for pattern, _ in bindings]

    async def _add(
        self, pattern: ResourcePattern, entries: Collection[AclEntry]
    ) -> KafkaError | None:
        if not all(_is_principal(entry.principal) for entry in entries):
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return await self._update(pattern, lambda present: present | frozenset(entries))

    async def delete(
        self, filters: Sequence[AclFilter]
    ) -> list[list[tuple[ResourcePattern, AclEntry, KafkaError | None]]]:
        """What each filter removed; an entry that two filters match counts for the first."""
        removed: list[list[tuple[ResourcePattern, AclEntry, KafkaError | None]]]
        removed = [[] for _ in filters]
        patterns = self._table.patterns()
        # A pattern that another broker has just made may be named without being known here.
        named = (f.only_pattern for f in filters)
        patterns += [pattern for pattern in named if pattern is not None]
        async for pattern in self._turns.each(dict.fromkeys(patterns)):
            matching = [i for i, each in enumerate(filters) if each.matches_pattern(pattern)]
            if not matching:
                continue
            hits: dict[AclEntry, int] = {}

            def without_hits(
                present: frozenset[AclEntry],
                matching: list[int] = matching,
                hits: dict[AclEntry, int] = hits,
            ) -> frozenset[AclEntry]:
                hits.clear()
                for entry in sorted(present):
                    for index in matching:
                        if filters[index].matches_entry(entry):
                            hits[entry] = index
                            break
                return present - hits.keys()

            error = await self._update(pattern, without_hits)
            for entry, index in hits.items():
                removed[index].append((pattern, entry, error))
        return removed

    async def _update(self, pattern: ResourcePattern, change: _Change) -> KafkaError | None:
        """Writes changed entries guarded by the znode's version, then tells the others."""
        async with self._changing:
            try:
                changed = await self._write(pattern, change)
                if changed:
                    await self._store.create(
                        AclChangeZnode.path(pattern.pattern_type),
                        AclChangeZnode.encode(pattern),
                        mode=CreateMode.PERSISTENT_SEQUENTIAL,
                    )
            except StoreError as error:
                logger.warning("ACLs of %s could not be written: %r", _shown(pattern), error)
                return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            except KafkaError as error:
                logger.warning("ACLs of %s could not be written: %s", _shown(pattern), error)
                return error
        return None

    async def _write(self, pattern: ResourcePattern, change: _Change) -> bool:
        path = AclZnode.path(pattern)
        version = self._versions.get(pattern)
        present = self._table.get(pattern) or NO_ENTRIES
        if version is None:
            present, version = await self._read(pattern)
        for _ in range(_WRITE_ATTEMPTS):
            wanted = change(present)
            try:
                if wanted == present:
                    stat = await self._store.exists(path)
                    if (None if stat is None else stat.version) == version:
                        self._remember(pattern, present, version)
                        return False
                    raise BadVersionError(path)
                new_version: int | None = None
                if not wanted:
                    await self._store.delete(path, -1 if version is None else version)
                elif version is None:
                    await self._store.create(path, _encoded(pattern, wanted))
                    new_version = 0
                else:
                    stat = await self._store.set(path, _encoded(pattern, wanted), version)
                    new_version = stat.version
            except (BadVersionError, NodeExistsError, NoNodeError):
                await asyncio.sleep(self._random.randint(*_WRITE_PAUSE_MS) / 1000)
                present, version = await self._read(pattern)
                continue
            self._remember(pattern, wanted, new_version)
            return True
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"Failed to update ACLs for {_shown(pattern)}"
        )


def _encoded(pattern: ResourcePattern, entries: Collection[AclEntry]) -> bytes:
    data = AclZnode.encode(frozenset(entries))
    if len(data) > MAX_ZNODE_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The ACLs of {_shown(pattern)} have {len(data)} bytes together, at most "
            f"{MAX_ZNODE_BYTES} can be stored.",
        )
    return data


def _decision_line(
    key: _Decision, allowed: bool, request: str, references: int
) -> tuple[str, *tuple[str | int | None, ...]]:
    """A line of the audit log and its arguments."""
    principal, host, operation, resource_type, name = key
    return (
        "Principal = %s is %s Operation = %s from host = %s on resource = %s:LITERAL:%s "
        "for request = %s with resourceRefCount = %d",
        principal,
        "Allowed" if allowed else "Denied",
        stored_name(operation),
        host,
        stored_name(resource_type),
        name,
        request,
        references,
    )


def _shown(pattern: ResourcePattern) -> str:
    return f"{stored_name(pattern.type)}:{pattern.pattern_type.name}:{pattern.name}"


async def _create_with_parents(store: MetadataStore, path: str) -> None:
    parts = path.strip("/").split("/")
    for depth in range(1, len(parts) + 1):
        try:
            await store.create("/" + "/".join(parts[:depth]))
        except NodeExistsError:
            pass
