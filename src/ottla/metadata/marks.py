"""Ottla's own znodes, outside everything that Kafka looks at.

`/ottla/brokers/<id>` says that the broker with this id is Ottla's, even while it is down. It is
written in the transaction that registers the broker, so its mzxid equals the broker's epoch; where
they differ another program has taken the id since.
"""

from __future__ import annotations

from ottla.metadata.store import Stat
from ottla.metadata.znode_values import dump, load

# What a controller may ask of this broker beyond what every Ottla broker does.
RENAME = "rename"
RESIZE = "resize"


class OttlaBrokerZnode:
    @staticmethod
    def parent() -> str:
        return "/ottla/brokers"

    @classmethod
    def path(cls, broker_id: int) -> str:
        return f"{cls.parent()}/{broker_id}"

    @staticmethod
    def encode() -> bytes:
        return dump({"version": 1, "abilities": [RENAME, RESIZE]})

    @staticmethod
    def is_able(data: bytes | None, ability: str) -> bool:
        """Brokers from before an ability do not name it: they would not answer the request."""
        abilities = (load(data) or {}).get("abilities")
        return isinstance(abilities, list) and ability in abilities

    @staticmethod
    def belongs_to(stat: Stat, broker_epoch: int) -> bool:
        """Whether the mark was written by the broker that is registered with this epoch."""
        return stat.mzxid == broker_epoch
