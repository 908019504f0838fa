"""DescribeCluster (60), versions 0 to 1.

Behaviour: the cluster id, the controller and the live brokers as seen on the request's listener,
from the metadata cache.
Versions: 1 asks for an endpoint type; controllers are not served here (MISMATCHED_ENDPOINT_TYPE),
other types do not exist (UNSUPPORTED_ENDPOINT_TYPE; INVALID_REQUEST in version 0).
Left out: KRaft controllers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import NOT_ASKED_FOR, cluster_operations
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_BROKERS = 1
_CONTROLLERS = 2


async def handle(
    ctx: RequestContext, request: m.DescribeClusterRequest
) -> m.DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        return _refuse_endpoint_type(ctx.version, request.endpoint_type)
    cache = ctx.services.metadata_cache
    brokers = [
        m.DescribeClusterResponse.DescribeClusterBroker(
            broker_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker in cache.alive_brokers()
        if (endpoint := broker.endpoints.get(ctx.listener)) is not None
    ]
    listed = {broker.broker_id for broker in brokers}
    return m.DescribeClusterResponse(
        cluster_id=ctx.services.cluster_id,
        controller_id=cache.controller_id if cache.controller_id in listed else -1,
        brokers=brokers,
        cluster_authorized_operations=(
            cluster_operations(ctx)
            if request.include_cluster_authorized_operations
            else NOT_ASKED_FOR
        ),
    )


def _refuse_endpoint_type(version: int, endpoint_type: int) -> m.DescribeClusterResponse:
    if version == 0:
        code = ErrorCode.INVALID_REQUEST
    elif endpoint_type == _CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
    else:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    return m.DescribeClusterResponse(error_code=code, error_message=code.text)
