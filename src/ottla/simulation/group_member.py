"""A member of a consumer group, written out in wire messages: join, sync, read, commit, heartbeat.

It assigns partitions round robin where it leads, stays in its generation when the coordinator
moves, and sometimes stalls longer than its session or leaves.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.client.cluster import Cluster, response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.simulation.data_clients import CheckedReader
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.runtime import Runtime
    from ottla.simulation.stage import Stage
    from ottla.wire.codec import Message

_SESSION_MS = 6_000
_REBALANCE_MS = 5_000
_TIMEOUT_MS = 9_000.0
_PAUSE_S = 0.2
_POLL_MS = 300
_TRIES = 20
_STALL_S = (1.0, 10.0)
_LEAVE_SHARE = 0.01
_COMMIT_SHARE = 0.7
_PROTOCOL = "round-robin"
_FIND_MAX_VERSION = 3
_COMMIT_MAX_VERSION = 8
_FETCH_VERSIONS = (2, 7)
_LEAVE_MIN_VERSION = 3
_GROUP_KEY = 0
# The coordinator is another one, or not ready: ask again.
_MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class Member:
    """`run` goes on for ever: it joins, reads and commits, and joins again where it has to."""

    def __init__(self, stage: Stage, name: str, group: str, runtime: Runtime) -> None:
        self._stage = stage
        self._name = name
        self._group = group
        self._random = stage.random_of(name)
        self._cluster = Cluster(runtime, stage.bootstrap, client_id=name)
        self._coordinator: int | None = None
        self._member_id = ""
        self._generation = -1
        # Of the leaders of what was committed (KIP-320).
        self._epochs: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        while True:
            try:
                ledger = self._stage.ledger
                known = self._known_partitions()
                least = {tp: ledger.committed_offset(self._group, tp) for tp in known}
                assigned = await self._join()
                await self._consume(assigned, least)
            except KafkaError as error:
                self._stage.note(self._name, error.code.name)
                if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                elif error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
                    self._stage.violated(f"{self._name} was told {error}")
            await asyncio.sleep(self._random.uniform(0, _PAUSE_S))

    # joining

    async def _join(self) -> list[TopicPartition]:
        topics = list(self._stage.topics)
        subscription = b"\0\0" + m.ConsumerProtocolSubscription(topics=topics).encode(0)
        request_class = m.JoinGroupRequest
        answer = await self._ask(
            request_class(
                group_id=self._group,
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=_REBALANCE_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[
                    request_class.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=subscription)
                ],
            )
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
        _check(answer.error_code)
        self._member_id, self._generation = answer.member_id, answer.generation_id
        members = [member.member_id for member in answer.members]
        shares = _shares(await self._numbers() if members else [], members)
        sync_class = m.SyncGroupRequest
        answer = await self._ask(
            sync_class(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type="consumer",
                protocol_name=_PROTOCOL,
                assignments=[
                    sync_class.SyncGroupRequestAssignment(member_id=member_id, assignment=share)
                    for member_id, share in shares.items()
                ],
            )
        )
        _check(answer.error_code)
        numbers = [int(number) for number in bytes(answer.assignment).split()]
        self._stage.note(self._name, f"generation {self._generation}: {numbers}")
        return [self._partition(number) for number in numbers]

    def _known_partitions(self) -> list[TopicPartition]:
        return self._stage.partitions

    async def _numbers(self) -> list[int]:
        """What there is to share, asked of whoever leads the group."""
        return list(range(len(self._stage.partitions)))

    def _partition(self, number: int) -> TopicPartition:
        return self._stage.partitions[number]

    async def _is_outdated(self) -> bool:
        """Whether there is something else to share by now."""
        return False

    # working

    async def _consume(
        self, assigned: list[TopicPartition], least: dict[TopicPartition, int]
    ) -> None:
        ledger, group = self._stage.ledger, self._group
        committed = await self._committed(assigned) if assigned else {}
        for tp, offset in committed.items():
            ledger.resumed(self._name, group, tp, offset, least.get(tp, 0))
        reader = CheckedReader(
            self._stage, self._name, self._cluster, committed, least_epochs=self._epochs
        )
        while True:
            if self._random.random() < self._stage.plan.stalls:
                await asyncio.sleep(self._random.uniform(*_STALL_S))
            if not self._stage.is_ending and self._random.random() < _LEAVE_SHARE:
                await self._leave()
                return
            if reader.positions:
                await reader.poll(max_wait_ms=_POLL_MS)
            else:
                await asyncio.sleep(_POLL_MS / 1000)
            for tp, position in reader.positions.items():
                ledger.given(group, tp, position)
            if self._random.random() < _COMMIT_SHARE:
                new = {tp: at for tp, at in reader.positions.items() if at != committed[tp]}
                if new:
                    await self._commit(new)
                    committed |= new
            request = m.HeartbeatRequest(
                group_id=group, generation_id=self._generation, member_id=self._member_id
            )
            _check((await self._ask(request)).error_code)
            if await self._is_outdated():
                return

    async def _committed(self, assigned: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Asked of the coordinator that has just synced, and of no other: one that does not know
        yet that it is none any more would answer with what it remembers."""
        request_class = m.OffsetFetchRequest
        low, high = _FETCH_VERSIONS
        answer = await self._ask(
            request_class(
                group_id=self._group,
                topics=[
                    request_class.OffsetFetchRequestTopic(
                        name=tp.topic, partition_indexes=[tp.partition]
                    )
                    for tp in assigned
                ],
                require_stable=True,
            ),
            min_version=low,
            max_version=high,
            tries=1,
        )
        _check(answer.error_code)
        found = {}
        self._epochs.clear()
        for topic in answer.topics:
            for partition in topic.partitions:
                _check(partition.error_code)
                tp = TopicPartition(topic.name, partition.partition_index)
                found[tp] = max(0, partition.committed_offset)
                self._epochs[tp] = partition.committed_leader_epoch
        return found

    async def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        ledger, group = self._stage.ledger, self._group
        before = {tp: ledger.committed_offset(group, tp) for tp in offsets}
        request_class = m.OffsetCommitRequest
        answer = await self._ask(
            request_class(
                group_id=group,
                generation_id_or_member_epoch=self._generation,
                member_id=self._member_id,
                topics=[
                    request_class.OffsetCommitRequestTopic(
                        name=tp.topic,
                        partitions=[
                            request_class.OffsetCommitRequestPartition(
                                partition_index=tp.partition, committed_offset=offset
                            )
                        ],
                    )
                    for tp, offset in offsets.items()
                ],
            ),
            max_version=_COMMIT_MAX_VERSION,
        )
        failure: KafkaError | None = None
        for topic in answer.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                if partition.error_code:
                    failure = response_error(partition.error_code)
                else:
                    ledger.committed(self._name, group, tp, offsets[tp], before[tp])
        if failure is not None:
            raise failure
        self._stage.note(self._name, f"committed {list(offsets.values())}")

    async def _leave(self) -> None:
        request_class = m.LeaveGroupRequest
        await self._ask(
            request_class(
                group_id=self._group,
                members=[request_class.MemberIdentity(member_id=self._member_id)],
            ),
            min_version=_LEAVE_MIN_VERSION,
        )
        self._stage.note(self._name, "left")
        self._member_id = ""

    # asking

    async def _ask(
        self,
        request: Message,
        *,
        min_version: int = 0,
        max_version: int | None = None,
        tries: int = _TRIES,
    ) -> Any:
        """The answer of the coordinator, wherever it is by now."""
        failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for _ in range(tries):
            try:
                if self._coordinator is None:
                    self._coordinator = await self._find()
                channel = await self._cluster.channel_to(self._coordinator, timeout_ms=_TIMEOUT_MS)
                answer = await channel.send(
                    request,
                    timeout_ms=_TIMEOUT_MS,
                    min_version=min_version,
                    max_version=max_version,
                )
                code = _first_error(answer)
                if code not in _MOVED:
                    return answer
                failure = KafkaError(code)
            except OSError:
                failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            except KafkaError as error:
                failure = error
            self._coordinator = None
            await asyncio.sleep(_PAUSE_S)
        raise failure

    async def _find(self) -> int:
        request = m.FindCoordinatorRequest(key=self._group, key_type=_GROUP_KEY)
        answer = await self._cluster.send_to_any(
            request, timeout_ms=_TIMEOUT_MS, max_version=_FIND_MAX_VERSION
        )
        _check(answer.error_code)
        # Names its brokers too, so that the coordinator's address is known.
        await self._cluster.metadata(timeout_ms=_TIMEOUT_MS)
        return int(answer.node_id)


def _shares(numbers: list[int], members: list[str]) -> dict[str, bytes]:
    """Who gets which partitions, by their numbers."""
    shares: dict[str, list[str]] = {member: [] for member in members}
    for place, number in enumerate(numbers):
        shares[members[place % len(members)]].append(str(number))
    return {member: " ".join(share).encode() for member, share in shares.items()}


def _first_error(answer: Any) -> ErrorCode:
    """Also of an answer that has its errors by partition only."""
    codes = [answer.error_code] if hasattr(answer, "error_code") else []
    for topic in getattr(answer, "topics", ()):
        codes += [partition.error_code for partition in topic.partitions]
    return ErrorCode(next((code for code in codes if code), 0))


def _check(code: int) -> None:
    if code:
        raise response_error(code)
