"""AlterConfigs (33), versions 0 to 2.

Behaviour: replaces all configs of a topic or of the cluster-wide broker defaults ("") on any
broker, of a broker on that broker; what the request does not name goes back to its default.
Versions: the same fields in all; 2 is flexible.
Left out: alter.config.policy.class.name, passwords and listeners of a broker (INVALID_REQUEST).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.admin.broker_configs import BrokerConfigs
from ottla.broker.admin.configs import alter_each, unsupported_resource
from ottla.broker.admin.topic_configs import TopicConfigs
from ottla.config.resources import ResourceType
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

Result = m.AlterConfigsResponse.AlterConfigsResourceResponse


async def handle(ctx: RequestContext, request: m.AlterConfigsRequest) -> m.AlterConfigsResponse:
    alter = partial(_alter, ctx, request.validate_only)
    results = await alter_each(ctx, request.resources, Result, alter)
    return m.AlterConfigsResponse(responses=results)


async def _alter(
    ctx: RequestContext, validate_only: bool, resource: m.AlterConfigsRequest.AlterConfigsResource
) -> None:
    entries = [(config.name, config.value) for config in resource.configs]
    name, services = resource.resource_name, ctx.services
    if resource.resource_type == ResourceType.TOPIC:
        topics = TopicConfigs(services.store, services.metadata_cache)
        await topics.replace(name, entries, validate_only=validate_only)
    elif resource.resource_type == ResourceType.BROKER:
        brokers = BrokerConfigs(services.store, services.config, services.broker_id, services.tls)
        await brokers.replace(name, entries, validate_only=validate_only)
    else:
        raise unsupported_resource(resource.resource_type)
