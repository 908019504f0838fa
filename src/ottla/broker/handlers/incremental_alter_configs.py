"""IncrementalAlterConfigs (44), versions 0 to 1.

Behaviour: sets, deletes, appends to and subtracts from single configs (KIP-339) of a topic or of
the cluster-wide broker defaults ("") on any broker, of a broker on that broker.
Versions: the same fields in both; 1 is flexible.
Left out: alter.config.policy.class.name; passwords, listeners and loggers of a broker
(INVALID_REQUEST).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker import config_admin, dynamic_config
from ottla.broker.authorization import Operation
from ottla.broker.topic_admin import as_api_error
from ottla.errors import ErrorCode, KafkaError
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

Result = m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def handle(
    ctx: RequestContext, request: m.IncrementalAlterConfigsRequest
) -> m.IncrementalAlterConfigsResponse:
    results = []
    for resource in request.resources:
        result = Result(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            _check_right(ctx, resource.resource_type, resource.resource_name)
            await _alter(ctx, resource, request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = as_api_error(error)
        results.append(result)
    return m.IncrementalAlterConfigsResponse(responses=results)


def _check_right(ctx: RequestContext, resource_type: int, name: str) -> None:
    missing = config_admin.missing_config_right(ctx, Operation.ALTER_CONFIGS, resource_type, name)
    if missing is not ErrorCode.NONE:
        raise KafkaError(missing)


async def _alter(
    ctx: RequestContext,
    resource: m.IncrementalAlterConfigsRequest.AlterConfigsResource,
    validate_only: bool,
) -> None:
    changes = [
        config_admin.Change(config.config_operation, config.name, config.value)
        for config in resource.configs
    ]
    name, services = resource.resource_name, ctx.services
    if resource.resource_type == config_admin.ResourceType.TOPIC:
        await config_admin.change_topic_config(services, name, changes, validate_only=validate_only)
    elif resource.resource_type == config_admin.ResourceType.BROKER:
        await dynamic_config.change_broker_config(
            services, name, changes, validate_only=validate_only
        )
    else:
        raise config_admin.unsupported_resource(resource.resource_type)
