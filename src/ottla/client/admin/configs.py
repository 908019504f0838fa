"""Configs of topics and brokers: DescribeConfigs, IncrementalAlterConfigs, AlterConfigs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.client.admin.session import AdminSession, error_or_none
from ottla.client.admin.types import ConfigEdit, ConfigItem, ConfigResource
from ottla.client.cluster import response_error
from ottla.config.definitions import ConfigSource, ConfigType, Synonym
from ottla.config.resources import ResourceType
from ottla.errors import KafkaError
from ottla.wire import messages as m

# Brokers answer for themselves only; everything else is the same on every broker.
_OF_ONE_BROKER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class ConfigCalls(AdminSession):
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[ConfigResource, list[ConfigItem] | KafkaError]:
        """Configs in the order of the answer."""
        resource_class = m.DescribeConfigsRequest.DescribeConfigsResource
        results: dict[ConfigResource, list[ConfigItem] | KafkaError] = {}
        for broker_id, group in _by_broker(resources).items():
            request = m.DescribeConfigsRequest(
                resources=[
                    resource_class(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configuration_keys=None,
                    )
                    for resource in group
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )
            answer = await self._to_broker_or_any(broker_id, request)
            for result in answer.results:
                resource = ConfigResource(result.resource_type, result.resource_name)
                results[resource] = (
                    response_error(result.error_code, result.error_message)
                    if result.error_code
                    else [_config_item(config) for config in result.configs]
                )
        return results

    async def incremental_alter_configs(
        self, edits: Mapping[ConfigResource, Sequence[ConfigEdit]], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Changes the named configs and leaves the others (KIP-339)."""
        request_class = m.IncrementalAlterConfigsRequest
        results: dict[ConfigResource, KafkaError | None] = {}
        for broker_id, group in _by_broker(edits).items():
            request = request_class(
                resources=[
                    request_class.AlterConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configs=[
                            request_class.AlterableConfig(
                                name=edit.name, config_operation=edit.operation, value=edit.value
                            )
                            for edit in edits[resource]
                        ],
                    )
                    for resource in group
                ],
                validate_only=validate_only,
            )
            results |= _outcomes(await self._to_broker_or_any(broker_id, request))
        return results

    async def alter_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Replaces all configs of a resource by those given."""
        request_class = m.AlterConfigsRequest
        results: dict[ConfigResource, KafkaError | None] = {}
        for broker_id, group in _by_broker(configs).items():
            request = request_class(
                resources=[
                    request_class.AlterConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configs=[
                            request_class.AlterableConfig(name=name, value=value)
                            for name, value in configs[resource].items()
                        ],
                    )
                    for resource in group
                ],
                validate_only=validate_only,
            )
            results |= _outcomes(await self._to_broker_or_any(broker_id, request))
        return results

    async def _to_broker_or_any(self, broker_id: int, request: Any) -> Any:
        if broker_id >= 0:
            return await self.cluster.send_to_broker(
                broker_id, request, timeout_ms=self._timeout_ms
            )
        return await self.cluster.send_to_any(request, timeout_ms=self._timeout_ms)


def _by_broker(resources: Iterable[ConfigResource]) -> dict[int, list[ConfigResource]]:
    """The resources by the broker that answers for them, -1 where any does."""
    groups: dict[int, list[ConfigResource]] = {}
    for resource in resources:
        own = resource.type in _OF_ONE_BROKER and resource.name
        groups.setdefault(int(resource.name) if own else -1, []).append(resource)
    return groups


def _outcomes(answer: Any) -> dict[ConfigResource, KafkaError | None]:
    return {
        ConfigResource(result.resource_type, result.resource_name): error_or_none(
            result.error_code, result.error_message
        )
        for result in answer.responses
    }


def _config_item(config: Any) -> ConfigItem:
    type_ = config.config_type
    return ConfigItem(
        config.name,
        config.value,
        _source(config.config_source),
        # Newer servers may have sources and types that are not known here.
        ConfigType(type_) if type_ in iter(ConfigType) else ConfigType.UNKNOWN,
        config.is_sensitive,
        config.read_only,
        tuple(Synonym(s.name, s.value, _source(s.source)) for s in config.synonyms),
        config.documentation or None,
    )


def _source(code: int) -> ConfigSource:
    try:
        return ConfigSource(code)
    except ValueError:
        return ConfigSource.UNKNOWN
