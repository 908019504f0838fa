"""IncrementalAlterConfigs (44), versions 0 to 1.

Behaviour: sets, deletes, appends to and subtracts from single configs of a topic (KIP-339), on any
broker.
Versions: the same fields in both; 1 is flexible.
Left out: broker configs and loggers (INVALID_REQUEST), alter.config.policy.class.name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker import config_admin
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
    if resource.resource_type != config_admin.ResourceType.TOPIC:
        raise config_admin.unsupported_resource(
            resource.resource_type, resource.resource_name, ctx.services.broker_id
        )
    await config_admin.change_topic_config(
        ctx.services,
        resource.resource_name,
        [
            config_admin.Change(config.config_operation, config.name, config.value)
            for config in resource.configs
        ],
        validate_only=validate_only,
    )
