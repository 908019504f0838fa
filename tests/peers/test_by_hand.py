"""Topics made and bent by hand in ZooKeeper: Apache Kafka 2.8.2 and Ottla agree.

Where 2.8.2 does otherwise than articles about it say, the ADRs 15, 19, 20 and 21 say so.
"""

import difflib
import json

import pytest

from tests.support.peers import by_hand
from tests.support.peers.java_tools import kazoo
from tests.support.peers.ottla_brokers import OttlaBrokers
from tests.support.peers.side_by_side import side_by_side

pytestmark = [pytest.mark.peers, pytest.mark.timeout(200)]


def moments(cluster, case, name):
    with kazoo(cluster.zookeeper) as zookeeper:
        return list(case(by_hand.Hand(cluster, zookeeper), name))


@pytest.fixture(scope="module")
def ottla(ottla_store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("by-hand")
    with OttlaBrokers(f"{ottla_store}/by-hand", folder, by_hand.BROKERS) as brokers:
        yield brokers


@pytest.fixture
def same(apache_cluster, ottla):
    """Runs a case on both; gives what was seen, which is the same."""

    def run(case):
        name = case.__name__.replace("_", "-")
        theirs, ours = side_by_side(
            lambda cluster: moments(cluster, case, name), apache_cluster, ottla
        )
        assert ours == theirs, difference(theirs, ours)
        return [moment if isinstance(moment, int) else Moment(name, moment) for moment in theirs]

    return run


def difference(theirs, ours):
    """Line by line, as a comparison of nested tuples says too little."""
    shown = [json.dumps(side, indent=1, sort_keys=True).splitlines() for side in (theirs, ours)]
    return "\n".join(difflib.unified_diff(*shown, "Apache Kafka", "Ottla", lineterm="", n=4))


class Moment:
    """What a test asks of one observation."""

    def __init__(self, name, seen):
        self._name = name
        self.seen = seen

    def state(self, partition):
        """(leader, isr) or None where there is no state."""
        found = self.seen.nodes.get(by_hand.state_path(self._name, partition))
        if found is None:
            return None
        state = json.loads(found[0].replace("*", "0"))
        return state["leader"], state["isr"]

    def led_by(self, partition):
        """The leader that every broker names; None where they know none."""
        (leader,) = {
            partitions[partition][1] if partition in partitions else None
            for _, partitions in self.seen.described.values()
        }
        return leader

    def brokers_with_log(self, partition):
        folder = f"{self._name}-{partition}"
        return [broker for broker, names in self.seen.folders.items() if folder in names]


def test_made_while_the_cluster_is_up(same):
    (made,) = same(by_hand.made_while_up)
    wish = {0: [0, 1], 1: [1], 2: [2, 0, 1], 3: [1, 0]}
    for partition, replicas in wish.items():
        assert made.state(partition) == (replicas[0], replicas)
        assert made.led_by(partition) == replicas[0]
        assert made.brokers_with_log(partition) == sorted(replicas)


def test_made_while_its_brokers_are_down(same):
    away, back = same(by_hand.made_while_its_brokers_are_down)
    for partition in (0, 1):
        assert away.state(partition) is None
        assert (back.state(partition), back.led_by(partition)) == ((2, [2]), 2)
        assert back.brokers_with_log(partition) == [2]


def test_made_while_everything_is_down(same):
    """An article says that it never comes up (ADR 15)."""
    down, up = same(by_hand.made_while_everything_is_down)
    assert (down.state(0), down.seen.described) == (None, {})
    assert up.led_by(1) == 2
    for partition in range(3):
        assert up.state(partition) is not None


def test_as_many_planted_states_as_new_partitions(same):
    _, planted, code, expanded, after = same(by_hand.as_many_planted_as_new)
    assert planted.state(1) == (0, [0])
    assert code == 7
    assert expanded.brokers_with_log(1) == [], "no log (ADR 19)"
    assert after.brokers_with_log(1) == [0], "the next controller takes the state as it is"
    assert after.led_by(1) == 0


def test_fewer_planted_states_than_new_partitions(same):
    """An article says that all are made then (ADR 19)."""
    _, code, expanded, after = same(by_hand.fewer_planted_than_new)
    assert code == 7
    assert expanded.brokers_with_log(2) == [1]
    assert expanded.brokers_with_log(1) == []
    assert (after.brokers_with_log(1), after.led_by(1)) == ([0], 0)


def test_a_planted_partition_without_a_state(same):
    _, code, expanded = same(by_hand.planted_without_a_state)
    assert (code, expanded.led_by(1)) == (0, 0)


def test_a_deleted_state_comes_back_with_the_next_controller(same):
    _, deleted, after = same(by_hand.a_deleted_state)
    assert (deleted.state(0), deleted.led_by(0)) == (None, 0)
    assert after.state(0) == (0, [0])


def test_other_replicas_count_from_the_next_controller_on(same):
    """ADR 19."""
    _, edited, after = same(by_hand.other_replicas)
    assert (edited.led_by(0), edited.brokers_with_log(0)) == (1, [1])
    assert edited.seen.described[0][1][0][3] == [1]
    assert after.seen.described[0][1][0][3] == [2]


def test_a_partition_added_by_hand(same):
    _, added = same(by_hand.a_partition_added_by_hand)
    assert (added.state(1), added.brokers_with_log(1)) == ((2, [2, 0]), [0, 2])


def test_a_partition_without_replicas(same):
    made, after = same(by_hand.no_replicas)
    for moment in (made, after):
        assert (moment.led_by(0), moment.state(1), moment.brokers_with_log(1)) == (0, None, [])


def test_a_lost_topic_keeps_its_records_and_comes_back(same):
    lost, back, *ends = same(by_hand.lost_and_written_again)
    assert (lost.state(0), lost.led_by(0)) == (None, None)
    for moment in (lost, back):
        assert [moment.brokers_with_log(partition) for partition in (0, 1)] == [[0, 1], [0, 2]]
    assert (back.led_by(0), back.led_by(1)) == (0, 2)
    assert ends == [50, 7]


def test_garbage_is_overwritten_by_kafka_and_left_alone_by_ottla(apache_cluster, ottla):
    """The one case where Ottla does otherwise (docs/adr/0021-garbage-in-a-topic-node.md)."""
    theirs, ours = side_by_side(
        lambda cluster: moments(cluster, by_hand.garbage, "garbage"), apache_cluster, ottla
    )
    path = "/brokers/topics/garbage"
    assert json.loads(theirs[0].nodes[path][0])["partitions"] == {}
    assert ours[0].nodes[path][0] == "{nonsense"
    for written, removed in (theirs, ours):
        assert written.described == dict.fromkeys(by_hand.BROKERS, (3, {}))
        assert not any(written.folders.values())
        assert removed.nodes == {}
