"""IncrementalAlterConfigs (44), versions 0 to 1.

Behaviour: sets, deletes, appends to and subtracts from single configs (KIP-339) of a topic or of
the cluster-wide broker defaults ("") on any broker, of a broker on that broker.
Versions: the same fields in both; 1 is flexible.
Left out: alter.config.policy.class.name; passwords, listeners and loggers of a broker
(INVALID_REQUEST).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.admin.broker_configs import BrokerConfigs
from ottla.broker.admin.configs import Change, alter_each, unsupported_resource
from ottla.broker.admin.topic_configs import TopicConfigs
from ottla.config.resources import ResourceType
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

Result = m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def handle(
    ctx: RequestContext, request: m.IncrementalAlterConfigsRequest
) -> m.IncrementalAlterConfigsResponse:
    alter = partial(_alter, ctx, request.validate_only)
    results = await alter_each(ctx, request.resources, Result, alter)
    return m.IncrementalAlterConfigsResponse(responses=results)


async def _alter(
    ctx: RequestContext,
    validate_only: bool,
    resource: m.IncrementalAlterConfigsRequest.AlterConfigsResource,
) -> None:
    changes = [
        Change(config.config_operation, config.name, config.value) for config in resource.configs
    ]
    name, services = resource.resource_name, ctx.services
    if resource.resource_type == ResourceType.TOPIC:
        topics = TopicConfigs(services.store, services.metadata_cache)
        await topics.change(name, changes, validate_only=validate_only)
    elif resource.resource_type == ResourceType.BROKER:
        brokers = BrokerConfigs(services.store, services.config, services.broker_id, services.tls)
        await brokers.change(name, changes, validate_only=validate_only)
    else:
        raise unsupported_resource(resource.resource_type)
