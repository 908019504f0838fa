"""Quotas of users and client ids: DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.admin.session import AdminSession
from ottla.client.cluster import response_error
from ottla.wire import messages as m

# Types with names, as (type, name) pairs: the name None is the default of its type.
QuotaEntity = tuple[tuple[str, str | None], ...]
_EXACT, _DEFAULT, _ANY = range(3)


class QuotaCalls(AdminSession):
    async def describe_client_quotas(
        self, components: Iterable[tuple[str, str | None]], *, strict: bool = True
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Quotas of the entities that have these types, and, if `strict`, no other; of a type, the
        name None stands for all there are and the empty one for its default."""
        component_class = m.DescribeClientQuotasRequest.ComponentData
        request = m.DescribeClientQuotasRequest(
            components=[
                component_class(
                    entity_type=entity_type,
                    match_type=_ANY if name is None else _EXACT if name else _DEFAULT,
                    match=name or None,
                )
                for entity_type, name in components
            ],
            strict=strict,
        )
        answer = await self.cluster.send_to_any(request, timeout_ms=self._timeout_ms)
        if answer.error_code:
            raise response_error(answer.error_code, answer.error_message)
        return {
            tuple((part.entity_type, part.entity_name) for part in entry.entity): {
                value.key: value.value for value in entry.values
            }
            for entry in answer.entries or ()
        }

    async def alter_client_quotas(
        self, entity: QuotaEntity, quotas: Mapping[str, float | None]
    ) -> None:
        """Sets quotas of one entity, or removes those that are None."""
        request_class = m.AlterClientQuotasRequest
        request = request_class(
            entries=[
                request_class.EntryData(
                    entity=[
                        request_class.EntityData(entity_type=entity_type, entity_name=name)
                        for entity_type, name in entity
                    ],
                    ops=[
                        request_class.OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in quotas.items()
                    ],
                )
            ],
            validate_only=False,
        )
        answer = await self.cluster.send_to_any(request, timeout_ms=self._timeout_ms)
        for entry in answer.entries:
            if entry.error_code:
                raise response_error(entry.error_code, entry.error_message)
