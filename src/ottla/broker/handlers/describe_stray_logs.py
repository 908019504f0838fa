"""DescribeStrayLogs (20000), version 0: Ottla's own, not known to Apache Kafka.

Behaviour: every log in this broker's folders that no topic owns, under its own name or set aside,
with its topic id (zeros where the log does not know it) and the bytes of its records. Without the
right to describe the cluster the list is empty and the code 31.
Versions: one.
Left out: folders that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import Operation, allowed_on_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.DescribeStrayLogsRequest
) -> m.DescribeStrayLogsResponse:
    response = m.DescribeStrayLogsResponse
    if not allowed_on_cluster(ctx, Operation.DESCRIBE):
        return response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    logs = ctx.services.replica_manager.log_manager
    found = [(log.folder, log.topic_id, log.size) for log in logs.logs() if log.is_stray]
    found += [(aside.path, aside.topic_id, aside.size) for aside in await logs.strays.describe()]
    return response(
        strays=[
            response.StrayLog(
                log_dir=str(folder.parent), folder=folder.name, topic_id=topic_id, size=size
            )
            for folder, topic_id, size in sorted(found)
        ]
    )
