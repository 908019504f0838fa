from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.broker.fetching.sessions import ENTRY_BYTES, FetchSession, FetchSessions, SessionEntry
from ottla.broker.handlers import fetch
from ottla.broker.quotas.clients import FetchAllowance
from ottla.broker.replication.fetch_protocol import FetchPartition, FetchResult
from ottla.broker.replication.partition import Partition
from ottla.errors import ErrorCode
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.wire import messages as m
from ottla.wire.records import MAGIC_AT
from tests.support.broker.replica_cluster import TOPIC_ID, TP, Broker, client_batch, until

OTHER = TopicPartition("t", 1)
Request = m.FetchRequest


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(0, tmp_path)
    await broker.start()
    broker.know([0])
    for tp in (TP, OTHER):
        broker.order(0, 1, replicas=[0], tp=tp)
    yield broker
    await broker.stop()


async def ask(
    broker: Broker,
    wanted: dict[int, int],
    *,
    session: tuple[int, int] = (0, 0),
    version: int = 12,
    topic_id: bytes = TOPIC_ID,
    forgotten: list[int] | None = None,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation: int = 0,
) -> m.FetchResponse:
    """Fetch of partition -> offset, through the wire format both ways."""
    request = Request(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            Request.FetchTopic(
                topic="t",
                topic_id=topic_id,
                partitions=[
                    Request.FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                    )
                    for index, offset in wanted.items()
                ],
            )
        ]
        if wanted
        else [],
        forgotten_topics_data=[
            Request.ForgottenTopic(topic="t", topic_id=topic_id, partitions=forgotten)
        ]
        if forgotten
        else [],
    )
    decoded, _ = Request.decode(request.encode(version), version)
    response = await fetch.handle(broker.context(version), decoded)
    return m.FetchResponse.decode(response.encode(version), version)[0]


def codes_in(response: m.FetchResponse) -> dict[int, int]:
    return {
        data.partition_index: data.error_code
        for topic in response.responses
        for data in topic.partitions
    }


def listed(response: m.FetchResponse) -> dict[int, int]:
    """partition -> bytes of records."""
    return {
        data.partition_index: len(data.records or b"")
        for topic in response.responses
        for data in topic.partitions
    }


@pytest.mark.parametrize("version", [12, 17])
async def test_an_incremental_answer_holds_what_is_new(broker: Broker, version: int) -> None:
    first = await ask(broker, {0: 0, 1: 0}, version=version)
    assert first.error_code == 0 and first.session_id > 0
    assert listed(first) == {0: 0, 1: 0}
    session = first.session_id
    nothing = await ask(broker, {}, session=(session, 1), version=version)
    assert nothing.session_id == session and listed(nothing) == {}
    await broker.produce(2, tp=OTHER)
    news = await ask(broker, {}, session=(session, 2), version=version)
    assert set(listed(news)) == {1} and listed(news)[1] > 0
    moved = await ask(broker, {1: 2}, session=(session, 3), version=version)
    assert listed(moved) == {}
    left = await ask(broker, {}, session=(session, 4), forgotten=[1], version=version)
    assert listed(left) == {}
    await broker.produce(2, tp=OTHER)
    assert listed(await ask(broker, {}, session=(session, 5), version=version)) == {}


async def test_a_changed_high_watermark_is_news_without_records(broker: Broker) -> None:
    first = await ask(broker, {0: 0})
    log = broker.log
    log.append_as_leader(client_batch(), 1)
    log.set_high_watermark(1)
    answer = await ask(broker, {0: 1}, session=(first.session_id, 1))
    assert listed(answer) == {0: 0}
    assert answer.responses[0].partitions[0].high_watermark == 1


async def test_errors_come_back_each_time_and_so_does_the_recovery(broker: Broker) -> None:
    first = await ask(broker, {0: 50})
    assert first.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    again = await ask(broker, {}, session=(first.session_id, 1))
    assert again.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    fixed = await ask(broker, {0: 0}, session=(first.session_id, 2))
    assert fixed.responses[0].partitions[0].error_code == ErrorCode.NONE


def test_after_a_divergence_the_high_watermark_is_told_again() -> None:
    entry = SessionEntry(bytes(16), "t", 0, FetchPartition(5, 100, 0, 3, 2))
    at_end = FetchResult(ErrorCode.NONE, 5, 5, 0)
    assert entry.is_news(at_end._replace(diverging_epoch=(1, 5)))
    assert entry.is_news(at_end)
    assert not entry.is_news(at_end._replace(last_stable_offset=4))


def test_under_another_epoch_the_high_watermark_is_told_again() -> None:
    session = FetchSession(7, uses_ids=False, privileged=True, now_ms=0.0)

    def asked(epoch: int) -> bool:
        """Whether an answer that says nothing else holds the partition."""
        want = FetchPartition(24, 1000, current_leader_epoch=epoch)
        session.update([SessionEntry(bytes(16), "t", 0, want)])
        return bool(session.news([(next(iter(session.dirty)), answer)], full=False))

    answer = FetchResult(ErrorCode.NONE, high_watermark=24, log_start_offset=0)
    assert [asked(12), asked(12), asked(13), asked(13)] == [True, False, True, False]


async def test_wrong_ids_and_epochs(broker: Broker) -> None:
    first = await ask(broker, {0: 0})
    session = first.session_id
    for given, code in (
        ((session, 2), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ((session + 1, 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ):
        answer = await ask(broker, {}, session=given)
        assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, [])
    mixed = await ask(broker, {}, session=(session, 1), version=13)
    assert mixed.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert len(broker.fetches.sessions) == 1
    final = await ask(broker, {0: 0}, session=(session, -1))
    assert (final.session_id, listed(final)) == (0, {0: 0})
    assert len(broker.fetches.sessions) == 0


async def test_a_session_without_partitions_is_closed(broker: Broker) -> None:
    first = await ask(broker, {0: 0})
    answer = await ask(broker, {}, session=(first.session_id, 1), forgotten=[0])
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert len(broker.fetches.sessions) == 0


async def test_topic_ids(broker: Broker) -> None:
    unknown = bytes(15) + b"\x05"
    first = await ask(broker, {0: 0}, version=13, topic_id=unknown)
    topic = first.responses[0]
    assert topic.topic_id == unknown
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    # The name turns up later, with a log that has another id.
    broker.cache._names_by_id[unknown] = "t"
    answer = await ask(broker, {0: 0}, version=13, topic_id=unknown)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID


async def test_a_follower_may_be_ahead_of_what_its_leader_was_told(broker: Broker) -> None:
    unknown = bytes(15) + b"\x05"
    want = Request.FetchPartition(partition=0, partition_max_bytes=100)
    topic = Request.FetchTopic(topic_id=unknown, partitions=[want])
    state = Request.ReplicaState(replica_id=1)
    request = Request(replica_state=state, session_epoch=0, topics=[topic], max_bytes=100)
    first = await fetch.handle(broker.context(15), request)
    assert first.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    broker.cache._names_by_id[unknown] = "t"
    again = Request(
        replica_state=state, session_id=first.session_id, session_epoch=1, max_bytes=100
    )
    answer = await fetch.handle(broker.context(15), again)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID


@pytest.mark.parametrize("version", [7, 12, 13, 17])
async def test_a_session_keeps_nothing_of_partitions_that_do_not_exist(
    broker: Broker, version: int
) -> None:
    sessions = broker.services.fetches.sessions
    first = await ask(broker, {0: 0, 999: 0}, version=version)
    assert (first.error_code, first.session_id, len(sessions)) == (ErrorCode.NONE, 0, 0)
    assert codes_in(first) == {0: ErrorCode.NONE, 999: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    # The client goes on with full fetches, until all of them are there.
    begun = await ask(broker, {0: 0}, version=version)
    assert begun.session_id and len(sessions) == 1
    more = await ask(broker, {1: 0, 999: 0}, session=(begun.session_id, 1), version=version)
    assert more.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0 and len(broker.partition.watchers) == 0


async def test_nor_of_those_that_may_not_be_seen(broker: Broker) -> None:
    """Else a session would tell which topics exist."""
    looks: list[bool] = []

    def authorize(*_: object, log_denied: bool, **__: object) -> bool:
        looks.append(log_denied)
        return False

    context = broker.context(12)
    refused = replace(context, authorizer=SimpleNamespace(authorize=authorize))  # type: ignore[arg-type]
    for index in (0, 999):
        looks.clear()
        part = Request.FetchPartition(partition=index, partition_max_bytes=100)
        topic = Request.FetchTopic(topic="t", partitions=[part])
        answer = await fetch.handle(refused, Request(session_epoch=0, topics=[topic]))
        assert codes_in(answer) == {index: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        assert answer.session_id == 0 and len(broker.services.fetches.sessions) == 0
        assert sum(looks) == 1, "one line in the audit log"


async def test_a_session_does_not_hold_records(broker: Broker) -> None:
    await broker.produce(3)
    first = await ask(broker, {0: 0})
    assert listed(first)[0] > 0
    session = broker.services.fetches.sessions.get(first.session_id)
    assert session is not None
    assert all(entry.last is None or not entry.last.records for entry in session.dirty)


def test_all_sessions_together_have_a_bound() -> None:
    def entries(count: int) -> list[SessionEntry]:
        want = FetchPartition(0, 1)
        return [SessionEntry(ZERO_TOPIC_ID, "t" * 100, number, want) for number in range(count)]

    def create(count: int, *, privileged: bool = False) -> FetchSession | None:
        named = entries(count)
        weight = sum(entry.weight for entry in named)
        session = sessions.create(
            count, uses_ids=False, privileged=privileged, now_ms=0, weight=weight
        )
        if session is not None:
            session.update(named)
            assert session.weight == weight
        return session

    sessions = FetchSessions(1000, random.Random(1), most_bytes=100 * (ENTRY_BYTES + 100))
    large, small = create(60), create(30)
    assert large and small
    assert create(11) is None
    assert not sessions.has_room_for(11 * 900, privileged=False)
    assert create(5)
    assert create(80, privileged=True), "consumers make way"
    assert sessions.get(large.id) is None, "the largest first"
    assert create(21, privileged=True) is None
    (follower,) = sessions._sessions.values()
    follower.update([], [entry.identity for entry in entries(80)])
    assert follower.weight == 0 and create(100)


async def test_old_clients(broker: Broker) -> None:
    await broker.produce()
    formats = []
    for version in range(5):
        answer = await ask(broker, {0: 0}, version=version)
        data = answer.responses[0].partitions[0]
        assert data.error_code == ErrorCode.NONE and data.records is not None
        formats.append(data.records[MAGIC_AT])
    assert formats == [0, 0, 1, 1, 2]
    broker.log_manager.update_settings("t", type(broker.topic)(message_downconversion_enable=False))
    answer = await ask(broker, {0: 0}, version=3)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.responses[0].partitions[0].high_watermark == -1
    cut = await ask(broker, {0: 0}, version=2, partition_max_bytes=50)
    assert cut.responses[0].partitions[0].error_code == ErrorCode.NONE
    at_end = await ask(broker, {0: 1}, version=3)
    assert at_end.responses[0].partitions[0].error_code == ErrorCode.NONE
    answer = await ask(broker, {0: 0}, version=4)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert listed(answer)[0] > 0


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_a_limit_below_the_first_batch(broker: Broker, version: int) -> None:
    """Up to v2 a client has to see that something is there, or it would never ask for more."""
    await broker.produce(50)
    answer = await ask(broker, {0: 0}, version=version, partition_max_bytes=50)
    found = answer.responses[0].partitions[0].records
    assert found is not None and (len(found) == 12 if version < 3 else len(found) > 1000)
    at_end = await ask(broker, {0: 50}, version=version, partition_max_bytes=50)
    assert not at_end.responses[0].partitions[0].records


async def test_read_committed_lists_no_aborted_transactions(broker: Broker) -> None:
    await broker.produce()
    committed = await ask(broker, {0: 0}, isolation=1)
    assert committed.responses[0].partitions[0].aborted_transactions == []
    assert committed.responses[0].partitions[0].last_stable_offset == 1
    plain = await ask(broker, {0: 0})
    assert plain.responses[0].partitions[0].aborted_transactions is None


@pytest.mark.parametrize(("version", "leader"), [(15, -1), (16, 3)])
async def test_the_current_leader_comes_with_the_error(
    broker: Broker, version: int, leader: int
) -> None:
    broker.know([0, 3], leader=3)
    broker.order(3, 2, replicas=[0, 3])
    request = await ask(broker, {0: 0}, version=version)
    data = request.responses[0].partitions[0]
    if version >= 16:
        # v11 and later may read from a follower, so ask with the wrong epoch instead.
        data_request = Request(
            max_bytes=100,
            session_epoch=-1,
            topics=[
                Request.FetchTopic(
                    topic_id=TOPIC_ID,
                    partitions=[Request.FetchPartition(partition=0, current_leader_epoch=1)],
                )
            ],
        )
        response = await fetch.handle(broker.context(version), data_request)
        data = response.responses[0].partitions[0]
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert [(node.node_id, node.host) for node in response.node_endpoints] == [(3, "host3")]
    assert data.current_leader.leader_id == leader


def test_a_full_cache_gives_way_to_followers_and_larger_sessions() -> None:
    sessions = FetchSessions(2, random.Random(1))

    def create(size: int, now_ms: float, *, privileged: bool = False) -> bool:
        made = sessions.create(size, uses_ids=False, privileged=privileged, now_ms=now_ms)
        if made is not None:
            want = FetchPartition(0, 1)
            made.update([SessionEntry(bytes(16), "t", number, want) for number in range(size)])
        return made is not None

    assert create(1, 0) and create(5, 0)
    assert not create(9, 1000), "both are young"
    assert create(1, 1000, privileged=True), "a follower takes a consumer's place"
    assert len(sessions) == 2
    assert create(1, 200_000), "an idle one goes"
    assert len(sessions) == 2
    assert not FetchSessions(0, random.Random(1)).create(
        1, uses_ids=False, privileged=True, now_ms=0
    )


def session_of(broker: Broker, session_id: int) -> FetchSession:
    session = broker.fetches.sessions.get(session_id)
    assert session is not None
    return session


async def test_only_partitions_that_moved_are_looked_at(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await ask(broker, {0: 0, 1: 0})
    looked_at: list[TopicPartition] = []
    partition_of = broker.manager.partitions.require

    def spy(tp: TopicPartition) -> Partition:
        looked_at.append(tp)
        return partition_of(tp)

    monkeypatch.setattr(broker.manager.partitions, "require", spy)
    await ask(broker, {}, session=(first.session_id, 1), max_wait_ms=5)
    assert looked_at == []
    await broker.produce(2, tp=OTHER)
    looked_at.clear()
    answer = await ask(broker, {}, session=(first.session_id, 2), max_wait_ms=5)
    assert looked_at == [OTHER] and set(listed(answer)) == {1}


async def test_what_was_not_sent_yet_stays_to_be_looked_at(broker: Broker) -> None:
    await broker.produce(2)
    first = await ask(broker, {0: 0, 1: 0})
    # The client did not move: it gets the same again.
    again = await ask(broker, {}, session=(first.session_id, 1))
    assert listed(again) == {0: listed(first)[0]}


async def test_partitions_take_turns_where_one_batch_fills_the_answer(broker: Broker) -> None:
    for tp in (TP, OTHER):
        await broker.produce(2, tp=tp)
    first = await ask(broker, {0: 0, 1: 0}, max_bytes=1)
    turns = [[index for index, size in listed(first).items() if size]]
    for epoch in (1, 2, 3):
        answer = await ask(broker, {}, session=(first.session_id, epoch), max_bytes=1)
        turns.append([index for index, size in listed(answer).items() if size])
    assert turns == [[0], [1], [0], [1]]


async def test_a_partition_of_the_session_ends_its_wait(broker: Broker) -> None:
    first = await ask(broker, {0: 0, 1: 0})
    waiting = asyncio.ensure_future(
        ask(broker, {}, session=(first.session_id, 1), max_wait_ms=5000)
    )
    await until(lambda: session_of(broker, first.session_id).wait is not None)
    await broker.produce(1, tp=OTHER)
    answer = await asyncio.wait_for(waiting, 1)
    assert set(listed(answer)) == {1}
    assert session_of(broker, first.session_id).wait is None


async def test_a_moved_log_start_is_news(broker: Broker) -> None:
    await broker.produce(3)
    first = await ask(broker, {0: 3, 1: 0})
    broker.log.advance_start_offset(2)
    answer = await ask(broker, {}, session=(first.session_id, 1))
    assert listed(answer) == {0: 0}
    assert answer.responses[0].partitions[0].log_start_offset == 2


async def test_another_role_ends_the_wait_with_an_error(broker: Broker) -> None:
    broker.know([0, 1])
    first = await ask(broker, {0: 0, 1: 0}, version=10)
    waiting = asyncio.ensure_future(
        ask(broker, {}, session=(first.session_id, 1), max_wait_ms=5000, version=10)
    )
    await until(lambda: session_of(broker, first.session_id).wait is not None)
    broker.order(1, 2, replicas=[0, 1])
    answer = await asyncio.wait_for(waiting, 1)
    data = answer.responses[0].partitions[0]
    assert (data.partition_index, data.error_code) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    again = await ask(broker, {}, session=(first.session_id, 2), version=10)
    assert list(listed(again)) == [0]


async def test_closed_and_evicted_sessions_leave_nothing_behind(broker: Broker) -> None:
    first = await ask(broker, {0: 0, 1: 0})
    assert len(broker.partition.watchers) == 1
    await ask(broker, {}, session=(first.session_id, 1), forgotten=[0])
    assert len(broker.partition.watchers) == 0
    await ask(broker, {0: 0}, session=(first.session_id, 2))
    assert len(broker.partition.watchers) == 1
    await ask(broker, {0: 0}, session=(first.session_id, -1))
    assert len(broker.partition.watchers) == 0


async def test_a_partition_that_is_named_twice_has_one_entry(broker: Broker) -> None:
    await broker.produce(3)
    part = Request.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    last = Request.FetchPartition(partition=0, partition_max_bytes=1 << 20, fetch_offset=3)
    topic = Request.FetchTopic(topic="t", partitions=[part, last])
    request = Request(max_bytes=1 << 20, session_epoch=0, topics=[topic])
    response = await fetch.handle(broker.context(12), request)
    assert [len(each.partitions) for each in response.responses] == [1]
    assert not response.responses[0].partitions[0].records
    await ask(broker, {}, session=(response.session_id, -1))
    assert len(broker.partition.watchers) == 0


async def test_an_idle_follower_counts_as_caught_up_while_its_session_asks(
    broker: Broker,
) -> None:
    broker.know([0, 1])
    broker.order(0, 2, replicas=[0, 1])
    want = Request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    topic = Request.FetchTopic(topic="t", partitions=[want])
    request = Request(replica_id=1, session_epoch=0, topics=[topic], max_bytes=100)
    first = await fetch.handle(broker.context(12), request)
    for epoch in range(1, 4):
        broker.clock.ahead_ms += 20_000
        await fetch.handle(
            broker.context(12),
            Request(replica_id=1, session_id=first.session_id, session_epoch=epoch, max_bytes=100),
        )
    await broker.produce(1)
    broker.partition.maybe_shrink(broker.clock.monotonic_ms())
    assert not broker.isr.changes, "it asked a moment ago"
    broker.clock.ahead_ms += 31_000
    broker.partition.maybe_shrink(broker.clock.monotonic_ms())
    assert broker.isr.changes[TP].isr == (0,)


async def test_a_follower_that_was_put_out_of_the_isr_holds_nobody_up(broker: Broker) -> None:
    broker.know([0, 1])
    broker.order(0, 2, replicas=[0, 1])
    want = Request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    topic = Request.FetchTopic(topic="t", partitions=[want])
    await fetch.handle(
        broker.context(12), Request(replica_id=1, session_epoch=0, topics=[topic], max_bytes=100)
    )
    # It goes: the controller takes it out before it fetches once more.
    broker.order(0, 3, replicas=[0, 1], isr=[0])
    result = await broker.produce(1, acks=-1, timeout_ms=100)
    assert result.error is ErrorCode.NONE and broker.log.high_watermark == 1


class Allowing:
    """Quotas that say what a test wants."""

    def __init__(self) -> None:
        self.allowed = FetchAllowance()

    def before_fetch(self, principal: str, client_id: str | None) -> FetchAllowance:
        return self.allowed


async def test_above_its_quota_a_session_goes_on_empty_and_none_begins(broker: Broker) -> None:
    quotas = broker.services.client_quotas = Allowing()
    await broker.produce(2)
    quotas.allowed = FetchAllowance(0, 700)
    refused = await ask(broker, {0: 0})
    assert (refused.session_id, refused.throttle_time_ms, listed(refused)) == (0, 700, {})
    assert len(broker.fetches.sessions) == 0
    quotas.allowed = FetchAllowance()
    session = (await ask(broker, {0: 0, 1: 0})).session_id
    quotas.allowed = FetchAllowance(0, 700)
    await broker.produce(2, tp=OTHER)
    empty = await ask(broker, {0: 2}, session=(session, 1))
    assert (empty.session_id, empty.throttle_time_ms, listed(empty)) == (session, 700, {})
    quotas.allowed = FetchAllowance()
    later = await ask(broker, {}, session=(session, 2))
    assert later.throttle_time_ms == 0 and list(listed(later)) == [1]


async def test_a_quota_bounds_an_answer(broker: Broker) -> None:
    quotas = broker.services.client_quotas = Allowing()
    for _ in range(4):
        await broker.produce(1)
    everything = listed(await ask(broker, {0: 0}))[0]
    quotas.allowed = FetchAllowance(everything // 2)
    assert listed(await ask(broker, {0: 0}))[0] == everything // 2
    quotas.allowed = FetchAllowance(1)
    assert 1 < listed(await ask(broker, {0: 0}))[0] <= everything // 4, "one batch at least"
