"""The page Placement: where is everything? And moving it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec

from ottla.client.admin import reassignment, reassignment_plan
from ottla.client.admin.reassignment_plan import Plan, ReassignmentError, check_executable
from ottla.client.admin.types import ElectionType
from ottla.console.commands import ottla
from ottla.console.health import missing_brokers
from ottla.console.moves import MovePlan, PlannedMove, RunningMove, plan_moves, running_moves
from ottla.console.picture import Picture, fresh_picture, picture
from ottla.console.web.failures import ApiError, invalid
from ottla.console.web.live import Snapshots, Source
from ottla.console.web.routes import Call, Feed, Route, command_line
from ottla.errors import OttlaError
from ottla.runtime import system_runtime
from ottla.topics.assignment import BrokerMetadata
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.client.admin.types import Reassignment
    from ottla.console.moves import Sizes
    from ottla.console.web.access import Access

logger = logging.getLogger(__name__)

_INTERVAL_S = 2.0
_PICTURE_AGE_S = 4.0
_MOVE_PAUSE_S = 2.0
# A plan of the whole of a large cluster fits.
_MAX_BODY_BYTES = 20_000_000
MAX_MOVES = 100_000
_MAX_SHOWN = 500  # running moves in one message
_FILE = "moves.json"


class Column(msgspec.Struct):
    id: int
    rack: str | None
    is_alive: bool


class Placement(msgspec.Struct):
    """Partitions are entries of parallel arrays; `replicas`, `in_sync` and `offline` number the
    lists of brokers in `sets`. `topics` has [name, first entry, count]."""

    brokers: list[Column]
    topics: list[tuple[str, int, int]]
    partitions: list[int]
    leaders: list[int]
    sets: list[list[int]]
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]
    # [entry, brokers that are added, brokers that are removed]
    moves: list[tuple[int, list[int], list[int]]]


class Target(msgspec.Struct):
    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    replicas: list[int]


class Moves(msgspec.Struct):
    """`throttle` in bytes per second. With `elect`, the first replica of each leads afterwards."""

    partitions: Annotated[list[Target], msgspec.Meta(min_length=1, max_length=MAX_MOVES)]
    throttle: Annotated[int, msgspec.Meta(ge=1, le=2**62)] | None = None
    additional: bool = False
    elect: bool = False


class Named(msgspec.Struct):
    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Chosen(msgspec.Struct):
    partitions: Annotated[list[Named], msgspec.Meta(min_length=1, max_length=MAX_MOVES)]


class Started(msgspec.Struct):
    partitions: int


class Running(msgspec.Struct):
    """`moves` are the first of `count`; `throttles_left` says why throttles are still set."""

    count: int
    moves: list[RunningMove]
    is_watched: bool
    throttles_left: str | None = None
    topics_left: list[str] = []


class Wish(msgspec.Struct):
    """Numbers and names with commas between them."""

    topics: str = ""
    brokers: str = ""
    rack_aware: bool = True


async def placement(call: Call) -> Placement:
    seen = await picture(call.access, _PICTURE_AGE_S)
    return _placement(seen, await _under_way(call.admin))


class PlacementWatch:
    """Makes another one only when partitions or moves are others; moves that end or begin have the
    picture taken anew."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._made_of: tuple[Picture, dict[TopicPartition, Reassignment]] | None = None
        self._last: Placement | None = None

    async def poll(self) -> Placement | None:
        moving = await _under_way(self._access.admin)
        old = self._made_of
        is_moving = bool(moving) or (old is not None and old[1] != moving)
        age_s = 1.0 if is_moving else _PICTURE_AGE_S
        seen = await picture(self._access, age_s, hurry=is_moving)
        if old is not None and old[0] is seen and old[1] == moving:
            return None
        self._made_of = seen, moving
        made = _placement(seen, moving)
        if made == self._last:
            return None
        self._last = made
        return made

    def whole(self) -> Placement | None:
        return self._last


async def _under_way(admin: Admin) -> dict[TopicPartition, Reassignment]:
    """Nothing where they are not the reader's to know, or there is no controller."""
    try:
        return await admin.list_reassignments()
    except OttlaError:
        return {}


def _placement(seen: Picture, moving: dict[TopicPartition, Reassignment]) -> Placement:
    sets: dict[tuple[int, ...], int] = {}

    def numbered(lists: list[tuple[int, ...]]) -> list[int]:
        return [sets.setdefault(ids, len(sets)) for ids in lists]

    replicas, in_sync, offline = map(numbered, (seen.replicas, seen.in_sync, seen.offline))
    entries = ((seen.entry(tp), move) for tp, move in sorted(moving.items()))
    return Placement(
        brokers=_columns(seen),
        topics=[(topic.name, topic.first, topic.count) for topic in seen.topics],
        partitions=list(seen.partitions),
        leaders=list(seen.leaders),
        sets=[list(ids) for ids in sets],
        replicas=replicas,
        in_sync=in_sync,
        offline=offline,
        moves=[
            (entry, list(move.adding), list(move.removing))
            for entry, move in entries
            if entry is not None
        ],
    )


def _columns(seen: Picture) -> list[Column]:
    """Those of a rack next to each other; brokers that are gone at the end."""
    alive = sorted(
        seen.brokers, key=lambda broker: (broker.rack is None, broker.rack or "", broker)
    )
    return [
        *(Column(broker.id, broker.rack, True) for broker in alive),
        *(Column(broker, None, False) for broker in missing_brokers(seen)),
    ]


async def generate(call: Call) -> list[PlannedMove]:
    """As `ottla reassign --generate`: only what would change."""
    wish: Wish = call.query
    topics = [name for name in wish.topics.split(",") if name]
    if not topics:
        raise invalid("Name at least one topic.", "topics")
    if not wish.brokers:
        raise invalid("Choose at least one broker.", "brokers")
    try:
        brokers = reassignment_plan.parse_broker_list(wish.brokers)
        known = await reassignment.replicas_of(call.admin, topics)
        nodes = (await call.admin.describe_cluster()).nodes
        unknown = sorted(set(brokers) - {node.id for node in nodes})
        if unknown:
            raise ReassignmentError(f"Unknown broker id {unknown[0]}")
        proposed = reassignment.propose(
            known,
            dict.fromkeys(topics),
            [BrokerMetadata(node.id, node.rack) for node in nodes],
            brokers,
            rack_aware=wish.rack_aware,
            random=system_runtime().random,
        )
    except ReassignmentError as error:
        raise invalid(str(error), "brokers") from None
    return plan_moves(proposed, known, {}, {}, {}).moves


def _targets(body: Moves) -> dict[TopicPartition, list[int]]:
    plan = Plan([(TopicPartition(t.topic, t.partition), t.replicas) for t in body.partitions], {})
    try:
        check_executable(plan)
    except ReassignmentError as error:
        raise invalid(str(error), "partitions") from None
    return plan.targets


async def _present(
    call: Call, targets: dict[TopicPartition, list[int]]
) -> tuple[Picture, dict[TopicPartition, Sequence[int]]]:
    seen = await fresh_picture(call.access)
    present: dict[TopicPartition, Sequence[int]] = {}
    for tp, replicas in targets.items():
        entry = seen.entry(tp)
        if entry is None:
            raise ApiError(404, "UNKNOWN_TOPIC_OR_PARTITION", f"There is no {tp}.", "partitions")
        present[tp] = seen.replicas[entry]
        for broker in replicas:
            if broker not in seen.alive:
                raise invalid(f"Unknown broker id {broker}", "partitions")
    return seen, present


async def preview(call: Call) -> MovePlan:
    targets = _targets(call.body)
    seen, present = await _present(call, targets)
    leaders = _leaders(seen, targets)
    sizes = await _sizes(call.admin, leaders.items())
    return plan_moves(targets, present, leaders, sizes, {n.id: n.rack for n in seen.brokers})


def _leaders(seen: Picture, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    found = ((tp, seen.entry(tp)) for tp in partitions)
    return {tp: seen.leaders[entry] for tp, entry in found if entry is not None}


async def _sizes(admin: Admin, wanted: Iterable[tuple[TopicPartition, int]]) -> Sizes:
    """Of the logs of these partitions on these brokers; those that do not answer are left out."""
    by_broker: dict[int, list[TopicPartition]] = {}
    for tp, broker in wanted:
        if broker >= 0:
            by_broker.setdefault(broker, []).append(tp)
    sizes: dict[tuple[int, TopicPartition], int] = {}

    async def ask(broker: int, partitions: list[TopicPartition]) -> None:
        try:
            async with asyncio.timeout(5):
                dirs = await admin.describe_log_dirs(broker, partitions)
        except (OttlaError, OSError, TimeoutError):
            return
        for found in (replica for one in dirs.values() for replica in one.replicas):
            if not found.is_future:
                sizes[broker, found.partition] = found.size

    await asyncio.gather(*(ask(broker, tps) for broker, tps in by_broker.items()))
    return sizes


async def start(call: Call) -> Started:
    body: Moves = call.body
    targets = _targets(body)
    _, present = await _present(call, targets)
    under_way = await call.admin.list_reassignments()
    if under_way and not body.additional:
        raise ApiError(
            409,
            "REASSIGNMENT_IN_PROGRESS",
            "Other moves are under way: wait for them, cancel them, or run these beside them.",
            "additional",
        )
    if body.throttle is not None:
        moves = reassignment_plan.moves(under_way, targets, present)
        await reassignment.throttle_moves(call.admin, moves, body.throttle)
    results = await call.admin.alter_reassignments(targets)
    failed = {tp: error for tp, error in results.items() if error is not None}
    runner = _runner(call.access)
    runner.watch(
        [tp for tp in targets if tp not in failed],
        brokers={b for ids in (*targets.values(), *present.values()) for b in ids},
        elect=body.elect,
        is_throttled=body.throttle is not None,
    )
    for tp, error in failed.items():
        raise ApiError(409, error.code.name, f"{tp}: {error}")
    return Started(len(targets))


def _start_commands(call: Call) -> list[str]:
    body: Moves = call.body
    targets = _targets(body)
    lines = [_save(reassignment_plan.to_json(targets)), _reassign(call, "--execute", body)]
    lines.append(_reassign(call, "--verify"))
    if body.elect:
        lines += [
            ottla(
                call.settings, "elect", "--election-type", "preferred",
                "--path-to-json-file", _FILE,
            )
        ]  # fmt: skip
    return lines


def _save(text: str) -> str:
    return f"{command_line('echo', text)} > {_FILE}"


def _reassign(call: Call, action: str, body: Moves | None = None) -> str:
    words: list[object] = [action, "--reassignment-json-file", _FILE]
    if body is not None and body.throttle is not None:
        words += ["--throttle", body.throttle]
    if body is not None and body.additional:
        words += ["--additional"]
    return ottla(call.settings, "reassign", *words)


def _chosen(call: Call) -> list[TopicPartition]:
    body: Chosen = call.body
    return list(dict.fromkeys(TopicPartition(one.topic, one.partition) for one in body.partitions))


async def cancel(call: Call) -> Started:
    """Back to where they were, and throttles off where nothing else moves."""
    chosen = _chosen(call)
    under_way = await call.admin.list_reassignments(chosen)
    active = [tp for tp, move in under_way.items() if move.adding or move.removing]
    if active:
        results = await call.admin.alter_reassignments(dict.fromkeys(active))
        for tp, error in results.items():
            if error is not None:
                raise ApiError(409, error.code.name, f"{tp}: {error}")
    brokers = {b for move in under_way.values() for b in move.replicas}
    _runner(call.access).watch(chosen, brokers=brokers, elect=False, is_throttled=True)
    return Started(len(active))


def _cancel_commands(call: Call) -> list[str]:
    return [_save(_as_plan(call)), _reassign(call, "--cancel")]


async def remove_throttles(call: Call) -> Started:
    """As --verify does once nothing moves any more."""
    chosen = _chosen(call)
    if await call.admin.list_reassignments():
        raise ApiError(409, "REASSIGNMENT_IN_PROGRESS", "Moves are still under way.")
    await _clear(call.admin, {tp.topic for tp in chosen}, set())
    _runner(call.access).forget()
    return Started(len(chosen))


def _remove_commands(call: Call) -> list[str]:
    return [_save(_as_plan(call)), _reassign(call, "--verify")]


def _as_plan(call: Call) -> str:
    """Both commands look at topic and partition only."""
    return reassignment_plan.to_json(dict.fromkeys(_chosen(call), ()))


async def _clear(admin: Admin, topics: Iterable[str], brokers: Iterable[int]) -> None:
    await reassignment.clear_broker_throttles(
        admin, await reassignment.brokers_to_clear(admin, brokers)
    )
    await reassignment.clear_topic_throttles(admin, sorted(topics))


class MoveRunner:
    """Waits for the moves that were started here, then lets first replicas lead and removes the
    throttles. One per access: it acts with the rights of whoever started them."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._task: asyncio.Task[None] | None = None
        self._topics: set[str] = set()
        self._brokers: set[int] = set()
        self._to_elect: list[TopicPartition] = []
        self._is_throttled = False
        self.problem: str | None = None

    @property
    def topics_left(self) -> list[str]:
        """Topics that may still be throttled, though nobody waits for their moves any more."""
        return sorted(self._topics) if self.problem and self._is_throttled else []

    def forget(self) -> None:
        """Throttles were removed by somebody else."""
        if not self.is_watching:
            self._topics.clear()
            self._brokers.clear()
            self._is_throttled, self.problem = False, None

    @property
    def is_watching(self) -> bool:
        return self._task is not None and not self._task.done()

    def watch(
        self,
        partitions: Sequence[TopicPartition],
        *,
        brokers: Iterable[int],
        elect: bool,
        is_throttled: bool,
    ) -> None:
        self._topics |= {tp.topic for tp in partitions}
        self._brokers |= set(brokers)
        self._to_elect += partitions if elect else ()
        self._is_throttled |= is_throttled
        self.problem = None
        if not self.is_watching:
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            while self._to_elect or self._is_throttled:
                await self._until_nothing_moves()
                await self._finish()
        except (OttlaError, OSError, TimeoutError) as error:
            logger.warning("moves are not watched any more: %s", error)
            self.problem = str(error) or type(error).__name__

    async def _until_nothing_moves(self) -> None:
        while True:
            if not await self._admin.list_reassignments():
                return
            await asyncio.sleep(_MOVE_PAUSE_S)

    async def _finish(self) -> None:
        to_elect, self._to_elect = self._to_elect, []
        if to_elect:
            await self._admin.elect_leaders(ElectionType.PREFERRED, to_elect)
        if self._is_throttled:
            topics, brokers = set(self._topics), set(self._brokers)
            await _clear(self._admin, topics, brokers)
            # Others may have begun meanwhile; where it failed all stay, for another try.
            self._topics -= topics
            self._brokers -= brokers
            self._is_throttled = bool(self._topics)


def _runner(access: Access) -> MoveRunner:
    return access.keep(MoveRunner, lambda: MoveRunner(access.admin))


async def running(call: Call) -> Running:
    runner = _runner(call.access)
    under_way = await call.admin.list_reassignments()
    shown = dict(sorted(under_way.items())[:_MAX_SHOWN])
    leaders = _leaders(await picture(call.access, _PICTURE_AGE_S), shown)
    wanted = [
        (tp, broker) for tp, move in shown.items() for broker in (leaders.get(tp, -1), *move.adding)
    ]
    sizes = await _sizes(call.admin, wanted)
    return Running(
        len(under_way),
        running_moves(shown, leaders, sizes),
        runner.is_watching,
        runner.problem,
        runner.topics_left,
    )


def _open_placement(call: Call) -> Source:
    return PlacementWatch(call.access)


def _open_running(call: Call) -> Source:
    return Snapshots(lambda: running(call))


ROUTES = [
    Route("GET", "/placement", placement, "All replicas of all partitions", answer=Placement),
    Route(
        "GET", "/placement/plan", generate, "A new placement of topics on brokers",
        answer=list[PlannedMove], query=Wish,
    ),
    Route("GET", "/placement/moves", running, "Moves under way", answer=Running),
    Route(
        "POST", "/placement/moves", start, "Start moves", answer=Started, body=Moves,
        commands=_start_commands, preview=preview, max_body_bytes=_MAX_BODY_BYTES,
    ),
    Route(
        "POST", "/placement/cancel", cancel, "Cancel moves", answer=Started, body=Chosen,
        commands=_cancel_commands, max_body_bytes=_MAX_BODY_BYTES,
    ),
    Route(
        "POST", "/placement/throttles", remove_throttles, "Remove throttles after moves",
        answer=Started, body=Chosen, commands=_remove_commands, max_body_bytes=_MAX_BODY_BYTES,
    ),
]  # fmt: skip
FEEDS = [
    Feed(
        "placement",
        "All replicas of all partitions",
        _INTERVAL_S,
        _open_placement,
        message=Placement,
    ),
    Feed("moves", "Moves under way", _INTERVAL_S, _open_running, message=Running),
]
