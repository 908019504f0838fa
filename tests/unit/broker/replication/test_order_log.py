"""What a broker writes into the state-change log about the controller's orders.

The lines themselves are compared with Apache Kafka's in tests/peers/test_state_change_log.py; here
are those that a healthy cluster does not write.
"""

from __future__ import annotations

import logging

import pytest

from ottla.broker.handlers import leader_and_isr, stop_replica, update_metadata
from ottla.errors import ErrorCode
from ottla.state_changes import LOGGER_NAME
from ottla.wire import messages as m
from tests.support.broker import cluster_messages
from tests.support.broker.replica_cluster import TP, MakeBrokers, brokers

__all__ = ["brokers"]

SENDER = "from controller 0 with correlation id 0 epoch 1 for partition t-0"


async def test_orders_that_are_ignored_say_why(
    brokers: MakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER_NAME)
    (broker,) = await brokers(1)
    broker.order(0, 3, replicas=[0])
    broker.order(0, 3, replicas=[0])
    broker.order(0, 2, replicas=[0])
    broker.order(1, 4, replicas=[1, 2])
    broker.order(9, 5, replicas=[0, 9])
    broker.order(0, 6, replicas=[0], topic_id=bytes(15) + b"\x09")
    broker.manager.set_offline(TP)
    broker.order(0, 7, replicas=[0])
    lines = [
        (record.levelname, line.removeprefix("[Broker id=0] "))
        for record in caplog.records
        for line in record.getMessage().splitlines()
    ]
    fetchers = "with correlation id 0 for 0 partitions"
    assert lines == [
        ("INFO", "Stopped fetchers as part of LeaderAndIsr request correlationId 0 from controller "
                 "0 epoch 1 as part of the become-leader transition for 1 partitions"),
        ("INFO", "Leader t-0 starts at leader epoch 3 from offset 0 with high watermark 0 ISR [0] "
                 "addingReplicas [] removingReplicas []. Previous leader epoch was -1."),
        ("INFO", f"Ignoring LeaderAndIsr request {SENDER} since its associated leader epoch 3 "
                 "matches the current leader epoch"),
        ("WARNING", f"Ignoring LeaderAndIsr request {SENDER} since its associated leader epoch 2 "
                    "is smaller than the current leader epoch 3"),
        ("WARNING", f"Ignoring LeaderAndIsr request {SENDER} as itself is not in assigned replica "
                    "list 1,2"),
        ("ERROR", "Received LeaderAndIsrRequest with correlation id 0 from controller 0 epoch 1 "
                  "for partition t-0 (last update controller epoch 1) but cannot become follower "
                  "since the new leader 9 is unavailable."),
        ("INFO", "Stopped fetchers as part of become-follower request from controller 0 epoch 1 "
                 f"{fetchers}"),
        ("ERROR", "Topic Id in memory: AAECAwQFBgcICQoLDA0ODw does not match the topic Id for "
                  "partition t-0 provided in the request: AAAAAAAAAAAAAAAAAAAACQ."),
        ("WARNING", f"Ignoring LeaderAndIsr request {SENDER} as the local replica for the "
                    "partition is in an offline log directory"),
    ]  # fmt: skip


async def test_an_old_controller_is_named(
    brokers: MakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    (broker,) = await brokers(1)
    broker.orders.epochs.controller_epoch = 5
    caplog.set_level(logging.WARNING, LOGGER_NAME)
    ctx = broker.context(5)
    orders = m.LeaderAndIsrRequest(controller_id=2, controller_epoch=4, broker_epoch=-1)
    answer = await leader_and_isr.handle(ctx, orders)
    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    stop = m.StopReplicaRequest(controller_id=2, controller_epoch=4, broker_epoch=-1)
    await stop_replica.handle(broker.context(3), stop)
    told = cluster_messages.update(controller_id=2, controller_epoch=4)
    await update_metadata.handle(broker.context(7), told)
    old = "since its controller epoch 4 is old. Latest known controller epoch is 5"
    start = "request from controller 2 with correlation id"
    assert [record.getMessage() for record in caplog.records] == [
        f"[Broker id=0] Ignoring LeaderAndIsr {start} {ctx.header.correlation_id} {old}",
        f"[Broker id=0] Ignoring StopReplica {start} {ctx.header.correlation_id} {old}",
        "[Broker id=0] Received update metadata request with correlation id"
        f" {ctx.header.correlation_id} from an old controller 2 with epoch 4. Latest known"
        " controller epoch is 5",
    ]
