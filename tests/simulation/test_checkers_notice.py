"""The checkers find what they are there for: production code with one rule taken out fails."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla import accepting
from ottla.broker.admin.resize_fences import ResizeFences
from ottla.broker.fetching import reads
from ottla.broker.network import shared_appends
from ottla.broker.network.connection import ClientConnection
from ottla.broker.network.intake import Intake
from ottla.broker.replication import stale_logs
from ottla.broker.replication.append import Appends
from ottla.broker.replication.log_verdicts import Verdict
from ottla.broker.replication.partition import Partition
from ottla.controller import election, replica_states
from ottla.controller.interpreter import Interpreter
from ottla.controller.replica_states import ReplicaState
from ottla.controller.resizing import stored
from ottla.coordinator.groups import offsets, switching
from ottla.coordinator.groups.commit_batches import CommitBatches
from ottla.coordinator.groups.switching import OffsetSwitch
from ottla.errors import ErrorCode
from ottla.metadata.store import Check
from ottla.metadata.znodes import LeaderAndIsr
from ottla.simulation import scenario
from ottla.simulation.disk import SimFile
from ottla.simulation.runner import run_seed
from ottla.storage.append.checks import Origin
from ottla.storage.log.log import AppendInfo, Log
from ottla.storage.producers.state import ProducerState
from ottla.zk.server import records
from ottla.zk.server.tree import Node, Tree

FOLDER = Path(__file__).parent
SEEDS = range(1, 61)


def _first_problems(name: str) -> str:
    """What the first seed that fails says."""
    plan = scenario.load(FOLDER / f"{name}.toml")
    for seed in SEEDS:
        result = run_seed(plan, seed)
        if not result.ok:
            return "\n".join(result.problems)
    return ""


def _is_noticed(name: str, text: str, *, first: int = 1, **data: Any) -> bool:
    """Whether a seed fails with these words. `first` is one that is known to: the others are only
    tried where it no longer does."""
    plan = scenario.load(FOLDER / f"{name}.toml")
    plan = replace(plan, data=replace(plan.data, **data))
    seeds = sorted(SEEDS, key=lambda seed: (seed < first, seed))
    return any(text in problem for seed in seeds for problem in run_seed(plan, seed).problems)


def test_a_snapshot_that_forgets_whose_a_node_is(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Tree.insert

    def forgetful(self: Tree, path: str, node: Node) -> None:
        original(self, path, node)
        self._drop_owner(path, node.owner)

    monkeypatch.setattr(Tree, "insert", forgetful)
    assert "came back at zxid" in _first_problems("snapshots")


def test_a_snapshot_that_forgets_how_many_children_there_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = records.encode_node

    def forgetful(path: str, node: Node) -> bytes:
        return original(path, node)[:-8] + bytes(8)

    monkeypatch.setattr(records, "encode_node", forgetful)
    assert "came back at zxid" in _first_problems("snapshots")


def test_a_controller_that_writes_without_its_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Interpreter.__init__

    def unfenced(self: Interpreter, *arguments: object) -> None:
        original(self, *arguments)  # type: ignore[arg-type]
        self._fence = Check("/", -1)

    monkeypatch.setattr(Interpreter, "__init__", unfenced)
    monkeypatch.setattr(Interpreter, "revoke", lambda self: None)
    assert "the controller epoch is" in _first_problems("sessions")


def test_a_state_machine_that_is_asked_for_an_illegal_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        replica_states.VALID_PREVIOUS, ReplicaState.DELETION_SUCCESSFUL, frozenset()
    )
    problems = _first_problems("calm")
    assert "from ReplicaDeletionStarted to ReplicaDeletionSuccessful" in problems


def test_a_log_that_goes_because_its_topic_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    original = stale_logs.judge

    def hasty(*arguments: Any) -> Verdict:
        verdict = original(*arguments)
        return Verdict.ENDED if verdict is Verdict.STRAY else verdict

    monkeypatch.setattr(stale_logs, "judge", hasty)
    assert "and nobody asked for that" in _first_problems("lost")


def test_a_leader_epoch_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    original = election.without_replica

    def stale(current: LeaderAndIsr, broker_id: int, epoch: int) -> LeaderAndIsr:
        return original(current, broker_id, epoch)._replace(leader_epoch=current.leader_epoch)

    monkeypatch.setattr(election, "without_replica", stale)
    assert "the leader in this epoch was" in _first_problems("controller")


def test_a_store_that_does_not_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimFile, "sync", lambda self: None)
    assert _first_problems("power") != ""


def test_a_leader_that_drops_what_it_acknowledges(monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = Log.append_as_leader, itertools.count()

    def forgetful(self: Log, data: memoryview, leader_epoch: int, origin: Origin) -> AppendInfo:
        if origin is Origin.CLIENT and next(calls) % 10 == 9:
            return AppendInfo(self.end_offset - 1, self.end_offset - 1, -1)
        return original(self, data, leader_epoch, origin)

    monkeypatch.setattr(Log, "append_as_leader", forgetful)
    monkeypatch.setattr(ProducerState, "check", lambda *_, **__: None)
    assert _is_noticed("data", "acknowledged records are gone", first=11)


def test_a_leader_that_does_not_wait_for_its_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(self: Partition, now_ms: float) -> bool:
        if self.log is None or not self.log.set_high_watermark(self.log.end_offset):
            return False
        self.high_watermark_moved()
        return True

    monkeypatch.setattr(Partition, "raise_high_watermark", alone)
    assert _is_noticed("data", ", it was ", first=9, pause_ms=(2.0, 100.0))


def test_a_controller_that_trusts_whoever_came_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(election, "without_returned", lambda *_: None)
    assert _is_noticed("data_power", "has other bytes at")


def test_producers_that_are_not_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerState, "check", lambda *_, **__: None)
    assert _is_noticed("data", " and at ")


def test_readers_of_what_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "_visible_end", lambda params, log: log.end_offset)
    assert _is_noticed("data", ", high watermark ")


def test_commits_of_members_that_are_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "_check_committer", lambda *_: ErrorCode.NONE)
    assert _is_noticed("groups", " back from ", first=3, stalls=0.1)


def test_commits_that_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def in_memory(self: CommitBatches, batch: Any) -> None:
        for commit in batch.commits:
            commit.group.offsets.finish(commit.commits, 0)
            commit.on_end(ErrorCode.NONE)

    monkeypatch.setattr(CommitBatches, "_write", in_memory)
    assert _is_noticed("groups", " was committed")


def test_leaders_that_take_records_behind_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ResizeFences._fence

    def open_to_all(self: ResizeFences, topic: str, topic_id: bytes) -> None:
        original(self, topic, topic_id)
        self._partitions.fenced_topics.discard(topic)

    monkeypatch.setattr(ResizeFences, "_fence", open_to_all)
    assert _is_noticed("resizes", "acknowledged records of data-0 are gone")


def test_a_fence_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResizeFences, "lift", lambda self, topic: self.open_writes(topic))
    assert _is_noticed("resizes", "has fences of readers")


def test_offsets_that_stay_those_of_the_old_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> ErrorCode:
        return ErrorCode.NONE

    monkeypatch.setattr(OffsetSwitch, "_switch_group", nothing)
    assert _is_noticed("resizes", " was carried over")


def test_members_that_go_on_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switching.rebalance, "end_generation", lambda *_: 0)
    assert _is_noticed("resizes", "group-0 was never given", first=5)


def test_a_shadow_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "delete_shadow", lambda *_: iter(()))
    assert _is_noticed("resizes", "shadows are left", first=2)


def test_one_newcomer_per_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """As libuv accepts them by itself."""
    monkeypatch.setattr(accepting, "allowed_now", lambda _: 1)
    assert _is_noticed("crowd", " for its first answer of ")


def test_a_listener_with_a_short_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "BACKLOG", 5)
    assert _is_noticed("crowd", " for its first answer of ")


def test_connections_that_are_read_as_often_as_they_have_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def note_read(self: Intake, nbytes: int) -> bool:
        self._reading.turn.begin(self._reading.loop)
        return True

    monkeypatch.setattr(Intake, "note_read", note_read)
    assert _is_noticed("crowd", " for its first answer of ", first=2)


def test_a_broker_that_serves_some_more_often_than_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = ClientConnection.buffer_updated
    reason = 64

    def reluctant(self: ClientConnection, nbytes: int) -> None:
        original(self, nbytes)
        if self._client_port % 5 == 0:
            self.intake.pause(reason)
            self.server.loop.call_later(0.25, self.intake.resume, reason)

    monkeypatch.setattr(ClientConnection, "buffer_updated", reluctant)
    assert _is_noticed("crowd", " answers to crowd-")


def test_a_crowd_that_is_told_of_the_same_places(monkeypatch: pytest.MonkeyPatch) -> None:
    original = shared_appends.answer_to

    def mixed_up(*arguments: Any) -> Any:
        *others, (base, end, time_ms) = arguments
        return original(*others, (base ^ 1, end, time_ms))

    monkeypatch.setattr(shared_appends, "answer_to", mixed_up)
    assert _is_noticed("crowd", "; crowd-")


def test_a_crowd_whose_records_are_appended_in_another_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Appends.append_plain

    def reversing(self: Appends, partition: Any, log: Any, batches: Any, acks: int) -> Any:
        return original(self, partition, log, batches[::-1], acks)

    monkeypatch.setattr(Appends, "append_plain", reversing)
    assert _is_noticed("crowd", " records of the crowd are not where they should be")


def test_a_client_that_is_never_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = ClientConnection.buffer_updated, itertools.count()

    def deaf(self: ClientConnection, nbytes: int) -> None:
        if next(calls) != 3000:
            original(self, nbytes)

    monkeypatch.setattr(ClientConnection, "buffer_updated", deaf)
    assert _is_noticed("crowd", " for an answer of ")
