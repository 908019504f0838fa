"""One decision per event: plain generators that yield steps and absorb their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.controller import events
from ottla.controller.context import ControllerContext
from ottla.controller.decisions.brokers import (
    on_broker_change,
    on_broker_modifications,
    on_update_metadata_response,
)
from ottla.controller.decisions.controlled_shutdown import on_controlled_shutdown
from ottla.controller.decisions.failover import on_failover
from ottla.controller.decisions.isr import on_alter_isr, on_isr_change_notification
from ottla.controller.decisions.leader_election import (
    on_auto_preferred_election,
    on_elect_leaders,
    on_preferred_replica_election,
    on_unclean_election_enabled,
)
from ottla.controller.decisions.log_dirs import on_leader_and_isr_response, on_log_dir_event
from ottla.controller.decisions.reassignments import (
    on_api_reassignment,
    on_list_reassignments,
    on_reassignment_progress,
    on_zk_reassignment,
)
from ottla.controller.decisions.renames import on_carry_offsets_response, on_rename_topic
from ottla.controller.decisions.resizes import (
    on_abort_resize,
    on_begin_resize,
    on_fence_resize,
    on_finish_resize,
    on_resize_order_response,
    on_resize_tick,
)
from ottla.controller.decisions.topic_deletion import on_stop_replica_response, on_topic_deletion
from ottla.controller.decisions.topics import on_partition_modifications, on_topic_change
from ottla.controller.decisions.trash import on_expiry, on_purge, on_undelete
from ottla.controller.steps import Steps

Decision = Callable[[ControllerContext, Any], Steps[Any]]

DECISIONS: Mapping[type[events.Event], Decision] = {
    events.AbortResize: on_abort_resize,
    events.AlterIsr: on_alter_isr,
    events.ApiPartitionReassignment: on_api_reassignment,
    events.AutoPreferredLeaderElection: on_auto_preferred_election,
    events.BeginResize: on_begin_resize,
    events.BrokerChange: on_broker_change,
    events.BrokerModifications: on_broker_modifications,
    events.CarryOffsetsResponseReceived: on_carry_offsets_response,
    events.ControlledShutdown: on_controlled_shutdown,
    events.ElectLeaders: on_elect_leaders,
    events.Failover: on_failover,
    events.FenceResize: on_fence_resize,
    events.FinishResize: on_finish_resize,
    events.IsrChangeNotification: on_isr_change_notification,
    events.LeaderAndIsrResponseReceived: on_leader_and_isr_response,
    events.ListPartitionReassignments: on_list_reassignments,
    events.LogDirEventNotification: on_log_dir_event,
    events.PartitionModifications: on_partition_modifications,
    events.PreferredReplicaElection: on_preferred_replica_election,
    events.PurgeDeletedTopic: on_purge,
    events.ReassignmentProgress: on_reassignment_progress,
    events.RenameTopic: on_rename_topic,
    events.ResizeOrderResponseReceived: on_resize_order_response,
    events.ResizeTick: on_resize_tick,
    events.StopReplicaResponseReceived: on_stop_replica_response,
    events.TopicChange: on_topic_change,
    events.TopicDeletion: on_topic_deletion,
    events.TrashExpiry: on_expiry,
    events.UncleanLeaderElectionEnabled: on_unclean_election_enabled,
    events.UndeleteTopic: on_undelete,
    events.UpdateMetadataResponseReceived: on_update_metadata_response,
    events.ZkPartitionReassignment: on_zk_reassignment,
}


def decide(ctx: ControllerContext, event: events.Event) -> Steps[Any]:
    return DECISIONS[type(event)](ctx, event)
