"""What rude clients do to a broker: rows of `ottla bench attacks` and cases of tests/attacks."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.bench import attack_wire as wire
from ottla.bench.attack_sides import STRANGER, STRANGERS_PASSWORD
from ottla.bench.attack_witness import TOPIC
from ottla.errors import OttlaError
from ottla.wire import messages as m
from ottla.wire import records
from ottla.wire.checksum import crc32c
from ottla.wire.compression import ZSTD, compress

WIDE_TOPIC, FULL_TOPIC, COMPACTED_TOPIC = "wide", "full", "compacted"
WIDE_PARTITIONS = 700
FULL_BATCHES = 50
# Below max.message.bytes.
BATCH_BYTES = 920_000
# How long an attacker goes on pushing at a server that takes nothing more.
STUCK_S = 1.0
_MB = 1 << 20


class Bound(NamedTuple):
    """What an attack may cost. The wait is for machines that are busy with other things as well: a
    turn that is too long shows in the processor time of its one request."""

    cpu_s: float = 3.0
    memory_mb: float = 64.0
    answer_mb: float = 8.0
    log_kb: float = 256.0
    wait_ms: float = 5000.0


class Traffic(NamedTuple):
    """The bytes of an attack, both ways."""

    sent: int
    answered: int = 0


WIDE = Bound()

# What is put on the stack stays open until the attack has been measured.
Run = Callable[[Any, contextlib.ExitStack], Traffic]


@dataclass(frozen=True)
class Attack:
    name: str
    title: str
    # What it did when it was found.
    before: str
    run: Run
    bound: Bound = WIDE
    prepare: Callable[[Any], None] | None = None


# what attacks need to find


def make_topic(side: Any, name: str, partitions: int = 1, **configs: str) -> None:
    """Returns when it can be written to."""
    entry = m.CreateTopicsRequest.CreatableTopicConfig
    topic = m.CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[entry(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    asked = m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    code = wire.ask(side.port, asked, 5).topics[0].error_code
    if code not in (0, 36):  # TOPIC_ALREADY_EXISTS
        raise OttlaError(f"topic {name} was not made: error {code}")
    _await_leaders(side.port, name, partitions)


def _await_leaders(port: int, name: str, partitions: int) -> None:
    topic = m.MetadataRequest.MetadataRequestTopic(name=name)
    asked = m.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
    for _ in range(600):
        found = wire.ask(port, asked, 9).topics[0]
        if sum(partition.leader_id >= 0 for partition in found.partitions) == partitions:
            return
        time.sleep(0.05)
    raise OttlaError(f"topic {name} has no leaders")


def produce(topic: str, batch: bytes, partition: int = 0) -> bytes:
    data = m.ProduceRequest.PartitionProduceData(index=partition, records=memoryview(batch))
    of_topic = m.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
    return wire.request(m.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[of_topic]), 7)


def _make_wide(side: Any) -> None:
    make_topic(side, WIDE_TOPIC, WIDE_PARTITIONS)


def _fill(side: Any) -> None:
    make_topic(side, FULL_TOPIC)
    batch = records.build_batch([records.Record(None, bytes(BATCH_BYTES), 0)])
    with wire.Peer(side.port) as peer:
        for _ in range(FULL_BATCHES):
            peer.send(produce(FULL_TOPIC, batch))
            peer.read()


def _make_compacted(side: Any) -> None:
    make_topic(side, COMPACTED_TOPIC, cleanup_policy="compact")


def topic_id(port: int, name: str) -> bytes:
    topic = m.MetadataRequest.MetadataRequestTopic(name=name)
    found: bytes = wire.ask(port, m.MetadataRequest(topics=[topic]), 12).topics[0].topic_id
    return found


# the attacks


def _exchange(port: int, frames: Sequence[bytes], answers: int | None = None) -> Traffic:
    """Everything at once on one connection, then the answers."""
    with wire.Peer(port) as peer:
        for frame in frames:
            peer.send(frame)
        count = len(frames) if answers is None else answers
        return Traffic(sum(map(len, frames)), peer.count(count))


def many_partitions(topics: int, partitions: int = 200_000) -> bytes:
    """CreateTopics that only validates."""
    creatable = m.CreateTopicsRequest.CreatableTopic
    asked = [
        creatable(name=f"t{number}", num_partitions=partitions, replication_factor=1)
        for number in range(topics)
    ]
    return wire.request(
        m.CreateTopicsRequest(topics=asked, timeout_ms=30_000, validate_only=True), 5, None
    )


def _create_topics(side: Any, _: contextlib.ExitStack) -> Traffic:
    return _exchange(side.port, [many_partitions(10)])


def _describe_configs(side: Any, _: contextlib.ExitStack) -> Traffic:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=4, resource_name="0", configuration_keys=None
    )
    return _exchange(
        side.port, [wire.request(m.DescribeConfigsRequest(resources=[resource] * 3000), 4)]
    )


def _metadata(side: Any, _: contextlib.ExitStack) -> Traffic:
    topic = m.MetadataRequest.MetadataRequestTopic(
        name=None, topic_id=topic_id(side.port, WIDE_TOPIC)
    )
    return _exchange(side.port, [wire.request(m.MetadataRequest(topics=[topic] * 20_000), 12)])


def _metadata_by_name(side: Any, _: contextlib.ExitStack) -> Traffic:
    topic = m.MetadataRequest.MetadataRequestTopic(name=WIDE_TOPIC)
    return _exchange(side.port, [wire.request(m.MetadataRequest(topics=[topic] * 20_000), 9)])


def _describe_groups(side: Any, _: contextlib.ExitStack) -> Traffic:
    groups = 7_000_000
    # Compact strings of one letter, a false flag, no tags: our encoder would take half a minute.
    body = _uvarint(groups + 1) + b"\x02g" * groups + b"\x00\x00"
    return _exchange(side.port, [wire.raw_request(15, 5, body, flexible=True)])


def _other_groups(side: Any, _: contextlib.ExitStack) -> Traffic:
    asked = m.DescribeGroupsRequest(groups=[f"{number:x}" for number in range(100_000)])
    return _exchange(side.port, [wire.request(asked, 5)])


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def zstd_bomb(megabytes: int = 1024) -> bytes:
    """A batch of a few kilobytes that is much more when it is unpacked: zstd frames in a row."""
    block = compress(ZSTD, bytes(64 * _MB))
    return batch_around(block * (megabytes // 64), codec=ZSTD, count=1000)


def batch_around(
    body: bytes, *, codec: int = 0, count: int = 1, last_delta: int | None = None
) -> bytes:
    """A batch with a good checksum around whatever it is given."""
    batch = bytearray(records.build_batch([records.Record(b"k", b"v", 0)]))[: records.HEADER_BYTES]
    batch += body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    batch[records.ATTRIBUTES_LOW_AT] = codec
    struct.pack_into(">i", batch, 23, count - 1 if last_delta is None else last_delta)
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[records.CRC_START :])))
    return bytes(batch)


def _zstd_bombs(side: Any, _: contextlib.ExitStack) -> Traffic:
    return _exchange(side.port, [produce(COMPACTED_TOPIC, zstd_bomb())] * 20)


def _zstd_bombs_plain(side: Any, _: contextlib.ExitStack) -> Traffic:
    return _exchange(side.port, [produce(TOPIC, zstd_bomb())] * 5)


def fetch_all(topic: str, max_bytes: int = 0x7FFFFFFF) -> bytes:
    asked = m.FetchRequest.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=max_bytes
    )
    of_topic = m.FetchRequest.FetchTopic(topic=topic, partitions=[asked])
    return wire.request(
        m.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=[of_topic]), 4, None
    )


def _unread_fetches(side: Any, stack: contextlib.ExitStack) -> Traffic:
    asked = fetch_all(FULL_TOPIC)
    peers = [stack.enter_context(wire.Peer(side.port, receive_bytes=4096)) for _ in range(40)]
    for peer in peers:
        peer.send(asked)
    return Traffic(len(asked) * len(peers), sum(_first_bytes(peer) for peer in peers))


def _first_bytes(peer: wire.Peer) -> int:
    """A few bytes of an answer, or none within a while: the server may make others wait."""
    peer.socket.settimeout(STUCK_S / 10)
    try:
        return len(peer.socket.recv(64))
    except (TimeoutError, ConnectionResetError):
        return 0


def _unfinished_frames(side: Any, stack: contextlib.ExitStack) -> Traffic:
    return _push(side, stack, 30, 40 * _MB)


def _half_sent(side: Any, stack: contextlib.ExitStack) -> Traffic:
    return _push(side, stack, 500, 64 * 1024)


def _push(side: Any, stack: contextlib.ExitStack, count: int, size: int) -> Traffic:
    """On each connection all but the last byte of a frame, until the server takes no more."""
    piece = memoryview(struct.pack(">ihhih", size, 3, 1, 7, -1) + bytes(min(size, _MB)))
    left = {}
    for _ in range(count):
        peer = stack.enter_context(wire.Peer(side.port))
        peer.socket.setblocking(False)
        left[peer] = size + 3
    moved = time.monotonic()
    total = 0
    while left and time.monotonic() - moved < STUCK_S:
        sent = sum(_push_one(peer, piece, left) for peer in tuple(left))
        total += sent
        if sent:
            moved = time.monotonic()
        else:
            time.sleep(0.01)
    return Traffic(total)


def _push_one(peer: wire.Peer, piece: memoryview, left: dict[wire.Peer, int]) -> int:
    try:
        sent = peer.socket.send(piece[: left[peer]])
    except BlockingIOError:
        return 0
    except (ConnectionResetError, BrokenPipeError):
        del left[peer]
        return 0
    left[peer] -= sent
    if not left[peer]:
        del left[peer]
    return sent


def _fetch_sessions(side: Any, stack: contextlib.ExitStack) -> Traffic:
    """Sessions of partitions that do not exist."""
    partition = m.FetchRequest.FetchPartition
    asked = [partition(partition=number, fetch_offset=0) for number in range(9_000)]
    of_topic = m.FetchRequest.FetchTopic(topic="nowhere", partitions=asked)
    frame = wire.request(
        m.FetchRequest(
            max_wait_ms=0, min_bytes=0, session_id=0, session_epoch=0, topics=[of_topic]
        ),
        11,
    )
    peers = [stack.enter_context(wire.Peer(side.port)) for _ in range(10)]
    answered = 0
    for peer in peers:
        peer.send(frame)
        answered += peer.count(1)
    return Traffic(len(frame) * len(peers), answered)


def _wide_fetch(side: Any, _: contextlib.ExitStack) -> Traffic:
    """Partitions that do not exist, without a session."""
    partition = m.FetchRequest.FetchPartition
    asked = [partition(partition=number, fetch_offset=0) for number in range(100_000)]
    of_topic = m.FetchRequest.FetchTopic(topic="nowhere", partitions=asked)
    return _exchange(
        side.port, [wire.request(m.FetchRequest(max_wait_ms=0, min_bytes=0, topics=[of_topic]), 4)]
    )


def _wide_produce(side: Any, _: contextlib.ExitStack) -> Traffic:
    """Batches for partitions that do not exist."""
    batch = records.build_batch([records.Record(None, b"v", 0)])
    data = m.ProduceRequest.PartitionProduceData
    asked = [data(index=number, records=memoryview(batch)) for number in range(50_000)]
    of_topic = m.ProduceRequest.TopicProduceData(name="nowhere", partition_data=asked)
    frame = wire.request(m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[of_topic]), 7)
    return _exchange(side.port, [frame])


def _wide_list_offsets(side: Any, _: contextlib.ExitStack) -> Traffic:
    partition = m.ListOffsetsRequest.ListOffsetsPartition
    asked = [partition(partition_index=number, timestamp=-1) for number in range(100_000)]
    of_topic = m.ListOffsetsRequest.ListOffsetsTopic(name="nowhere", partitions=asked)
    return _exchange(side.port, [wire.request(m.ListOffsetsRequest(topics=[of_topic]), 5)])


def _wide_commit(side: Any, _: contextlib.ExitStack) -> Traffic:
    partition = m.OffsetCommitRequest.OffsetCommitRequestPartition
    asked = [partition(partition_index=number, committed_offset=0) for number in range(100_000)]
    of_topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(name="nowhere", partitions=asked)
    frame = wire.request(m.OffsetCommitRequest(group_id="g", topics=[of_topic]), 6)
    return _exchange(side.port, [frame])


def _idle(side: Any, stack: contextlib.ExitStack) -> Traffic:
    return Traffic(sum(_opened(side.port, stack) for _ in range(descriptors(5000))))


def descriptors(wanted: int) -> int:
    """As many connections as this process may open, and at most those wanted."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = hard if 0 <= hard < wanted + 200 else wanted + 200
    if soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        soft = target
    return min(wanted, soft - 200)


def _opened(port: int, stack: contextlib.ExitStack) -> int:
    with contextlib.suppress(ConnectionError):
        stack.enter_context(wire.Peer(port))
    return 0


def _attempts(side: Any, _: contextlib.ExitStack) -> Traffic:
    for _number in range(10_000):
        with contextlib.suppress(ConnectionError), wire.Peer(side.port):
            pass
    return Traffic(0)


def _repeated_topics(side: Any, _: contextlib.ExitStack) -> Traffic:
    """Names that do not exist, many of them: answers are as long as the question, no longer."""
    topic = m.MetadataRequest.MetadataRequestTopic
    asked = [topic(name=f"no-{number}") for number in range(50_000)]
    return _exchange(
        side.port,
        [wire.request(m.MetadataRequest(topics=asked, allow_auto_topic_creation=False), 9)],
    )


def _list_offsets(side: Any, _: contextlib.ExitStack) -> Traffic:
    """By time in the same full partition, again and again: each would read the log."""
    partition = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=0)
    of_topic = m.ListOffsetsRequest.ListOffsetsTopic(
        name=FULL_TOPIC, partitions=[partition] * 20_000
    )
    return _exchange(side.port, [wire.request(m.ListOffsetsRequest(topics=[of_topic]), 5)])


def _small_requests(side: Any, _: contextlib.ExitStack) -> Traffic:
    """Whole frames faster than they can be answered, on one connection."""
    frame = wire.request(m.MetadataRequest(topics=[]), 9)
    return _exchange(side.port, [frame * 20_000], 20_000)


def refused_topics(count: int) -> bytes:
    partition = m.FetchRequest.FetchPartition(partition=0, fetch_offset=0)
    topics = [
        m.FetchRequest.FetchTopic(topic=f"secret-{number}", partitions=[partition])
        for number in range(count)
    ]
    return wire.request(m.FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 4)


def _refusals(side: Any, _: contextlib.ExitStack) -> Traffic:
    frame = refused_topics(1000)
    with wire.logged_in(side.clients_port, STRANGER, STRANGERS_PASSWORD) as peer:
        answered = 0
        for _number in range(100):
            peer.send(frame)
            answered += peer.count(1)
    return Traffic(100 * len(frame), answered)


def _wrong_passwords(side: Any, stack: contextlib.ExitStack) -> Traffic:
    """Answers may be kept back for long: the attacker waits for a while only."""
    hello = wire.request(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = wire.request(m.SaslAuthenticateRequest(auth_bytes=b"\0intruder\0guess"), 1)
    peers = [stack.enter_context(wire.Peer(side.clients_port)) for _ in range(200)]
    for peer in peers:
        peer.send(hello + token)
    deadline = time.monotonic() + 2 * STUCK_S
    answered = 0
    for peer in peers:
        peer.socket.settimeout(max(0.001, deadline - time.monotonic()))
        with contextlib.suppress(TimeoutError):
            answered += peer.count(1)
            answered += peer.count(1)
    return Traffic(200 * len(hello + token), answered)


def _strangers_frames(side: Any, stack: contextlib.ExitStack) -> Traffic:
    """Unfinished frames before authentication: half a megabyte at most each."""
    peers = [stack.enter_context(wire.Peer(side.clients_port)) for _ in range(100)]
    frame = struct.pack(">i", 500_000) + bytes(400_000)
    for peer in peers:
        peer.socket.settimeout(STUCK_S)
        with contextlib.suppress(TimeoutError):
            peer.send(frame)
    return Traffic(len(frame) * len(peers))


# Up to 128 MiB of a batch are unpacked to look at it, one batch at a time.
_UNPACKED = Bound(cpu_s=20, memory_mb=256)

BROKER_ATTACKS = (
    Attack(
        "create-topics",
        "CreateTopics that validates 10 topics of 200,000 partitions",
        "145 bytes: 3.2 s, 316 MB",
        _create_topics,
    ),
    Attack(
        "describe-configs", "DescribeConfigs of one broker 3,000 times", "9.6 s", _describe_configs
    ),
    Attack(
        "metadata-ids",
        f"Metadata of one id 20,000 times ({WIDE_PARTITIONS} partitions)",
        "an answer of 520 MB",
        _metadata,
        prepare=_make_wide,
    ),
    Attack(
        "metadata-names",
        f"Metadata of one name 20,000 times ({WIDE_PARTITIONS} partitions)",
        "an answer of 520 MB",
        _metadata_by_name,
        prepare=_make_wide,
    ),
    Attack(
        "metadata-unknown",
        "Metadata of 50,000 topics that do not exist",
        "0.13 s in one turn",
        _repeated_topics,
    ),
    Attack(
        "describe-groups",
        "DescribeGroups of one name 7 million times",
        "30 s, 1.3 GB",
        _describe_groups,
    ),
    Attack(
        "other-groups",
        "DescribeGroups of 100,000 names",
        "0.5 s in one turn",
        _other_groups,
    ),
    Attack(
        "list-offsets",
        "ListOffsets by time in one partition 20,000 times",
        "",
        _list_offsets,
        prepare=_fill,
    ),
    Attack(
        "zstd-bombs",
        "20 zstd bombs of 1 GB on one connection, to a compacted topic",
        "others waited 25 s",
        _zstd_bombs,
        _UNPACKED,
        prepare=_make_compacted,
    ),
    Attack(
        "zstd-bombs-plain",
        "5 zstd bombs of 1 GB on one connection",
        "they were taken",
        _zstd_bombs_plain,
        _UNPACKED,
    ),
    Attack(
        "unread-fetches",
        f"40 fetches of {FULL_BATCHES * BATCH_BYTES // 10**6} MB that nobody reads",
        "89 bytes each: 1.8 GB",
        _unread_fetches,
        prepare=_fill,
    ),
    Attack(
        "unfinished-frames",
        "30 unfinished frames of 40 MB",
        "1.2 GB",
        _unfinished_frames,
        # queued.max.request.bytes is 256 MiB.
        Bound(memory_mb=400),
    ),
    Attack(
        "half-sent",
        "500 half-sent frames of 64 KB",
        "",
        _half_sent,
        # Several times what is sent: each frame's memory grows as it comes.
        Bound(memory_mb=256),
    ),
    Attack(
        "fetch-sessions",
        "10 fetch sessions of 9,000 partitions that do not exist",
        "all were kept: 321 MB of 500,000",
        _fetch_sessions,
    ),
    Attack(
        "wide-fetch",
        "Fetch of 100,000 partitions that do not exist",
        "0.7 s in one turn",
        _wide_fetch,
    ),
    Attack(
        "wide-produce",
        "Produce to 50,000 partitions that do not exist",
        "0.4 s in one turn",
        _wide_produce,
    ),
    Attack("wide-list-offsets", "ListOffsets of 100,000 such partitions", "", _wide_list_offsets),
    Attack("wide-commit", "OffsetCommit of 100,000 such partitions", "", _wide_commit),
    Attack(
        "small-requests",
        "20,000 requests at once on one connection",
        "0.3 s in one turn",
        _small_requests,
    ),
    Attack("idle", "5,000 idle connections", "", _idle),
    Attack("attempts", "10,000 connection attempts", "", _attempts),
)
SECURED_ATTACKS = (
    Attack("refusals", "100,000 refusals", "22 MB of log", _refusals),
    Attack("wrong-passwords", "200 wrong passwords at once", "", _wrong_passwords),
    Attack("strangers-frames", "100 unfinished frames before a login", "", _strangers_frames),
)
