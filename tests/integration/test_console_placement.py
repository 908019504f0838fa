"""The routes of the page Placement on a real cluster: what they refuse, what they do, and whether
the commands that they show do the same."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.client import Admin
from ottla.client.admin.types import ConfigResource, NewTopic, raise_first_error
from ottla.console.api import placement
from ottla.console.settings import ConsoleSettings
from ottla.console.web.access import Access
from ottla.console.web.failures import ApiError
from ottla.console.web.routes import Call
from ottla.runtime import system_runtime
from ottla.testing.cluster import Cluster
from tests.support.integration.lifecycle_helpers import until_true

TOPIC = "placed"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(3, data=tmp_path_factory.mktemp("placement") / "data") as cluster:
        yield cluster


@pytest.fixture
async def call(cluster: Cluster) -> AsyncIterator[Call]:
    """The topic has replicas 0,1 and 1,2."""
    admin = Admin.connect(system_runtime(), cluster.bootstrap_servers)
    access = Access(admin)
    await admin.delete_topics([TOPIC])
    topic = NewTopic(TOPIC, assignments={0: [0, 1], 1: [1, 2]})

    async def is_made() -> bool:
        """Not while the one before is still being deleted."""
        return not isinstance((await admin.create_topics([topic]))[TOPIC], Exception)

    await until_true(is_made, "the topic is made", 30)
    yield Call(access, ConsoleSettings(cluster.bootstrap_servers), {})
    await access.close()


def asked(call: Call, body: Any = None, query: Any = None) -> Call:
    return Call(call.access, call.settings, {}, query, body)


def moves(*targets: tuple[int, list[int]], **more: Any) -> placement.Moves:
    return placement.Moves([placement.Target(TOPIC, p, ids) for p, ids in targets], **more)


async def replicas(admin: Admin) -> dict[int, tuple[list[int], int]]:
    described = raise_first_error(await admin.describe_topics([TOPIC]))[TOPIC]
    return {p.partition: (p.replicas, p.leader) for p in described.partitions}


async def until(call: Call, wanted: dict[int, tuple[list[int], int]]) -> None:
    async def is_so() -> bool:
        is_watched = (await placement.running(call)).is_watched
        return not is_watched and await replicas(call.admin) == wanted

    await until_true(is_so, f"{wanted}, and throttles removed", 30)


async def throttles(admin: Admin) -> set[str]:
    of = [ConfigResource.topic(TOPIC), *map(ConfigResource.broker, range(3))]
    found = raise_first_error(await admin.describe_configs(of))
    return {
        item.name
        for items in found.values()
        for item in items
        if "throttled" in item.name and item.source.name.startswith("DYNAMIC") and item.value
    }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (moves((0, [])), "Partition replica list cannot be empty"),
        (moves((0, [1, 1])), "contains multiple entries for 1"),
        (moves((0, [1]), (0, [2])), "duplicate topic partitions"),
        (moves((0, [0, 77])), "Unknown broker id 77"),
        (moves((0, [-1])), "Unknown broker id -1"),
        (moves((2**31 - 1, [0])), f"There is no {TOPIC}-{2**31 - 1}."),
        (placement.Moves([placement.Target("<b>&", 0, [0])]), "There is no <b>&-0."),
    ],
)
async def test_what_cannot_be_moved_is_refused_before_anything_is_done(
    call: Call, body: placement.Moves, words: str
) -> None:
    for handler in (placement.preview, placement.start):
        with pytest.raises(ApiError) as refused:
            await handler(asked(call, body))
        assert words in str(refused.value)
    assert await call.admin.list_reassignments() == {}
    assert await throttles(call.admin) == set()


async def test_a_throttled_move_with_another_leader_leaves_no_throttles(call: Call) -> None:
    body = moves((0, [2, 0]), (1, [2, 1]), throttle=10_000_000, elect=True)
    plan = await placement.preview(asked(call, body))
    assert [(move.adding, move.removing) for move in plan.moves] == [([2], [1]), ([], [])]
    assert await replicas(call.admin) == {0: ([0, 1], 0), 1: ([1, 2], 1)}
    await placement.start(asked(call, body))
    await until(call, {0: ([2, 0], 2), 1: ([2, 1], 2)})
    assert await throttles(call.admin) == set()


async def test_a_plan_for_some_brokers(call: Call) -> None:
    wish = placement.Wish(topics=TOPIC, brokers="0,2")
    planned = await placement.generate(asked(call, query=wish))
    assert planned and all(set(move.target) == {0, 2} for move in planned)
    for topics, brokers, words in (
        ("", "0", "at least one topic"),
        (TOPIC, "", "at least one broker"),
        (TOPIC, "0,x", 'For input string: "x"'),
        (TOPIC, "0,9", "Unknown broker id 9"),
    ):
        with pytest.raises(ApiError) as refused:
            await placement.generate(
                asked(call, query=placement.Wish(topics=topics, brokers=brokers))
            )
        assert words in str(refused.value)


async def test_the_commands_that_are_shown_do_the_same(call: Call, tmp_path: Path) -> None:
    body = moves((0, [1, 2]), throttle=10_000_000, elect=True)
    (route,) = (r for r in placement.ROUTES if r.handler is placement.start)
    assert route.commands is not None
    for line in route.commands(asked(call, body)):
        await asyncio.to_thread(_run, line, tmp_path)
    await until(call, {0: ([1, 2], 1), 1: ([1, 2], 1)})
    (route,) = (r for r in placement.ROUTES if r.handler is placement.cancel)
    assert route.commands is not None
    chosen = placement.Chosen([placement.Named(TOPIC, 0)])
    for line in route.commands(asked(call, chosen)):
        await asyncio.to_thread(_run, line, tmp_path)
    assert await throttles(call.admin) == set()


def _run(line: str, folder: Path) -> None:
    here = str(Path(sys.executable).parent)
    done = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{here}:{os.environ['PATH']}"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
