"""SCRAM users written to the store before any broker runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from ottla.cli import main as cli_main
from ottla.client.admin.zookeeper import ZooKeeperAdmin
from ottla.metadata.entity_configs import change_entity, read_entity, user_path
from ottla.runtime import Runtime, system_runtime
from ottla.security.sasl.exchange import Identity
from ottla.security.sasl.scram import SCRAM_SHA_512
from ottla.security.sasl.scram_client import ScramClientExchange, ScramCredentials
from ottla.security.sasl.scram_server import ScramExchange
from ottla.security.scram_users import ScramUserCache
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine


class Stage:
    """The command on a store that outlives it."""

    def __init__(self, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
        self.engine = engine
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = cli_main.run(["configs", "--zookeeper", "z:1", *arguments])
        out, err = self._capsys.readouterr()
        return code, out, err


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stage:
    engine = Engine(system_runtime())

    async def connect(
        _: Runtime, connect_string: str, credentials: Path | None = None
    ) -> ZooKeeperAdmin:
        assert (connect_string, credentials) == ("z:1", None)
        return ZooKeeperAdmin(EmbeddedStore(engine), Random(1))

    monkeypatch.setattr(ZooKeeperAdmin, "connect", connect)
    return Stage(engine, capsys)


def test_a_user_that_can_log_in(stage: Stage) -> None:
    added = ("--add-config", "SCRAM-SHA-512=[iterations=5000,password=p]")
    done = stage("--alter", "--entity-type", "users", "--entity-name", "b,1", *added)
    assert done == (0, "Completed updating config for entity: user-principal 'b,1'.\n", "")
    line = "Configs for user-principal 'b,1' are SCRAM-SHA-512=iterations=5000\n"
    assert stage("--describe", "--entity-type", "users") == (0, line, "")

    async def known() -> ScramUserCache:
        users = ScramUserCache()
        await users.load_all(EmbeddedStore(stage.engine))
        return users

    server = ScramExchange(SCRAM_SHA_512, asyncio.run(known()), "s")
    client = ScramClientExchange(ScramCredentials(SCRAM_SHA_512, "b,1", "p"), "c")
    token: bytes | None = client.first()
    while token is not None:
        token = client.take(server.take(token))
    assert server.identity == Identity("b,1")


def test_quotas_beside_it_stay(stage: Stage) -> None:
    async def set_quota() -> None:
        store = EmbeddedStore(stage.engine)
        await change_entity(store, user_path("u"), lambda _: {"producer_byte_rate": "5"})

    asyncio.run(set_quota())
    assert stage("--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=[password=p]")[0] == 0
    assert stage("--alter", "--user", "u", "--delete-config", "SCRAM-SHA-256")[0] == 0
    left = asyncio.run(read_entity(EmbeddedStore(stage.engine), user_path("u")))
    assert left == {"producer_byte_rate": "5"}
    assert stage("--alter", "--user", "u", "--delete-config", "SCRAM-SHA-256") == (
        1,
        "",
        "Invalid config(s): SCRAM-SHA-256\n",
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--alter --topic t --add-config retention.ms=1", "--zookeeper is for SCRAM credentials"),
        ("--describe --entity-type brokers", "--zookeeper is for SCRAM credentials"),
        (
            "--alter --user u --add-config producer_byte_rate=1",
            "Unexpected config names: producer_byte_rate",
        ),
        ("--alter --user-defaults --add-config SCRAM-SHA-256=[password=p]", "of one user"),
        ("--describe --user-defaults", "There are no SCRAM credentials of --entity-default"),
    ],
)
def test_everything_else_goes_through_a_broker(stage: Stage, arguments: str, text: str) -> None:
    code, out, err = stage(*arguments.split())
    assert (code, out) == (1, "") and text in err
