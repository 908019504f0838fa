"""The brokers that stand in the store, for one that no controller has told of any yet.

Such a broker knows that a topic exists (`automatic_topics.py`) and nothing else. An answer that
names topics but no brokers makes librdkafka take leave of every broker it knows; if that happens
again while it looks for them anew, it never sends anything to anybody any more.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.metadata_cache import BrokerInfo
from ottla.metadata.store import NoNodeError, StoreError
from ottla.metadata.znodes import BadZnodeError, BrokerIdsZnode, BrokerIdZnode

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore

log = logging.getLogger(__name__)


async def registered_brokers(store: MetadataStore) -> list[BrokerInfo]:
    """By id; those that died a moment ago among them. None where the store does not answer."""
    try:
        names = await store.children(BrokerIdsZnode.path())
        ids = sorted(int(name) for name in names if name.isdecimal())
        found = await asyncio.gather(*(_registered(store, broker_id) for broker_id in ids))
    except StoreError as error:
        log.info("the store could not be asked for brokers: %r", error)
        return []
    return [info for info in found if info is not None]


async def _registered(store: MetadataStore, broker_id: int) -> BrokerInfo | None:
    try:
        data, _ = await store.get(BrokerIdZnode.path(broker_id))
        info = BrokerIdZnode.decode(broker_id, data)
    except (NoNodeError, BadZnodeError):
        return None  # gone meanwhile, or nothing that anybody could connect to
    endpoints = {endpoint.listener: endpoint for endpoint in info.endpoints}
    return BrokerInfo(broker_id, endpoints, info.rack)
