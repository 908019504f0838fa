"""What the transaction APIs answer to callers without rights; nothing else happens then."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.bounds.turns import Turns
from ottla.broker.context.request import RequestContext
from ottla.broker.handlers import ROUTES_BY_KEY
from ottla.coordinator.transactions.transaction import Transaction
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, ResourceType
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.framing import RequestHeader

TP = TopicPartition("t", 0)


class Authorizer:
    """Allows what is listed."""

    def __init__(self, *rights: tuple[Operation, ResourceType]) -> None:
        self.rights = rights

    def authorize(
        self, _who: str, _host: str, operation: Operation, kind: ResourceType, _name: str, **_: Any
    ) -> bool:
        return (operation, kind) in self.rights


class Untouchable:
    """A coordinator that nobody may reach."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was called for somebody without rights")


def found_transaction() -> Transaction:
    return Transaction("tx", 5, 0, partitions=frozenset({TP}))


async def ask(
    module: str, request: Any, version: int, *rights: tuple[Operation, ResourceType], **parts: Any
) -> Any:
    services = SimpleNamespace(
        turns=Turns(),
        **{"transactions": Untouchable(), "groups": Untouchable(), **parts},
        runtime=SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: 0)),
        metadata_cache=SimpleNamespace(contains=lambda _: True),
    )
    header = RequestHeader(request.API_KEY, version, 1, "client")
    context = RequestContext(
        cast("Any", services),
        header,
        ROUTES_BY_KEY[request.API_KEY].name,
        "PLAINTEXT",
        "127.0.0.1",
        authorizer=cast("Any", Authorizer(*rights)),
    )
    return await import_module(f"ottla.broker.handlers.{module}").handle(context, request)


WRITE_ID = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_ID = (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)


async def test_partitions() -> None:
    topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[0, 1])
    request = m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx", v3_and_below_topics=[topic]
    )
    for rights, code in (((), 53), ((WRITE_ID,), 29)):
        answer = await ask("add_partitions_to_txn", request, 3, *rights)
        (result,) = answer.results_by_topic_v3_and_below
        assert [each.partition_error_code for each in result.results_by_partition] == [code] * 2


async def test_internal_topics_belong_to_nobodys_transaction() -> None:
    topics = [
        m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=[0])
        for name in ("__consumer_offsets", "t")
    ]
    request = m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx", v3_and_below_topics=topics
    )
    write_topic = (Operation.WRITE, ResourceType.TOPIC)
    answer = await ask("add_partitions_to_txn", request, 3, WRITE_ID, write_topic)
    codes = [
        each.partition_error_code
        for result in answer.results_by_topic_v3_and_below
        for each in result.results_by_partition
    ]
    assert codes == [29, 55]


async def test_offsets() -> None:
    request = m.AddOffsetsToTxnRequest(transactional_id="tx", group_id="g")
    assert (await ask("add_offsets_to_txn", request, 3)).error_code == 53
    with pytest.raises(KafkaError) as raised:
        await ask("add_offsets_to_txn", request, 3, WRITE_ID)
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    commit = m.TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        topics=[
            m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[m.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition()],
            )
        ],
    )
    for rights, code in (((), 53), ((WRITE_ID,), 30)):
        with pytest.raises(KafkaError) as raised:
            await ask("txn_offset_commit", commit, 3, *rights)
        assert raised.value.code == code
    read_group = (Operation.READ, ResourceType.GROUP)
    answer = await ask("txn_offset_commit", commit, 3, WRITE_ID, read_group)
    assert answer.topics[0].partitions[0].error_code == 29


async def test_the_end() -> None:
    request = m.EndTxnRequest(transactional_id="tx", committed=True)
    assert (await ask("end_txn", request, 3)).error_code == 53


async def test_markers_are_for_brokers() -> None:
    with pytest.raises(KafkaError) as raised:
        await ask("write_txn_markers", m.WriteTxnMarkersRequest(), 1)
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_looking() -> None:
    topic = m.DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
    answer = await ask("describe_producers", m.DescribeProducersRequest(topics=[topic]), 0)
    assert answer.topics[0].partitions[0].error_code == 29
    describe = m.DescribeTransactionsRequest(transactional_ids=["tx"])
    answer = await ask("describe_transactions", describe, 0)
    assert answer.transaction_states[0].error_code == 53
    known = SimpleNamespace(describe=lambda _: found_transaction())
    answer = await ask("describe_transactions", describe, 0, DESCRIBE_ID, transactions=known)
    (state,) = answer.transaction_states
    assert (state.error_code, state.producer_id, state.topics) == (0, 5, [])
    listing = SimpleNamespace(list_all=lambda: [found_transaction()])
    for rights, ids in (((), []), ((DESCRIBE_ID,), ["tx"])):
        answer = await ask(
            "list_transactions", m.ListTransactionsRequest(), 0, *rights, transactions=listing
        )
        assert [each.transactional_id for each in answer.transaction_states] == ids
