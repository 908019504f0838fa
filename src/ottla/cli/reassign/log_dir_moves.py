"""Moves of replicas between directories of one broker, as kafka-reassign-partitions tells them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import click

from ottla.client.admin.client import Admin
from ottla.client.admin.reassignment_plan import ReassignmentError, plural
from ottla.errors import ErrorCode
from ottla.types import TopicPartitionReplica

_POLL_S = 0.1


class ReassignmentFailed(click.ClickException):
    """A failure that Kafka's tool prints as it is."""


class DirState(NamedTuple):
    """Where a replica is, where it goes, and where it should be."""

    current: str | None
    future: str | None
    target: str

    @property
    def is_active(self) -> bool:
        return self.current is not None and self.future is not None

    @property
    def is_done(self) -> bool:
        return self.current is not None and self.future is None


def replica_text(replica: TopicPartitionReplica) -> str:
    """Java's TopicPartitionReplica prints as topic-partition-broker."""
    return f"{replica.topic}-{replica.partition}-{replica.broker_id}"


def by_broker(replica: TopicPartitionReplica) -> tuple[int, str, int]:
    return replica.broker_id, replica.topic, replica.partition


async def find_states(
    admin: Admin, targets: Mapping[TopicPartitionReplica, str]
) -> dict[TopicPartitionReplica, DirState]:
    states = {}
    for broker_id in sorted({replica.broker_id for replica in targets}):
        own = [replica for replica in targets if replica.broker_id == broker_id]
        dirs = await admin.describe_log_dirs(broker_id, [r.topic_partition for r in own])
        current: dict[object, str] = {}
        future: dict[object, str] = {}
        for log_dir in dirs.values():
            for found in log_dir.replicas:
                (future if found.is_future else current)[found.partition] = log_dir.path
        for replica in own:
            tp = replica.topic_partition
            states[replica] = DirState(current.get(tp), future.get(tp), targets[replica])
    return states


def state_lines(states: Mapping[TopicPartitionReplica, DirState]) -> list[str]:
    return [_state_line(r, states[r]) for r in sorted(states, key=by_broker)]


def _state_line(replica: TopicPartitionReplica, state: DirState) -> str:
    tp, broker = replica.topic_partition, replica.broker_id
    if state.current is None:
        return (
            f"Partition {tp} is not found in any live log dir on broker {broker}. There is likely "
            "an offline log directory on the broker."
        )
    if state.future is not None:
        if state.future == state.target:
            return f"Reassignment of replica {replica_text(replica)} is still in progress."
        return (
            f"Partition {tp} on broker {broker} is being moved to log dir {state.future} instead "
            f"of {state.target}."
        )
    if state.current != state.target:
        return (
            f"Partition {tp} on broker {broker} is not being moved from log dir {state.current} "
            f"to {state.target}."
        )
    return f"Reassignment of replica {replica_text(replica)} completed successfully."


async def start_moves(
    admin: Admin,
    targets: Mapping[TopicPartitionReplica, str],
    timeout_ms: int,
    *,
    to_stderr: bool = False,
) -> None:
    """A replica that is still on its way to the broker cannot move yet: it is asked again."""
    pending = dict(targets)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    while pending:
        started = await _start(admin, pending)
        if started:
            names = ",".join(replica_text(r) for r in sorted(started, key=by_broker))
            click.echo(
                f"Successfully started log directory {plural('move', started)} for: {names}",
                err=to_stderr,
            )
        pending = {r: path for r, path in pending.items() if r not in started}
        if pending and loop.time() >= deadline:
            names = ",".join(replica_text(r) for r in sorted(pending, key=by_broker))
            raise ReassignmentFailed(
                f"Timed out before log directory {plural('move', pending)} could be started for: "
                f"{names}"
            )
        if pending:
            await asyncio.sleep(_POLL_S)


async def _start(
    admin: Admin, targets: Mapping[TopicPartitionReplica, str]
) -> list[TopicPartitionReplica]:
    results = await admin.alter_replica_log_dirs(targets)
    for replica, error in results.items():
        if error is not None and error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
            raise ReassignmentError(f"Failed to alter dir for {replica_text(replica)} ({error})")
    return [replica for replica, error in results.items() if error is None]
