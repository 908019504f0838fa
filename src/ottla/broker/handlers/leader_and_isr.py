"""LeaderAndIsr (4), versions 0 to 7.

Behaviour: the controller's orders to lead or follow, carried out at once; per-partition codes as in
Kafka 2.8 (broker/replication/roles.py). A stale broker epoch gives 77, a stale controller epoch 11,
both at the top and for every partition.
Versions: 0 and 1 name the topic in every partition, 2 to 4 group by name, from 5 on answers are
grouped by topic id. v6 adds the recovery state, v7 the KRaft flag; both are not used.
Left out: the type field (full or incremental): partitions that a full request does not name stay.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.membership.stale_logs import delete_stale_logs
from ottla.broker.replication.request_epochs import refusal
from ottla.broker.replication.roles import create_logs_ahead, refuse_leader_and_isr
from ottla.errors import ErrorCode
from ottla.metadata.store import StoreError
from ottla.security.rights import Operation, allowed_on_cluster
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.broker.context.services import BrokerServices

log = logging.getLogger(__name__)


async def handle(ctx: RequestContext, request: m.LeaderAndIsrRequest) -> m.LeaderAndIsrResponse:
    if not allowed_on_cluster(ctx, Operation.CLUSTER_ACTION):
        return refuse_leader_and_isr(request, ctx.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    error = refusal(ctx.services, request.broker_epoch, request.controller_epoch)
    if error is not ErrorCode.NONE:
        return refuse_leader_and_isr(request, ctx.version, error)
    manager = ctx.services.replica_manager
    await _settle_other_lives(ctx.services, request)
    await create_logs_ahead(manager, request)
    if request.controller_epoch < ctx.services.controller_epoch:
        # A newer controller spoke up while the logs were made.
        return refuse_leader_and_isr(request, ctx.version, ErrorCode.STALE_CONTROLLER_EPOCH)
    return manager.become_leader_or_follower(request, ctx.version)


async def _settle_other_lives(services: BrokerServices, request: m.LeaderAndIsrRequest) -> None:
    """A topic that was made again while this broker was away: its old metadata and logs go first.

    The store says which id is the right one; where the request is wrong the logs stay.
    """
    manager = services.replica_manager
    other = []
    for topic in request.topic_states:
        if services.metadata_cache.forget_other_life(topic.topic_name, topic.topic_id):
            # The configs went with it.
            await services.topic_settings.load([topic.topic_name])
        for state in topic.partition_states:
            known = manager.log_manager.get(TopicPartition(topic.topic_name, state.partition_index))
            if known is not None and ZERO_TOPIC_ID not in (known.topic_id, topic.topic_id):
                other += [topic.topic_name] if known.topic_id != topic.topic_id else []
    if other:
        try:
            await delete_stale_logs(services.store, manager, only=other)
            await services.topic_settings.load(other, again=other)
        except StoreError as error:
            log.warning("logs of %s may be of topics that ended: %r", ", ".join(other), error)
