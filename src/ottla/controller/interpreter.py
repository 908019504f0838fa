"""Does what decisions ask for: reads, fenced writes, requests (the IO half of the controller).

Fencing: every multi starts with a check that /controller_epoch still has the version at which
this controller was elected. Whoever was elected since has moved it, so an old controller cannot
change anything any more (KafkaZkClient's controllerZkVersionCheck).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ottla.controller.channels import ChannelManager
from ottla.controller.events import Event
from ottla.controller.steps import (
    CheckExists,
    CloseChannels,
    GetChildren,
    GetNodes,
    Node,
    OpenChannels,
    Post,
    PostLater,
    Read,
    Send,
    Step,
    Steps,
    Tell,
    Write,
    WriteTogether,
)
from ottla.errors import OttlaError
from ottla.metadata.store import (
    BadVersionError,
    Check,
    ConnectionLossError,
    Create,
    Delete,
    EventType,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    Op,
    OperationTimeoutError,
    OpResult,
    RuntimeInconsistencyError,
    SetData,
    Stat,
    StoreError,
    Watcher,
    WatchEvent,
)
from ottla.metadata.znodes import ControllerEpochZnode

MAX_OPS_PER_MULTI = 100
# ZooKeeper refuses packets above 1 MiB (jute.maxbuffer).
MAX_BYTES_PER_MULTI = 512 * 1024
MAX_IN_FLIGHT = 1_000
# Up to twice as many are on their way: the store answers some while the next are asked for.
READS_AHEAD = MAX_IN_FLIGHT // 2
# Together longer than any session lives without a connection, so that expiry is seen first.
MAX_ATTEMPTS = 60
RETRY_PAUSE_MS = 500

_LOST = (ConnectionLossError, OperationTimeoutError)

# Twice as fast as Node(*pair): tens of thousands at a failover.
_as_node: Callable[[type[Node], tuple[bytes | None, Stat]], Node] = tuple.__new__

T = TypeVar("T")


class ControllerMovedError(OttlaError):
    """Another broker was elected: this one must stop at once."""


class StoreUnavailableError(OttlaError):
    """The store could not be reached for longer than a session lives."""


async def persistently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeats what got lost with a connection, a bounded number of times."""
    for _ in range(MAX_ATTEMPTS):
        try:
            return await attempt()
        except _LOST:
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
    raise StoreUnavailableError("the metadata store does not answer")


class Interpreter:
    """One per reign: it dies with the epoch it writes under."""

    def __init__(
        self,
        store: MetadataStore,
        channels: ChannelManager,
        post: Callable[[Event], None],
        epoch_zk_version: int,
        before_step: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._channels = channels
        self._post = post
        self._before_step = before_step
        self._fence = Check(ControllerEpochZnode.path(), epoch_zk_version)
        self._watchers: dict[tuple[EventType, str], Watcher] = {}
        self._revoked = False

    def revoke(self) -> None:
        """Ends the reign from outside (session expired): the next step raises."""
        self._revoked = True

    async def run(self, steps: Steps[T]) -> T:
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as finished:
                value: T = finished.value
                return value
            self._before_step()
            result = await self._do(step)

    async def _do(self, step: Step) -> Any:
        if self._revoked:
            raise ControllerMovedError("the session of this controller is over")
        match step:
            case GetNodes(reads):
                return await self._get_nodes(reads)
            case GetChildren(paths, watch):
                return await self._gather(paths, lambda path: self._get_children(path, watch))
            case CheckExists(path, watch):
                return await self._exists(path, watch)
            case Write(ops, fenced):
                return await self._write(ops) if fenced else await self._write_unfenced(ops)
            case Send(requests):
                for request in requests:
                    self._channels.send(request)
            case OpenChannels(brokers):
                for broker in brokers:
                    self._channels.open(broker)
            case CloseChannels(broker_ids):
                for broker_id in broker_ids:
                    self._channels.close(broker_id)
            case Post(event):
                self._post(event)
            case PostLater(event, delay_s):
                asyncio.get_running_loop().call_later(delay_s, self._post_later, event)
            case WriteTogether(ops):
                return await self._write_together(ops)
            case Tell(reply, value):
                reply(value)
        return None

    def _post_later(self, event: Event) -> None:
        if not self._revoked:
            self._post(event)

    # Reads

    async def _gather(
        self, items: Sequence[Any], call: Callable[[Any], Awaitable[Any]]
    ) -> list[Any]:
        """Pipelines the calls, a bounded number at a time; results in order."""
        results: list[Any] = [None] * len(items)
        numbered = iter(enumerate(items))

        async def work() -> None:
            for index, item in numbered:
                results[index] = await call(item)

        if len(items) == 1:
            await work()
            return results
        tasks = [asyncio.create_task(work()) for _ in range(min(len(items), MAX_IN_FLIGHT))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return results

    async def _get_nodes(self, reads: Sequence[Read]) -> list[Node | None]:
        """As `_gather`, but a failover reads tens of thousands of nodes: no task wakes for each,
        and some are asked for while those before them are answered."""
        nodes: list[Node | None] = []
        asked: deque[Awaitable[tuple[bytes | None, Stat]]] = deque()
        try:
            for start in range(0, len(reads), READS_AHEAD):
                asked.extend(map(self._ask, reads[start : start + READS_AHEAD]))
                is_last = start + READS_AHEAD >= len(reads)
                while len(asked) > (0 if is_last else READS_AHEAD):
                    try:
                        nodes.append(_as_node(Node, await asked[0]))
                    except NoNodeError:
                        nodes.append(None)
                    except _LOST:
                        nodes.append(await self._get_node(reads[len(nodes)]))
                    asked.popleft()
        finally:
            _leave(asked)
        return nodes

    def _ask(self, read: Read) -> Awaitable[tuple[bytes | None, Stat]]:
        path, watch = read
        if watch is None:
            return self._store.get(path)
        return self._store.get(path, self._watcher(watch, EventType.DATA_CHANGED, path))

    async def _get_node(self, read: Read) -> Node | None:
        watcher = self._watcher(read.watch, EventType.DATA_CHANGED, read.path)
        for _ in range(MAX_ATTEMPTS):
            try:
                return Node(*await self._store.get(read.path, watcher))
            except NoNodeError:
                return None
            except _LOST:
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)
        raise StoreUnavailableError("the metadata store does not answer")

    async def _get_children(self, path: str, watch: Event | None) -> list[str]:
        watcher = self._watcher(watch, EventType.CHILDREN_CHANGED, path)

        async def attempt() -> list[str]:
            try:
                return sorted(await self._store.children(path, watcher))
            except NoNodeError:
                return []

        return await persistently(attempt)

    async def _exists(self, path: str, watch: Event | None) -> bool:
        watcher = self._watcher(watch, EventType.CREATED, path)
        return await persistently(lambda: self._store.exists(path, watcher)) is not None

    def _watcher(self, event: Event | None, wanted: EventType, path: str) -> Watcher | None:
        """The armed watcher of this path if there is one: arming it twice would fire twice."""
        if event is None:
            return None
        key = (wanted, path)
        armed = self._watchers.get(key)
        if armed is not None:
            return armed

        def fire(watched: WatchEvent) -> None:
            self._watchers.pop(key, None)
            if watched.type == wanted:
                self._post(event)

        self._watchers[key] = fire
        return fire

    # Writes

    async def _write(self, ops: Sequence[Op]) -> list[OpResult]:
        chunks = list(_chunks(ops))
        return [r for results in await self._gather(chunks, self._write_chunk) for r in results]

    async def _write_chunk(self, ops: Sequence[Op]) -> list[OpResult]:
        """All ops in one multi; if one of them fails, the others each in their own."""
        results, lost = await self._multi(ops)
        blamed = next(
            (i for i, r in enumerate(results) if r.error and not _is_bystander(r.error)), None
        )
        if blamed is None:
            return results
        if not lost and len(ops) == 1:
            return results

        async def alone(index: int) -> OpResult:
            if index == blamed and not lost:
                return results[index]
            single, lost_again = await self._multi([ops[index]])
            if lost or lost_again:
                return await self._settle(ops[index], single[0])
            return single[0]

        return await self._gather(range(len(ops)), alone)

    async def _multi(self, ops: Sequence[Op]) -> tuple[list[OpResult], bool]:
        """Results of a fenced multi, and whether an earlier try may have been applied unseen."""
        lost = False
        for _ in range(MAX_ATTEMPTS):
            if self._revoked:
                raise ControllerMovedError("the session of this controller is over")
            try:
                results = await self._store.multi([self._fence, *ops])
            except _LOST:
                lost = True
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)
                continue
            if results[0].error is not None and not _is_bystander(results[0].error):
                raise ControllerMovedError("the controller epoch has moved on")
            return results[1:], lost
        raise StoreUnavailableError("the metadata store does not answer")

    async def _write_together(self, ops: Sequence[Op]) -> bool:
        results, lost = await self._multi(ops)
        if all(result.error is None for result in results):
            return True
        # Where an answer got lost, the first operation tells whether an earlier try was applied.
        return lost and (await self._settle(ops[0], results[0])).error is None

    async def _settle(self, op: Op, result: OpResult) -> OpResult:
        """Tells a lost answer from a real refusal by what is in the store now."""
        if isinstance(op, Delete) and isinstance(result.error, NoNodeError):
            return OpResult()
        if isinstance(op, Create) and isinstance(result.error, NodeExistsError):
            node = await self._get_node(Read(op.path))
            if node is not None and node.data == op.data and node.stat.version == 0:
                return OpResult(path=op.path, stat=node.stat)
        if isinstance(op, SetData) and isinstance(result.error, BadVersionError):
            node = await self._get_node(Read(op.path))
            if node is not None and node.data == op.data and node.stat.version == op.version + 1:
                return OpResult(stat=node.stat)
        return result

    async def _write_unfenced(self, ops: Sequence[Op]) -> list[OpResult]:
        async def one(op: Op) -> OpResult:
            return (await persistently(lambda: self._store.multi([op])))[0]

        return await self._gather(ops, one)


def _leave(answers: Iterable[Awaitable[Any]]) -> None:
    """Nobody waits for them any more: tasks are cancelled, coroutines never begin."""
    for answer in answers:
        if isinstance(answer, asyncio.Future):
            answer.cancel()
        elif isinstance(answer, Coroutine):
            answer.close()


def _is_bystander(error: StoreError) -> bool:
    """Whether the operation was only not tried because another one failed."""
    return isinstance(error, RuntimeInconsistencyError)


def _chunks(ops: Sequence[Op]) -> Iterator[Sequence[Op]]:
    start, size = 0, 0
    for index, op in enumerate(ops):
        data = op.data if isinstance(op, Create | SetData) else None
        size += len(op.path) + len(data or b"")
        if index > start and (index - start >= MAX_OPS_PER_MULTI or size > MAX_BYTES_PER_MULTI):
            yield ops[start:index]
            start, size = index, len(op.path) + len(data or b"")
    if start < len(ops):
        yield ops[start:]
