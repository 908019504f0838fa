"""The controller module that every broker carries; one in the cluster is active.

It owns the event queue, the context of its reign and the channels to the brokers. Everything it
decides is in `decisions`; everything it does to the world goes through `interpreter`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

from ottla.bounds.collector import uncollected
from ottla.controller import candidacy
from ottla.controller.channels import ChannelManager, Connect
from ottla.controller.config import ControllerConfig
from ottla.controller.context import ControllerContext
from ottla.controller.decisions import decide
from ottla.controller.events import (
    AlterIsr,
    Answer,
    ApiPartitionReassignment,
    AutoPreferredLeaderElection,
    CarryOffsetsResponseReceived,
    ControlledShutdown,
    ControllerChange,
    ElectLeaders,
    Event,
    Expire,
    Failover,
    LeaderAndIsrResponseReceived,
    ListPartitionReassignments,
    PurgeDeletedTopic,
    Reelect,
    ResizeOrderResponseReceived,
    Startup,
    StopReplicaResponseReceived,
    UncleanLeaderElectionEnabled,
    UndeleteTopic,
    UpdateMetadataResponseReceived,
)
from ottla.controller.interpreter import ControllerMovedError, Interpreter, StoreUnavailableError
from ottla.controller.journal import Journal
from ottla.controller.queue import EventQueue, Queued
from ottla.controller.renaming.desk import RenameDesk
from ottla.controller.resizing.desk import ResizeDesk
from ottla.controller.transitions import IllegalTransition
from ottla.controller.trash.requests import ExpiryTimer, TrashRequests
from ottla.controller.views.gauges import gauges_of
from ottla.controller.views.inner_view import controller_view
from ottla.errors import ErrorCode, InvariantViolated, KafkaError
from ottla.metadata.store import (
    Check,
    Delete,
    EventType,
    MetadataStore,
    SessionExpiredError,
    StoreError,
    WatchEvent,
)
from ottla.metadata.znodes import (
    BadZnodeError,
    ControllerEpochZnode,
    ControllerZnode,
    ReplicaAssignment,
)
from ottla.runtime import Runtime
from ottla.types import TopicPartition, random_topic_id
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.wire.codec import Message

logger = logging.getLogger("ottla.controller")

FIRST_REBALANCE_DELAY_S = 5
# A broker that failed in office lets the others go first, longer each time.
FIRST_PENALTY_S = 0.5
MAX_PENALTY_S = 30.0


class Reign:
    """What an active controller holds and a resigned one drops."""

    def __init__(
        self,
        context: ControllerContext,
        interpreter: Interpreter,
        channels: ChannelManager,
        ended_sessions: int,
        elected_ms: int,
        expiry: ExpiryTimer,
    ) -> None:
        self.expiry = expiry
        self.context = context
        self.interpreter = interpreter
        self.channels = channels
        self.ended_sessions = ended_sessions
        self.elected_ms = elected_ms
        self.rebalance_timer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        self.interpreter.revoke()
        self.channels.close_all()
        self.expiry.cancel()
        if self.rebalance_timer is not None:
            self.rebalance_timer.cancel()
        renames, resizes = self.context.renames.values(), self.context.resizes.values()
        for waiters in (*(each.waiters for each in renames), *(each.waiters for each in resizes)):
            for reply in waiters.take():
                reply(None)


class Controller:
    """Implements the broker's ControllerPort.

    One task takes events from the queue, one at a time, for as long as the broker lives; a reign
    begins with an election that was won and ends with the session, a lost office or a failure.
    `strict_transitions` makes an illegal transition such a failure (for simulation and tests).
    """

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        broker_id: int,
        config: ControllerConfig,
        connect: Connect,
        *,
        strict_transitions: bool = False,
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._broker_id = broker_id
        self._config = config
        self._connect = connect
        self._strict_transitions = strict_transitions
        self._queue = EventQueue()
        self.trash = TrashRequests(self._queue)
        self._reign: Reign | None = None
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._penalty_timer: asyncio.TimerHandle | None = None
        # False from the end of a session until the broker has registered under the next one.
        self._may_stand = True
        self._ended_sessions = 0
        self.journal = Journal(runtime.clock, broker_id)
        self.renames = RenameDesk(
            self._queue.call, lambda: None if self._reign is None else self._reign.context
        )
        self.resizes = ResizeDesk(
            self._queue.call, lambda: None if self._reign is None else self._reign.context
        )

    # What the broker asks

    @property
    def is_active(self) -> bool:
        return self._reign is not None

    @property
    def epoch(self) -> int:
        """The epoch of this reign, or of the last one."""
        return self.journal.epoch

    def gauges(self) -> dict[str, float]:
        return {
            **gauges_of(None if self._reign is None else self._reign.context),
            "controllerstats_uncleanleaderelections_total": self.journal.unclean_elections,
            "controllerstats_illegaltransitions_total": self.journal.illegal_transitions,
            "controllereventmanager_eventqueuesize": len(self._queue),
            "controllereventmanager_eventqueuetimems_count": self._queue.taken,
            "controllereventmanager_eventqueuetimems_sum": self._queue.waited_ms,
        }

    def view(self, request: m.ControllerViewRequest) -> m.ControllerViewResponse:
        """What is in the controller's head now; does not wait for its turn in the queue."""
        if self._reign is None:
            return m.ControllerViewResponse(error_code=ErrorCode.NOT_CONTROLLER)
        return controller_view(
            request,
            self._reign.context,
            self.journal,
            self._queue,
            elected_ms=self._reign.elected_ms,
            now_ms=self._runtime.clock.now_ms(),
            loop_s=asyncio.get_running_loop().time(),
        )

    def is_queued_for_deletion(self, topic: str) -> bool:
        return self._reign is not None and self._reign.context.is_queued_for_deletion(topic)

    async def alter_isr(self, request: m.AlterPartitionRequest) -> m.AlterPartitionResponse:
        return cast("m.AlterPartitionResponse", await self._queue.call(AlterIsr(request)))

    async def controlled_shutdown(
        self, request: m.ControlledShutdownRequest
    ) -> m.ControlledShutdownResponse:
        answer = await self._queue.call(ControlledShutdown(request))
        return cast("m.ControlledShutdownResponse", answer)

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, KafkaError | None] | None:
        """Per partition the objection, if any; None as target takes a running move back.

        The whole answer is None where this broker is not, or no longer, the controller.
        """
        answer = await self._queue.call(ApiPartitionReassignment(targets))
        return cast("dict[TopicPartition, KafkaError | None] | None", answer)

    async def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, ReplicaAssignment] | None:
        """The moves under way, of these partitions or of all; None where not the controller."""
        answer = await self._queue.call(ListPartitionReassignments(partitions))
        return cast("dict[TopicPartition, ReplicaAssignment] | None", answer)

    async def elect_leaders(
        self, partitions: Collection[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, int | KafkaError] | None:
        """Per partition the leader that was elected; None where not the controller."""
        answer = await self._queue.call(ElectLeaders(partitions, unclean))
        return cast("dict[TopicPartition, int | KafkaError] | None", answer)

    def enable_unclean_leader_election(self, topic: str | None = None) -> None:
        """The setting was turned on, for one topic or for all: leaders may be found now."""
        self._queue.put(UncleanLeaderElectionEnabled(topic))

    # Life

    async def start(self) -> None:
        """Watches /controller and runs for it. The broker must be registered already."""
        self._queue.put(Startup())
        self._task = asyncio.create_task(self._run(), name="controller")

    async def stop(self) -> None:
        """Resigns. /controller itself goes with the session."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._penalty_timer is not None:
            self._penalty_timer.cancel()
        self._resign()
        self._answer_inactive(self._queue.drain())

    def on_session_expired(self) -> None:
        """Ends the reign at once, whatever is being worked on."""
        self._may_stand = False
        self._ended_sessions += 1
        if self._reign is not None:
            self._reign.interpreter.revoke()
        self._answer_inactive(self._queue.drain())
        self._queue.put_first(Expire())

    async def on_new_session(self) -> None:
        """The broker has registered again under its new session: take part in elections."""
        self._may_stand = True
        await self._queue.call(Reelect())

    async def _run(self) -> None:
        while True:
            queued = await self._queue.get()
            result: Any = None
            try:
                result = await self._process(queued.event)
            finally:
                self._queue.done()
                # Also when this task is cancelled: nobody may wait forever.
                if result is None:
                    result = _inactive_answer(queued.event)
                if queued.reply is not None and not queued.reply.done():
                    queued.reply.set_result(result)

    async def _process(self, event: Event) -> Any:
        self.journal.current_event = event.name
        try:
            match event:
                case Startup() | Reelect():
                    return await self._follow_and_elect()
                case ControllerChange():
                    return await self._follow()
                case Expire():
                    return self._resign_lost_reign()
            if self._reign is None:
                return None
            if not isinstance(event, Answer):
                # Answers are told of topic by topic.
                self.journal.record("event", **event.subject())
            return await self._reign.interpreter.run(decide(self._reign.context, event))
        except ControllerMovedError as moved:
            logger.info("Broker %d is not the controller: %s", self._broker_id, moved)
            self._resign()
            self._queue.put(ControllerChange())
        except SessionExpiredError:
            self._resign()
        except IllegalTransition as error:
            # With the traceback: a simulation takes it for the failure that it is.
            logger.exception("Error while handling %s", event.name)
            await self._give_up(event, repr(error))
        except (InvariantViolated, StoreUnavailableError, StoreError, BadZnodeError) as error:
            await self._give_up(event, repr(error))
        except Exception:
            # Kafka logs such an error and carries on with a context that may be wrong; the next
            # controller, here or elsewhere, starts from what is stored instead.
            logger.exception("Error while handling %s", event.name)
            await self._give_up(event, "an unexpected error")
        finally:
            self.journal.flush()
            if self._reign is not None:
                self._reign.expiry.schedule(self._reign.context)
            if isinstance(event, AutoPreferredLeaderElection):
                self._schedule_rebalance(self._config.leader_imbalance_check_interval_s)
        return _interrupted_answer(event)

    # Elections

    def _on_controller_watch(self, watched: WatchEvent) -> None:
        if watched.type is EventType.DELETED:
            self._queue.put(Reelect())
        else:
            self._queue.put(ControllerChange())

    async def _follow(self) -> bool:
        """Watches /controller, resigns if it is not ours; whether there is a controller."""
        await candidacy.watch_controller(self._store, self._on_controller_watch)
        found = await candidacy.read_controller(self._store)
        own = found is not None and found[1].ephemeral_owner == self._store.session_id
        if self._reign is not None and not own:
            self._resign()
        return found is not None

    async def _follow_and_elect(self) -> None:
        exists = await self._follow()
        if exists and self._reign is None and self._may_stand:
            # An election that an expiry overtook, a resignation whose answer got lost: the node
            # may be ours without a reign. Its end starts the next election.
            await candidacy.free_own_office(self._store)
        if exists or not self._may_stand or self._penalty_timer is not None:
            return
        ended_sessions = self._ended_sessions
        office = await candidacy.elect(self._store, self._runtime.clock, self._broker_id)
        if self._ended_sessions != ended_sessions:
            # Which session won is not known; a Reelect comes with the broker's registration.
            return
        self.journal.epoch = office.epoch
        self.journal.info(
            f"{self._broker_id} successfully elected as the controller. Epoch incremented to"
            f" {office.epoch} and epoch zk version is now {office.epoch_zk_version}"
        )
        self._reign = self._begin_reign(office)
        self.journal.current_event = Failover().name
        with uncollected():
            await self._reign.interpreter.run(decide(self._reign.context, Failover()))
        self._failures = 0
        self._schedule_rebalance(FIRST_REBALANCE_DELAY_S)

    def _begin_reign(self, office: candidacy.Office) -> Reign:
        channels = ChannelManager(
            self._connect,
            self._config.control_listener,
            self._on_response,
            self._config.controller_socket_timeout_ms,
        )
        context = ControllerContext(
            self._broker_id,
            self._config,
            self.journal,
            lambda: random_topic_id(self._runtime.random.randbytes),
            epoch=office.epoch,
            epoch_zk_version=office.epoch_zk_version,
            strict_transitions=self._strict_transitions,
            now_ms=self._runtime.clock.now_ms,
        )
        interpreter = Interpreter(
            self._store, channels, self._queue.put, office.epoch_zk_version, self.journal.flush
        )
        now_ms = self._runtime.clock.now_ms()
        expiry = ExpiryTimer(self._runtime.clock, self._queue.put)
        return Reign(context, interpreter, channels, self._ended_sessions, now_ms, expiry)

    def _on_response(self, broker_id: int, message: Message, response: Any) -> None:
        if isinstance(message, m.LeaderAndIsrRequest):
            self._queue.put(LeaderAndIsrResponseReceived(broker_id, message, response))
        elif isinstance(message, m.StopReplicaRequest):
            self._queue.put(StopReplicaResponseReceived(broker_id, message, response))
        elif isinstance(message, m.UpdateMetadataRequest):
            self._queue.put(UpdateMetadataResponseReceived(broker_id, message, response))
        elif isinstance(message, m.CarryOffsetsRequest):
            self._queue.put(CarryOffsetsResponseReceived(broker_id, message, response))
        elif isinstance(message, m.ResizeOrderRequest):
            self._queue.put(ResizeOrderResponseReceived(broker_id, message, response))

    def _schedule_rebalance(self, delay_s: float) -> None:
        if self._reign is not None and self._config.auto_leader_rebalance_enable:
            self._reign.rebalance_timer = asyncio.get_running_loop().call_later(
                delay_s, self._queue.put, AutoPreferredLeaderElection()
            )

    # Ends

    def _resign(self) -> None:
        reign, self._reign = self._reign, None
        if reign is not None:
            reign.end()
            self.journal.info("Resigned")

    def _resign_lost_reign(self) -> None:
        """A session ended; a reign that was won under a later one stays."""
        if self._reign is not None and self._reign.ended_sessions < self._ended_sessions:
            self._resign()

    async def _give_up(self, event: Event, reason: str) -> None:
        """Resigns and frees /controller, so that a fresh controller starts from the store."""
        logger.error(
            "Broker %d gives up being controller: %s during %s",
            self._broker_id,
            reason,
            event.name,
        )
        reign = self._reign
        self._resign()
        self._failures += 1
        penalty_s = min(MAX_PENALTY_S, FIRST_PENALTY_S * 2 ** min(self._failures - 1, 10))
        if self._penalty_timer is not None:
            self._penalty_timer.cancel()
        loop = asyncio.get_running_loop()
        self._penalty_timer = loop.call_later(penalty_s, self._end_penalty)
        if reign is not None:
            fence = Check(ControllerEpochZnode.path(), reign.context.epoch_zk_version)
            try:
                await self._store.multi([fence, Delete(ControllerZnode.path())])
            except StoreError as error:
                logger.warning("Could not free /controller: %r", error)

    def _end_penalty(self) -> None:
        self._penalty_timer = None
        self._queue.put(Reelect())

    def _answer_inactive(self, drained: list[Queued]) -> None:
        for queued in drained:
            if queued.reply is not None and not queued.reply.done():
                queued.reply.set_result(_inactive_answer(queued.event))


def _interrupted_answer(event: Event) -> Any:
    """What a call gets whose event could not be carried out to its end. NOT_CONTROLLER would say
    that nothing was done, and the next controller finishes what was begun."""
    if isinstance(event, UndeleteTopic | PurgeDeletedTopic):
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"The controller changed meanwhile: see what has become of topic '{event.topic}'"
            " (ottla topics --list, --list-deleted) before you try again.",
        )
    return None


def _inactive_answer(event: Event) -> Any:
    """What a call gets from a broker that is not, or no longer, the controller."""
    if isinstance(event, AlterIsr):
        return m.AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    if isinstance(event, ControlledShutdown):
        return m.ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    return None
