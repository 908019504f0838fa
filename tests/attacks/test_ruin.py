"""What once ended a server for good: it is killed afterwards, and has to start again."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ottla.bench import attack_wire as wire
from ottla.bench.attack_cases import many_partitions
from ottla.bench.attack_sides import BrokerSide, StoreSide
from ottla.testing.cluster import ProcessCluster
from ottla.wire import messages as m
from ottla.zk import jute
from tests.support.attacks.bounds import complaints

EPHEMERAL = 1
# A broker that was killed comes back when its session is over.
QUICK = {"zookeeper.session.timeout.ms": "2000"}


def _make_ephemerals(port: int, count: int, path_chars: int) -> None:
    """As many as the store takes, in a session that then ends."""
    with contextlib.suppress(ConnectionError), wire.StorePeer(port) as peer:
        for number in range(count):
            path = f"/{number:05}{'p' * path_chars}"
            error, _ = peer.ask(jute.OP_CREATE, wire.create_body(path, flags=EPHEMERAL))
            if error:
                break
        peer.send(wire.store_request(jute.OP_CLOSE_SESSION, b""))
        peer.until_closed()


def test_a_store_reads_what_it_wrote(tmp_path: Path) -> None:
    """The end of a session with 300 ephemerals of long paths was one record of the journal, longer
    than a record may be: the store wrote it and did not start again."""
    with StoreSide(tmp_path) as store:
        for count, path_chars in ((300, 900_000), (1500, 16_000)):
            _make_ephemerals(store.port, count, path_chars)
        with wire.StorePeer(store.port) as peer:
            assert peer.ask(jute.OP_CREATE, wire.create_body("/after"))[0] == 0
        store.kill()
        store.start()
        with wire.StorePeer(store.port) as peer:
            error, body = peer.ask(jute.OP_GET_CHILDREN, jute.write_string("/") + b"\x00")
        assert error == 0
        assert sorted(jute.read_strings(body, 0, len(body))[0]) == ["after", "zookeeper"]
        assert complaints(store) == []


def test_a_topic_that_nobody_could_hold_ends_no_broker(tmp_path: Path) -> None:
    """CreateTopics of 100,001 partitions with a name of 249 characters killed a broker for good."""
    with (
        StoreSide(tmp_path / "store") as store,
        BrokerSide(tmp_path / "broker", store, QUICK) as broker,
    ):
        topic = m.CreateTopicsRequest.CreatableTopic(
            name="n" * 249, num_partitions=100_001, replication_factor=1
        )
        request = m.CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        answer = wire.ask(broker.port, request, 5)
        assert answer.topics[0].error_code != 0
        assert broker.is_alive
        broker.kill()
        broker.start()
        shown = wire.ask(broker.port, m.MetadataRequest(topics=None), 9)
        assert [topic.name for topic in shown.topics] == []
        assert complaints(broker) == []


def _controller_id(port: int) -> int:
    return int(wire.ask(port, m.MetadataRequest(topics=[]), 9).controller_id)


def test_a_small_request_moves_no_controller() -> None:
    """535 bytes kept the controller busy for longer than its session lasted."""
    with ProcessCluster(brokers=3) as cluster:
        ports = [cluster.options.port + number for number in range(3)]
        before = _controller_id(ports[0])
        frame = many_partitions(40)
        assert len(frame) < 600
        with wire.Peer(ports[before]) as peer:
            peer.send(frame)
            peer.count(1)
        with wire.StorePeer(cluster.options.zookeeper_port) as store:
            error, body = store.ask(
                jute.OP_GET_DATA, jute.write_string("/controller_epoch") + b"\x00"
            )
        assert error == 0
        epoch, _ = jute.read_buffer(body, 0, len(body))
        assert (epoch, _controller_id(ports[0])) == (b"1", before)
