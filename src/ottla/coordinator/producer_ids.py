"""Producer ids, unique in the cluster (Kafka's ZkProducerIdManager).

Ids come in blocks of 1000 from `/latest_producer_id_block`; the znode's version decides between
two brokers that take a block at the same time. Ids of a block are lost when a broker stops.
"""

from __future__ import annotations

import asyncio
import logging

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    StoreError,
)
from ottla.metadata.znodes import BadZnodeError, ProducerIdBlock, ProducerIdBlockZnode
from ottla.runtime import Runtime

logger = logging.getLogger(__name__)

_MAX_PRODUCER_ID = 2**63 - 1
_MAX_ATTEMPTS = 10
_MAX_BACKOFF_MS = 100.0


class ProducerIds:
    def __init__(self, runtime: Runtime, store: MetadataStore, broker_id: int) -> None:
        self._runtime = runtime
        self._store = store
        self._broker_id = broker_id
        self._next = 0
        self._end = -1  # inclusive; nothing is left at first
        self._claiming = asyncio.Lock()

    async def next_id(self) -> int:
        """A producer id that was never given out before.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, which producers retry, while the store
        cannot be reached; UNKNOWN_SERVER_ERROR where no id can be had at all.
        """
        async with self._claiming:
            if self._next > self._end:
                block = await self._claim_block()
                self._next, self._end = block.block_start, block.block_end
            self._next += 1
            return self._next - 1

    async def _claim_block(self) -> ProducerIdBlock:
        for attempt in range(_MAX_ATTEMPTS):
            try:
                return await self._try_claim()
            except (BadVersionError, NodeExistsError):
                # Another broker was faster: look again, a little apart from the others.
                limit_ms = min(2.0**attempt, _MAX_BACKOFF_MS)
                await asyncio.sleep(self._runtime.random.uniform(0, limit_ms) / 1000)
            except StoreError as error:
                logger.warning("No block of producer ids could be taken: %r", error)
                break
        raise KafkaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no block of producer ids can be taken now"
        )

    async def _try_claim(self) -> ProducerIdBlock:
        path = ProducerIdBlockZnode.path()
        try:
            data, stat = await self._store.get(path)
        except NoNodeError:
            block = self._block_after(None)
            await self._store.create(path, ProducerIdBlockZnode.encode(block))
            return block
        try:
            last = ProducerIdBlockZnode.decode(data)
        except BadZnodeError as error:
            # Guessing a start could give an id out twice.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
        block = self._block_after(last)
        await self._store.set(path, ProducerIdBlockZnode.encode(block), stat.version)
        return block

    def _block_after(self, last: ProducerIdBlock | None) -> ProducerIdBlock:
        start = 0 if last is None else last.block_end + 1
        end = start + ProducerIdBlockZnode.BLOCK_SIZE - 1
        if end > _MAX_PRODUCER_ID:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
        return ProducerIdBlock(self._broker_id, start, end)
