"""Brokers come, go, restart and change their endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.controller import deletion, partition_machine, partition_moves, replica_machine
from ottla.controller.context import ControllerContext
from ottla.controller.events import (
    BrokerChange,
    BrokerModifications,
    UpdateMetadataResponseReceived,
)
from ottla.controller.renaming import progress as renames
from ottla.controller.requests import record_answer, send_update_metadata
from ottla.controller.resizing import progress as resizes
from ottla.controller.steps import (
    CloseChannels,
    OpenChannels,
    Read,
    Steps,
    get_children,
    get_nodes,
    get_paths,
    write,
)
from ottla.metadata.marks import RENAME, RESIZE, OttlaBrokerZnode
from ottla.metadata.store import Delete
from ottla.metadata.znodes import BadZnodeError, BrokerIdsZnode, BrokerIdZnode, BrokerInfo
from ottla.types import TopicPartitionReplica


class Registered(NamedTuple):
    info: BrokerInfo
    epoch: int


class Membership(NamedTuple):
    """How the registered brokers differ from those the controller knows."""

    new: list[int]
    bounced: list[int]
    dead: list[int]


def compare(known_epochs: Mapping[int, int], registered: Mapping[int, Registered]) -> Membership:
    """A bounced broker registered again between two looks: same id, larger epoch (KIP-380)."""
    return Membership(
        new=sorted(registered.keys() - known_epochs.keys()),
        bounced=sorted(
            broker_id
            for broker_id in registered.keys() & known_epochs.keys()
            if registered[broker_id].epoch > known_epochs[broker_id]
        ),
        dead=sorted(known_epochs.keys() - registered.keys()),
    )


def supports(finalized: Mapping[str, Any], supported: Mapping[str, Any]) -> bool:
    """Whether a broker's feature ranges cover every finalised level (KIP-584)."""
    for name, level in finalized.items():
        own = supported.get(name)
        if not isinstance(own, dict) or not isinstance(level, dict):
            return False
        low, high = own.get("min_version", 1), own.get("max_version", 0)
        if (
            not low
            <= level.get("min_version_level", 1)
            <= level.get("max_version_level", 1)
            <= high
        ):
            return False
    return True


def read_brokers(ctx: ControllerContext) -> Steps[dict[int, Registered]]:
    """Reads and watches every registration. One that cannot be read is logged and left out:
    Kafka would fail the whole event, which leaves the other brokers unattended."""
    names = yield from get_children(BrokerIdsZnode.path(), BrokerChange())
    ids = sorted(int(name) for name in names if name.isascii() and name.isdecimal())
    nodes = yield from get_nodes(
        [Read(BrokerIdZnode.path(broker_id), BrokerModifications(broker_id)) for broker_id in ids]
    )
    registered = {}
    for broker_id, node in zip(ids, nodes, strict=True):
        if node is None:
            continue
        try:
            info = BrokerIdZnode.decode(broker_id, node.data)
        except BadZnodeError as error:
            ctx.journal.error(f"Broker {broker_id} is left out: {error}")
            continue
        if supports(ctx.finalized_features, info.features):
            registered[broker_id] = Registered(info, node.stat.czxid)
        else:
            ctx.journal.warn(f"Ignoring broker {broker_id} due to incompatible features")
    return registered


def read_marks(
    ctx: ControllerContext, registered: Mapping[int, Registered], broker_ids: Iterable[int]
) -> Steps[None]:
    """Learns which of these brokers are Ottla's. The mark of an id that another program has taken
    since is removed: that program would not clean up after itself (ADR 13)."""
    listed = list(broker_ids)
    nodes = yield from get_paths([OttlaBrokerZnode.path(broker_id) for broker_id in listed])
    outdated = []
    for broker_id, node in zip(listed, nodes, strict=True):
        live = registered.get(broker_id)
        ctx.ottla_brokers.discard(broker_id)
        ctx.renaming_brokers.discard(broker_id)
        ctx.resizing_brokers.discard(broker_id)
        if node is None:
            continue
        if live is None or OttlaBrokerZnode.belongs_to(node.stat, live.epoch):
            ctx.ottla_brokers.add(broker_id)
            if OttlaBrokerZnode.is_able(node.data, RENAME):
                ctx.renaming_brokers.add(broker_id)
            if OttlaBrokerZnode.is_able(node.data, RESIZE):
                ctx.resizing_brokers.add(broker_id)
        else:
            outdated.append(Delete(OttlaBrokerZnode.path(broker_id), node.stat.version))
    yield from write(outdated)


def read_all_marks(ctx: ControllerContext, registered: Mapping[int, Registered]) -> Steps[None]:
    names = yield from get_children(OttlaBrokerZnode.parent())
    marked = sorted(int(name) for name in names if name.isascii() and name.isdecimal())
    yield from read_marks(ctx, registered, marked)


def on_broker_change(ctx: ControllerContext, event: BrokerChange) -> Steps[None]:
    registered = yield from read_brokers(ctx)
    changed = compare(ctx.broker_epochs, registered)
    ctx.journal.info(
        f"Newly added brokers: {_join(changed.new)}, deleted brokers: {_join(changed.dead)},"
        f" bounced brokers: {_join(changed.bounced)}, all live brokers: {_join(registered)}"
    )
    _record(ctx, changed)
    yield from read_marks(ctx, registered, [*changed.new, *changed.bounced])
    yield CloseChannels([*changed.bounced, *changed.dead])
    yield OpenChannels([registered[b].info for b in (*changed.new, *changed.bounced)])
    if changed.new:
        _add(ctx, changed.new, registered)
        yield from on_startup(ctx, changed.new)
    if changed.bounced:
        _remove(ctx, changed.bounced)
        yield from on_failure(ctx, changed.bounced)
        _add(ctx, changed.bounced, registered)
        yield from on_startup(ctx, changed.bounced)
    if changed.dead:
        _remove(ctx, changed.dead)
        yield from on_failure(ctx, changed.dead)
    if any(changed):
        yield from renames.brokers_changed(ctx)
        yield from resizes.brokers_changed(ctx)


def on_broker_modifications(ctx: ControllerContext, event: BrokerModifications) -> Steps[None]:
    """New endpoints or features go to everyone; a new rack alone does not count, as in Kafka."""
    path = BrokerIdZnode.path(event.broker_id)
    node = (yield from get_nodes([Read(path, event)]))[0]
    known = ctx.brokers.get(event.broker_id)
    if node is None or known is None:
        return
    try:
        info = BrokerIdZnode.decode(event.broker_id, node.data)
    except BadZnodeError as error:
        ctx.journal.error(f"Broker {event.broker_id} keeps its old endpoints: {error}")
        return
    if info.endpoints != known.endpoints or info.features != known.features:
        ctx.journal.info(f"Updated broker metadata: {known} -> {info}")
        ctx.brokers[event.broker_id] = info
        yield from send_update_metadata(ctx, ctx.brokers)


def on_startup(ctx: ControllerContext, broker_ids: list[int]) -> Steps[None]:
    ctx.journal.info(f"New broker startup callback for {_join(broker_ids)}")
    for broker_id in broker_ids:
        ctx.offline_dir_partitions.pop(broker_id, None)
    existing = [broker_id for broker_id in ctx.brokers if broker_id not in broker_ids]
    yield from renames.expect_on(ctx, broker_ids)
    yield from resizes.close_on(ctx, broker_ids)
    yield from send_update_metadata(ctx, existing)
    # A broker that joins knows nothing: it must hear of all partitions before LeaderAndIsr.
    yield from send_update_metadata(ctx, broker_ids, ctx.leadership)
    replicas = ctx.replicas_on(broker_ids)
    yield from replica_machine.to_online(ctx, replica_machine.hosted_on(ctx, broker_ids))
    yield from partition_machine.elect_partitions_without_leader(ctx)
    yield from partition_moves.resume_towards(ctx, broker_ids)
    deleting = {r.topic for r in replicas if ctx.is_queued_for_deletion(r.topic)}
    if deleting:
        ctx.journal.info(f"Some replicas of topics {','.join(sorted(deleting))} are back")
        yield from deletion.resume_topics(ctx, deleting)


def on_failure(ctx: ControllerContext, broker_ids: list[int]) -> Steps[None]:
    ctx.journal.info(f"Broker failure callback for {_join(broker_ids)}")
    for broker_id in broker_ids:
        ctx.offline_dir_partitions.pop(broker_id, None)
        ctx.shutting_down.discard(broker_id)
    yield from on_replicas_offline(ctx, ctx.replicas_on(broker_ids))


def on_replicas_offline(
    ctx: ControllerContext, replicas: list[TopicPartitionReplica]
) -> Steps[None]:
    """New leaders first, so that clients wait least; then the ISRs."""
    deleting = [r for r in replicas if ctx.is_queued_for_deletion(r.topic)]
    staying = [r for r in replicas if not ctx.is_queued_for_deletion(r.topic)]
    leaderless = []
    for tp in dict.fromkeys(replica.topic_partition for replica in staying):
        state = ctx.leadership.get(tp)
        if state is not None and not ctx.is_online(state.leader, tp):
            leaderless.append(tp)
    partition_machine.to_offline(ctx, leaderless)
    yield from partition_machine.elect_partitions_without_leader(ctx)
    yield from replica_machine.to_offline(ctx, staying)
    yield from deletion.fail_replicas(ctx, deleting)
    if not leaderless:
        yield from send_update_metadata(ctx, ctx.brokers)


def _add(
    ctx: ControllerContext, broker_ids: Iterable[int], registered: Mapping[int, Registered]
) -> None:
    for broker_id in broker_ids:
        ctx.add_broker(registered[broker_id].info, registered[broker_id].epoch)


def _remove(ctx: ControllerContext, broker_ids: Iterable[int]) -> None:
    for broker_id in broker_ids:
        ctx.remove_broker(broker_id)


def _record(ctx: ControllerContext, changed: Membership) -> None:
    for change, broker_ids in changed._asdict().items():
        for broker_id in broker_ids:
            ctx.journal.record("broker", broker=broker_id, cause=change)


def _join(broker_ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(broker_ids)))


def on_update_metadata_response(
    ctx: ControllerContext, event: UpdateMetadataResponseReceived
) -> Steps[None]:
    """Nothing depends on it, but it is told of."""
    record_answer(ctx, event)
    yield from ()
