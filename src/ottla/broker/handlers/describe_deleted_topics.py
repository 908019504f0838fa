"""DescribeDeletedTopics (20003), version 0: Ottla's own, not known to Apache Kafka (ADR 50).

Behaviour: the topics in the trash (`kept`, `returning`), and those of which some broker may have
files still (`going`), by the store's word; any broker answers. `Topics` asks for some names only.
With `WithFolders` also the folders on this broker: `kept` in the trash, or `removing`, set aside
and about to be removed.
Versions: one.
Rights: DESCRIBE on a topic; others are left out.
Left out: sizes of folders that are about to be removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.admin.trash import deleted_topics
from ottla.security.rights import Operation, ResourceType, refused_in_turns
from ottla.wire import messages as m

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ottla.broker.admin.trash import DeletedTopic
    from ottla.broker.context.request import RequestContext
    from ottla.types import TopicId

Response = m.DescribeDeletedTopicsResponse


async def handle(
    ctx: RequestContext, request: m.DescribeDeletedTopicsRequest
) -> m.DescribeDeletedTopicsResponse:
    wanted = None if request.topics is None else set(request.topics)
    known = await deleted_topics(ctx.services.store)
    topics = [topic for topic in known if wanted is None or topic.entry.topic in wanted]
    # The name of a folder has not all of a long one.
    full_names = {topic.topic_id: topic.entry.topic for topic in known}
    folders = await _folders(ctx, wanted, full_names) if request.with_folders else []
    names = {topic.entry.topic for topic in topics} | {folder.topic for folder in folders}
    hidden = await refused_in_turns(ctx, Operation.DESCRIBE, ResourceType.TOPIC, sorted(names))
    return Response(
        broker_id=ctx.services.broker_id,
        topics=[_topic(topic) for topic in topics if topic.entry.topic not in hidden],
        folders=[folder for folder in folders if folder.topic not in hidden],
    )


def _topic(topic: DeletedTopic) -> Response.DeletedTopic:
    kept = topic.entry.kept
    shown = Response.DeletedTopic(
        name=topic.entry.topic,
        topic_id=topic.topic_id,
        state=topic.state,
        brokers=list(topic.entry.brokers),
    )
    if kept is not None:
        shown.partitions = len(kept.replicas)
        shown.replication_factor = max(map(len, kept.replicas.values()))
        shown.deleted_ms, shown.until_ms = kept.deleted_ms, kept.until_ms
    return shown


async def _folders(
    ctx: RequestContext, wanted: Collection[str] | None, full_names: Mapping[TopicId, str]
) -> list[Response.DeletedFolder]:
    log_manager = ctx.services.replica_manager.log_manager
    sizes = await log_manager.trash.sizes()
    found = [
        Response.DeletedFolder(
            topic=full_names.get(log.topic_id, log.topic),
            topic_id=log.topic_id,
            partition=log.partition,
            state="kept",
            size=sizes.get(log.path, -1),
            path=str(log.path),
        )
        for log in log_manager.trash
    ]
    found += [
        Response.DeletedFolder(
            topic=tp.topic, partition=tp.partition, state="removing", path=str(path)
        )
        for path, tp in log_manager.removals.folders()
    ]
    return [folder for folder in found if wanted is None or folder.topic in wanted]
