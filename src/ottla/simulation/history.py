"""Every write to the store, checked as it happens, and what brokers claim to be.

What must hold at every moment, whatever fails:
- one leader per partition and leader epoch, in the znodes and among the brokers;
- a leader is in its ISR, the ISR is within the assignment (or within the one before, while a move
  ends: as in Kafka the assignment is written first and the ISR follows);
- leader epochs only grow;
- a partition's state is only written under the controller epoch of that moment;
- what the store acknowledged survives its crash;
- no log goes unless its topic's deletion was asked for or it was moved away (`removed_logs`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.metadata.znodes import (
    ControllerEpochZnode,
    LeaderAndIsr,
    TopicPartitionStateZnode,
    TopicZnode,
)
from ottla.simulation.removed_logs import NO_STAT, RemovedLogs
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.zk.server.tree import CreateTxn, DeleteTxn, SetDataTxn, Tree, Txn

if TYPE_CHECKING:
    from ottla.process.node import Node
    from ottla.simulation.trace import Trace

_TOPIC = re.compile(r"/brokers/topics/([^/]+)")
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
# Enough to see what went wrong; a broken rule is often broken again at once.
MAX_VIOLATIONS = 20


class _Topic(NamedTuple):
    czxid: int
    replicas: dict[int, frozenset[int]]
    # Replicas that a move has just taken away, until the ISR follows.
    leaving: dict[int, frozenset[int]]


class History:
    """`violations` stays empty while everything is as it must be."""

    def __init__(self, trace: Trace, broker_ids: Iterable[int] = ()) -> None:
        self.violations: list[str] = []
        self.writes = 0
        self._trace = trace
        self.logs = RemovedLogs(self.violated, broker_ids)
        self._topics: dict[str, _Topic] = {}
        self._states: dict[TopicPartition, LeaderAndIsr] = {}
        # (topic, its czxid, partition, leader epoch) -> (leader, zxid)
        self._leaders: dict[tuple[str, int, int, int], tuple[int, int]] = {}
        self._claims: dict[tuple[object, ...], int] = {}
        self._leaving_before: dict[str, dict[int, frozenset[int]]] = {}
        self._controller_epoch = 0
        self._acknowledged_zxid = 0

    def violated(self, text: str) -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(text)
        self._trace.add("VIOLATION", text)

    # the store

    def written(self, zxid: int, txns: Sequence[Txn]) -> None:
        for txn in txns:
            self.writes += 1
            if isinstance(txn, CreateTxn | SetDataTxn):
                data = txn.data
                kind = type(txn).__name__
                self._trace.add("write", f"{zxid} {kind} {txn.path} {zlib.crc32(data or b''):08x}")
                self._take(zxid, txn.path, data, is_new=isinstance(txn, CreateTxn))
                self.logs.written(txn.path, data)
            elif isinstance(txn, DeleteTxn):
                self._trace.add("write", f"{zxid} DeleteTxn {txn.path}")
                self._removed(txn.path)
                self.logs.removed(txn.path)
            else:
                self._trace.add("write", f"{zxid} {type(txn).__name__} {txn[0]:#x}")

    def store_gone(self, acknowledged_zxid: int) -> None:
        self._acknowledged_zxid = max(self._acknowledged_zxid, acknowledged_zxid)

    def restarted(self, tree: Tree) -> None:
        """Writes that were lost before anybody heard of them have never been."""
        if tree.last_zxid < self._acknowledged_zxid:
            self.violated(
                f"the store came back at zxid {tree.last_zxid}, but had acknowledged "
                f"{self._acknowledged_zxid}"
            )
        self._leaders = {k: v for k, v in self._leaders.items() if v[1] <= tree.last_zxid}
        self._leaving_before = {
            name: {n: topic.leaving.get(n, frozenset()) | ids for n, ids in topic.replicas.items()}
            for name, topic in self._topics.items()
        }
        self._topics.clear()
        self._states.clear()
        for path, node in tree.nodes.items():
            if found := _TOPIC.fullmatch(path):
                replicas = _replicas(node.data)
                # Which move has just ended is not in the tree: the ISRs of before are allowed.
                before = self._leaving_before.get(found[1], {})
                self._topics[found[1]] = _Topic(node.czxid, replicas, before)
            elif found := _STATE.fullmatch(path):
                state = TopicPartitionStateZnode.decode(node.data, NO_STAT)
                if state is not None:
                    self._states[TopicPartition(found[1], int(found[2]))] = state
            elif path == ControllerEpochZnode.path():
                self._controller_epoch = ControllerEpochZnode.decode(node.data)

    def _take(self, zxid: int, path: str, data: bytes | None, *, is_new: bool) -> None:
        if path == ControllerEpochZnode.path():
            epoch = ControllerEpochZnode.decode(data)
            if epoch < self._controller_epoch or (epoch == self._controller_epoch and not is_new):
                self.violated(f"controller epoch {epoch} after {self._controller_epoch}")
            self._controller_epoch = epoch
        elif found := _TOPIC.fullmatch(path):
            before = self._topics.get(found[1])
            czxid = zxid if is_new or before is None else before.czxid
            self._topics[found[1]] = _Topic(czxid, _replicas(data), _leaving(before, data))
        elif found := _STATE.fullmatch(path):
            self._take_state(zxid, TopicPartition(found[1], int(found[2])), data)

    def _take_state(self, zxid: int, tp: TopicPartition, data: bytes | None) -> None:
        state = TopicPartitionStateZnode.decode(data, NO_STAT)
        topic = self._topics.get(tp.topic)
        if state is None or topic is None:
            self.violated(f"zxid {zxid}: {tp} gets {data!r}, topic {topic}")
            return
        text = f"zxid {zxid}: {tp} gets leader {state.leader}, epoch {state.leader_epoch}, " + (
            f"ISR {list(state.isr)}, controller epoch {state.controller_epoch}"
        )
        if state.leader >= 0 and state.leader not in state.isr:
            self.violated(f"{text}: the leader is not in the ISR")
        assigned = topic.replicas.get(tp.partition, frozenset())
        # A topic that comes back gets its states first, and leaders after its partitions (ADR 50).
        is_coming = not topic.replicas and state.leader < 0
        outside = set() if is_coming else set(state.isr) - assigned
        if not outside:
            topic.leaving.pop(tp.partition, None)
        elif not outside <= topic.leaving.get(tp.partition, frozenset()):
            self.violated(f"{text}: the ISR is not within the assignment {sorted(assigned)}")
        if state.controller_epoch != self._controller_epoch:
            self.violated(f"{text}: the controller epoch is {self._controller_epoch}")
        before = self._states.get(tp)
        if before is not None and state.leader_epoch < before.leader_epoch:
            self.violated(f"{text}: the leader epoch was {before.leader_epoch}")
        key = (tp.topic, topic.czxid, tp.partition, state.leader_epoch)
        leader, _ = self._leaders.setdefault(key, (state.leader, zxid))
        if leader != state.leader:
            self.violated(f"{text}: the leader in this epoch was {leader}")
        self._states[tp] = state

    def _removed(self, path: str) -> None:
        if found := _TOPIC.fullmatch(path):
            self._topics.pop(found[1], None)
        elif found := _STATE.fullmatch(path):
            self._states.pop(TopicPartition(found[1], int(found[2])), None)

    # the brokers

    def look_at(self, nodes: Iterable[Node]) -> None:
        """Compares what live brokers believe of themselves with what others believed before."""
        for node in nodes:
            self.logs.look_at(node)
            controller = node.controller
            if controller.is_active:
                self._claim(("controller of epoch", controller.epoch), node.broker_id)
            for partition in node.parts.replica_manager.partitions:
                if partition.is_leader and partition.log is not None:
                    # By the id: the topic may have had another name.
                    topic_id, tp = partition.log.topic_id, partition.tp
                    place = tp if topic_id == ZERO_TOPIC_ID else tp.partition
                    key = (topic_id, place, partition.leader_epoch)
                    self._claim(("leader of", *key), node.broker_id)

    def _claim(self, what: tuple[object, ...], broker_id: int) -> None:
        holder = self._claims.setdefault(what, broker_id)
        if holder != broker_id:
            self.violated(f"broker {broker_id} says it is {what}, but broker {holder} was")


def _replicas(data: bytes | None) -> dict[int, frozenset[int]]:
    partitions = TopicZnode.decode(data).partitions
    return {number: frozenset(assignment.replicas) for number, assignment in partitions.items()}


def _leaving(before: _Topic | None, data: bytes | None) -> dict[int, frozenset[int]]:
    """Replicas of the assignment before that are not in this one."""
    if before is None:
        return {}
    now = _replicas(data)
    gone = {
        number: (replicas | before.leaving.get(number, frozenset())) - now.get(number, frozenset())
        for number, replicas in before.replicas.items()
    }
    return {number: replicas for number, replicas in gone.items() if replicas}
