"""DescribeLogDirs (35), versions 0 to 4.

Behaviour: every folder of log.dirs with the sizes of the replicas in it, of the named partitions or
of all (null); KAFKA_STORAGE_ERROR for a folder that failed. The lag is how far a log is behind its
own high watermark, 0 as a rule; for a copy on its way to another folder how far it is behind the
log itself.
Versions: 3 has an error code at the top, 4 the folder's total and usable bytes (-1: not known).
Left out: sizes of the volumes (version 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode
from ottla.security.rights import Operation, allowed_on_cluster
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.context.request import RequestContext
    from ottla.storage.log.log import Log

Result = m.DescribeLogDirsResponse.DescribeLogDirsResult


class Replica(NamedTuple):
    log: Log
    lag: int
    is_future: bool


async def handle(
    ctx: RequestContext, request: m.DescribeLogDirsRequest
) -> m.DescribeLogDirsResponse:
    if not allowed_on_cluster(ctx, Operation.DESCRIBE):
        # Before version 3 there is no place for the code: the list is empty.
        return m.DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    log_manager = ctx.services.replica_manager.log_manager
    wanted = (
        None
        if request.topics is None
        else {
            TopicPartition(entry.topic, index)
            async for entry in ctx.turns.each(request.topics)
            async for index in ctx.turns.each(entry.partitions)
        }
    )
    by_folder: dict[str, list[Replica]] = {str(path): [] for path in log_manager.dirs.online()}
    async for log in ctx.turns.each(list(log_manager.logs())):
        if wanted is None or log.tp in wanted:
            lag = max(log.high_watermark - log.end_offset, 0)
            by_folder[str(log.data_dir)].append(Replica(log, lag, is_future=False))
            copy = log_manager.future(log.tp)
            if copy is not None:
                lag = max(log.end_offset - copy.end_offset, 0)
                by_folder[str(copy.data_dir)].append(Replica(copy, lag, is_future=True))
    results = [Result(log_dir=folder, topics=_topics(held)) for folder, held in by_folder.items()]
    results += [
        Result(log_dir=str(path), error_code=ErrorCode.KAFKA_STORAGE_ERROR)
        for path in log_manager.dirs.offline()
    ]
    return m.DescribeLogDirsResponse(results=results)


def _topics(
    replicas: Iterable[Replica],
) -> list[m.DescribeLogDirsResponse.DescribeLogDirsTopic]:
    response = m.DescribeLogDirsResponse
    topics: dict[str, list[m.DescribeLogDirsResponse.DescribeLogDirsPartition]] = {}
    for log, lag, is_future in replicas:
        topics.setdefault(log.tp.topic, []).append(
            response.DescribeLogDirsPartition(
                partition_index=log.tp.partition,
                partition_size=log.size,
                offset_lag=lag,
                is_future_key=is_future,
            )
        )
    return [
        response.DescribeLogDirsTopic(name=name, partitions=partitions)
        for name, partitions in topics.items()
    ]
