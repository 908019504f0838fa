"""Finds logs of topics that ended, moved or got lost while this broker was away (ADR 13, 28).

The controller does not wait for a dead Ottla broker to delete a topic: this is the other half of
that bargain. A log goes if its topic's id stands in `/ottla/ended`, or if the topic's own znode
places it elsewhere. Whatever else has no topic is a stray: it stays, and is told of.

It runs before and after the broker registers, when the controller orders something for a name whose
log has another topic id, and when a controller speaks to this life of the broker for the first
time: what that controller left to a dead broker ended before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.replication.log_verdicts import (
    Verdict,
    has_moved_away,
    has_no_place,
    judge,
)
from ottla.broker.replication.trashed_logs import TrashedLogs
from ottla.metadata.ended import MAX_SETTLED, EndedTopic, EndedTopicZnode
from ottla.metadata.renames import RenameZnode
from ottla.metadata.resizes import ResizeZnode
from ottla.metadata.store import BadVersionError, NoNodeError, StoreError
from ottla.metadata.znodes import (
    DeleteTopicZnode,
    LeaderAndIsr,
    TopicAssignment,
    TopicPartitionStateZnode,
    TopicsZnode,
    TopicZnode,
)
from ottla.topics.names import OWN_PREFIX
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition, format_topic_id

if TYPE_CHECKING:
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.metadata.store import MetadataStore
    from ottla.storage.log.log import Log

logger = logging.getLogger(__name__)

_READS_IN_FLIGHT = 1_000
# Brokers that return together strike themselves off the same entry.
_STRIKE_ATTEMPTS = 100
_NAMES_IN_A_LINE = 5
# Shorter than a controller waits for an answer.
_SPARE_ATTEMPTS = 20
_SPARE_PAUSE_S = 0.5

K = TypeVar("K")
V = TypeVar("V")


class StaleLogs:
    """Compares the logs of a broker with what the store says of their topics."""

    def __init__(
        self,
        store: MetadataStore,
        replicas: ReplicaManager,
        load_settings: Callable[[Collection[str], Collection[str]], Awaitable[None]] | None = None,
    ) -> None:
        """`load_settings` reads the configs of topics, those of the second list once more: a log
        that is given another name goes by the configs of that name from then on."""
        self._store = store
        self._replicas = replicas
        self.trash = TrashedLogs(store, replicas, self.strike_off)
        self._load_settings = load_settings

    async def settle(
        self, only: Collection[str] | None = None, *, free_names: bool = False
    ) -> frozenset[str]:
        """Of all topics, or of those in `only`: what ended goes, strays are marked as such. A stray
        is set aside where a topic of now needs its name here; with `free_names` in any case.

        Returns topics whose logs have an id and whose znode has none: written by hand, they get
        theirs from the controller, and then it shows whose the logs are.
        """
        log_manager = self._replicas.log_manager
        logs = {log.tp: log for log in log_manager.logs() if only is None or log.tp.topic in only}
        ids = {tp: log.topic_id for tp, log in logs.items()}

        def is_as_listed(tp: TopicPartition, log: Log) -> bool:
            """A log that was made while the store was asked, or told its id, by an order, belongs
            to a topic of now."""
            return log_manager.get(tp) is log and log.topic_id == ids[tp]

        # In this order: see `judge`.
        topics = await self._topics_of(logs)
        ended = await self._ended_topics()
        logs = {tp: log for tp, log in logs.items() if is_as_listed(tp, log)}
        verdicts = {tp: judge(log, topics[tp.topic], ended) for tp, log in logs.items()}
        # First of all: a log that has another name now may need the place of one that ended.
        await self._take_away_ended(logs, topics, ended)
        await self._follow_renames(
            [
                log
                for tp, log in logs.items()
                if log.topic_id != ZERO_TOPIC_ID and verdicts[tp] is Verdict.STRAY
            ]
        )
        for tp, log in logs.items():
            topic = topics[tp.topic]
            if not is_as_listed(tp, log):
                continue
            log.is_stray = verdicts[tp] is Verdict.STRAY
            if log.is_stray and topic is not None:
                await self._make_room(log, topic, free_name=free_names)
        await log_manager.removals.make_durable()
        await self.trash.look()
        await self._confirm(ended)
        return frozenset(
            tp.topic
            for tp, log in logs.items()
            if log.topic_id != ZERO_TOPIC_ID
            and (topic := topics[tp.topic]) is not None
            and topic.topic_id is None
        )

    async def spare_other_lives(self, topics: Collection[str]) -> None:
        """Before logs are deleted by their names: those that have another topic id than the topic
        of now are taken out of the way. Raises StoreError where that cannot be found out."""
        for attempt in range(_SPARE_ATTEMPTS):
            try:
                found = await _gather(sorted(topics), self._topic)
                other = {
                    log.tp.topic
                    for log in self._replicas.log_manager.logs()
                    if (topic := found.get(log.tp.topic)) is not None
                    and _differ(log.topic_id, topic.topic_id or ZERO_TOPIC_ID)
                }
                if other:
                    await self.settle(other, free_names=True)
                return
            except StoreError:
                if attempt == _SPARE_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_SPARE_PAUSE_S)

    def tell_strays(self) -> None:
        """One line, for whoever starts this broker."""
        log_manager = self._replicas.log_manager
        names = [str(log.folder) for log in log_manager.logs() if log.is_stray]
        names += map(str, log_manager.strays.folders)
        if names:
            shown = ", ".join(sorted(names)[:_NAMES_IN_A_LINE])
            more = f" and {len(names) - _NAMES_IN_A_LINE} more" * (len(names) > _NAMES_IN_A_LINE)
            logger.warning(
                "logs that no topic owns are kept (ottla log-dirs --strays): %s%s",
                shown,
                more,
            )

    async def forget_ended_topics(self) -> None:
        """Drops topics from the metadata cache that the store does not know any more, and from disk
        those that ended without a word to this broker."""
        cache, log_manager = self._replicas.metadata_cache, self._replicas.log_manager
        lives = cache.lives()
        names = frozenset(await self._store.children(TopicsZnode.path()))
        # Read after the names: an entry is there before the old name goes, and stays until every
        # group's offsets are carried over. The controller's next word names the topic's new name.
        renamed = await self._renamed_topics()
        shadows = await self._swapped_shadows()
        now = cache.lives()
        cache.forget(
            [
                name
                for name, life in lives.items()
                if name not in names
                and now.get(name) is life
                and cache.topic_id(name) not in renamed
                and name not in shadows
            ]
        )
        ended = await self._ended_topics()
        await self.settle(
            {
                log.tp.topic
                for log in log_manager.logs()
                if log.tp.topic not in names or log.topic_id in ended
            }
        )

    def suspects(self, *, all_told: bool) -> list[TopicPartition]:
        """Logs that are not this broker's any more, by the controller's word.

        The topic was made again, or the partition was moved away, while this broker was down or
        before a controller that died could say so. Apache Kafka has deleted such logs since 3.x
        too. Of a topic that is being deleted the controller tells only where it has replicas: a log
        of which it says nothing at all (`all_told`: it has named topics) may be left from before a
        move. So may one that is hosted: the controller died with its order to stop.
        """
        cache, own_id = self._replicas.metadata_cache, self._replicas.broker_id
        found = []
        for log in self._replicas.log_manager.logs():
            tp = log.tp
            state = cache.partition_state(tp)
            if state is None:
                is_suspect = all_told
            else:
                # A list edited by hand leaves the leader where it was, and there are the records. A
                # move takes a replica out of the ISR before it takes it out of the list.
                is_suspect = (
                    own_id not in state.replicas
                    and own_id not in state.isr
                    and own_id != state.leader
                )
            if is_suspect or _differ(log.topic_id, cache.topic_id(tp.topic)):
                found.append(tp)
        return found

    async def settle_suspects(self, suspects: Collection[TopicPartition]) -> None:
        """Deletes those of the suspects that moved away by the store's word too; of the others
        `settle` knows what to do."""
        log_manager, cache = self._replicas.log_manager, self._replicas.metadata_cache
        logs = {tp: log for tp in suspects if (log := log_manager.get(tp)) is not None}
        names = sorted({tp.topic for tp in logs})
        topics = await _gather(names, self._topic)
        states = await _gather(list(logs), self._state)
        unheard_of = [name for name in names if name not in cache.lives()]
        marks = await _gather(unheard_of, self._is_being_deleted)
        rest = set()
        for tp, log in logs.items():
            topic, dying = topics[tp.topic], marks.get(tp.topic, False)
            if log_manager.get(tp) is not log:
                continue
            if (cache.contains(tp) or dying) and topic is not None:
                own_id = self._replicas.broker_id
                if has_moved_away(log, own_id, topic, states[tp], is_being_deleted=dying):
                    self._delete(tp, "its partition was moved to other brokers")
                    continue
            if (
                topic is None
                or has_no_place(log, topic)
                or _differ(log.topic_id, topic.topic_id or ZERO_TOPIC_ID)
            ):
                rest.add(tp.topic)
        await log_manager.removals.make_durable()
        if rest:
            await self.settle(rest)

    async def _follow_renames(self, logs: Collection[Log]) -> None:
        """Logs of topics that go on under another name get it. All topics are read for that, but
        only where there is a log that no topic seems to own.

        One whose new name another log has is next when that one has gone to its own. Where names
        went round in a ring, or somebody else has it, a log waits under a name of its own: there it
        is found by its id, at the next start and by the controller's next order.
        """
        if not logs:
            return
        names = await self._store.children(TopicsZnode.path())
        owners = {
            topic.topic_id: (name, topic)
            for name, topic in (await _gather(names, self._topic)).items()
            if topic is not None
        }
        log_manager = self._replicas.log_manager
        wanted = {}
        for log in logs:
            name, topic = owners.get(log.topic_id, (None, None))
            if name is None or topic is None or log.tp.partition not in topic.partitions:
                continue
            tp = TopicPartition(name, log.tp.partition)
            there = log_manager.get(tp)
            # A second log of the topic is nobody's.
            if there is None or there.topic_id != log.topic_id:
                wanted[tp] = log
        if wanted and self._load_settings is not None:
            targets = sorted({tp.topic for tp in wanted})
            await self._load_settings(targets, targets)
        waiting = dict(wanted)
        while wanted := {tp: log for tp, log in wanted.items() if self._lacks_name(tp, log)}:
            step = {tp: log for tp, log in wanted.items() if log_manager.get(tp) is None}
            if not step:
                in_the_way = next((tp for tp in waiting if tp in wanted), None)
                if in_the_way is None:
                    return
                log = waiting.pop(in_the_way)
                step = {TopicPartition(_waiting_name(log.topic_id), log.tp.partition): log}
            for log in step.values():
                self._replicas.stop_hosting(log.tp)
                log_manager.delete_future(log.tp)
                # Until an order comes for it.
                log.is_stray = True
            await log_manager.renamed.rename(step)
            wanted = {tp: log for tp, log in wanted.items() if tp not in step}
            waiting = {tp: log for tp, log in waiting.items() if tp not in step}

    def _lacks_name(self, tp: TopicPartition, log: Log) -> bool:
        """An order may have given it that name meanwhile, and host it; or it may be gone."""
        return log.tp != tp and self._replicas.log_manager.get(log.tp) is log

    # --- doing ------------------------------------------------------------------------------

    async def _take_away_ended(
        self,
        logs: Mapping[TopicPartition, Log],
        topics: Mapping[str, TopicAssignment | None],
        ended: Mapping[TopicId, EndedTopic],
    ) -> None:
        """Judged as they are when their turn comes: while others went into the trash an order may
        have found a use for an empty log that nobody owned."""
        log_manager = self._replicas.log_manager
        for tp, log in logs.items():
            if log_manager.get(tp) is not log:
                continue
            verdict = judge(log, topics[tp.topic], ended)
            if verdict is Verdict.ENDED:
                self._delete(tp, "its topic was deleted")
            elif verdict is Verdict.KEPT:
                logger.info("the log of %s is kept: its topic was deleted and may come back", tp)
                await self._replicas.keep(tp)
        await log_manager.removals.make_durable()

    def _delete(self, tp: TopicPartition, reason: str) -> None:
        logger.info("the log of %s is deleted: %s", tp, reason)
        self._replicas.delete(tp)

    async def _make_room(self, log: Log, topic: TopicAssignment, *, free_name: bool) -> None:
        """Where another topic has the name nobody may take this log for that one's; where it needs
        the name here, or may (`free_name`), the log gets another one. So does one without an id, at
        once: the topic may get that partition later, and nothing would tell the two apart then."""
        if topic.topic_id in (None, log.topic_id):
            return
        assignment = topic.partitions.get(log.tp.partition)
        is_here = assignment is not None and self._replicas.broker_id in assignment.replicas
        if free_name or is_here or has_no_place(log, topic):
            await self._replicas.set_aside(log.tp)
        else:
            self._replicas.stop_hosting(log.tp)

    async def _confirm(self, ended: dict[TopicId, EndedTopic]) -> None:
        """Strikes this broker off the entries of topics of which it has no log any more. What is in
        a folder that failed is not known."""
        log_manager, own_id = self._replicas.log_manager, self._replicas.broker_id
        if log_manager.dirs.offline():
            return
        left = {log.topic_id for log in log_manager.logs()}
        left.update(copy.topic_id for copy in log_manager.futures().values())
        left |= log_manager.trash.topic_ids()
        done = [i for i, entry in ended.items() if own_id in entry.brokers and i not in left]
        await _gather(done, self.strike_off)

    async def strike_off(self, topic_id: TopicId) -> None:
        """The last one leaves the entry without brokers: of a topic in the trash it has what brings
        that back, and of others it may tell somebody more. Where there are many it goes."""
        path = EndedTopicZnode.path(topic_id)
        for _ in range(_STRIKE_ATTEMPTS):
            try:
                data, stat = await self._store.get(path)
                entry = EndedTopicZnode.decode(data)
                if entry is None or self._replicas.broker_id not in entry.brokers:
                    return
                others = [b for b in entry.brokers if b != self._replicas.broker_id]
                if others or entry.kept is not None or await self._has_room_for_settled():
                    value = EndedTopicZnode.encode(entry.topic, others, entry.kept)
                    await self._store.set(path, value, stat.version)
                else:
                    await self._store.delete(path, stat.version)
                return
            except BadVersionError:
                continue  # another broker was quicker
            except NoNodeError:
                return
        logger.warning("%s is changed by others again and again", format_topic_id(topic_id))

    async def _has_room_for_settled(self) -> bool:
        return len(await self._store.children(EndedTopicZnode.parent())) <= MAX_SETTLED

    # --- asking -----------------------------------------------------------------------------

    async def _ended_topics(self) -> dict[TopicId, EndedTopic]:
        try:
            names = await self._store.children(EndedTopicZnode.parent())
        except NoNodeError:
            return {}
        ids = [found for found in map(EndedTopicZnode.topic_id, names) if found is not None]
        read = await _gather(ids, self._ended_topic)
        return {topic_id: entry for topic_id, entry in read.items() if entry is not None}

    async def _renamed_topics(self) -> frozenset[TopicId]:
        try:
            names = await self._store.children(RenameZnode.parent())
        except NoNodeError:
            return frozenset()
        return frozenset(found for found in map(RenameZnode.topic_id, names) if found is not None)

    async def _swapped_shadows(self) -> frozenset[str]:
        """Names that topics had until they got those of the ones that they replace (ADR 53): the
        offsets that are stored under them are still to be carried over."""
        try:
            names = await self._store.children(ResizeZnode.parent())
        except NoNodeError:
            return frozenset()
        ids = [found for found in map(ResizeZnode.topic_id, names) if found is not None]
        read = await _gather([ResizeZnode.path(topic_id) for topic_id in ids], self._data)
        return frozenset(
            resize.shadow
            for data in read.values()
            if data is not None and (resize := ResizeZnode.decode(data)) and resize.is_swapped
        )

    async def _ended_topic(self, topic_id: TopicId) -> EndedTopic | None:
        data = await self._data(EndedTopicZnode.path(topic_id))
        return None if data is None else EndedTopicZnode.decode(data)

    async def _topics_of(
        self, logs: Mapping[TopicPartition, Log]
    ) -> dict[str, TopicAssignment | None]:
        topics = await _gather(sorted({tp.topic for tp in logs}), self._topic)
        doubtful = {
            tp.topic
            for tp, log in logs.items()
            if (topic := topics[tp.topic]) is not None and has_no_place(log, topic)
        }
        if doubtful:
            # A server of the store that lags may not have the partition yet.
            await self._store.sync()
            topics |= await _gather(sorted(doubtful), self._topic)
        return topics

    async def _topic(self, topic: str) -> TopicAssignment | None:
        try:
            data, _ = await self._store.get(TopicZnode.path(topic))
        except NoNodeError:
            return None
        return TopicZnode.decode(data)

    async def _state(self, tp: TopicPartition) -> LeaderAndIsr | None:
        try:
            return TopicPartitionStateZnode.decode(
                *await self._store.get(TopicPartitionStateZnode.path(tp))
            )
        except NoNodeError:
            return None

    async def _is_being_deleted(self, topic: str) -> bool:
        return await self._store.exists(DeleteTopicZnode.path(topic)) is not None

    async def _data(self, path: str) -> bytes | None:
        try:
            return (await self._store.get(path))[0]
        except NoNodeError:
            return None


def _waiting_name(topic_id: TopicId) -> str:
    """No topic gets such a name by a rename; of an Apache broker's start it is as good as any."""
    return f"{OWN_PREFIX}waiting.{format_topic_id(topic_id)}"


def _differ(one: TopicId, other: TopicId) -> bool:
    return one != other and ZERO_TOPIC_ID not in (one, other)


async def _gather(keys: Iterable[K], ask: Callable[[K], Awaitable[V]]) -> dict[K, V]:
    """Pipelined, a bounded number at a time."""
    listed = list(keys)
    found: dict[K, V] = {}
    for start in range(0, len(listed), _READS_IN_FLIGHT):
        some = listed[start : start + _READS_IN_FLIGHT]
        found.update(zip(some, await asyncio.gather(*map(ask, some)), strict=True))
    return found
