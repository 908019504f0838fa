"""DeleteRecords: a log begins later from now on (KIP-107)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ottla.client.admin.session import AdminSession
from ottla.client.cluster import MOVED, RETRY_PAUSE_MS, response_error, unreachable
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire import messages as m


class RecordCalls(AdminSession):
    async def delete_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Removes what is before each offset (-1: before the high watermark); the new starts of
        the logs. Partitions whose leader has moved are asked for again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_ms / 1000
        found: dict[TopicPartition, int | KafkaError] = {}
        pending = list(offsets)
        while pending:
            left_ms = max((deadline - loop.time()) * 1000, 1)
            by_leader: dict[int, list[TopicPartition]] = {}
            for partition in pending:
                try:
                    leader = await self.cluster.leader_of(
                        partition, refresh=partition in found, timeout_ms=left_ms
                    )
                    by_leader.setdefault(leader, []).append(partition)
                except KafkaError as error:
                    found[partition] = error
            for leader, group in by_leader.items():
                chosen = {partition: offsets[partition] for partition in group}
                found |= await self._delete_at(leader, chosen, left_ms)
            pending = [p for group in by_leader.values() for p in group if _may_pass(found[p])]
            if loop.time() + RETRY_PAUSE_MS / 1000 > deadline:
                break
            if pending:
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)
        return {partition: found[partition] for partition in offsets}

    async def _delete_at(
        self, leader: int, offsets: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, int | KafkaError]:
        request_class = m.DeleteRecordsRequest
        topics: dict[str, list[TopicPartition]] = {}
        for partition in offsets:
            topics.setdefault(partition.topic, []).append(partition)
        request = request_class(
            topics=[
                request_class.DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        request_class.DeleteRecordsPartition(
                            partition_index=partition.partition, offset=offsets[partition]
                        )
                        for partition in partitions
                    ],
                )
                for topic, partitions in topics.items()
            ],
            timeout_ms=int(timeout_ms),
        )
        try:
            channel = await self.cluster.channel_to(leader, timeout_ms=timeout_ms)
            answer = await channel.send(request, timeout_ms=timeout_ms)
        except OSError as error:
            return dict.fromkeys(offsets, unreachable("deleteRecords", error))
        return {
            TopicPartition(topic.name, result.partition_index): response_error(result.error_code)
            if result.error_code
            else result.low_watermark
            for topic in answer.topics
            for result in topic.partitions
        }


def _may_pass(result: int | KafkaError) -> bool:
    return isinstance(result, KafkaError) and (
        result.code in MOVED or result.code is ErrorCode.REQUEST_TIMED_OUT
    )
