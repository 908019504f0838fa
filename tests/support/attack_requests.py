"""Requests that are small and ask for much, by API: what a client lists, at its worst."""

from __future__ import annotations

from typing import NamedTuple

from ottla.wire import framing
from ottla.wire import messages as m
from ottla.wire.codec import Message

_TOPIC, _BROKER = 2, 4


class AttackRequest(NamedTuple):
    name: str
    message: Message
    version: int

    @property
    def frame(self) -> bytes:
        return b"".join(framing.encode_request(self.message, self.version, 1, "rude"))


def create_topics(topics: int, partitions: int, *, validate_only: bool = True) -> AttackRequest:
    creatable = m.CreateTopicsRequest.CreatableTopic
    return AttackRequest(
        f"CreateTopics of {topics} x {partitions:,} partitions",
        m.CreateTopicsRequest(
            topics=[
                creatable(name=f"t{number}", num_partitions=partitions, replication_factor=1)
                for number in range(topics)
            ],
            timeout_ms=1000,
            validate_only=validate_only,
        ),
        5,
    )


def create_one_topic(name: str, partitions: int) -> AttackRequest:
    topic = m.CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1
    )
    return AttackRequest(
        f"CreateTopics of {partitions:,} partitions with a name of {len(name)} characters",
        m.CreateTopicsRequest(topics=[topic], timeout_ms=1000),
        5,
    )


def create_partitions(topic: str, count: int) -> AttackRequest:
    entry = m.CreatePartitionsRequest.CreatePartitionsTopic(
        name=topic, count=count, assignments=None
    )
    return AttackRequest(
        f"CreatePartitions up to {count:,}",
        m.CreatePartitionsRequest(topics=[entry], timeout_ms=1000),
        2,
    )


def repeated(topic: str, topic_id: bytes) -> list[AttackRequest]:
    """One thing asked for again and again, for every API that answers at length."""
    return [*_repeated_configs(topic), *_repeated_names(), *_repeated_topics(topic, topic_id)]


def _repeated_configs(topic: str) -> list[AttackRequest]:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource
    config_keys = {"configuration_keys": None}
    return [
        AttackRequest(
            "DescribeConfigs of one broker 3,000 times",
            m.DescribeConfigsRequest(
                resources=[resource(resource_type=_BROKER, resource_name="0", **config_keys)]
                * 3000,
                include_documentation=True,
            ),
            4,
        ),
        AttackRequest(
            "DescribeConfigs of one topic, each time with another key",
            m.DescribeConfigsRequest(
                resources=[
                    resource(
                        resource_type=_TOPIC, resource_name=topic, configuration_keys=[f"k{number}"]
                    )
                    for number in range(10_000)
                ],
            ),
            4,
        ),
    ]


def _repeated_names() -> list[AttackRequest]:
    group = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
    return [
        AttackRequest(
            "DescribeGroups of one name 200,000 times",
            m.DescribeGroupsRequest(groups=["g"] * 200_000),
            5,
        ),
        AttackRequest(
            "OffsetFetch of all of one group 50,000 times",
            m.OffsetFetchRequest(groups=[group] * 50_000),
            8,
        ),
        AttackRequest(
            "FindCoordinator of one group 100,000 times",
            m.FindCoordinatorRequest(coordinator_keys=["g"] * 100_000),
            4,
        ),
    ]


def _repeated_topics(topic: str, topic_id: bytes) -> list[AttackRequest]:
    by_time = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=1)
    return [
        AttackRequest(
            "Metadata of one id 20,000 times",
            m.MetadataRequest(
                topics=[m.MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id)]
                * 20_000
            ),
            12,
        ),
        AttackRequest(
            "DescribeProducers of one partition 100,000 times",
            m.DescribeProducersRequest(
                topics=[
                    m.DescribeProducersRequest.TopicRequest(
                        name=topic, partition_indexes=[0] * 100_000
                    )
                ]
            ),
            0,
        ),
        AttackRequest(
            "DescribeTransactions of one id 100,000 times",
            m.DescribeTransactionsRequest(transactional_ids=["t"] * 100_000),
            0,
        ),
        AttackRequest(
            "ListOffsets by time of one partition 20,000 times",
            m.ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    m.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[by_time] * 20_000)
                ],
            ),
            5,
        ),
    ]


def long_lists(topic: str) -> list[AttackRequest]:
    """Many different things, most of which do not exist: no answer, however long the work is, may
    keep others waiting."""
    return [*_many_names(), *_many_moves(topic), *_many_partitions(topic)]


def _many_names() -> list[AttackRequest]:
    return [
        AttackRequest(
            "DescribeGroups of 100,000 names",
            m.DescribeGroupsRequest(groups=[f"g{number}" for number in range(100_000)]),
            5,
        ),
        AttackRequest(
            "Metadata of 50,000 topics that do not exist",
            m.MetadataRequest(
                topics=[
                    m.MetadataRequest.MetadataRequestTopic(name=f"no-{number}")
                    for number in range(50_000)
                ],
                allow_auto_topic_creation=False,
            ),
            9,
        ),
    ]


def _many_moves(topic: str) -> list[AttackRequest]:
    elect = m.ElectLeadersRequest.TopicPartitions
    moves = m.AlterPartitionReassignmentsRequest
    numbers = range(50_000)
    return [
        AttackRequest(
            "ElectLeaders of 50,000 partitions",
            m.ElectLeadersRequest(
                topic_partitions=[elect(topic=topic, partitions=list(numbers))], timeout_ms=1
            ),
            2,
        ),
        AttackRequest(
            "AlterPartitionReassignments of 50,000 partitions",
            moves(
                topics=[
                    moves.ReassignableTopic(
                        name=topic,
                        partitions=[
                            moves.ReassignablePartition(partition_index=number, replicas=[7, 8, 9])
                            for number in numbers
                        ],
                    )
                ]
            ),
            0,
        ),
    ]


def _many_partitions(topic: str) -> list[AttackRequest]:
    epochs = m.OffsetForLeaderEpochRequest
    delete = m.DeleteRecordsRequest
    numbers = range(50_000)
    return [
        AttackRequest(
            "OffsetForLeaderEpoch of 50,000 partitions",
            epochs(
                replica_id=-1,
                topics=[
                    epochs.OffsetForLeaderTopic(
                        topic=topic,
                        partitions=[
                            epochs.OffsetForLeaderPartition(partition=number) for number in numbers
                        ],
                    )
                ],
            ),
            4,
        ),
        AttackRequest(
            "DeleteRecords of 50,000 partitions that do not exist",
            delete(
                topics=[
                    delete.DeleteRecordsTopic(
                        name="nowhere",
                        partitions=[
                            delete.DeleteRecordsPartition(partition_index=number, offset=1)
                            for number in numbers
                        ],
                    )
                ],
                timeout_ms=1,
            ),
            2,
        ),
    ]


def too_many_entries() -> bytes:
    """DescribeGroups of one name 7 million times, 14 MB. Our own encoder would take long."""
    count = 7_000_000
    length = bytearray()
    value = count + 1
    while value > 127:
        length.append(value & 127 | 128)
        value >>= 7
    length.append(value)
    start = b"".join(framing.encode_request(m.DescribeGroupsRequest(), 5, 1, "rude"))
    body = bytes(length) + b"\x02g" * count + b"\x00\x00"
    # The empty request ends with a list of nothing, a flag and no tags.
    head = start[4:-3]
    return (len(head) + len(body)).to_bytes(4, "big") + head + body
