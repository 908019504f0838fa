"""Topic operations, good and bad, that are sent alike to Apache Kafka and to Ottla."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from kazoo.client import KazooClient

from ottla.client.cluster import Cluster
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from ottla.wire.codec import Message
from tests.support.peers.cluster_state import (
    config_changes,
    hide_random,
    plain,
    topic_nodes,
    until_quiet,
)

TIMEOUT_MS = 20_000
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
PREFERRED, UNCLEAN = 0, 1
TWO = {0: [0, 1, 2], 1: [1, 2, 0]}
# Topics whose replicas the cluster chooses: partitions and replication factor.
RANDOM = {"op-default": (1, 1), "op-wide": (6, 3), "op-auto": (1, 1)}
NAMES = ["op-plain", "op-second", "op-third", "op-now", "op-dotted.a_b", "op-ghost", *RANDOM]


class Step(NamedTuple):
    title: str
    request: Message
    version: int
    to_controller: bool = True


def new_topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    assignment: dict[int, Sequence[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> m.CreateTopicsRequest.CreatableTopic:
    request = m.CreateTopicsRequest
    return request.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            request.CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in (assignment or {}).items()
        ],
        configs=[
            request.CreatableTopicConfig(name=key, value=value)
            for key, value in (configs or {}).items()
        ],
    )


def create(*topics: Any, validate: bool = False, timeout_ms: int = TIMEOUT_MS) -> Message:
    return m.CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate)


def expand(*wishes: tuple[str, int, Any], validate: bool = False) -> Message:
    request = m.CreatePartitionsRequest
    return request(
        topics=[
            request.CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if lists is None
                else [request.CreatePartitionsAssignment(broker_ids=ids) for ids in lists],
            )
            for name, count, lists in wishes
        ],
        timeout_ms=TIMEOUT_MS,
        validate_only=validate,
    )


def delete(*names: str) -> Message:
    return m.DeleteTopicsRequest(topic_names=list(names), timeout_ms=TIMEOUT_MS)


def delete_states(*states: tuple[str | None, bytes]) -> Message:
    request = m.DeleteTopicsRequest
    topics = [request.DeleteTopicState(name=name, topic_id=known) for name, known in states]
    return request(topics=topics, timeout_ms=TIMEOUT_MS)


def edit(*resources: tuple[int, str, list[tuple[str, int, str | None]]]) -> Message:
    request = m.IncrementalAlterConfigsRequest
    return request(
        resources=[
            request.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    request.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in edits
                ],
            )
            for kind, name, edits in resources
        ]
    )


def replace_configs(name: str, configs: dict[str, str]) -> Message:
    request = m.AlterConfigsRequest
    entries = [request.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    resource = request.AlterConfigsResource(resource_type=TOPIC, resource_name=name)
    resource.configs = entries
    return request(resources=[resource])


def reassign(*wishes: tuple[str, int, list[int] | None]) -> Message:
    request = m.AlterPartitionReassignmentsRequest
    return request(
        timeout_ms=TIMEOUT_MS,
        topics=[
            request.ReassignableTopic(
                name=name,
                partitions=[request.ReassignablePartition(partition_index=index, replicas=ids)],
            )
            for name, index, ids in wishes
        ],
    )


def elect(kind: int, topic: str, *partitions: int) -> Message:
    request = m.ElectLeadersRequest
    wanted = [request.TopicPartitions(topic=topic, partitions=list(partitions))]
    return request(election_type=kind, topic_partitions=wanted, timeout_ms=TIMEOUT_MS)


def ask(*names: str, may_create: bool) -> Message:
    topics = [m.MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return m.MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)


def describe(kind: int, name: str, *keys: str) -> Message:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return m.DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def _creations() -> list[Step]:
    kept = {"retention.ms": "3600000", "cleanup.policy": "compact"}
    return [
        Step("explicit replicas", create(new_topic("op-plain", assignment=TWO, configs=kept)), 7),
        Step("a second time", create(new_topic("op-plain", 1, 1)), 7),
        Step("defaults", create(new_topic("op-default")), 6),
        Step("wide", create(new_topic("op-wide", 6, 3)), 5),
        Step("no partitions", create(new_topic("op-bad", 0, 1)), 7),
        Step("-5 partitions", create(new_topic("op-bad", -5, 1)), 4),
        Step("no replicas", create(new_topic("op-bad", 1, 0)), 7),
        Step("too many replicas", create(new_topic("op-bad", 1, 4)), 7),
        Step("numbers and replicas", create(new_topic("op-bad", 1, 1, {0: [0]})), 7),
        Step("a blank in the name", create(new_topic("op bad", 1, 1)), 7),
        Step("no name", create(new_topic("", 1, 1)), 7),
        Step("one dot", create(new_topic(".", 1, 1)), 7),
        Step("two dots", create(new_topic("..", 1, 1)), 7),
        Step("250 letters", create(new_topic("x" * 250, 1, 1)), 7),
        Step("dotted", create(new_topic("op-dotted.a_b", assignment={0: [2]})), 3),
        Step("colliding", create(new_topic("op-dotted_a.b", 1, 1)), 7),
        Step(
            "twice in one request", create(new_topic("op-bad", 1, 1), new_topic("op-bad", 2, 1)), 7
        ),
        Step("an unknown config", create(new_topic("op-bad", 1, 1, configs={"no.such": "1"})), 7),
        Step("a bad value", create(new_topic("op-bad", 1, 1, configs={"retention.ms": "x"})), 7),
        Step(
            "a value too small",
            create(new_topic("op-bad", 1, 1, configs={"segment.bytes": "1"})),
            7,
        ),
        Step("no value", create(new_topic("op-bad", 1, 1, configs={"retention.ms": None})), 7),
        Step("a gap", create(new_topic("op-bad", assignment={0: [0], 2: [1]})), 7),
        Step("a broker twice", create(new_topic("op-bad", assignment={0: [1, 1]})), 7),
        Step("unequal replicas", create(new_topic("op-bad", assignment={0: [0], 1: [1, 2]})), 7),
        Step("an unknown broker", create(new_topic("op-ghost", assignment={0: [0, 7]})), 7),
        Step("only validated", create(new_topic("op-bad", 3, 2), validate=True), 7),
        Step("validated and bad", create(new_topic("op-plain", 3, 2), validate=True), 7),
        Step("not at the controller", create(new_topic("op-bad", 1, 1)), 7, to_controller=False),
        Step("without waiting", create(new_topic("op-now", assignment={0: [1]}), timeout_ms=0), 7),
        Step(
            "good and bad",
            create(
                new_topic("op-second", assignment={0: [2, 0]}),
                new_topic("op-third", assignment={0: [1]}),
                new_topic("op-plain", 1, 1),
                new_topic("op-bad", 1, 9),
            ),
            2,
        ),
    ]


def _expansions() -> list[Step]:
    return [
        Step("expand", expand(("op-plain", 4, None)), 3),
        Step("expand with replicas", expand(("op-plain", 5, [[2, 1, 0]])), 3),
        Step("to the same number", expand(("op-plain", 5, None)), 3),
        Step("to fewer", expand(("op-plain", 2, None)), 2),
        Step("to none", expand(("op-plain", 0, None)), 3),
        Step("an absent topic", expand(("op-absent", 5, None)), 3),
        Step("too few lists", expand(("op-plain", 8, [[0, 1, 2]])), 3),
        Step("too many lists", expand(("op-plain", 6, [[0, 1, 2], [1, 2, 0]])), 3),
        Step("new: an unknown broker", expand(("op-plain", 6, [[0, 1, 9]])), 3),
        Step("new: a broker twice", expand(("op-plain", 6, [[0, 1, 1]])), 3),
        Step("new: other factor", expand(("op-plain", 6, [[0, 1]])), 3),
        Step("new: unequal", expand(("op-plain", 7, [[0, 1, 2], [1]])), 3),
        Step("new: an empty list", expand(("op-plain", 6, [[]])), 3),
        Step("only validated", expand(("op-plain", 9, None), validate=True), 3),
        Step("twice", expand(("op-plain", 6, None), ("op-plain", 7, None)), 3),
        Step("good and bad", expand(("op-third", 2, [[0]]), ("op-second", 1, None)), 3),
        Step("not at the controller", expand(("op-plain", 6, None)), 3, to_controller=False),
    ]


def _configs() -> list[Step]:
    return [
        Step("set", edit((TOPIC, "op-plain", [("max.message.bytes", SET, "2000")])), 1),
        Step("append", edit((TOPIC, "op-plain", [("cleanup.policy", APPEND, "delete")])), 1),
        Step("subtract", edit((TOPIC, "op-plain", [("cleanup.policy", SUBTRACT, "compact")])), 1),
        Step("unset", edit((TOPIC, "op-plain", [("retention.ms", DELETE, None)])), 0),
        Step("a bad value", edit((TOPIC, "op-plain", [("retention.ms", SET, "soon")])), 1),
        Step("an unknown name", edit((TOPIC, "op-plain", [("no.such", SET, "1")])), 1),
        Step("no value", edit((TOPIC, "op-plain", [("retention.ms", SET, None)])), 1),
        Step("append to a number", edit((TOPIC, "op-plain", [("retention.ms", APPEND, "1")])), 1),
        Step(
            "a name twice",
            edit((TOPIC, "op-plain", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")])),
            1,
        ),
        Step("an absent topic", edit((TOPIC, "op-absent", [("retention.ms", SET, "1")])), 1),
        Step("an unknown kind", edit((77, "op-plain", [("retention.ms", SET, "1")])), 1),
        Step("a broker that is no number", edit((BROKER, "one", [("x", SET, "1")])), 1),
        Step("replaced", replace_configs("op-plain", {"retention.bytes": "4096"}), 2),
        Step("replaced badly", replace_configs("op-plain", {"retention.bytes": "many"}), 2),
        Step("described", describe(TOPIC, "op-plain", "retention.bytes", "cleanup.policy"), 3),
        Step("all described", describe(TOPIC, "op-second"), 4),
        Step("absent described", describe(TOPIC, "op-absent"), 4),
        Step("a bad name described", describe(TOPIC, "op bad"), 4),
        Step("an unknown kind described", describe(77, "op-plain"), 4),
    ]


def _movements() -> list[Step]:
    unknown = m.ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None)
    return [
        Step("an absent partition", reassign(("op-plain", 77, [0])), 0),
        Step("to an unknown broker", reassign(("op-plain", 0, [0, 9])), 0),
        Step("to nobody", reassign(("op-plain", 0, [])), 0),
        Step("to one twice", reassign(("op-plain", 0, [1, 1])), 0),
        Step("nothing to cancel", reassign(("op-plain", 0, None)), 0),
        Step("moved", reassign(("op-third", 0, [2])), 0),
        Step("none under way", unknown, 0),
        Step("already led", elect(PREFERRED, "op-plain", 0, 1), 2),
        Step("absent", elect(PREFERRED, "op-absent", 0), 2),
        Step("has a leader", elect(UNCLEAN, "op-plain", 0), 2),
    ]


def _endings(topic_id: bytes) -> list[Step]:
    zero = bytes(16)
    return [
        Step("made by asking", ask("op-auto", may_create=True), 9),
        Step("not made by asking", ask("op-absent", "op bad", may_create=False), 9),
        Step("a bad name", ask("op bad", may_create=True), 9),
        Step("delete the absent", delete("op-absent"), 5),
        Step("delete twice at once", delete("op-now", "op-now"), 5),
        Step("not at the controller", delete("op-plain"), 5, to_controller=False),
        Step("an id nobody has", delete_states((None, bytes(15) + b"\x07")), 6),
        Step("name and id", delete_states(("op-second", topic_id)), 6),
        Step("neither name nor id", delete_states((None, zero)), 6),
        Step("by id", delete_states((None, topic_id)), 6),
        Step("by name", delete("op-plain", "op-absent"), 4),
        Step("made again", create(new_topic("op-plain", assignment={0: [1]})), 7),
        Step("all away", delete("op-plain", "op-second", "op-third", "op-now", *RANDOM), 5),
        Step("the last away", delete("op-dotted.a_b"), 1),
    ]


class Outcome(NamedTuple):
    title: str
    answer: Any
    nodes: dict[str, Any]
    notes: list[str]


def without_own_configs(value: Any) -> Any:
    """Topics have a few configs that Apache Kafka does not know; their names say so."""
    if isinstance(value, dict):
        return {name: without_own_configs(each) for name, each in value.items()}
    if isinstance(value, list):
        return [
            without_own_configs(each)
            for each in value
            if not (isinstance(each, dict) and str(each.get("name", "")).startswith("ottla."))
        ]
    return value


class Player:
    """Plays the script on one cluster and writes down what came of every step."""

    def __init__(self, bootstrap: str, zookeeper: KazooClient) -> None:
        self._bootstrap = bootstrap
        self._zookeeper = zookeeper

    def play(self) -> list[Outcome]:
        return asyncio.run(self._play())

    async def _play(self) -> list[Outcome]:
        outcomes = []
        async with Cluster(system_runtime(), self._bootstrap) as cluster:
            for step in [*_creations(), *_expansions(), *_configs(), *_movements()]:
                outcomes.append(await self._take(cluster, step))
            answer = await cluster.metadata(["op-wide"])
            for step in _endings(answer.topics[0].topic_id):
                outcomes.append(await self._take(cluster, step))
        return outcomes

    async def _take(self, cluster: Cluster, step: Step) -> Outcome:
        controller = (await cluster.metadata()).controller_id
        target = controller if step.to_controller else (controller + 1) % 3
        answer = await cluster.send_to_broker(
            target,
            step.request,
            timeout_ms=TIMEOUT_MS + 10_000,
            min_version=step.version,
            max_version=step.version,
        )
        title = f"{type(step.request).__name__} v{step.version}: {step.title}"
        nodes = await asyncio.to_thread(until_quiet, self._nodes)
        for name, (partitions, factor) in RANDOM.items():
            nodes = hide_random(nodes, name, partitions, factor)
        notes = await asyncio.to_thread(config_changes, self._zookeeper, NAMES)
        return Outcome(title, self._comparable(answer, controller), nodes, notes)

    def _nodes(self) -> dict[str, Any]:
        return topic_nodes(self._zookeeper, NAMES)

    def _comparable(self, answer: Any, controller: int) -> Any:
        found = without_own_configs(plain(answer))
        if isinstance(answer, m.MetadataResponse):
            # Brokers and ids of the cluster are its own.
            return found["topics"]
        return found
