"""What `ottla groups` does, and what it prints of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.groups import output
from ottla.cli.groups.output import OffsetRow
from ottla.cli.groups.reset import Reset, parse_topics, read_plan
from ottla.cli.options import print_json
from ottla.client.admin.groups import GroupAdmin, GroupDescription, GroupListing
from ottla.client.admin.resets import Plan, ResetPlanner
from ottla.client.groups.protocol import CONSUMER
from ottla.client.offsets import LATEST, try_list_offsets
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin

_DEAD = "Dead"
_EMPTY = "Empty"
_REBALANCING = ("PreparingRebalance", "CompletingRebalance")


class GroupsFailed(OttlaError):
    """What Kafka's tool prints after "Error:"."""

    def __init__(self, text: str) -> None:
        super().__init__(f"Error: {text}")


class Groups:
    """The actions on one cluster: each prints what it finds and keeps failures for the end."""

    def __init__(self, admin: Admin, *, timeout_ms: int, as_json: bool) -> None:
        self._admin = admin
        self._groups = GroupAdmin(admin.cluster, timeout_ms=timeout_ms)
        self._timeout_ms = timeout_ms
        self._as_json = as_json
        self._failures: list[str] = []

    async def consumer_groups(self) -> list[str]:
        return [listing.group_id for listing in await self._listings([], with_states=False)]

    async def _listings(self, states: Sequence[str], *, with_states: bool) -> list[GroupListing]:
        """Groups of Connect and others that are not consumers are not listed."""
        found = await self._groups.list_groups(states, with_states=with_states)
        return [listing for listing in found if listing.protocol_type in ("", CONSUMER)]

    async def list_all(self, state: str | None) -> None:
        states = [name.strip() for name in (state or "").split(",") if name.strip()]
        listings = await self._listings(states, with_states=state is not None)
        if self._as_json:
            print_json(
                [
                    {"group": group.group_id} | ({} if state is None else {"state": group.state})
                    for group in listings
                ]
            )
        elif state is None:
            _print(group.group_id for group in listings)
        else:
            _print(output.state_lines(listings))

    async def describe(self, group_ids: Sequence[str], view: str, *, verbose: bool) -> None:
        """`view` is offsets, members or state; a group that does not exist fails at the end."""
        described = []
        for group_id in sorted(set(group_ids)):
            group = await self._groups.describe_group(group_id)
            if group.state == _DEAD:
                self._failures.append(f"Consumer group '{group_id}' does not exist.")
                continue
            if group.protocol_type not in ("", CONSUMER):
                self._failures.append(
                    f"GroupId {group_id} is not a consumer group ({group.protocol_type})."
                )
                continue
            rows = await self._offset_rows(group) if view == "offsets" else []
            if self._as_json:
                described.append(_as_json(group, rows, view))
            else:
                _note_state(group)
                _print(_described_lines(group, rows, view, verbose=verbose))
        if self._as_json:
            print_json(described)
        self.raise_failures()

    async def _offset_rows(self, group: GroupDescription) -> list[OffsetRow]:
        """Partitions of members first, those with most in front; then what else is committed."""
        committed = await self._groups.committed_offsets(group.group_id)
        members = sorted(group.members, key=lambda member: -len(member.partitions))
        owners = {tp: member for member in members for tp in member.partitions}
        unread = [tp for tp in committed if tp not in owners]
        partitions = [*owners, *unread]
        ends = await try_list_offsets(
            self._admin.cluster, partitions, LATEST, timeout_ms=self._timeout_ms
        )
        rows = []
        for tp in partitions:
            end = ends[tp]
            known_end = None if isinstance(end, KafkaError) else end
            row = OffsetRow(tp, committed.get(tp), known_end)
            if tp in owners:
                member = owners[tp]
                row = row._replace(
                    consumer_id=member.member_id, host=member.host, client_id=member.client_id
                )
            rows.append(row)
        return rows

    async def delete(self, group_ids: Sequence[str]) -> None:
        failed: dict[str, KafkaError] = {}
        for group_id in dict.fromkeys(group_ids):
            try:
                await self._groups.delete_group(group_id)
            except KafkaError as error:
                failed[group_id] = error
        deleted = [group_id for group_id in dict.fromkeys(group_ids) if group_id not in failed]
        if self._as_json:
            print_json({"deleted": deleted, "failed": {g: str(e) for g, e in failed.items()}})
        elif not failed:
            click.echo(
                f"Deletion of requested consumer groups ({output.quoted(deleted)}) was successful."
            )
        else:
            cause = "java.util.concurrent.ExecutionException: "
            _print(
                f"* Group '{group}' could not be deleted due to: {cause}{output.java_error(error)}"
                for group, error in failed.items()
            )
            if deleted:
                names = output.quoted(deleted)
                click.echo(f"\nThese consumer groups were deleted successfully: {names}")
        if failed:
            raise GroupsFailed("Deletion of some consumer groups failed")

    async def delete_offsets(self, group_id: str, topics: Sequence[str]) -> None:
        named, whole = parse_topics(topics)
        results: dict[TopicPartition, KafkaError | None] = {}
        for name, found in (await self._admin.describe_topics(whole)).items():
            if isinstance(found, KafkaError):
                results[TopicPartition(name, output.NOT_PROVIDED)] = found
            else:
                named += [TopicPartition(name, p.partition) for p in found.partitions]
        failure = None
        try:
            # Also where no topic is left: the group may not exist.
            deleted = await self._groups.delete_offsets(group_id, named)
            results |= deleted
            if any(deleted.values()):
                failure = "Encounter some partition level error, see the follow-up details"
        except KafkaError as error:
            results |= dict.fromkeys(named, error)
            failure = _group_error(group_id, error)
        if self._as_json:
            print_json({str(tp): str(error) if error else None for tp, error in results.items()})
        else:
            if failure is None:
                words = f"topic {','.join(topics)} group {group_id}"
                click.echo(f"Request succeed for deleting offsets with {words}")
            _print(output.deleted_offset_lines(results))
        if failure is not None or any(results.values()):
            raise GroupsFailed(failure or "Some topics do not exist.")

    async def plan_reset(
        self, group_ids: Sequence[str], topics: Sequence[str] | None, reset: Reset
    ) -> dict[str, Plan]:
        """What to commit for each group; groups with members are left alone, and reported."""
        plans: dict[str, Plan] = {}
        planner = ResetPlanner(self._admin.cluster, timeout_ms=self._timeout_ms)
        file_plans = {}
        if reset.file:
            file_plans = read_plan(reset.file, group_ids, names_groups=reset.names_groups)
        for group_id in dict.fromkeys(group_ids):
            state = (await self._groups.describe_group(group_id)).state
            if state not in (_EMPTY, _DEAD):
                self._failures.append(
                    f"Assignments can only be reset if the group '{group_id}' is inactive, but the "
                    f"current state is {state}."
                )
                continue
            committed = await self._groups.committed_offsets(group_id)
            if reset.file is not None:
                if group_id in file_plans:
                    plans[group_id] = await planner.in_range(file_plans[group_id])
                else:
                    self._failures.append(f"No reset plan for group {group_id} found")
                continue
            partitions = list(committed) if topics is None else await self._partitions(topics)
            plans[group_id] = await planner.plan(
                partitions,
                committed,
                reset.scenario,
                number=reset.number,
                timestamp_ms=reset.timestamp_ms,
            )
        for warning in planner.warnings:
            click.echo(f"WARN {warning}", err=True)
        return plans

    async def execute_reset(self, plans: Mapping[str, Plan]) -> None:
        for group_id, plan in plans.items():
            if plan:
                await self._groups.commit_offsets(group_id, plan)

    def show_reset(self, plans: Mapping[str, Plan], reset: Reset, *, export: bool) -> None:
        if self._as_json:
            print_json(
                {
                    group_id: [
                        {"topic": tp.topic, "partition": tp.partition, "offset": offset}
                        for tp, offset in plan.items()
                    ]
                    for group_id, plan in plans.items()
                }
            )
        else:
            _print(
                output.export_lines(plans, names_groups=reset.names_groups)
                if export
                else output.reset_lines(plans)
            )

    def raise_failures(self) -> None:
        if self._failures:
            raise GroupsFailed(" ".join(self._failures))

    async def _partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        named, whole = parse_topics(topics)
        for name, found in (await self._admin.describe_topics(whole)).items():
            if isinstance(found, KafkaError):
                raise found
            named += [TopicPartition(name, p.partition) for p in found.partitions]
        return list(dict.fromkeys(named))


def _described_lines(
    group: GroupDescription, rows: Sequence[OffsetRow], view: str, *, verbose: bool
) -> list[str]:
    if view == "state":
        return output.group_state_lines(group)
    if view == "members":
        return output.member_lines(group, verbose=verbose) if group.members else []
    return output.offset_lines(group.group_id, rows) if rows else []


def _note_state(group: GroupDescription) -> None:
    if group.state == _EMPTY:
        click.echo(f"\nConsumer group '{group.group_id}' has no active members.", err=True)
    elif group.state in _REBALANCING:
        click.echo(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", err=True)


def _group_error(group_id: str, error: KafkaError) -> str:
    """ConsumerGroupCommand.deleteOffsets' words for what is wrong with a group."""
    texts = {
        ErrorCode.INVALID_GROUP_ID: f"'{group_id}' is not valid.",
        ErrorCode.GROUP_ID_NOT_FOUND: f"'{group_id}' does not exist.",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: f"Access to '{group_id}' is not authorized.",
        ErrorCode.NON_EMPTY_GROUP: f"Deleting offsets of a consumer group '{group_id}' is "
        "forbidden if the group is not empty.",
    }
    return texts.get(error.code, f"Encounter some unknown error: {error}")


def _as_json(group: GroupDescription, rows: Sequence[OffsetRow], view: str) -> dict[str, object]:
    node = group.coordinator
    described: dict[str, object] = {
        "group": group.group_id,
        "state": group.state,
        "assignment_strategy": group.assignor,
        "coordinator": {"id": node.id, "host": node.host, "port": node.port},
    }
    if view == "offsets":
        described["offsets"] = [
            {
                "topic": row.partition.topic,
                "partition": row.partition.partition,
                "current_offset": row.committed,
                "log_end_offset": row.end,
                "lag": row.lag,
                "consumer_id": None if row.consumer_id == output.MISSING else row.consumer_id,
                "host": None if row.host == output.MISSING else row.host,
                "client_id": None if row.client_id == output.MISSING else row.client_id,
            }
            for row in rows
        ]
    elif view == "members":
        described["members"] = [
            {
                "consumer_id": member.member_id,
                "group_instance_id": member.instance_id,
                "host": member.host,
                "client_id": member.client_id,
                "partitions": [str(tp) for tp in member.partitions],
            }
            for member in group.members
        ]
    else:
        described["members"] = len(group.members)
    return described


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
