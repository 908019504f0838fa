"""The page Groups: who reads what, and how far behind?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from ottla.client.admin.groups import GroupAdmin, GroupDescription, GroupMember
from ottla.client.admin.resets import ResetPlanner
from ottla.client.admin.types import raise_first_error
from ottla.client.groups.resets import ResetFailed, Scenario
from ottla.client.offsets import LATEST, try_list_offsets
from ottla.console.commands import ottla
from ottla.console.web.access import CALL_TIMEOUT_MS
from ottla.console.web.failures import ApiError, invalid
from ottla.console.web.live import Snapshots, Source
from ottla.console.web.routes import Call, Feed, Route
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

MAX_SUMMARIES = 100
_AT_ONCE = 8
_DEAD = "Dead"
_RESETTABLE = ("Empty", _DEAD)
# How Kafka calls groups whose members do not say; older brokers have no types.
_CLASSIC = "Classic"
_LAST_MS = 253_402_300_799_999


class Listed(msgspec.Struct):
    id: str
    state: str
    type: str
    protocol: str


class GroupList(msgspec.Struct):
    groups: list[Listed]


async def listing(call: Call) -> GroupList:
    found = await _admin(call).list_groups()
    return GroupList(
        [
            Listed(g.group_id, g.state, g.type.capitalize() or _CLASSIC, g.protocol_type)
            for g in found
        ]
    )


class Ids(msgspec.Struct):
    """A JSON list of group ids: they may hold anything."""

    ids: str


class Summary(msgspec.Struct):
    """`lag` is the sum over partitions with a committed offset; None where it is not known."""

    id: str
    state: str
    members: int | None
    lag: int | None
    partitions: int
    error: str | None = None


async def summaries(call: Call) -> list[Summary]:
    query: Ids = call.query
    try:
        ids = msgspec.json.decode(query.ids, type=list[str])
    except msgspec.MsgspecError:
        raise invalid("A JSON list of group ids.", "ids") from None
    if len(ids) > MAX_SUMMARIES:
        raise invalid(f"Up to {MAX_SUMMARIES} groups at a time.", "ids")
    admin = _admin(call)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(group_id: str) -> tuple[GroupDescription, dict[TopicPartition, int]] | KafkaError:
        async with gate:
            try:
                return await _describe(admin, group_id), await admin.committed_offsets(group_id)
            except KafkaError as error:
                return error

    unique = list(dict.fromkeys(ids))
    answers = dict(zip(unique, await asyncio.gather(*map(ask, unique)), strict=True))
    wanted = {tp for a in answers.values() if not isinstance(a, KafkaError) for tp in a[1]}
    ends = await _ends(call, wanted)
    return [_summary(group_id, answer, ends) for group_id, answer in answers.items()]


def _summary(
    group_id: str,
    answer: tuple[GroupDescription, dict[TopicPartition, int]] | KafkaError,
    ends: Mapping[TopicPartition, int],
) -> Summary:
    if isinstance(answer, KafkaError):
        return Summary(group_id, "", None, None, 0, str(answer))
    group, committed = answer
    lags = [max(ends[tp] - offset, 0) for tp, offset in committed.items() if tp in ends]
    return Summary(
        group_id, group.state, len(group.members), sum(lags) if lags else None, len(committed)
    )


class Id(msgspec.Struct):
    id: str


class Assigned(msgspec.Struct):
    topic: str
    partitions: list[int]


class Member(msgspec.Struct):
    id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: list[Assigned]


class OffsetRow(msgspec.Struct, frozen=True):
    """One partition; `member` is the id of who reads it now. Without an end it cannot be asked."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member: str | None


class Group(msgspec.Struct):
    """In an event that is not the first, `offsets` has the rows that changed, and `gone` those that
    are there no more."""

    id: str
    state: str
    type: str
    protocol: str
    assignor: str
    coordinator: int
    members: list[Member]
    offsets: list[OffsetRow]
    lag: int | None
    gone: list[tuple[str, int]] = []


async def picture(call: Call) -> Group:
    query: Id = call.query
    admin = _admin(call)
    group, kind = await _describe_with_type(admin, query.id)
    try:
        committed = await admin.committed_offsets(query.id)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        committed = {}
    if group.state == _DEAD and not committed:
        raise await _not_described(admin, query.id)
    owners = {tp: member for member in group.members for tp in member.partitions}
    partitions = sorted({*owners, *committed})
    ends = await _ends(call, partitions)
    rows = [_row(tp, committed.get(tp), ends.get(tp), owners.get(tp)) for tp in partitions]
    lags = [row.lag for row in rows if row.lag is not None]
    return Group(
        query.id,
        group.state,
        kind,
        group.protocol_type,
        group.assignor,
        group.coordinator.id,
        [_member(member) for member in group.members],
        rows,
        sum(lags) if lags else None,
    )


async def _not_described(admin: GroupAdmin, group_id: str) -> ApiError:
    """There is none, or it is of a kind that neither protocol of consumers knows."""
    for listed in await admin.list_groups():
        if listed.group_id == group_id and listed.type.capitalize() not in ("", _CLASSIC):
            words = f"A group of type {listed.type}: the console can list it, not describe it."
            return ApiError(501, "UNSUPPORTED_VERSION", words)
    return ApiError(404, "GROUP_ID_NOT_FOUND", "There is no such group, or it has gone.")


def _row(
    tp: TopicPartition, committed: int | None, end: int | None, owner: GroupMember | None
) -> OffsetRow:
    lag = None if committed is None or end is None else max(end - committed, 0)
    member = None if owner is None else owner.member_id
    return OffsetRow(tp.topic, tp.partition, committed, end, lag, member)


def _member(member: GroupMember) -> Member:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(member.partitions):
        by_topic.setdefault(topic, []).append(partition)
    assigned = [Assigned(topic, partitions) for topic, partitions in by_topic.items()]
    return Member(member.member_id, member.instance_id, member.client_id, member.host, assigned)


class Changes:
    """The picture of a group as news: only rows that are others than before."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._last: Group | None = None

    async def poll(self) -> Group | None:
        last, self._last = self._last, await picture(self._call)
        if last is None:
            return self._last
        return changed(last, self._last)

    def whole(self) -> Group | None:
        return self._last


def changed(before: Group, after: Group) -> Group | None:
    """None where nothing is."""
    if before == after:
        return None
    known = {(row.topic, row.partition): row for row in before.offsets}
    rows = [row for row in after.offsets if known.pop((row.topic, row.partition), None) != row]
    return msgspec.structs.replace(after, offsets=rows, gone=list(known))


class Choice(msgspec.Struct):
    """A topic, or some partitions of it."""

    topic: str
    partitions: list[Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]] | None = None


class ResetRequest(msgspec.Struct):
    """`number` is the offset or the shift, `time_ms` the time; without `topics` all that the group
    has committed."""

    id: str
    scenario: Literal[
        "to-earliest", "to-latest", "to-current", "to-offset", "shift-by", "to-datetime"
    ]
    number: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    time_ms: Annotated[int, msgspec.Meta(ge=0, le=_LAST_MS)] | None = None
    topics: list[Choice] | None = None


class Moved(msgspec.Struct):
    """`lag` is what is left to read after it."""

    topic: str
    partition: int
    before: int | None
    after: int
    lag: int | None


class ResetPlan(msgspec.Struct):
    """`csv` is what `--from-file` reads: kept before the reset, it is the way back."""

    rows: list[Moved]
    warnings: list[str]
    csv: str


async def plan_reset(call: Call) -> ResetPlan:
    request: ResetRequest = call.body
    scenario = Scenario(request.scenario)
    _check_reset(request, scenario)
    admin = _admin(call)
    state = (await _describe(admin, request.id)).state
    if state not in _RESETTABLE:
        raise ApiError(
            409,
            "NON_EMPTY_GROUP",
            f"Assignments can only be reset if the group '{request.id}' is inactive, but the "
            f"current state is {state}. Stop its consumers first.",
        )
    committed = await admin.committed_offsets(request.id)
    partitions = list(committed)
    if request.topics is not None:
        partitions = await _chosen(call, request.topics)
    if not partitions:
        raise invalid("No partition is chosen: nothing was committed yet. Choose topics.", "topics")
    planner = ResetPlanner(call.admin.cluster, timeout_ms=CALL_TIMEOUT_MS)
    try:
        plan = await planner.plan(
            partitions,
            committed,
            scenario,
            number=request.number or 0,
            timestamp_ms=request.time_ms or 0,
        )
    except ResetFailed as error:
        raise invalid(f"{error}.", "scenario") from None
    ends = await _ends(call, plan)
    rows = [
        Moved(tp.topic, tp.partition, committed.get(tp), offset, _left(ends.get(tp), offset))
        for tp, offset in sorted(plan.items())
    ]
    lines = [f"{tp.topic},{tp.partition},{offset}" for tp, offset in sorted(committed.items())]
    return ResetPlan(rows, planner.warnings, "".join(f"{line}\n" for line in lines))


def _left(end: int | None, offset: int) -> int | None:
    return None if end is None else max(end - offset, 0)


def _check_reset(request: ResetRequest, scenario: Scenario) -> None:
    if scenario in (Scenario.TO_OFFSET, Scenario.SHIFT_BY) and request.number is None:
        raise invalid("Give a whole number.", "number")
    if scenario is Scenario.TO_OFFSET and (request.number or 0) < 0:
        raise invalid("An offset is 0 or more.", "number")
    if scenario is Scenario.TO_DATETIME and request.time_ms is None:
        raise invalid("Give a time.", "time_ms")


async def reset(call: Call) -> ResetPlan:
    request: ResetRequest = call.body
    planned = await plan_reset(call)
    offsets = {TopicPartition(row.topic, row.partition): row.after for row in planned.rows}
    await _admin(call).commit_offsets(request.id, offsets)
    return planned


def _reset_commands(call: Call) -> Sequence[str]:
    request: ResetRequest = call.body
    scope: list[str] = ["--all-topics"]
    if request.topics is not None:
        scope = [word for choice in request.topics for word in ("--topic", _topic_word(choice))]
    how = [f"--{request.scenario}"]
    if request.scenario in ("to-offset", "shift-by"):
        how.append(str(request.number or 0))
    elif request.scenario == "to-datetime":
        moment = datetime.fromtimestamp((request.time_ms or 0) / 1000, UTC)
        how.append(moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}")
    words = ("groups", "--reset-offsets", "--group", request.id, *scope, *how)
    return [ottla(call.settings, *words, end) for end in ("--dry-run", "--execute")]


def _topic_word(choice: Choice) -> str:
    if choice.partitions is None:
        return choice.topic
    return f"{choice.topic}:{','.join(map(str, choice.partitions))}"


class Done(msgspec.Struct):
    done: bool = True


async def delete(call: Call) -> Done:
    body: Id = call.body
    await _admin(call).delete_group(body.id)
    return Done()


def _delete_commands(call: Call) -> Sequence[str]:
    return [ottla(call.settings, "groups", "--delete", "--group", call.body.id)]


class DeleteOffsets(msgspec.Struct):
    id: str
    topics: list[Choice]


async def delete_offsets(call: Call) -> Done:
    """All or the first error; what was deleted before it stays deleted, as with Kafka's tool."""
    body: DeleteOffsets = call.body
    partitions = await _chosen(call, body.topics)
    if not partitions:
        raise invalid("Choose a topic.", "topics")
    for tp, error in (await _admin(call).delete_offsets(body.id, partitions)).items():
        if error is not None:
            raise ApiError(409, error.code.name, f"{tp}: {error}")
    return Done()


def _delete_offsets_commands(call: Call) -> Sequence[str]:
    body: DeleteOffsets = call.body
    scope = [word for choice in body.topics for word in ("--topic", _topic_word(choice))]
    return [ottla(call.settings, "groups", "--delete-offsets", "--group", body.id, *scope)]


def _admin(call: Call) -> GroupAdmin:
    return GroupAdmin(call.admin.cluster, timeout_ms=CALL_TIMEOUT_MS)


async def _describe(admin: GroupAdmin, group_id: str) -> GroupDescription:
    return (await _describe_with_type(admin, group_id))[0]


async def _describe_with_type(admin: GroupAdmin, group_id: str) -> tuple[GroupDescription, str]:
    """By both protocols: what one does not know, the other may."""
    group = await admin.describe_group(group_id)
    if group.state != _DEAD:
        return group, _CLASSIC
    try:
        newer = await admin.describe_consumer_group(group_id)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return group, _CLASSIC
    return (group, _CLASSIC) if newer.state == _DEAD else (newer, "Consumer")


async def _ends(call: Call, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Of those that can be asked."""
    found = await try_list_offsets(call.admin.cluster, partitions, LATEST, timeout_ms=3000)
    return {tp: end for tp, end in found.items() if not isinstance(end, KafkaError)}


async def _chosen(call: Call, choices: Sequence[Choice]) -> list[TopicPartition]:
    whole = [choice.topic for choice in choices if choice.partitions is None]
    described = raise_first_error(await call.admin.describe_topics(whole))
    found = [TopicPartition(t.name, p.partition) for t in described.values() for p in t.partitions]
    for choice in choices:
        found += [TopicPartition(choice.topic, partition) for partition in choice.partitions or ()]
    return list(dict.fromkeys(found))


def _open_list(call: Call) -> Source:
    return Snapshots(lambda: listing(call))


ROUTES = [
    Route("GET", "/groups", listing, "All groups", answer=GroupList),
    Route(
        "GET", "/groups/summaries", summaries, "Members and lag of some groups",
        answer=list[Summary], query=Ids,
    ),
    Route("GET", "/group", picture, "One group", answer=Group, query=Id),
    Route(
        "DELETE", "/group", delete, "Delete a group without members", answer=Done, body=Id,
        commands=_delete_commands,
    ),
    Route(
        "POST", "/group/offsets", reset, "Reset the offsets of a group", answer=ResetPlan,
        body=ResetRequest, commands=_reset_commands, preview=plan_reset,
    ),
    Route(
        "DELETE", "/group/offsets", delete_offsets, "Delete offsets of a group", answer=Done,
        body=DeleteOffsets, commands=_delete_offsets_commands,
    ),
]  # fmt: skip
FEEDS = [
    Feed("groups", "All groups", 3.0, _open_list, message=GroupList),
    Feed("group", "One group: members, offsets, lag", 2.0, Changes, query=Id, message=Group),
]
