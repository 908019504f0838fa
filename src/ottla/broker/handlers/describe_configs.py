"""DescribeConfigs (32), versions 0 to 4.

Behaviour: configs of topics (their znode over this broker's settings) and of this broker; broker
"" stands for the cluster-wide dynamic defaults. Passwords are never shown.
Versions: 0 says only whether a value is the default; 1 has sources and synonyms; 3 types and
documentation.
Left out: broker loggers (INVALID_REQUEST).
"""

from __future__ import annotations

from collections.abc import Iterable
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

# The name under which the defaults of all brokers are.
_DEFAULT = ""
# Longer ones are no int; Python refuses to read those of thousands of digits, and reads long ones
# slowly.
_MAX_NUMBER_LENGTH = 32


# Of a resource as the request names it: its type and name.
_Resource = m.DescribeConfigsRequest.DescribeConfigsResource
_Described = dict[tuple[int, str | int], list[ConfigEntry]]


async def handle(
    ctx: RequestContext, request: m.DescribeConfigsRequest
) -> m.DescribeConfigsResponse:
    results = []
    described: _Described = {}
    async for resource in ctx.turns.each(_distinct(request.resources)):
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
        missing = missing_config_right(
            ctx, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
        )
        if missing is not ErrorCode.NONE:
            result.error_code, result.error_message = missing, missing.text
            results.append(result)
            continue
        try:
            entries = await _entries(ctx, resource, described)
        except KafkaError as error:
            result.error_code, message = as_api_error(error)
            # 2.8.2 has no text for an absent topic, and the code's own for an unknown kind.
            absent = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = "" if absent else message or error.code.text
        else:
            result.configs = [_config(ctx.version, entry, request) for entry in entries]
        results.append(result)
    return m.DescribeConfigsResponse(results=results)


def _distinct(resources: list[_Resource]) -> Iterable[_Resource]:
    """What is asked for more than once is answered once (ADR 36)."""
    return {
        (each.resource_type, each.resource_name, tuple(each.configuration_keys or ())): each
        for each in resources
    }.values()


async def _entries(
    ctx: RequestContext, resource: _Resource, described: _Described
) -> list[ConfigEntry]:
    """Those asked for. A resource is described once, in whatever ways it is asked for."""
    kind, name = resource.resource_type, resource.resource_name
    if kind == ResourceType.TOPIC:
        names.validate(name)
        if not ctx.services.metadata_cache.contains_topic(name):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if (kind, name) not in described:
            overrides = await read_topic_config(ctx.services.store, name)
            described[kind, name] = describe(ctx.services.config, overrides)
        entries = described[kind, name]
    elif kind == ResourceType.BROKER:
        broker_id = _broker_id(ctx, name)
        if (kind, broker_id) not in described:
            config = ctx.services.config
            is_default = broker_id == _DEFAULT
            described[kind, broker_id] = (
                config.describe_dynamic_defaults() if is_default else config.describe()
            )
        entries = described[kind, broker_id]
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    wanted = frozenset(resource.configuration_keys or ())
    return [entry for entry in entries if not wanted or entry.name in wanted]


def _broker_id(ctx: RequestContext, name: str) -> int | str:
    """This broker's, or that of the defaults of all: a number has many spellings."""
    own_id = ctx.services.broker_id
    if name == _DEFAULT:
        return name
    if len(name) > _MAX_NUMBER_LENGTH or not name.lstrip("-").isdecimal():
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if int(name) != own_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {own_id} or empty string, but received {name}",
        )
    return own_id


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
