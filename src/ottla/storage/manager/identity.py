"""`meta.properties`: which broker of which cluster a data folder belongs to
(BrokerMetadataCheckpoint, KafkaServer.getBrokerMetadataAndOfflineDirs)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ottla.errors import OttlaError
from ottla.runtime import Disk
from ottla.storage import checkpoints


class ForeignData(OttlaError):
    """The folders belong to another broker, another cluster, or not together."""


class DamagedIdentity(OttlaError):
    """A `meta.properties` that no broker has written like this: whose logs these are is unknown."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"{path} is damaged: {what}. It says which broker of which cluster the logs beside it "
            "belong to; bring it back from a copy or from another folder of the same broker, or "
            "write it again: version=0, broker.id=<id>, cluster.id=<id in the znode /cluster/id>"
        )


class Identity(NamedTuple):
    broker_id: int | None
    cluster_id: str | None


def read_identity(disk: Disk, folders: Iterable[Path]) -> Identity:
    """What the folders say; both None where no folder says anything."""
    found: dict[Path, Identity] = {}
    for folder in folders:
        path = folder / checkpoints.META_PROPERTIES
        if disk.exists(path):
            found[folder] = _decode(path, disk.read_bytes(path))
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{folder}: {identity}" for folder, identity in found.items())
        raise ForeignData(
            f"BrokerMetadata is not consistent across log.dirs. This could happen if multiple "
            f"brokers shared a log directory (log.dirs) or partial data was manually copied from "
            f"another broker. Found: {listed}"
        )
    return next(iter(found.values()), Identity(None, None))


def _decode(path: Path, data: bytes) -> Identity:
    """Raises DamagedIdentity, or ForeignData with Kafka's text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        raise DamagedIdentity(path, "it is not text") from None
    values = checkpoints.decode_properties(data)
    version = values.get("version", "0")
    if version != "0":
        raise ForeignData(
            f"Found unexpected version in loaded `meta.properties`: {path}: {version}. Zk-based "
            "brokers only support version 0 (which is implicit when the `version` field is "
            "missing)."
        )
    broker_id, cluster_id = values.get("broker.id"), values.get("cluster.id")
    if broker_id is None:
        raise DamagedIdentity(path, "it names no broker.id" if data else "it is empty")
    if not (broker_id.isascii() and broker_id.isdigit()):
        raise DamagedIdentity(path, f"broker.id {broker_id!r} is not a number")
    if not cluster_id:
        # Kafka takes a file without one, as versions before 0.10.1 wrote it; half a file looks so.
        raise DamagedIdentity(path, "it names no cluster.id")
    return Identity(int(broker_id), cluster_id)


def check_identity(stored: Identity, *, broker_id: int, cluster_id: str) -> None:
    """Raises ForeignData with Kafka's texts."""
    if stored.cluster_id is not None and stored.cluster_id != cluster_id:
        raise ForeignData(
            f"The Cluster ID {cluster_id} doesn't match stored clusterId Some({stored.cluster_id}) "
            "in meta.properties. The broker is trying to join the wrong cluster. Configured "
            "zookeeper.connect may be wrong."
        )
    if stored.broker_id is not None and broker_id >= 0 and stored.broker_id != broker_id:
        raise ForeignData(
            f"Configured broker.id {broker_id} doesn't match stored broker.id "
            f"Some({stored.broker_id}) in meta.properties. If you moved your data, make sure your "
            "configured broker.id matches. If you intend to create a new broker, you should "
            "remove all data in your data directories (log.dirs)."
        )


def write_identity(
    disk: Disk, folders: Iterable[Path], *, broker_id: int, cluster_id: str, comment: str
) -> None:
    """Into every folder that does not have it yet."""
    values = {"broker.id": str(broker_id), "version": "0", "cluster.id": cluster_id}
    for folder in folders:
        path = folder / checkpoints.META_PROPERTIES
        if disk.exists(path) and checkpoints.decode_properties(disk.read_bytes(path)) == values:
            continue
        disk.write_atomically(path, checkpoints.encode_properties(values, comment))
