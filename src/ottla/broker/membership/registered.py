"""The brokers that stand in the store, those that died a moment ago among them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.metadata.store import NoNodeError
from ottla.metadata.znodes import BrokerIdsZnode, BrokerIdZnode

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore


async def registrations(store: MetadataStore) -> dict[int, bytes | None]:
    """What the nodes hold, by broker id; raises StoreError."""
    names = await store.children(BrokerIdsZnode.path())
    ids = sorted(int(name) for name in names if name.isdecimal())
    found = await asyncio.gather(*(_registration(store, broker_id) for broker_id in ids))
    return {broker_id: read[0] for broker_id, read in zip(ids, found, strict=True) if read}


async def _registration(store: MetadataStore, broker_id: int) -> tuple[bytes | None] | None:
    """None where it is gone meanwhile."""
    try:
        data, _ = await store.get(BrokerIdZnode.path(broker_id))
    except NoNodeError:
        return None
    return (data,)
