"""Topics get other names: an API of Ottla's own (ADR 51)."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.admin.session import AdminSession
from ottla.client.cluster import response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.types import ZERO_TOPIC_ID, TopicId
from ottla.wire import messages as m


class RenamedTopic(NamedTuple):
    """How many offsets of how many groups came along (not known of those that a controller carried
    which has died since), some of the groups, and the ACLs that name the old name still."""

    topic: str
    name: str
    topic_id: TopicId
    groups: int
    offsets: int
    group_ids: list[str]
    acls: list[str]


class RenameCalls(AdminSession):
    async def rename_topic(
        self, topic: str, name: str, *, validate_only: bool = False
    ) -> RenamedTopic | None:
        """Waits until the rename is done, whichever controller does it. None where the controller
        is not Ottla's; raises KafkaError where it refuses."""
        # By the id a rename is recognised whose answer got lost with a controller.
        answer = await self.cluster.metadata([topic], timeout_ms=self._timeout_ms)
        topic_id = next((found.topic_id for found in answer.topics), ZERO_TOPIC_ID)
        asked = m.RenameTopicsRequest.TopicRename(name=topic, new_name=name, topic_id=topic_id)
        request = m.RenameTopicsRequest(
            topics=[asked], timeout_ms=self._server_timeout_ms, validate_only=validate_only
        )
        try:
            response = await self._to_controller(request, lambda found: found.results)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return None
            raise
        result = response.results[0]
        if result.error_code:
            raise response_error(result.error_code, result.error_message)
        return RenamedTopic(
            topic,
            name,
            result.topic_id,
            result.groups,
            result.offsets,
            result.group_ids,
            result.acls,
        )
