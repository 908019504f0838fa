"""The actions of `ottla reassign` (kafka.admin.ReassignPartitionsCommand)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.options import print_json, read_text_file
from ottla.cli.reassign import log_dir_moves
from ottla.cli.reassign.log_dir_moves import ReassignmentFailed
from ottla.client.admin import reassignment
from ottla.client.admin import reassignment_plan as reassign_plan
from ottla.client.admin.client import Admin
from ottla.client.admin.reassignment_plan import plural
from ottla.client.admin.types import (
    Reassignment,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.topics.assignment import BrokerMetadata
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.cli.reassign.options import ReassignOptions

_EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
_RUN_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)


def _read_plan(path: Path | None) -> reassign_plan.Plan:
    return reassign_plan.parse_plan(read_text_file(path or Path()))


async def generate(admin: Admin, options: ReassignOptions) -> None:
    brokers = reassign_plan.parse_broker_list(options.broker_list or "")
    topics = reassign_plan.parse_topics_to_move(
        read_text_file(options.topics_to_move_json_file or Path())
    )
    present = await reassignment.replicas_of(admin, topics)
    alive = [BrokerMetadata(n.id, n.rack) for n in (await admin.describe_cluster()).nodes]
    proposed = reassignment.propose(
        present,
        topics,
        alive,
        brokers,
        rack_aware=not options.disable_rack_aware,
        random=system_runtime().random,
    )
    if options.is_json:
        print_json(
            {
                "current": reassign_plan.to_value(present),
                "proposed": reassign_plan.to_value(proposed),
            }
        )
        return
    click.echo(f"Current partition replica assignment\n{reassign_plan.to_json(present)}\n")
    click.echo(f"Proposed partition reassignment configuration\n{reassign_plan.to_json(proposed)}")


async def execute(admin: Admin, options: ReassignOptions) -> None:
    plan = _read_plan(options.reassignment_json_file)
    reassign_plan.check_executable(plan)
    targets = plan.targets
    under_way = await admin.list_reassignments()
    if under_way and not options.additional:
        raise ReassignmentFailed(_EXISTING)
    await reassignment.check_brokers(admin, targets.values())
    all_replicas = await reassignment.replicas_of(admin, (tp.topic for tp in targets))
    present = {tp: replicas for tp, replicas in all_replicas.items() if tp in targets}
    if not options.is_json:
        click.echo("Current partition replica assignment\n")
        click.echo(f"{reassign_plan.to_json(present)}\n")
        click.echo("Save this to use as the --reassignment-json-file option during rollback")
    await _throttle(admin, options, under_way, plan, present)
    results = await admin.alter_reassignments(targets)
    _raise_failures("Error reassigning partition(s):", results)
    names = _names(targets)
    click.echo(
        f"Successfully started partition {plural('reassignment', targets)} for {names}",
        err=options.is_json,
    )
    if plan.log_dirs:
        await log_dir_moves.start_moves(
            admin, plan.log_dirs, options.timeout_ms, to_stderr=options.is_json
        )
    if options.is_json:
        print_json(
            {
                "started": [str(tp) for tp in sorted(targets)],
                "rollback": reassign_plan.to_value(present),
            }
        )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(str(tp) for tp in sorted(partitions))


def _raise_failures(title: str, results: Mapping[TopicPartition, KafkaError | None]) -> None:
    failed = [f"{tp}: {error}" for tp, error in sorted(results.items()) if error is not None]
    if failed:
        raise ReassignmentFailed("\n".join([title, *failed]))


async def _throttle(
    admin: Admin,
    options: ReassignOptions,
    under_way: Mapping[TopicPartition, Reassignment],
    plan: reassign_plan.Plan,
    present: reassign_plan.Assignment,
) -> None:
    between_brokers = _rate(options.throttle)
    between_dirs = _rate(options.replica_alter_log_dirs_throttle)
    if between_brokers is not None or between_dirs is not None:
        click.echo(_RUN_VERIFY, err=options.is_json)
    if between_brokers is not None:
        moves = reassign_plan.moves(under_way, plan.targets, present)
        await reassignment.throttle_moves(admin, moves, between_brokers)
        click.echo(
            f"The inter-broker throttle limit was set to {between_brokers} B/s",
            err=options.is_json,
        )
    if between_dirs is not None:
        brokers = sorted({replica.broker_id for replica in plan.log_dirs})
        await reassignment.throttle_log_dirs(admin, brokers, between_dirs)
        click.echo(
            f"The replica-alter-dir throttle limit was set to {between_dirs} B/s",
            err=options.is_json,
        )


def _rate(given: int | None) -> int | None:
    """As in Kafka a negative limit is none."""
    return given if given is not None and given >= 0 else None


class PartitionState(NamedTuple):
    replicas: Sequence[int]
    target: Sequence[int]
    is_done: bool

    @property
    def word(self) -> str:
        if not self.is_done:
            return "in progress"
        return "complete" if list(self.replicas) == list(self.target) else "not active"


async def verify(admin: Admin, options: ReassignOptions) -> None:
    plan = _read_plan(options.reassignment_json_file)
    under_way = await admin.list_reassignments()
    states = await _partition_states(admin, plan, under_way)
    lines = ["Status of partition reassignment:", *_state_lines(states)]
    dir_states = await log_dir_moves.find_states(admin, plan.log_dirs)
    if not options.is_json:
        click.echo("\n".join(lines))
        click.echo("\n".join(log_dir_moves.state_lines(dir_states)))
    is_done = not under_way and all(state.is_done for state in dir_states.values())
    if is_done and not options.preserve_throttles:
        await _clear_throttles(admin, plan, to_stderr=options.is_json)
    if options.is_json:
        print_json(_verify_value(states, dir_states, is_done))


async def _partition_states(
    admin: Admin, plan: reassign_plan.Plan, under_way: Mapping[TopicPartition, Reassignment]
) -> dict[TopicPartition, PartitionState]:
    resting = dict.fromkeys(tp.topic for tp, _ in plan.partitions if tp not in under_way)
    described = await admin.describe_topics(resting)
    states = {}
    for tp, target in plan.partitions:
        if tp in under_way:
            states[tp] = PartitionState(under_way[tp].replicas, target, False)
            continue
        topic = described.get(tp.topic)
        if isinstance(topic, KafkaError) and topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise topic
        partitions = [] if topic is None or isinstance(topic, KafkaError) else topic.partitions
        replicas = next((p.replicas for p in partitions if p.partition == tp.partition), [])
        states[tp] = PartitionState(replicas, target, True)
    return states


def _state_lines(states: Mapping[TopicPartition, PartitionState]) -> list[str]:
    lines = []
    for tp, state in sorted(states.items()):
        if not state.is_done:
            lines.append(f"Reassignment of partition {tp} is still in progress.")
        elif state.word == "complete":
            lines.append(f"Reassignment of partition {tp} is complete.")
        else:
            lines.append(
                f"There is no active reassignment of partition {tp}, but replica set is "
                f"{_ids(state.replicas)} rather than {_ids(state.target)}."
            )
    return lines


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _verify_value(
    states: Mapping[TopicPartition, PartitionState],
    dir_states: Mapping[Any, log_dir_moves.DirState],
    is_done: bool,
) -> dict[str, Any]:
    return {
        "done": is_done,
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "state": state.word,
                "replicas": list(state.replicas),
                "target": list(state.target),
            }
            for tp, state in sorted(states.items())
        ],
        "log_dirs": [
            {
                "topic": replica.topic,
                "partition": replica.partition,
                "broker": replica.broker_id,
                "current": state.current,
                "future": state.future,
                "target": state.target,
            }
            for replica, state in sorted(dir_states.items())
        ],
    }


async def _clear_throttles(admin: Admin, plan: reassign_plan.Plan, *, to_stderr: bool) -> None:
    named = {broker for _, replicas in plan.partitions for broker in replicas}
    brokers = await reassignment.brokers_to_clear(admin, named)
    click.echo(
        f"Clearing broker-level throttles on {plural('broker', brokers)} {_ids(brokers)}",
        err=to_stderr,
    )
    await reassignment.clear_broker_throttles(admin, brokers)
    topics: Collection[str] = sorted({tp.topic for tp, _ in plan.partitions})
    click.echo(
        f"Clearing topic-level throttles on {plural('topic', topics)} {','.join(topics)}",
        err=to_stderr,
    )
    await reassignment.clear_topic_throttles(admin, topics)


async def cancel(admin: Admin, options: ReassignOptions) -> None:
    plan = _read_plan(options.reassignment_json_file)
    under_way = await admin.list_reassignments(plan.targets)
    active = [tp for tp, move in under_way.items() if move.adding or move.removing]
    if active:
        results = await admin.alter_reassignments(dict.fromkeys(active))
        failed = [error for error in results.values() if error is not None]
        title = f"Error cancelling partition {plural('reassignment', failed)} for:"
        _raise_failures(title, results)
        text = f"Successfully cancelled partition {plural('reassignment', active)} for: "
        click.echo(text + _names(active), err=options.is_json)
    else:
        click.echo("None of the specified partition reassignments are active.", err=options.is_json)
    states = await log_dir_moves.find_states(admin, plan.log_dirs)
    back = {r: state.current or "" for r, state in states.items() if state.is_active}
    if back:
        await log_dir_moves.start_moves(admin, back, options.timeout_ms, to_stderr=options.is_json)
    else:
        click.echo("None of the specified partition moves are active.", err=options.is_json)
    if not options.preserve_throttles:
        await _clear_throttles(admin, plan, to_stderr=options.is_json)
    if options.is_json:
        print_json({"cancelled": [str(tp) for tp in sorted(active)]})


async def list_moves(admin: Admin, options: ReassignOptions) -> None:
    under_way = sorted((await admin.list_reassignments()).items())
    if options.is_json:
        print_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "replicas": move.replicas,
                    "adding_replicas": move.adding,
                    "removing_replicas": move.removing,
                }
                for tp, move in under_way
            ]
        )
        return
    if not under_way:
        click.echo("No partition reassignments found.")
        return
    click.echo("Current partition reassignments:")
    for tp, move in under_way:
        adding = f" adding: {_ids(move.adding)}." if move.adding else ""
        removing = f" removing: {_ids(move.removing)}." if move.removing else ""
        click.echo(f"{tp}: replicas: {_ids(move.replicas)}.{adding}{removing}")
