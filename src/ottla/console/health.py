"""What is wrong with a cluster, in words, with the command that mends it. Nothing here asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.types import Reassignment
    from ottla.console.picture import Picture

_NAMED = 3  # partitions that a sentence names


class Finding(msgspec.Struct, frozen=True):
    """`kind` is bad (somebody cannot write or read), warn (one failure away from it) or info."""

    kind: str
    words: str
    commands: list[str] = []
    # The page Placement shows them: all that are wrong, or those of a broker.
    broker: int | None = None
    shows: bool = False


class Counts(msgspec.Struct, frozen=True):
    without_leader: int
    under_replicated: int
    under_min_isr: int
    not_preferred: int


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of a cluster at one moment."""

    picture: Picture
    # An `ottla` command line for this cluster.
    command: Callable[..., str]
    moves: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)
    # min.insync.replicas by topic, of those topics where it may matter.
    min_in_sync: Mapping[str, int] = field(default_factory=dict)
    # Listed as alive, but without an answer.
    silent: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Seen:
    """One walk over all partitions: entries by what is wrong with them."""

    leaderless: list[TopicPartition] = field(default_factory=list)
    # Leaderless ones by (last in-sync replicas, is a replica outside them alive).
    causes: dict[tuple[tuple[int, ...], bool], list[TopicPartition]] = field(default_factory=dict)
    under_min: list[TopicPartition] = field(default_factory=list)
    under_replicated: int = 0
    missing_on: Counter[int] = field(default_factory=Counter)  # replicas on brokers that are gone
    failed_on: Counter[int] = field(default_factory=Counter)  # offline on brokers that are alive
    lagging_on: Counter[int] = field(default_factory=Counter)
    not_preferred: int = 0


def diagnose(facts: Facts) -> tuple[Counts, list[Finding]]:
    """What is worst stands first; an empty list says that all is well."""
    seen = _look(facts)
    findings = [
        *_controller(facts),
        *_dead_brokers(facts, seen),
        *_leaderless(facts, seen),
        *_failed_folders(facts, seen),
        *_under_min(seen),
        *_silent(facts),
        *_lagging(facts, seen),
        *_not_preferred(facts, seen),
        *_moves(facts),
    ]
    order = {"bad": 0, "warn": 1, "info": 2}
    findings.sort(key=lambda finding: order[finding.kind])
    counts = Counts(
        len(seen.leaderless), seen.under_replicated, len(seen.under_min), seen.not_preferred
    )
    return counts, findings


def missing_brokers(picture: Picture) -> list[int]:
    """Named as replicas, but not alive."""
    alive = picture.alive
    return sorted({b for ids in set(picture.replicas) for b in ids} - alive)


def may_be_short(picture: Picture, default_min: int = 1) -> list[str]:
    """Topics whose min.insync.replicas has to be known."""
    return [
        topic.name
        for topic in picture.topics
        if any(
            len(picture.in_sync[i]) < max(len(picture.replicas[i]), default_min)
            for i in topic.entries
        )
    ]


def _look(facts: Facts) -> _Seen:
    picture, alive = facts.picture, facts.picture.alive
    seen = _Seen()
    for topic in picture.topics:
        least = facts.min_in_sync.get(topic.name, 1)
        for entry in topic.entries:
            leader = picture.leaders[entry]
            replicas, in_sync = picture.replicas[entry], picture.in_sync[entry]
            if leader == replicas[0] and len(in_sync) == len(replicas) >= least:
                continue
            tp = TopicPartition(topic.name, picture.partitions[entry])
            offline = picture.offline[entry]
            if leader < 0:
                seen.leaderless.append(tp)
                others = [b for b in replicas if b in alive and b not in offline + in_sync]
                seen.causes.setdefault((in_sync, bool(others)), []).append(tp)
            elif len(in_sync) < least:
                seen.under_min.append(tp)
            move = facts.moves.get(tp)
            adding = () if move is None else move.adding
            behind = [b for b in replicas if b not in in_sync and b not in adding]
            if behind or leader < 0:
                seen.under_replicated += 1
            seen.missing_on.update(b for b in replicas if b not in alive)
            seen.failed_on.update(b for b in offline if b in alive)
            seen.lagging_on.update(b for b in behind if b in alive and b not in offline)
            seen.not_preferred += 0 <= leader != replicas[0] and replicas[0] in in_sync
    return seen


def _controller(facts: Facts) -> Iterable[Finding]:
    if facts.picture.controller is None:
        yield Finding(
            "bad",
            "There is no controller: no leader is elected and no topic made until a broker "
            "becomes it.",
            [facts.command("cluster")],
        )


def _dead_brokers(facts: Facts, seen: _Seen) -> Iterable[Finding]:
    for broker, copies in sorted(seen.missing_on.items()):
        yield Finding(
            "bad",
            f"Broker {broker} is down: {_count(copies, 'replica')} on it "
            f"{'is' if copies == 1 else 'are'} missing. Start it again with its own file.",
            [f"ottla broker --config broker-{broker}.properties"],
            broker=broker,
        )


def _leaderless(facts: Facts, seen: _Seen) -> Iterable[Finding]:
    alive = facts.picture.alive
    for (in_sync, has_others), partitions in seen.causes.items():
        named, verb = names(partitions), "has" if len(partitions) == 1 else "have"
        gone = [b for b in in_sync if b not in alive]
        if in_sync and len(gone) == len(in_sync):
            who = _brokers(gone)
            words = (
                f"{named} {verb} no leader: {who} had the last in-sync "
                f"{'copy' if len(gone) == 1 else 'copies'} and "
                f"{'is' if len(gone) == 1 else 'are'} down. Start {who} again"
            )
            if not has_others:
                yield Finding("bad", words + ".", shows=True)
                continue
            words += "; or let a replica lead that may miss records, which are then lost for good."
            yield Finding("bad", words, [_elect(facts, "unclean", partitions)], shows=True)
        elif any(b in alive for b in in_sync):
            yield Finding(
                "bad",
                f"{named} {verb} no leader although {_brokers([b for b in in_sync if b in alive])} "
                "is alive: an election is under way, or its log folder failed.",
                [_elect(facts, "preferred", partitions)],
                shows=True,
            )
        else:
            yield Finding("bad", f"{named} {verb} no leader and no in-sync replica.", shows=True)


def _failed_folders(facts: Facts, seen: _Seen) -> Iterable[Finding]:
    for broker, copies in sorted(seen.failed_on.items()):
        yield Finding(
            "bad",
            f"Broker {broker} is alive but {_count(copies, 'replica')} on it cannot be used: a log "
            "folder failed. Mend the disk and start the broker again.",
            [facts.command("log-dirs", "--describe", "--broker-list", str(broker))],
            broker=broker,
        )


def _under_min(seen: _Seen) -> Iterable[Finding]:
    if seen.under_min:
        verb = "has" if len(seen.under_min) == 1 else "have"
        yield Finding(
            "bad",
            f"{names(seen.under_min)} {verb} fewer in-sync replicas than min.insync.replicas: "
            "producers with acks=all are refused until replicas are back in sync.",
            shows=True,
        )


def _silent(facts: Facts) -> Iterable[Finding]:
    for broker in sorted(facts.silent):
        yield Finding(
            "warn",
            f"Broker {broker} is registered but does not answer: it has just died, hangs, or "
            "cannot be reached from here.",
            broker=broker,
        )


def _lagging(facts: Facts, seen: _Seen) -> Iterable[Finding]:
    for broker, copies in sorted(seen.lagging_on.items()):
        yield Finding(
            "warn",
            f"Broker {broker} is behind with {_count(copies, 'replica')}: it catches up, or is too "
            "slow for its leaders.",
            [facts.command("topics", "--describe", "--under-replicated-partitions")],
            broker=broker,
        )


def _not_preferred(facts: Facts, seen: _Seen) -> Iterable[Finding]:
    if seen.not_preferred:
        was = "is" if seen.not_preferred == 1 else "are"
        yield Finding(
            "info",
            f"{_count(seen.not_preferred, 'partition')} {was} not led by the first replica, so "
            "the work may be uneven.",
            [facts.command("elect", "--election-type", "preferred", "--all-topic-partitions")],
        )


def _moves(facts: Facts) -> Iterable[Finding]:
    if facts.moves:
        count = len(facts.moves)
        yield Finding(
            "info",
            f"{_count(count, 'partition')} {'is' if count == 1 else 'are'} being moved: "
            f"{names(sorted(facts.moves))}.",
            [facts.command("reassign", "--list")],
            shows=True,
        )


def names(partitions: Sequence[TopicPartition]) -> str:
    """`a-0, a-1, b-0 and 17 more`"""
    named = ", ".join(map(str, partitions[:_NAMED]))
    more = len(partitions) - _NAMED
    return f"{named} and {more:,} more" if more > 0 else named


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _brokers(ids: Sequence[int]) -> str:
    if len(ids) == 1:
        return f"broker {ids[0]}"
    return f"brokers {', '.join(map(str, ids[:-1]))} and {ids[-1]}"


def _elect(facts: Facts, kind: str, partitions: Sequence[TopicPartition]) -> str:
    """Of the first of them; others need a file or another command."""
    first = partitions[0]
    return facts.command("elect", "--election-type", kind, "--topic", first.topic,
        "--partition", str(first.partition),
    )  # fmt: skip
