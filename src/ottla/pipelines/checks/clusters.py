"""Brokers and topics of a pipeline, asked through the admin client. No topic is made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from ottla.client.admin.client import Admin
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.pipelines import topics
from ottla.pipelines.checks.problems import Problem
from ottla.pipelines.spec import Job, Mirror, Pipeline, Restore
from ottla.pipelines.spec_keys import SpecError, TopicSpec


class Cluster(NamedTuple):
    """Brokers, and the settings of those who ask them."""

    servers: str
    kafka: tuple[tuple[str, str], ...]


class Use(NamedTuple):
    """What jobs want of one cluster, each topic with the name of a job that wants it."""

    jobs: list[str]
    written: dict[str, tuple[str, TopicSpec]]
    read: dict[str, str]
    # Made by mirrors when they start, as their sources are then.
    mirrored: set[str]
    # Those that must hold no records yet.
    restored: dict[str, str]

    def only_read(self) -> dict[str, str]:
        """Topics that no job makes, by the job that reads them."""
        made = self.written.keys() | self.mirrored
        return {name: job for name, job in self.read.items() if name not in made}


class Answer(NamedTuple):
    """What one cluster says."""

    cluster_id: str
    topics: frozenset[str]
    problems: list[Problem]


class Found(NamedTuple):
    problems: list[Problem]
    # The ids of the clusters that answered, by their brokers.
    ids: dict[str, str]


def uses(pipeline: Pipeline) -> dict[Cluster, Use]:
    """What is to be asked of which cluster."""
    declared = pipeline.declared_topics()
    found: dict[Cluster, Use] = {}
    for job in pipeline.jobs:
        use = _use(found, pipeline.servers_of(job), pipeline.kafka_of(job), job)
        for topic in job.writes():
            use.written.setdefault(topic.name, (job.name, declared[topic.name]))
        for name in job.reads():
            use.read.setdefault(name, job.name)
        if isinstance(job, Restore) and not job.append:
            use.restored[job.topic.name] = job.name
        if isinstance(job, Mirror):
            there = _use(found, job.to_bootstrap_servers, job.to_kafka or {}, job)
            there.mirrored.update(job.prefix + name for name in job.reads())
    return found


def _use(found: dict[Cluster, Use], servers: str, kafka: Mapping[str, str], job: Job) -> Use:
    cluster = Cluster(servers, tuple(sorted(kafka.items())))
    use = found.setdefault(cluster, Use([], {}, {}, set(), {}))
    use.jobs.append(job.name)
    return use


def find(pipeline: Pipeline) -> Found:
    wanted = uses(pipeline)
    result = Found([], {})
    answers: dict[Cluster, Answer] = {}
    for cluster, use in wanted.items():
        try:
            answers[cluster] = topics.with_admin(
                cluster.servers, dict(cluster.kafka), partial(_ask, use)
            )
        except OttlaError as error:
            job = "" if cluster.servers == pipeline.servers_of(Job()) else use.jobs[0]
            words = f"the brokers {cluster.servers} cannot be used: {error}"
            result.problems.append(Problem(job, words))
            continue
        result.ids[cluster.servers] = answers[cluster].cluster_id
        result.problems.extend(answers[cluster].problems)
    result.problems.extend(_missing(wanted, answers))
    return result


def ids(pipeline: Pipeline) -> dict[str, str]:
    """The ids of all clusters, by their brokers; raises OttlaError where one does not answer."""

    async def ask(admin: Admin) -> str:
        return (await admin.describe_cluster()).cluster_id or ""

    return {
        cluster.servers: topics.with_admin(cluster.servers, dict(cluster.kafka), ask)
        for cluster in uses(pipeline)
    }


def _missing(wanted: Mapping[Cluster, Use], answers: Mapping[Cluster, Answer]) -> list[Problem]:
    """Topics that are read, are not there, and that no job makes, by whatever name of the brokers
    it knows the cluster."""
    made: dict[str, set[str]] = {}
    for cluster, answer in answers.items():
        use = wanted[cluster]
        made.setdefault(answer.cluster_id, set()).update(use.written, use.mirrored)
    return [
        Problem(job, f"there is no topic {name} on {cluster.servers}, and no job makes it")
        for cluster, answer in answers.items()
        for name, job in wanted[cluster].only_read().items()
        if name not in answer.topics and name not in made[answer.cluster_id]
    ]


async def _ask(use: Use, admin: Admin) -> Answer:
    described = await admin.describe_cluster()
    there = await topics.describe(admin, sorted({*use.read, *use.written}))
    problems = []
    for name, (job, spec) in use.written.items():
        if name in there:
            try:
                topics.check_partitions(spec, there[name])
            except SpecError as error:
                problems.append(Problem(job, str(error)))
    for name, job in use.restored.items():
        if name in there and await topics.holds_records(admin, there[name]):
            problems.append(Problem(job, topics.HOLDS_RECORDS.format(name)))
    problems += await _refused(admin, {n: w for n, w in use.written.items() if n not in there})
    return Answer(described.cluster_id or "", frozenset(there), problems)


async def _refused(admin: Admin, missing: Mapping[str, tuple[str, TopicSpec]]) -> list[Problem]:
    """Topics that the cluster would not make, in its own words."""
    if not missing:
        return []
    answers = await admin.create_topics(
        [topics.new_topic(spec) for _, spec in missing.values()], validate_only=True
    )
    return [
        Problem(missing[name][0], f"the topic {name} cannot be made: {answer}")
        for name, answer in answers.items()
        if isinstance(answer, KafkaError) and answer.code is not ErrorCode.TOPIC_ALREADY_EXISTS
    ]
