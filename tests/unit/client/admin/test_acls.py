"""ACLs over the wire: requests and answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.client.admin.acls import AclBinding
from ottla.client.admin.client import Admin
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.security.acls import (
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.wire import messages as m
from tests.support.client.fake_kafka import RANGES, FakeKafka

BINDING = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "t", PatternType.PREFIXED),
    AclEntry("User:alice", "10.0.0.1", Operation.READ, Permission.DENY),
)
ALL_OF_T = AclFilter(
    ResourceType.TOPIC, "t", PatternType.MATCH, None, None, Operation.ANY, Permission.ANY
)


@pytest.fixture
async def kafka() -> AsyncIterator[FakeKafka]:
    fake = await FakeKafka(1, RANGES | {29: (0, 2), 30: (0, 2), 31: (0, 2)}).start()
    yield fake
    await fake.stop()


@pytest.fixture
async def admin(kafka: FakeKafka) -> AsyncIterator[Admin]:
    async with Admin.connect(system_runtime(), kafka.address, timeout_ms=2000) as session:
        yield session


async def test_creation(kafka: FakeKafka, admin: Admin) -> None:
    result = m.CreateAclsResponse.AclCreationResult
    kafka.on(m.CreateAclsRequest, lambda _: m.CreateAclsResponse(results=[result()]))
    await admin.create_acls([BINDING])
    (creation,) = kafka.seen[-1][0].creations
    assert (creation.resource_type, creation.resource_name) == (2, "t")
    assert creation.resource_pattern_type == PatternType.PREFIXED
    assert (creation.principal, creation.host) == ("User:alice", "10.0.0.1")
    assert (creation.operation, creation.permission_type) == (3, 2)
    failed = result(error_code=ErrorCode.INVALID_REQUEST, error_message="no such name")
    kafka.on(m.CreateAclsRequest, lambda _: m.CreateAclsResponse(results=[result(), failed]))
    with pytest.raises(KafkaError, match="no such name"):
        await admin.create_acls([BINDING, BINDING])


async def test_listing(kafka: FakeKafka, admin: Admin) -> None:
    response = m.DescribeAclsResponse

    def answer(request: Any) -> m.DescribeAclsResponse:
        assert (request.resource_name_filter, request.pattern_type_filter) == ("t", 2)
        assert (request.principal_filter, request.operation) == (None, 1)
        known = response.AclDescription(
            principal="User:alice", host="10.0.0.1", operation=3, permission_type=2
        )
        newer = response.AclDescription(
            principal="User:b", host="*", operation=99, permission_type=3
        )
        return response(
            resources=[
                response.DescribeAclsResource(
                    resource_type=2, resource_name="t", pattern_type=4, acls=[known, newer]
                )
            ]
        )

    kafka.on(m.DescribeAclsRequest, answer)
    found = await admin.describe_acls(ALL_OF_T)
    assert found[0] == BINDING
    assert found[1].entry.operation is Operation.UNKNOWN, "of a broker newer than this client"
    kafka.on(m.DescribeAclsRequest, lambda _: response(error_code=31))
    with pytest.raises(KafkaError, match="Cluster authorization failed"):
        await admin.describe_acls(ALL_OF_T)


async def test_removal(kafka: FakeKafka, admin: Admin) -> None:
    response = m.DeleteAclsResponse
    match = response.DeleteAclsMatchingAcl(
        resource_type=2, resource_name="t", pattern_type=4, principal="User:alice",
        host="10.0.0.1", operation=3, permission_type=2,
    )  # fmt: skip
    result = response.DeleteAclsFilterResult
    kafka.on(
        m.DeleteAclsRequest, lambda _: response(filter_results=[result(matching_acls=[match])])
    )
    assert await admin.delete_acls([ALL_OF_T]) == [BINDING]
    (sent,) = kafka.seen[-1][0].filters
    assert (sent.resource_name_filter, sent.host_filter, sent.permission_type) == ("t", None, 1)
    kafka.on(
        m.DeleteAclsRequest,
        lambda _: response(filter_results=[result(error_code=54, error_message="is off")]),
    )
    with pytest.raises(KafkaError, match="is off") as caught:
        await admin.delete_acls([ALL_OF_T])
    assert caught.value.code is ErrorCode.SECURITY_DISABLED
