"""AlterReplicaLogDirs (34), versions 0 to 2 (KIP-113).

Behaviour: a replica that is here begins to move to the named folder (DescribeLogDirs shows the copy
as it grows); naming the folder where it is ends a move. A replica that this broker is still to get
is remembered for the folder and answered REPLICA_NOT_AVAILABLE, as in Kafka. LOG_DIR_NOT_FOUND for
a folder outside log.dirs, KAFKA_STORAGE_ERROR for a failed one.
Versions: the same fields in all; 2 is flexible.
Left out: nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, allowed_on_cluster
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.broker.replication.replica_manager import ReplicaManager

# Log.logFutureDirName: `.<32 hex>-future` after the partition's name, in at most 255 characters.
_FUTURE_SUFFIX_LENGTH = 40
_MAX_NAME_LENGTH = 255


async def handle(
    ctx: RequestContext, request: m.AlterReplicaLogDirsRequest
) -> m.AlterReplicaLogDirsResponse:
    response = m.AlterReplicaLogDirsResponse
    manager = ctx.services.replica_manager
    may_alter = allowed_on_cluster(ctx, Operation.ALTER)
    topics: dict[str, list[m.AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]] = {}
    async for entry in ctx.turns.each(request.dirs):
        async for topic in ctx.turns.each(entry.topics):
            async for index in ctx.turns.each(topic.partitions):
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if may_alter:
                    code = _place(manager, TopicPartition(topic.name, index), Path(entry.path))
                topics.setdefault(topic.name, []).append(
                    response.AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=code
                    )
                )
    return response(
        results=[
            response.AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
    )


def _place(manager: ReplicaManager, tp: TopicPartition, folder: Path) -> ErrorCode:
    logs = manager.log_manager
    if len(str(tp)) + _FUTURE_SUFFIX_LENGTH > _MAX_NAME_LENGTH:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if folder in logs.dirs.offline():
        return ErrorCode.KAFKA_STORAGE_ERROR
    if folder not in logs.dirs.online():
        return ErrorCode.LOG_DIR_NOT_FOUND
    if manager.partitions.is_offline(tp):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if logs.get(tp) is None:
        logs.prefer_dir(tp, folder)
    if manager.partitions.get(tp) is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    try:
        manager.moves.move(tp, folder)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
