"""What is wrong, in words; pictures are made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ottla.client.admin.types import Reassignment
from ottla.console.commands import ottla
from ottla.console.health import Facts, Finding, diagnose, may_be_short, missing_brokers, names
from ottla.console.picture import Picture, picture_of
from ottla.console.settings import ConsoleSettings
from ottla.types import TopicPartition
from ottla.wire import messages as m

# leader, replicas, in sync, offline
Partition = tuple[int, Sequence[int], Sequence[int], Sequence[int]]


def picture(
    alive: Sequence[int], topics: Mapping[str, Sequence[Partition]], controller: int = 0
) -> Picture:
    response = m.MetadataResponse
    return picture_of(
        response(
            brokers=[response.MetadataResponseBroker(node_id=b, host="h", port=1) for b in alive],
            controller_id=controller,
            topics=[
                response.MetadataResponseTopic(
                    name=name,
                    partitions=[
                        response.MetadataResponsePartition(
                            partition_index=number,
                            leader_id=leader,
                            replica_nodes=list(replicas),
                            isr_nodes=list(in_sync),
                            offline_replicas=list(offline),
                        )
                        for number, (leader, replicas, in_sync, offline) in enumerate(partitions)
                    ],
                )
                for name, partitions in topics.items()
            ],
        )
    )


def facts(seen: Picture, **more: object) -> Facts:
    return Facts(seen, partial(ottla, ConsoleSettings("h:1")), **more)  # type: ignore[arg-type]


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, [finding.words for finding in findings]
    return findings[0]


def test_all_is_well() -> None:
    counts, findings = diagnose(facts(picture([0, 1], {"t": [(0, [0, 1], [0, 1], [])]})))
    assert findings == []
    assert (counts.without_leader, counts.under_replicated, counts.under_min_isr) == (0, 0, 0)


def test_an_empty_cluster_is_well() -> None:
    assert diagnose(facts(picture([0], {})))[1] == []


def test_a_broker_that_is_down_is_named_with_its_replicas() -> None:
    seen = picture([0, 1], {"t": [(0, [0, 2], [0], [2]), (1, [1, 2], [1], [2])]})
    counts, findings = diagnose(facts(seen))
    finding = only(findings)
    assert finding.kind == "bad"
    assert finding.words.startswith("Broker 2 is down: 2 replicas on it are missing.")
    assert finding.commands == ["ottla broker --config broker-2.properties"]
    assert counts.under_replicated == 2
    assert missing_brokers(seen) == [2]


def test_without_a_leader_because_the_last_in_sync_replica_is_gone() -> None:
    seen = picture([0], {"t": [(-1, [2], [2], [2])]})
    counts, findings = diagnose(facts(seen))
    assert counts.without_leader == 1
    words = [finding.words for finding in findings]
    assert (
        "t-0 has no leader: broker 2 had the last in-sync copy and is down. Start broker 2 again."
        in words
    )
    # Nothing else can lead: no command is offered that would do nothing.
    assert all(not f.commands for f in findings if f.words.startswith("t-0"))


def test_a_replica_that_misses_records_could_lead_at_a_price() -> None:
    seen = picture([0], {"t": [(-1, [2, 0], [2], [2])]})
    finding = next(f for f in diagnose(facts(seen))[1] if f.words.startswith("t-0"))
    assert "lost for good" in finding.words
    assert finding.commands == [
        "ottla elect --bootstrap-server h:1 --election-type unclean --topic t --partition 0"
    ]


def test_a_log_folder_that_failed() -> None:
    seen = picture([0, 1], {"t": [(0, [0, 1], [0], [1])]})
    finding = only(diagnose(facts(seen))[1])
    assert finding.kind == "bad"
    assert finding.words.startswith("Broker 1 is alive but 1 replica on it cannot be used")
    assert "log-dirs" in finding.commands[0]


def test_under_min_in_sync() -> None:
    seen = picture([0, 1], {"t": [(0, [0, 1], [0], [])], "u": [(0, [0, 1], [0], [])]})
    counts, findings = diagnose(facts(seen, min_in_sync={"t": 2, "u": 1}))
    assert counts.under_min_isr == 1
    assert findings[0].words.startswith("t-0 has fewer in-sync replicas than min.insync.replicas")
    assert may_be_short(seen) == ["t", "u"]


def test_too_few_replicas_for_min_in_sync_though_all_are_in_sync() -> None:
    seen = picture([0], {"t": [(0, [0], [0], [])]})
    assert diagnose(facts(seen, min_in_sync={"t": 2}))[0].under_min_isr == 1
    assert may_be_short(seen, default_min=2) == ["t"]


def test_a_follower_that_is_behind_is_a_warning() -> None:
    seen = picture([0, 1], {"t": [(0, [0, 1], [0], [])]})
    finding = only(diagnose(facts(seen))[1])
    assert finding.kind == "warn"
    assert finding.words.startswith("Broker 1 is behind with 1 replica:")


def test_a_replica_that_is_being_added_is_not_behind() -> None:
    seen = picture([0, 1], {"t": [(0, [0, 1], [0], [])]})
    moves = {TopicPartition("t", 0): Reassignment([0, 1], [1], [])}
    counts, findings = diagnose(facts(seen, moves=moves))
    assert counts.under_replicated == 0
    assert only(findings).words == "1 partition is being moved: t-0."


def test_leaders_that_are_not_preferred() -> None:
    seen = picture([0, 1], {"t": [(1, [0, 1], [0, 1], [])]})
    finding = only(diagnose(facts(seen))[1])
    assert finding.kind == "info"
    assert finding.commands == [
        "ottla elect --bootstrap-server h:1 --election-type preferred --all-topic-partitions"
    ]


def test_no_controller_and_a_broker_without_an_answer() -> None:
    seen = picture([0, 1], {}, controller=-1)
    findings = diagnose(facts(seen, silent=frozenset({1})))[1]
    assert [finding.kind for finding in findings] == ["bad", "warn"]
    assert findings[0].words.startswith("There is no controller")
    assert findings[1].words.startswith("Broker 1 is registered but does not answer")


def test_the_worst_stands_first() -> None:
    seen = picture([0, 1], {"t": [(1, [0, 1], [0, 1], []), (0, [0, 1, 2], [0, 1], [2])]})
    kinds = [finding.kind for finding in diagnose(facts(seen))[1]]
    assert kinds == sorted(kinds, key=["bad", "warn", "info"].index)
    assert kinds[0] == "bad"


def test_many_partitions_are_not_all_named() -> None:
    assert names([TopicPartition("t", i) for i in range(5_003)]) == "t-0, t-1, t-2 and 5,000 more"
