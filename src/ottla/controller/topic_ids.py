"""Which topic has which id, and the other way round: no two topics share one."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from ottla.types import TopicId


class TopicIds(MutableMapping[str, TopicId]):
    """Ids by the names of topics."""

    def __init__(self) -> None:
        self._ids: dict[str, TopicId] = {}
        self._names: dict[TopicId, str] = {}

    def name_of(self, topic_id: TopicId) -> str | None:
        return self._names.get(topic_id)

    def __getitem__(self, topic: str) -> TopicId:
        return self._ids[topic]

    def __setitem__(self, topic: str, topic_id: TopicId) -> None:
        self._ids[topic] = topic_id
        self._names[topic_id] = topic

    def __delitem__(self, topic: str) -> None:
        topic_id = self._ids.pop(topic)
        # A renamed topic may have its new name already.
        if self._names.get(topic_id) == topic:
            del self._names[topic_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)
