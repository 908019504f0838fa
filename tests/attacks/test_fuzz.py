"""Frames that nobody sane sends, blind and made from the schemas, to brokers and to the store.

200,000 in `make test`, ten million in the campaign; all over sockets. Afterwards each process is
alive and has logged no traceback, its memory has not grown, and a good client is served.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.bench import attack_wire as wire
from ottla.bench.attack_cases import make_topic
from ottla.bench.attack_sides import (
    STRANGER,
    STRANGERS_PASSWORD,
    BrokerSide,
    SecuredSide,
    Side,
    StoreSide,
)
from ottla.bench.attack_witness import NODE, broker_request
from ottla.bench.attack_witness import TOPIC as WITNESS
from ottla.testing.cluster import HOST
from ottla.wire import messages as m
from ottla.zk import jute
from tests.support import campaign as pages
from tests.support.attacks.bounds import complaints
from tests.support.attacks.fuzz_driver import Opening, Told, drive
from tests.support.attacks.fuzz_requests import TOPIC, blind_frames, last_request, schema_frames
from tests.support.attacks.fuzz_store import blind_store_frames, hello, store_frames

MAX_GROWTH_MB = 64.0
SEED = 20_261_116
CAMPAIGN_FRAMES = 10_000_000
# Each frame made blind may end its connection: few of them travel together.
SOCIABLE, LONELY = 64, 4
SETTINGS = {
    # What legal requests make has an end.
    "auto.create.topics.enable": "false",
    "group.max.size": "5",
    "log.retention.bytes": "1000000",
    "log.segment.bytes": "1000000",
    # Here everybody fails to log in, over and over.
    "connection.failed.authentication.delay.ms": "0",
}


class FuzzedBroker(BrokerSide):
    """Brokers talk among themselves elsewhere: no order of a controller is taken from clients."""

    @property
    def clients_port(self) -> int:
        return self.port + 1

    def properties(self) -> dict[str, str]:
        both = f"INTERNAL://{HOST}:{self.port},CLIENTS://{HOST}:{self.clients_port}"
        return super().properties() | {
            "listeners": both,
            "advertised.listeners": both,
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        }


class Sides(NamedTuple):
    store: StoreSide
    broker: FuzzedBroker
    secured: SecuredSide

    def of(self, target: str) -> Side:
        return {"store": self.store, "broker": self.broker}.get(target, self.secured)


class Kind(NamedTuple):
    """Where frames of one kind go, and what part of all frames they are."""

    target: str
    part: float
    make: Callable[[random.Random], Iterator[bytes]]
    opening: Callable[[random.Random], Opening]
    together: int


def _alone(_: random.Random) -> Opening:
    return last_request()


def _stranger(_: random.Random) -> Opening:
    """Somebody who is let in and may do nothing."""
    token = f"\0{STRANGER}\0{STRANGERS_PASSWORD}".encode()
    hellos = wire.request(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    hellos += wire.request(m.SaslAuthenticateRequest(auth_bytes=token), 1)
    return last_request()._replace(before=hellos, answers=2)


def _blind(rng: random.Random) -> Iterator[bytes]:
    return blind_frames(rng, schema_frames(rng))


def _blind_store(rng: random.Random) -> Iterator[bytes]:
    return blind_store_frames(rng, store_frames(rng))


def _logins(rng: random.Random) -> Iterator[bytes]:
    """Before authentication: mostly what belongs there, or nearly."""
    login = {17, 18, 36}
    for frame in schema_frames(rng):
        if struct.unpack_from(">h", frame, 4)[0] in login or rng.random() < 0.02:
            yield frame


KINDS = {
    "broker, from schemas": Kind("broker", 0.25, schema_frames, _alone, SOCIABLE),
    "broker, blind": Kind("broker", 0.125, _blind, _alone, LONELY),
    "broker, before a login": Kind("secured", 0.04, _logins, _alone, LONELY),
    "broker, without rights": Kind("secured", 0.075, schema_frames, _stranger, SOCIABLE),
    "store, from its operations": Kind("store", 0.31, store_frames, hello, SOCIABLE),
    "store, blind": Kind("store", 0.2, _blind_store, hello, LONELY),
}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("fuzz")
    with (
        StoreSide(folder / "store") as store,
        FuzzedBroker(folder / "open", store, SETTINGS) as broker,
        SecuredSide(folder / "secured", store, SETTINGS) as secured,
    ):
        for side in (broker, secured):
            make_topic(side, TOPIC, 2)
            make_topic(side, WITNESS)
        with wire.StorePeer(store.port) as peer:
            peer.ask(jute.OP_CREATE, wire.create_body(NODE))
            peer.ask(jute.OP_CREATE, wire.create_body("/fuzz"))
        yield Sides(store, broker, secured)


def _good_client_is_served(side: Any) -> None:
    if isinstance(side, StoreSide):
        with wire.StorePeer(side.port) as store:
            assert store.ask(jute.OP_GET_DATA, jute.write_string(NODE) + b"\x00")[0] == 0
        return
    with wire.Peer(side.port) as peer:
        peer.send(broker_request())
        assert peer.read()
        produced = m.ProduceResponse.decode(peer.read(), 3, 4)[0]
        assert produced.responses[0].partition_responses[0].error_code == 0


def _fuzz(kind: Kind, sides: Sides, frames: int, seed: int) -> tuple[Told, float]:
    """What was told, and how many megabytes the process has grown by."""
    side = sides.of(kind.target)
    rng = random.Random(seed)
    before = side.memory_mb()
    port = getattr(side, "clients_port", side.port)
    told = drive(port, kind.make(rng), frames, lambda: kind.opening(rng), kind.together)
    _good_client_is_served(side)
    assert side.is_alive
    assert complaints(side) == [], f"seed {seed}"
    return told, side.memory_mb() - before


@pytest.mark.parametrize("name", KINDS)
def test_no_frame_harms_a_server(name: str, sides: Sides) -> None:
    kind = KINDS[name]
    frames = int(200_000 * kind.part)
    told, growth_mb = _fuzz(kind, sides, frames, SEED)
    assert told.frames >= frames
    assert told.answers > frames / 50, "hardly any frame got past the first look"
    assert growth_mb < MAX_GROWTH_MB


@pytest.mark.campaign
@pytest.mark.timeout(6 * 3600)
@pytest.mark.usefixtures("campaign")
def test_ten_million_frames(sides: Sides) -> None:
    """`OTTLA_FUZZ_FRAMES` of them, with a new seed unless `OTTLA_SEED` has one."""
    wanted = int(os.environ.get("OTTLA_FUZZ_FRAMES", CAMPAIGN_FRAMES))
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"seed {seed}")
    rows = []
    for name, kind in KINDS.items():
        told, growth_mb = _fuzz(kind, sides, int(wanted * kind.part), seed)
        print(f"{name}: {told}, {growth_mb:+.1f} MB")
        rows.append((name, *told, f"{growth_mb:+.1f}"))
        assert growth_mb < MAX_GROWTH_MB
    pages.write_page(
        "fuzz",
        "Fuzz frames",
        "Frames that nobody sane sends, over sockets, to brokers and to the store "
        f"(`{Path(__file__).relative_to(pages.ROOT)}`). A frame counts once it was answered or "
        "was the end of its connection. Afterwards the processes are alive, their logs hold no "
        f"traceback, none has grown by {MAX_GROWTH_MB:.0f} MB, and a good client is served.",
        {"seed": seed, "frames": f"{wanted:,}"},
        pages.table(
            ("to", "frames", "answers", "connections closed", "left waiting", "growth, MB"), rows
        ),
    )
