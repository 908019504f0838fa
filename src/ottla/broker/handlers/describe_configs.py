"""DescribeConfigs (32), versions 0 to 4.

Behaviour: configs of topics (their znode over this broker's settings) and of this broker; broker
"" stands for the cluster-wide dynamic defaults. Passwords are never shown.
Versions: 0 says only whether a value is the default; 1 has sources and synonyms; 3 types and
documentation.
Left out: broker loggers (INVALID_REQUEST).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.admin.configs import missing_config_right, read_topic_config
from ottla.broker.admin.topics import as_api_error
from ottla.config.definitions import ConfigEntry, ConfigSource
from ottla.config.resources import ResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation
from ottla.topics import names
from ottla.topics.configs import describe
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

Result = m.DescribeConfigsResponse.DescribeConfigsResult
Config = m.DescribeConfigsResponse.DescribeConfigsResourceResult
Synonym = m.DescribeConfigsResponse.DescribeConfigsSynonym


async def handle(
    ctx: RequestContext, request: m.DescribeConfigsRequest
) -> m.DescribeConfigsResponse:
    results = []
    for resource in request.resources:
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
        missing = missing_config_right(
            ctx, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
        )
        if missing is not ErrorCode.NONE:
            result.error_code, result.error_message = missing, missing.text
            results.append(result)
            continue
        try:
            entries = await _entries(ctx, resource)
        except KafkaError as error:
            result.error_code, message = as_api_error(error)
            # 2.8.2 has no text for an absent topic, and the code's own for an unknown kind.
            absent = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = "" if absent else message or error.code.text
        else:
            result.configs = [_config(ctx.version, entry, request) for entry in entries]
        results.append(result)
    return m.DescribeConfigsResponse(results=results)


async def _entries(
    ctx: RequestContext, resource: m.DescribeConfigsRequest.DescribeConfigsResource
) -> list[ConfigEntry]:
    wanted = resource.configuration_keys or None
    if resource.resource_type == ResourceType.TOPIC:
        topic = resource.resource_name
        names.validate(topic)
        if not ctx.services.metadata_cache.contains_topic(topic):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        overrides = await read_topic_config(ctx.services.store, topic)
        return describe(ctx.services.config, overrides, wanted)
    if resource.resource_type == ResourceType.BROKER:
        return _broker_entries(ctx, resource.resource_name, wanted)
    raise KafkaError(ErrorCode.INVALID_REQUEST)


def _broker_entries(ctx: RequestContext, name: str, wanted: list[str] | None) -> list[ConfigEntry]:
    config, own_id = ctx.services.config, ctx.services.broker_id
    if name == "":
        entries = config.describe_dynamic_defaults()
        return [entry for entry in entries if wanted is None or entry.name in wanted]
    if not name.lstrip("-").isdecimal():
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if int(name) != own_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {own_id} or empty string, but received {name}",
        )
    return config.describe(wanted)


def _config(version: int, entry: ConfigEntry, request: m.DescribeConfigsRequest) -> Config:
    config = Config(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=version == 0 and entry.source == ConfigSource.DEFAULT,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        config_type=entry.type,
    )
    if request.include_synonyms:
        config.synonyms = [
            Synonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
    config.documentation = entry.documentation if request.include_documentation else None
    return config
