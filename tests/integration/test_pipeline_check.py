"""`ottla pipeline check` and `run` on a cluster, as far as they need no Spark: nothing is made."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.main import run
from ottla.pipelines.checkpoints.keeper import Keeper
from ottla.pipelines.checks import clusters
from ottla.pipelines.spec_reader import parse_pipeline
from ottla.testing.cluster import Cluster, free_ports


@pytest.fixture(scope="module")
def servers():
    with Cluster(brokers=1) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for future in admin.create_topics([NewTopic("there", 2, 1)]).values():
            future.result(30)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("there", "record")
        assert producer.flush(30) == 0
        yield cluster.bootstrap_servers


@pytest.fixture
def check(servers, tmp_path, capsys):
    """Runs a command on a file of jobs; its exit code and what it said."""

    def run_command(jobs, *arguments, head="", brokers=servers):
        file = tmp_path / "p.yaml"
        file.write_text(f"{head}\njobs:\n{jobs}")
        given = arguments or ("check", "--no-spark")
        code = run(["pipeline", given[0], str(file), "--bootstrap-server", brokers, *given[1:]])
        told = capsys.readouterr()
        errors = told.err.replace(f"{tmp_path}/", "").splitlines()
        names = set(AdminClient({"bootstrap.servers": servers}).list_topics(timeout=30).topics)
        assert {name for name in names if not name.startswith("__")} == {"there"}, "one was made"
        return code, told.out.splitlines(), errors

    return run_command


def test_what_holds_is_told_as_before(check):
    jobs = """
  - ingest: {format: rate, topic: {name: new, partitions: 3}}
  - transform: {from: [new, there], to: other, sql: select 1, schema: v int, dead_letter: bad}
"""
    assert check(jobs) == (
        0,
        ["ingest-new: - -> new", "transform-other: new, there -> other, bad"],
        [],
    )


WRONG = """
  - ingest: {format: rate, topic: {name: new, replication_factor: 2}}
  - ingest: {format: text, path: nowhere, topic: {name: newer, configs: {retention.mss: 1}}}
  - transform: {from: absent, to: {name: there, partitions: 4}, sql: select 1}
  - transform: {from: new, to: newest, function: 'gone.py:f'}
  - restore: {path: nowhere, topic: there, name: back}
  - transform: {from: newest, to: last, sql: select 1}
  - transform: {name: round, from: last, to: newest, sql: select 1}
"""


@pytest.mark.parametrize("arguments", [("check", "--no-spark"), ("run",)])
def test_everything_that_is_wrong_is_a_line_of_its_own(check, servers, arguments):
    code, out, errors = check(WRONG, *arguments)
    assert (code, out) == (1, [])
    assert errors == [
        "Error: p.yaml: job ingest-newer: path: there is no folder nowhere: make it, files may "
        "come later",
        "Error: p.yaml: job transform-newest: function: there is no file gone.py",
        "Error: p.yaml: job back: path: there is no folder nowhere",
        "Error: p.yaml: job transform-there: the topic there has 2 partitions, 4 are declared: "
        "ottla topics --alter --topic there --partitions 4",
        "Error: p.yaml: job back: the topic there holds records; 'append: true' adds to them",
        "Error: p.yaml: job ingest-new: the topic new cannot be made: Replication factor: 2 larger "
        "than available brokers: 1.",
        "Error: p.yaml: job ingest-newer: the topic newer cannot be made: Unknown topic config "
        "name: retention.mss",
        f"Error: p.yaml: job transform-there: there is no topic absent on {servers}, and no job "
        "makes it",
        "Error: p.yaml: job transform-last: feeds itself (with round): newest -> last -> newest",
    ]


def test_slips_in_several_jobs_are_several_lines(check):
    jobs = "  - ingst: {}\n  - archive: {from: there}\n  - audit: {}\n"
    assert check(jobs)[2] == [
        "Error: p.yaml: job 1: unknown kind of job 'ingst', did you mean 'ingest'?",
        "Error: p.yaml: job 2 (archive): 'path' is missing",
    ]


def test_brokers_that_do_not_answer(check):
    nobody = f"127.0.0.1:{free_ports(1)}"
    job = "  - archive: {from: there, path: x}\n"
    (told,) = check(job, brokers=nobody)[2]
    assert told.startswith(f"Error: p.yaml: the brokers {nobody} cannot be used: ")
    assert told.endswith("Connection refused)")
    mirror = f"  - mirror: {{from: there, to_bootstrap_servers: '{nobody}'}}\n"
    (told,) = check(job + mirror)[2]
    assert told.startswith(f"Error: p.yaml: job mirror-there: the brokers {nobody} cannot be used")


def test_the_same_cluster_by_another_name(check, servers):
    """A topic that a job makes there is not missing here; a mirror to itself is a loop."""
    alias = servers.replace("127.0.0.1", "localhost")
    made = f"""
  - ingest: {{format: rate, topic: new, bootstrap_servers: '{alias}'}}
  - archive: {{from: new, path: x}}
"""
    assert check(made)[2] == []
    mirror = f"  - mirror: {{from: there, to_bootstrap_servers: '{alias}'}}\n"
    assert check(mirror)[2] == ["Error: p.yaml: job mirror-there: feeds itself: there -> there"]


def test_topics_that_a_mirror_makes_may_be_read(check, servers):
    jobs = f"""
  - mirror: {{from: there, to_bootstrap_servers: '{servers}', prefix: copy.}}
  - archive: {{from: copy.there, path: x}}
"""
    assert check(jobs)[2] == []


def test_a_checkpoint_of_another_job_is_told_without_spark(check, servers, tmp_path):
    """On this very cluster, which is known by its id."""
    job = "  - archive: {name: a, from: there, path: old}\n"
    text = f"bootstrap_servers: {servers}\njobs:\n{job}"
    pipeline = parse_pipeline(text, folder=tmp_path)
    Keeper(pipeline, None, clusters.ids(pipeline)).take()
    (tmp_path / "checkpoints" / "a" / "metadata").write_text('{"id": "q"}')
    assert check(job) == (0, ["a: there -> -"], [])
    for arguments in (("check", "--no-spark"), ("run",)):
        code, _, errors = check(job.replace("old", "new"), *arguments)
        assert code == 1 and errors == [
            "Error: p.yaml: job a: its checkpoint is that of another job: path was 'old' and is "
            "'new'. --adopt a goes on from where the checkpoint is, as the job is now; --reset a "
            "begins anew, and what was written before stays"
        ]
    elsewhere = Keeper(pipeline, None, {servers: "another"})
    assert "cluster was" in elsewhere.wrong()[0].words
