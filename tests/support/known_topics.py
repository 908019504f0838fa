"""Whoever makes a topic is told so by one broker; the others hear of it a moment later.

A test that goes on with any other client may ask any other broker: it waits here first.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from ottla.client.cluster import parse_bootstrap
from ottla.client.connection import Connection
from ottla.errors import ErrorCode
from ottla.runtime import system_runtime
from ottla.wire import messages as m

WAIT_S = 60.0
_POLL_S = 0.02
# The first that lets the asker say that the topic shall not be made by the question.
_VERSION = 4


def await_known(servers: str, topic: str, partitions: int) -> None:
    """Until each of the servers that answers has at least so many partitions, all with leaders."""
    # Whoever calls may be inside an event loop, where no other can run.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _await_known(servers, topic, partitions)).result()


async def _await_known(servers: str, topic: str, partitions: int) -> None:
    left = parse_bootstrap(servers)
    async with asyncio.timeout(WAIT_S):
        while left:
            known = [await _is_known(each.host, each.port, topic, partitions) for each in left]
            left = [each for each, is_known in zip(left, known, strict=True) if not is_known]
            await asyncio.sleep(_POLL_S if left else 0)


async def _is_known(host: str, port: int, topic: str, partitions: int) -> bool:
    try:
        connection = await Connection.open(
            system_runtime().network, host, port, client_id="known-topics"
        )
    except OSError:  # a broker that was killed cannot be asked by anybody
        return True
    name = m.MetadataRequest.MetadataRequestTopic(name=topic)
    request = m.MetadataRequest(topics=[name], allow_auto_topic_creation=False)
    try:
        answer: m.MetadataResponse = await connection.send(request, _VERSION, timeout_ms=30_000)
    except ConnectionError:
        return False  # it dies or has just come: it is asked again
    finally:
        connection.close()
    (found,) = answer.topics
    if found.error_code != ErrorCode.NONE or len(found.partitions) < partitions:
        return False
    return all(p.error_code == ErrorCode.NONE and p.leader_id >= 0 for p in found.partitions)
