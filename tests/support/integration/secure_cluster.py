"""A cluster with SASL PLAIN for clients and an authoriser; brokers trust each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ottla.client.connection import Connection
from ottla.metadata.acl_znodes import AclEntry, Operation, Permission, ResourcePattern
from ottla.runtime import system_runtime
from ottla.security.acls import PatternType, ResourceType
from ottla.security.sasl.exchange import Credentials
from ottla.security.sasl.plain import PlainCredentials
from ottla.wire import messages as m
from tests.support.integration.local_cluster import HOST, LocalCluster, running_brokers

CLIENTS = "CLIENTS"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
JAAS = (
    f'{MODULE} required username="admin" password="admin-secret" '
    + " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    + ";"
)
ADMIN, ALICE, BOB = (PlainCredentials(name, password) for name, password in PASSWORDS.items())
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


class SecureCluster(LocalCluster):
    """Listener INTERNAL in the clear for brokers, CLIENTS with SASL_PLAINTEXT for everyone else."""

    settings: Mapping[str, str] = {}

    def properties(self, broker_id: int) -> dict[str, str]:
        both = f"INTERNAL://{HOST}:0,{CLIENTS}://{HOST}:0"
        secure = {
            "listeners": both,
            "advertised.listeners": both,
            "listener.security.protocol.map": f"INTERNAL:PLAINTEXT,{CLIENTS}:SASL_PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": JAAS,
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:admin;User:ANONYMOUS",
            "connection.failed.authentication.delay.ms": "20",
            "offsets.topic.replication.factor": "1",
        }
        return super().properties(broker_id) | secure | dict(self.settings)

    def port(self, broker_id: int, listener: str = CLIENTS) -> int:
        endpoint = self.nodes[broker_id].services.metadata_cache.endpoint(broker_id, listener)
        assert endpoint is not None
        return endpoint.port

    @property
    def clients_bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.port(broker_id)}" for broker_id in self.nodes)

    async def connect(
        self, user: Credentials | None, broker_id: int = 0, listener: str = CLIENTS
    ) -> Connection:
        return await Connection.open(
            system_runtime().network,
            HOST,
            self.port(broker_id, listener),
            client_id="test",
            sasl=user,
        )

    async def ask(self, user: Credentials, message: Any, version: int, broker_id: int = 0) -> Any:
        connection = await self.connect(user, broker_id)
        try:
            return await connection.send(message, version)
        finally:
            connection.close()

    @property
    def controller_id(self) -> int:
        return self.controller.broker_id

    async def create_topic(self, name: str, *, replicas: int = 1) -> None:
        topic = m.CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=1, replication_factor=replicas
        )
        request = m.CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        answer = await self.ask(ADMIN, request, 5, self.controller_id)
        assert answer.topics[0].error_code == 0, answer
        await self.until_all_know(name, 1, replicas)

    async def add_acl(
        self,
        principal: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        permission: Permission = Permission.ALLOW,
        pattern_type: PatternType = PatternType.LITERAL,
        broker_id: int = 0,
    ) -> None:
        """Adds an ACL over the wire and waits until every broker knows of it."""
        creation = m.CreateAclsRequest.AclCreation(
            resource_type=resource_type,
            resource_name=name,
            resource_pattern_type=pattern_type,
            principal=principal,
            host="*",
            operation=operation,
            permission_type=permission,
        )
        request = m.CreateAclsRequest(creations=[creation])
        answer = await self.ask(ADMIN, request, 3, broker_id)
        assert [result.error_code for result in answer.results] == [0]
        pattern = ResourcePattern(resource_type, name, pattern_type)
        entry = AclEntry(principal, "*", operation, permission)
        await self.until(lambda: self._all_have(pattern, entry), f"{entry} on every broker")

    def _all_have(self, pattern: ResourcePattern, entry: AclEntry) -> bool:
        authorizers = [node.services.authorizer for node in self.nodes.values()]
        return all(a is not None and entry in a.entries(pattern) for a in authorizers)


@asynccontextmanager
async def running(
    folder: Path, brokers: int = 1, settings: Mapping[str, str] | None = None
) -> AsyncIterator[SecureCluster]:
    cluster = SecureCluster(folder)
    cluster.settings = settings or {}
    async with running_brokers(cluster, brokers):
        yield cluster
