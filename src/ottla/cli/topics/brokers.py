"""The actions of `ottla topics` through brokers (TopicCommand.AdminClientTopicService)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import PurePath

import click

from ottla.cli.options import connect_admin, print_json
from ottla.cli.topics import deleted, output
from ottla.cli.topics.options import (
    TopicCommandError,
    TopicOptions,
    announce,
    check_numbers,
    confirm_deletion,
    parse_assignment,
    parse_configs,
    select_topics,
)
from ottla.client.admin.client import Admin
from ottla.client.admin.types import (
    ConfigResource,
    NewPartitions,
    NewTopic,
    TopicListing,
    raise_first_error,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.types import parse_topic_id

_POLL_S = 0.1


async def execute(options: TopicOptions) -> None:
    actions: dict[str, Callable[[Admin, TopicOptions], Awaitable[None]]] = {
        "create": _create,
        "list": _list,
        "list_deleted": deleted.list_deleted,
        "describe": _describe,
        "alter": _alter,
        "delete": _delete,
    }
    async with connect_admin(options.bootstrap_server, options.command_config) as admin:
        await actions[options.action](admin, options)


async def _create(admin: Admin, options: TopicOptions) -> None:
    name = options.topic or ""
    assignment = parse_assignment(options.replica_assignment) if options.replica_assignment else {}
    topic = NewTopic(
        name,
        partitions=-1 if options.partitions is None else options.partitions,
        replication_factor=-1 if options.replication_factor is None else options.replication_factor,
        assignments=assignment,
        configs=parse_configs(options.config),
    )
    announce(options, name, topic.configs)
    check_numbers(options)
    try:
        raise_first_error(await admin.create_topics([topic]))
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not options.if_not_exists:
            raise
        created = False
    else:
        created = True
    if options.output == "json":
        print_json({"topic": name, "created": created})
    elif created:
        click.echo(f"Created topic {name}.")


async def _matching(admin: Admin, options: TopicOptions) -> list[str]:
    listings = await admin.list_topics(include_internal=not options.exclude_internal)
    if options.topic_id is not None:
        return _with_id(listings, options)
    return select_topics([listing.name for listing in listings], options)


def _with_id(listings: list[TopicListing], options: TopicOptions) -> list[str]:
    """By id (a flag of Kafka 3.x): looked up here, which old brokers can do as well."""
    text = options.topic_id or ""
    try:
        wanted = parse_topic_id(text)
    except ValueError:
        raise TopicCommandError(f"{text} is not a topic id") from None
    found = [listing.name for listing in listings if listing.topic_id == wanted]
    if not found and not options.if_exists:
        raise TopicCommandError(f"TopicId '{text}' does not exist as expected")
    return found


async def _list(admin: Admin, options: TopicOptions) -> None:
    found = await _matching(admin, options)
    if options.output == "json":
        print_json(found)
    else:
        click.echo("\n".join(found))


async def _describe(admin: Admin, options: TopicOptions) -> None:
    found = await _matching(admin, options)
    shown = await _gather(admin, found)
    if options.output == "json":
        print_json(output.json_value(shown, options))
        return
    for line in output.text_lines(shown, options):
        sys.stdout.write(line + "\n")


async def _gather(admin: Admin, found: list[str]) -> output.Described:
    if not found:
        return output.Described([], {}, frozenset(), {})
    configs = raise_first_error(
        await admin.describe_configs([ConfigResource.topic(name) for name in found])
    )
    cluster = await admin.describe_cluster()
    topics = raise_first_error(await admin.describe_topics(found))
    try:
        moves = await admin.list_reassignments()
    except KafkaError as error:
        # As kafka-topics: an old broker or a missing right only hides the moves.
        hidden = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if error.code not in hidden:
            raise
        moves = {}
    return output.Described(
        [topics[name] for name in sorted(topics)],
        {resource.name: items for resource, items in configs.items()},
        frozenset(node.id for node in cluster.nodes),
        moves,
    )


async def _alter(admin: Admin, options: TopicOptions) -> None:
    given = parse_assignment(options.replica_assignment) if options.replica_assignment else None
    found = await _matching(admin, options)
    total = options.partitions or 0
    wanted = {}
    if found:
        present = raise_first_error(await admin.describe_topics(found))
        for name in found:
            count = len(present[name].partitions)
            # The list covers all partitions; those that exist already are passed over.
            added = None if given is None else [given[p] for p in sorted(given) if p >= count]
            wanted[name] = NewPartitions(total, added)
        # One request for all: a topic that cannot grow does not keep the others from it.
        raise_first_error(await admin.create_partitions(wanted))
    if options.output == "json":
        print_json({"altered": found})


async def _delete(admin: Admin, options: TopicOptions) -> None:
    found = await _matching(admin, options)
    if found:
        confirm_deletion(options, found)
        described = raise_first_error(await admin.describe_topics(found)) if options.purge else {}
        raise_first_error(await admin.delete_topics(found))
        if options.wait or options.purge:
            await _wait_until_gone(admin, found, options)
        if options.purge:
            ids = {topic.topic_id for topic in described.values()}
            await deleted.purge_all(admin, found, ids, options)
        if options.folders:
            await deleted.wait_for_folders(admin, found, options)
        if options.wait and not options.purge:
            await deleted.tell_kept(admin, found, options)
    if options.output == "json":
        print_json({"deleted": found})


async def _wait_until_gone(admin: Admin, names: list[str], options: TopicOptions) -> None:
    """Until no live broker knows the topics, none has a replica folder of that name, and the
    controller would take the names for new topics, so that their znodes are gone too."""

    async def still_there(left: set[str]) -> set[str]:
        nodes = (await admin.describe_cluster()).nodes
        known = [await admin.topics_known_to(node.id, sorted(left)) for node in nodes]
        found = set[str]().union(*known)
        if found:
            return found
        for node in nodes:
            dirs = (await admin.describe_log_dirs(node.id)).values()
            held = {r.partition for d in dirs for r in d.replicas if r.partition.topic in left}
            if held:
                # A log of an earlier topic of that name stays (ADR 28).
                strays = await _stray_names(admin, node.id)
                found |= {tp.topic for tp in held if str(tp) not in strays}
        return found or await _taken_names(admin, left)

    await wait_until_gone(names, still_there, options)


async def _stray_names(admin: Admin, broker_id: int) -> set[str]:
    try:
        return {PurePath(stray.path).name for stray in await admin.describe_strays(broker_id)}
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return set()  # it is Apache Kafka's


async def _taken_names(admin: Admin, names: set[str]) -> set[str]:
    trial = [NewTopic(name, 1, 1) for name in sorted(names)]
    answers = await admin.create_topics(trial, validate_only=True)
    return {
        name
        for name, answer in answers.items()
        if isinstance(answer, KafkaError) and answer.code is ErrorCode.TOPIC_ALREADY_EXISTS
    }


async def wait_until_gone(
    names: list[str], still_there: Callable[[set[str]], Awaitable[set[str]]], options: TopicOptions
) -> None:
    """Asks which topics are left until none is, and says so as they go."""
    progress = DeletionProgress(names, to_stderr=options.output == "json")
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        left = await still_there(progress.left)
        elapsed_s = loop.time() - begun
        progress.update(left, elapsed_s)
        if not left:
            return
        if elapsed_s >= options.wait_timeout:
            raise TopicCommandError(
                f"still there after {options.wait_timeout:g} s: {', '.join(sorted(left))}"
            )
        await asyncio.sleep(_POLL_S)


class DeletionProgress:
    """Says which topics are gone, once each, and now and then what is left."""

    def __init__(self, names: list[str], *, to_stderr: bool) -> None:
        self.left = set(names)
        self._total = len(self.left)
        self._to_stderr = to_stderr  # progress is not a result: with json it must not disturb
        self._next_word_s = 1.0

    def update(self, still_there: set[str], elapsed_s: float) -> None:
        for name in sorted(self.left - still_there):
            self.left.remove(name)
            done = self._total - len(self.left)
            click.echo(f"Deleted topic {name} ({done} of {self._total}).", err=self._to_stderr)
        if self.left and elapsed_s >= self._next_word_s:
            self._next_word_s *= 2
            waiting = ", ".join(sorted(self.left))
            click.echo(f"Waiting for {waiting} ({elapsed_s:.0f} s)", err=self._to_stderr)
