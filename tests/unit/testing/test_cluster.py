"""Clusters of the test kit: settings of any type, brokers that stop and start again."""

from __future__ import annotations

import pytest

from ottla.errors import OttlaError
from ottla.testing.cluster import Cluster, ProcessCluster, property_text


def test_settings_may_be_numbers_and_truth_values():
    assert [property_text(value) for value in (4, 0.5, True, False, "x")] == [
        *("4", "0.5", "true", "false", "x")
    ]
    overrides = {"num.partitions": 4, "auto.create.topics.enable": False}
    for kind in (Cluster, ProcessCluster):
        options = kind(brokers=1, overrides=overrides).options
        assert options.overrides["num.partitions"] == "4"
        assert options.overrides["auto.create.topics.enable"] == "false"


def test_brokers_stop_and_start_and_say_what_is_wrong():
    with Cluster(brokers=2, overrides={"num.partitions": 4}) as cluster:
        cluster.create_topic("t", partitions=-1, replication_factor=2)
        with pytest.raises(OttlaError, match="the topic t is there already"):
            cluster.create_topic("t")
        cluster.stop_broker(1)
        with pytest.raises(OttlaError, match="broker 1 is stopped already"):
            cluster.stop_broker(1)
        with pytest.raises(OttlaError, match="there is no broker 2: this cluster has 0 to 1"):
            cluster.stop_broker(2)
        with pytest.raises(OttlaError, match="broker 0 is running already"):
            cluster.start_broker(0)
        cluster.start_broker(1)


def test_processes_stop_start_and_are_killed():
    with ProcessCluster(brokers=2) as cluster:
        cluster.stop_broker(1)
        with pytest.raises(OttlaError, match="broker 1 is stopped already"):
            cluster.kill(1)
        cluster.start_broker(1)
        with pytest.raises(OttlaError, match="broker 1 is running already"):
            cluster.start_broker(1)
        cluster.kill(1)
        cluster.start_broker(1)
