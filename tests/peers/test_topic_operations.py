"""The same topic operations on Apache Kafka 2.8.2 and on Ottla: same codes, words and znodes."""

import difflib
import json

import pytest

from tests.support.peers.java_tools import kazoo
from tests.support.peers.side_by_side import side_by_side
from tests.support.peers.topic_script import Player

pytestmark = pytest.mark.peers


def played(cluster):
    with kazoo(cluster.zookeeper) as zookeeper:
        return Player(cluster.bootstrap_servers, zookeeper).play()


def shown(value):
    return json.dumps(value, indent=1, sort_keys=True).splitlines()


@pytest.mark.timeout(240)
def test_every_operation_ends_alike(apache_cluster, ottla_processes):
    theirs, ours = side_by_side(played, apache_cluster, ottla_processes)
    assert len(ours) == len(theirs) >= 40
    problems = []
    for expected, found in zip(theirs, ours, strict=True):
        if expected != found:
            lines = difflib.unified_diff(
                shown(expected), shown(found), "Apache Kafka", "Ottla", lineterm="", n=1
            )
            problems.append("\n".join([expected.title, *lines]))
    assert not problems, "\n\n".join(problems)
