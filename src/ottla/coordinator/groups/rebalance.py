"""The rules of JoinGroup, SyncGroup, Heartbeat and LeaveGroup (Kafka 2.8's GroupCoordinator).

Plain functions over one `Group`: they answer through the callbacks that callers left with a
member, leave records to be written in `group.writes`, and set deadlines as numbers; `expire` does
what has fallen due. Nothing here waits or looks at a clock other than the group's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from ottla.coordinator.groups.group import (
    UNKNOWN_MEMBER_ID,
    Group,
    GroupState,
    GroupWrite,
    JoinReply,
    JoinResult,
    Member,
    SyncReply,
    SyncResult,
)
from ottla.errors import ErrorCode

logger = logging.getLogger(__name__)

# A new member that waits in JoinGroup cannot send heartbeats, and a client that gave up cannot be
# noticed; after this long it is dropped and has to ask again (NewMemberJoinTimeoutMs).
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


class JoinRequest(NamedTuple):
    """JoinGroup without its wire form. `new_member_id` is drawn by the caller, used if needed."""

    member_id: str
    instance_id: str | None
    new_member_id: str
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    # KIP-394, from version 4 on and for dynamic members only.
    require_known_member_id: bool = False
    # KIP-814, from version 9 on.
    can_skip_assignment: bool = False


class SyncRequest(NamedTuple):
    member_id: str
    instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]


# --- JoinGroup ---------------------------------------------------------------------------------


def join(group: Group, request: JoinRequest, reply: JoinReply) -> None:
    """Answers at once, or leaves `reply` with the member until the rebalance is complete."""
    error = _refusal(group, request)
    if error is ErrorCode.GROUP_MAX_SIZE_REACHED:
        _drop_refused(group, request)
        reply(JoinResult(error))
    elif error is not ErrorCode.NONE:
        reply(JoinResult(error, request.member_id))
    elif request.member_id == UNKNOWN_MEMBER_ID:
        _join_without_id(group, request, reply)
    elif request.member_id in group.pending_members:
        _add_member(group, request, request.member_id, reply)
    else:
        _rejoin(group, request, reply)
    complete_join_if_ready(group)


def _refusal(group: Group, request: JoinRequest) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not _has_room(group, request.member_id):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not group.supports(request.protocol_type, request.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.member_id == UNKNOWN_MEMBER_ID:
        return ErrorCode.NONE
    if request.member_id in group.pending_members:
        # An id that was handed out to a dynamic member cannot turn into a static one.
        return ErrorCode.NONE if request.instance_id is None else ErrorCode.UNKNOWN_MEMBER_ID
    if group.is_fenced(request.member_id, request.instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    instance_unknown = (
        request.instance_id is not None and request.instance_id not in group.static_members
    )
    if request.member_id not in group.members or instance_unknown:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def _has_room(group: Group, member_id: str) -> bool:
    """Counts those who wait while a rebalance is prepared, so that the last to come are left
    out of a group that is too large already (KIP-389)."""
    member = group.members.get(member_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        is_waiting = member is not None and member.join_reply is not None
        return is_waiting or group.waiting_in_join < group.settings.max_size
    return member is not None or len(group.members) < group.settings.max_size


def _drop_refused(group: Group, request: JoinRequest) -> None:
    group.remove(request.member_id)
    if request.instance_id is not None:
        group.remove(group.static_members.get(request.instance_id, UNKNOWN_MEMBER_ID))


def _join_without_id(group: Group, request: JoinRequest, reply: JoinReply) -> None:
    if request.instance_id is not None and request.instance_id in group.static_members:
        _replace_static_member(group, request, request.instance_id, reply)
    elif request.require_known_member_id:
        deadline = group.now() + request.session_timeout_ms
        group.pending_members[request.new_member_id] = group.wake(deadline)
        reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, request.new_member_id))
    else:
        _add_member(group, request, request.new_member_id, reply)


def _add_member(group: Group, request: JoinRequest, member_id: str, reply: JoinReply) -> None:
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        request.protocols,
        is_new=True,
    )
    if group.state is GroupState.PREPARING_REBALANCE and group.generation_id == 0:
        group.new_member_added = True
    group.add(member)
    group.wait_in_join(member, reply)
    member.deadline = group.wake(group.now() + NEW_MEMBER_JOIN_TIMEOUT_MS)
    prepare_rebalance(group, f"member {member_id} joined")


def _rejoin(group: Group, request: JoinRequest, reply: JoinReply) -> None:
    """A known member: the current generation if nothing changed, a rebalance otherwise."""
    member = group.members[request.member_id]
    unchanged = member.protocols == request.protocols
    is_leader = group.is_leader(request.member_id)
    if group.state is GroupState.COMPLETING_REBALANCE and unchanged:
        # The first answer may have been lost on its way.
        reply(group.join_result(request.member_id))
    elif group.state is GroupState.STABLE and unchanged and not is_leader:
        reply(group.join_result(request.member_id))
    elif group.state is GroupState.EMPTY:
        reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
    else:
        # A leader that joins again asks for a new assignment, e.g. for new partitions.
        _update_member(group, member, request)
        group.wait_in_join(member, reply)
        prepare_rebalance(group, f"member {member.member_id} joined again")


def _update_member(group: Group, member: Member, request: JoinRequest) -> None:
    group.update_protocols(member, request.protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.client_id, member.client_host = request.client_id, request.client_host


def _replace_static_member(
    group: Group, request: JoinRequest, instance_id: str, reply: JoinReply
) -> None:
    """A static member came back without its member id: the new id takes the old one's place."""
    old_member_id, old_leader_id = group.static_members[instance_id], group.leader_id or ""
    member = group.rename_static_member(instance_id, request.new_member_id)
    old_protocols = member.protocols
    _update_member(group, member, request)
    group.keep_alive(member)
    group.wait_in_join(member, reply)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be assigning to the old id right now.
        prepare_rebalance(group, f"static member {instance_id} came back")
    if group.state is not GroupState.STABLE:
        return
    if group.select_protocol() != group.protocol_name:
        prepare_rebalance(group, f"static member {instance_id} changed the protocol")
        return

    def written(error: ErrorCode) -> None:
        if group.state is not GroupState.STABLE or member.join_reply is not reply:
            return  # a rebalance began, or the call was answered when the member was replaced
        if error is ErrorCode.NONE:
            answer = group.join_result(member.member_id)._replace(members=())
            if request.can_skip_assignment and group.is_leader(member.member_id):
                answer = answer._replace(members=group.member_list(), skip_assignment=True)
            elif not request.can_skip_assignment:
                # With the old leader's id no one takes itself for a leader (KIP-345).
                answer = answer._replace(leader_id=old_leader_id)
            group.answer_join(member, answer)
            group.keep_alive(member)
            return
        group.answer_join(member, JoinResult(error))
        group.update_protocols(member, old_protocols)
        group.rename_static_member(instance_id, old_member_id)
        group.keep_alive(member)

    assignments = {each.member_id: each.assignment for each in group.members.values()}
    group.writes.append(GroupWrite(group.to_value(assignments), written))


# --- the rebalance -------------------------------------------------------------------------------


def prepare_rebalance(group: Group, reason: str) -> None:
    """Starts to collect JoinGroup requests, unless that is under way."""
    if group.state in (GroupState.PREPARING_REBALANCE, GroupState.DEAD):
        return
    if group.state is GroupState.COMPLETING_REBALANCE:
        _fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.sync_deadline = inf
    timeout_ms = group.rebalance_timeout_ms()
    if group.state is GroupState.EMPTY:
        delay_ms = group.settings.initial_rebalance_delay_ms
        group.initial_delay_left_ms = max(timeout_ms - delay_ms, 0)
        timeout_ms = delay_ms
    group.transition(GroupState.PREPARING_REBALANCE)
    group.join_deadline = group.wake(group.now() + timeout_ms)
    logger.info(
        "Preparing to rebalance group %s with old generation %d: %s",
        group.group_id,
        group.generation_id,
        reason,
    )


def complete_join_if_ready(group: Group) -> None:
    """Ends the collecting early once everybody is there; the first rebalance always waits."""
    is_ready = group.initial_delay_left_ms is None and group.all_members_joined()
    if group.state is GroupState.PREPARING_REBALANCE and is_ready:
        _complete_join(group)


def _complete_join(group: Group) -> None:
    for member in [each for each in group.members.values() if each.join_reply is None]:
        # Static members may still be on their way back; only their session ends them.
        if member.instance_id is None:
            logger.info("Group %s goes on without member %s", group.group_id, member.member_id)
            group.remove(member.member_id)
    if group.members and not group.elect_joined_leader():
        # Nobody at all came back: wait on, until sessions end.
        group.join_deadline = group.wake(group.now() + group.rebalance_timeout_ms())
        return
    group.join_deadline = inf
    group.initial_delay_left_ms = None
    group.start_generation()
    if group.state is GroupState.EMPTY:
        group.writes.append(GroupWrite(group.to_value({}), _warn_of_failure(group)))
        return
    for member in list(group.members.values()):
        group.answer_join(member, group.join_result(member.member_id))
        member.is_new = False
        group.keep_alive(member)
        group.pending_syncs.add(member.member_id)
    group.sync_deadline = group.wake(group.now() + group.rebalance_timeout_ms())
    logger.info("Group %s has generation %d", group.group_id, group.generation_id)


def _warn_of_failure(group: Group) -> Callable[[ErrorCode], None]:
    def written(error: ErrorCode) -> None:
        # Harmless: after a fail-over the last generation comes back and its sessions end again.
        if error is not ErrorCode.NONE:
            logger.warning("Could not store that group %s is empty: %s", group.group_id, error.text)

    return written


# --- SyncGroup ---------------------------------------------------------------------------------


def sync(group: Group, request: SyncRequest, reply: SyncReply) -> None:
    """Answers at once, or leaves `reply` with the member until the assignment is stored."""
    error = check_member(group, request.member_id, request.instance_id, request.generation_id)
    if error is ErrorCode.NONE:
        error = _sync_refusal(group, request)
    if error is not ErrorCode.NONE:
        reply(SyncResult(error))
        return
    member = group.members[request.member_id]
    group.pending_syncs.discard(member.member_id)
    if group.state is GroupState.STABLE:
        reply(_sync_result(group, member))
        group.keep_alive(member)
        return
    member.wait_in_sync(reply)
    if group.is_leader(member.member_id):
        _store_assignments(group, request.assignments)


def _sync_refusal(group: Group, request: SyncRequest) -> ErrorCode:
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _sync_result(group: Group, member: Member) -> SyncResult:
    return SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment)


def _store_assignments(group: Group, assignments: dict[str, bytes]) -> None:
    generation_id = group.generation_id
    assigned = {member_id: assignments.get(member_id, b"") for member_id in group.members}

    def written(error: ErrorCode) -> None:
        is_current = group.generation_id == generation_id
        if group.state is not GroupState.COMPLETING_REBALANCE or not is_current:
            return  # someone joined or left meanwhile, and every waiting call was answered then
        if error is not ErrorCode.NONE:
            _fail_syncs(group, error)
            prepare_rebalance(group, f"the assignment could not be stored: {error.name}")
            return
        group.transition(GroupState.STABLE)
        for member in group.members.values():
            member.assignment = assigned[member.member_id]
            if member.sync_reply is not None:
                member.answer_sync(_sync_result(group, member))
                group.keep_alive(member)

    group.writes.append(GroupWrite(group.to_value(assigned), written))


def _fail_syncs(group: Group, error: ErrorCode) -> None:
    for member in group.members.values():
        member.assignment = b""
        if member.sync_reply is not None:
            member.answer_sync(SyncResult(error))
            group.keep_alive(member)


# --- Heartbeat and LeaveGroup --------------------------------------------------------------------


def check_member(
    group: Group, member_id: str, instance_id: str | None, generation_id: int
) -> ErrorCode:
    """What SyncGroup, Heartbeat and OffsetCommit ask of the caller, in this order."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group.is_fenced(member_id, instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def heartbeat(
    group: Group, member_id: str, instance_id: str | None, generation_id: int
) -> ErrorCode:
    error = check_member(group, member_id, instance_id, generation_id)
    if error is not ErrorCode.NONE:
        return error
    group.keep_alive(group.members[member_id])
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(group: Group, member_id: str, instance_id: str | None, reason: str | None) -> ErrorCode:
    """One member goes; a static one may be named by its instance id alone."""
    if member_id != UNKNOWN_MEMBER_ID and group.is_fenced(member_id, instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if member_id in group.pending_members:
        group.remove(member_id)
        complete_join_if_ready(group)
        return ErrorCode.NONE
    if instance_id is not None:
        member_id = group.static_members.get(instance_id, member_id)
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    _remove_member(group, member_id, f"member {member_id} left: {reason or 'no reason given'}")
    return ErrorCode.NONE


def _remove_member(group: Group, member_id: str, reason: str) -> None:
    group.remove(member_id)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(group, reason)
    complete_join_if_ready(group)


def end_generation(group: Group, reason: str) -> int:
    """Sends every member away, to join anew: what they commit counts no more. How many there
    were."""
    count = len(group.members)
    for member_id in list(group.members):
        group.remove(member_id)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(group, reason)
    complete_join_if_ready(group)
    return count


# --- time ----------------------------------------------------------------------------------------


def expire(group: Group) -> None:
    """Does whatever has fallen due, then sets `wake_at` to the next deadline."""
    now = group.now()
    for member_id, deadline in list(group.pending_members.items()):
        if deadline <= now:
            group.remove(member_id)
    complete_join_if_ready(group)
    for member in list(group.members.values()):
        if member.deadline > now or group.members.get(member.member_id) is not member:
            continue
        if member.is_kept_alive:
            member.deadline = inf  # set again when its call is answered
        else:
            _remove_member(group, member.member_id, f"session of {member.member_id} ended")
    if group.join_deadline <= now:
        _join_deadline_passed(group)
    if group.sync_deadline <= now:
        _sync_deadline_passed(group)
    group.wake_at = group.next_deadline()


def _join_deadline_passed(group: Group) -> None:
    left_ms = group.initial_delay_left_ms
    if left_ms and group.new_member_added:
        group.new_member_added = False
        delay_ms = min(group.settings.initial_rebalance_delay_ms, left_ms)
        group.initial_delay_left_ms = left_ms - delay_ms
        group.join_deadline = group.wake(group.now() + delay_ms)
        return
    _complete_join(group)


def _sync_deadline_passed(group: Group) -> None:
    group.sync_deadline = inf
    late = [member_id for member_id in group.pending_syncs if member_id in group.members]
    if not late:
        return
    for member_id in late:
        group.remove(member_id)
    prepare_rebalance(group, f"no SyncGroup came from {', '.join(sorted(late))}")
    complete_join_if_ready(group)


def start_sessions(group: Group) -> None:
    """After a fail-over every stored member gets one session time-out to show itself."""
    for member in group.members.values():
        group.keep_alive(member)
    if len(group.members) > group.settings.max_size:
        prepare_rebalance(group, "the group is larger than group.max.size")


def close(group: Group, error: ErrorCode) -> None:
    """The group leaves this coordinator (moved or deleted): whoever waits is told why."""
    group.transition(GroupState.DEAD)
    for member in group.members.values():
        group.answer_join(member, JoinResult(error, member.member_id))
        member.answer_sync(SyncResult(error))
    group.wake_at = inf
