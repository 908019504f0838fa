"""Every rule that the history watches over can be broken, and is then named."""

from __future__ import annotations

import pytest

from ottla.metadata.store import OPEN_ACL
from ottla.metadata.znodes import LeaderAndIsr, ReplicaAssignment, TopicPartitionStateZnode
from ottla.metadata.znodes import TopicZnode as Topic
from ottla.simulation.history import History
from ottla.simulation.trace import Trace
from ottla.types import TopicPartition
from ottla.zk.server.tree import CreateTxn, DeleteTxn, SetDataTxn, Tree

STATE = TopicPartitionStateZnode.path(TopicPartition("t", 0))


class Story:
    """Writes to a store whose controller has epoch 5 and whose topic t-0 is on 1, 2 and 3."""

    def __init__(self) -> None:
        self.history = History(Trace(lambda: 0.0))
        self.zxid = 0
        self.create("/controller_epoch", b"5")
        self.create("/brokers/topics/t", Topic.encode({0: ReplicaAssignment((1, 2, 3))}))

    def create(self, path: str, data: bytes) -> None:
        self.zxid += 1
        self.history.written(self.zxid, [CreateTxn(path, data, OPEN_ACL, 0, 1)])

    def set(self, path: str, data: bytes) -> None:
        self.zxid += 1
        self.history.written(self.zxid, [SetDataTxn(path, data, 1)])

    def state(self, leader: int, epoch: int, isr: tuple[int, ...], controller: int = 5) -> None:
        state = LeaderAndIsr(leader, epoch, isr, controller, 0)
        self.set(STATE, TopicPartitionStateZnode.encode(state))

    @property
    def violations(self) -> list[str]:
        return self.history.violations


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_sound_history(story: Story) -> None:
    story.state(1, 0, (1, 2, 3))
    story.state(1, 0, (1, 2))
    story.set("/controller_epoch", b"6")
    story.state(-1, 1, (1,), controller=6)
    story.state(2, 2, (2,), controller=6)
    story.history.written(90, [DeleteTxn(STATE), DeleteTxn("/brokers/topics/t")])
    story.create("/brokers/topics/t", Topic.encode({0: ReplicaAssignment((3,))}))
    story.state(3, 0, (3,), controller=6)
    assert story.violations == []


@pytest.mark.parametrize(
    ("leader", "epoch", "isr", "controller", "rule"),
    [
        (1, 3, (2, 3), 5, "not in the ISR"),
        (1, 3, (1, 4), 5, "not within the assignment"),
        (1, 3, (1,), 4, "the controller epoch is 5"),
        (1, 1, (1,), 5, "the leader epoch was 2"),
        (3, 2, (3,), 5, "the leader in this epoch was 1"),
    ],
)
def test_broken_rules(
    story: Story, leader: int, epoch: int, isr: tuple[int, ...], controller: int, rule: str
) -> None:
    story.state(1, 2, (1, 2))
    story.state(leader, epoch, isr, controller)
    assert len(story.violations) == 1 and rule in story.violations[0]


def test_controller_epochs_only_grow(story: Story) -> None:
    story.set("/controller_epoch", b"6")
    story.set("/controller_epoch", b"6")
    assert story.violations == ["controller epoch 6 after 6"]


def test_garbage_in_a_state_and_states_without_a_topic(story: Story) -> None:
    story.set(STATE, b"{}")
    story.history.written(9, [DeleteTxn("/brokers/topics/t")])
    story.state(1, 0, (1,))
    assert len(story.violations) == 2


def test_a_store_that_forgot_what_it_acknowledged(story: Story) -> None:
    story.history.store_gone(2)
    tree = Tree()
    tree.last_zxid = 1
    story.history.restarted(tree)
    assert "had acknowledged 2" in story.violations[0]


def test_writes_that_were_lost_unseen_never_were(story: Story) -> None:
    tree = Tree()
    for path, data in (
        ("/controller_epoch", b"5"),
        ("/brokers", b""),
        ("/brokers/topics", b""),
        ("/brokers/topics/t", Topic.encode({0: ReplicaAssignment((1, 2, 3))})),
    ):
        tree.apply(tree.last_zxid + 1, 0, CreateTxn(path, data, OPEN_ACL, 0, 1), [])
    story.zxid = tree.last_zxid
    story.state(1, 0, (1,))
    story.history.store_gone(tree.last_zxid)
    story.history.restarted(tree)
    story.state(2, 0, (2,))
    assert story.violations == []


def test_while_a_move_ends_the_isr_may_have_replicas_of_before(story: Story) -> None:
    story.state(1, 0, (1, 2, 3))
    story.set("/brokers/topics/t", Topic.encode({0: ReplicaAssignment((1, 3))}))
    story.state(1, 1, (1, 2))
    story.state(1, 2, (1, 3))
    assert story.violations == []
    story.state(1, 3, (1, 2))
    assert len(story.violations) == 1
