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
    values = checkpoints.decode_properties(data)
    version = values.get("version", "0")
    if version != "0":
        raise ForeignData(
            f"Found unexpected version in loaded `meta.properties`: {path}: {version}. Zk-based "
            "brokers only support version 0 (which is implicit when the `version` field is "
            "missing)."
        )
    broker_id = values.get("broker.id")
    try:
        number = None if broker_id is None else int(broker_id)
    except ValueError:
        raise ForeignData(f"broker.id {broker_id!r} in {path} is not a number") from None
    return Identity(number, values.get("cluster.id"))


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
