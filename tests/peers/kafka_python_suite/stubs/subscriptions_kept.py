"""A pytest plugin that mends a race of kafka-python 3.0.12, for whatever broker the suite judges.

A topic subscribed to while a Metadata request is under way is not in that request, yet its response
marks the metadata as up to date: the consumer then sleeps for `metadata.max.age.ms`, five minutes,
and reads nothing. The suite's consumers are told the broker's version, so they do not wait for
their first metadata and now and then subscribe too early (docs/client-suites.md).
"""

from __future__ import annotations

from kafka.cluster import ClusterMetadata

refresh_once = ClusterMetadata._do_refresh_metadata


async def refresh_until_nothing_was_added(self: ClusterMetadata, node_id: object) -> None:
    asked = (frozenset(self._topics), self.need_all_topic_metadata)
    await refresh_once(self, node_id)
    if asked != (frozenset(self._topics), self.need_all_topic_metadata):
        self.request_update()


ClusterMetadata._do_refresh_metadata = refresh_until_nothing_was_added
