"""A fetch in a session: looks only at the partitions that can have something new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.fetching.reads import is_answer, is_at_end, read_all
from ottla.broker.fetching.sessions import FetchSession, Results, SessionEntry
from ottla.broker.replication.types import FetchParams

if TYPE_CHECKING:
    from ottla.broker.replication.purgatory import Readable
    from ottla.broker.replication.replica_manager import ReplicaManager


async def fetch_in_session(
    manager: ReplicaManager,
    params: FetchParams,
    session: FetchSession,
    entries: Sequence[SessionEntry],
) -> Results:
    """Reads `entries`, and waits for any partition of the session where that is not enough. Dirty
    entries that are not among them were refused before."""
    refused = session.dirty.keys() - set(entries)
    results = _read(manager, params, session, entries)
    if params.is_follower:
        wanted = [(entry.tp, entry.want) for entry in entries]
        manager.note_follower(params.replica_id, wanted, [(e.tp, found) for e, found in results])
        _note_idle(manager, params.replica_id, session, results)
    if params.max_wait_ms <= 0 or is_answer(params, [(e.tp, found) for e, found in results]):
        return results
    offsets: dict[Readable, int] = {}
    for entry, _ in results:
        partition = manager.partitions.get(entry.tp)
        if partition is not None and entry in session.dirty:
            offsets[partition] = entry.want.fetch_offset
    wait = session.wait = manager.new_wait(params, offsets)
    try:
        await wait.future
    finally:
        wait.detach()
        if session.wait is wait:
            session.wait = None
    again = [entry for entry in session.dirty if entry not in refused]
    fresh = _read(manager, params, session, again)
    read_twice = {entry for entry, _ in fresh}
    return [(entry, found) for entry, found in results if entry not in read_twice] + fresh


def _read(
    manager: ReplicaManager,
    params: FetchParams,
    session: FetchSession,
    entries: Sequence[SessionEntry],
) -> Results:
    read = read_all(params, [(entry.tp, entry.want) for entry in entries], manager)
    results: Results = []
    for entry, (_, result) in zip(entries, read, strict=True):
        results.append((entry, result))
        partition = manager.partitions.get(entry.tp)
        if partition is None:
            continue
        entry.watch(partition)
        # A follower that is not in the ISR is looked at until it is: the leader may not have asked
        # for it yet (one change at a time), or in vain.
        is_waiting = params.is_follower and params.replica_id not in partition.isr
        if is_at_end(params, partition, entry.want, result) and not is_waiting:
            session.dirty.pop(entry, None)
    return results


def _note_idle(
    manager: ReplicaManager, replica_id: int, session: FetchSession, results: Results
) -> None:
    """Followers that have everything: the session's next requests speak for them."""
    for entry, _ in results:
        if entry not in session.dirty:
            partition = manager.partitions.get(entry.tp)
            remote = None if partition is None else partition.remotes.get(replica_id)
            if remote is not None:
                remote.session = session
