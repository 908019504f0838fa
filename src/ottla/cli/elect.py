"""`ottla elect`: kafka-leader-election's flags and lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.java_errors import java_exception
from ottla.cli.options import (
    bootstrap_option,
    connect_admin,
    describe_error,
    flag,
    output_option,
    print_json,
    read_text_file,
    run_async,
)
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.admin.types import ElectionType

_PACKAGE = "org.apache.kafka.common.errors"


class ElectionFailed(OttlaError):
    """A request that cannot be made, with Kafka's text."""


@click.command("elect", help="Elect leaders of partitions.")
@bootstrap_option
@click.option(
    "--admin.config", "--command-config", "command_config", type=click.Path(path_type=Path),
    metavar="FILE", help="A property file with settings of the admin client.",
)  # fmt: skip
@click.option(
    "--election-type", type=click.Choice(["preferred", "unclean"], case_sensitive=False),
    help="preferred: the first replica leads. unclean: a live replica leads, even one that "
    "misses records.",
)  # fmt: skip
@click.option("--topic", help="The topic of one partition.")
@click.option("--partition", type=click.IntRange(min=0), help="The partition, with --topic.")
@click.option(
    "--path-to-json-file", type=click.Path(path_type=Path), metavar="FILE",
    help='Many partitions: {"partitions": [{"topic": "t", "partition": 0}]}.',
)  # fmt: skip
@flag("all-topic-partitions", "All partitions that need it.")
@output_option
def command(
    bootstrap_server: str | None,
    command_config: Path | None,
    election_type: str | None,
    topic: str | None,
    partition: int | None,
    path_to_json_file: Path | None,
    all_topic_partitions: bool,
    output: str,
) -> None:
    if election_type is None:
        raise click.UsageError("Missing required option(s): election-type")
    if [topic is not None, all_topic_partitions, path_to_json_file is not None].count(True) != 1:
        raise click.UsageError(
            "One and only one of the following options is required: topic, all-topic-partitions, "
            "path-to-json-file"
        )
    if topic is not None and partition is None:
        raise click.UsageError("Missing required option(s): partition")
    if topic is None and partition is not None:
        raise click.UsageError("Option partition is only allowed if topic is used")
    from ottla.client.admin.types import ElectionType

    election = ElectionType[election_type.upper()]
    try:
        partitions = None
        if topic is not None:
            partitions = [TopicPartition(topic, partition or 0)]
        elif path_to_json_file is not None:
            partitions = parse_partitions(read_text_file(path_to_json_file))
        run_async(_execute(bootstrap_server, command_config, election, partitions, output))
    except OttlaError as error:
        raise click.ClickException(describe_error(error)) from None


def parse_partitions(text: str) -> list[TopicPartition]:
    """LeaderElectionCommand.parseReplicaElectionData."""
    from ottla.client.admin.reassignment_plan import (
        ReassignmentError,
        duplicates,
        parse_partition_list,
    )

    try:
        found = parse_partition_list(text)
    except ReassignmentError as error:
        raise ElectionFailed(f"Replica election data cannot be read: {error}") from None
    if found is None:
        raise ElectionFailed('Replica election data is missing "partitions" field')
    repeated = duplicates(found)
    if repeated:
        raise ElectionFailed(
            "Replica election data contains duplicate partitions: " + ",".join(map(str, repeated))
        )
    return found


async def _execute(
    bootstrap_server: str | None,
    command_config: Path | None,
    election: ElectionType,
    partitions: list[TopicPartition] | None,
    output: str,
) -> None:
    async with connect_admin(bootstrap_server, command_config) as admin:
        try:
            results = await admin.elect_leaders(election, partitions)
        except KafkaError as error:
            raise ElectionFailed(_request_failure(error)) from None
    succeeded = sorted(tp for tp, error in results.items() if error is None)
    needless = sorted(tp for tp, error in results.items() if _is_needless(error))
    failed = {
        tp: error for tp, error in sorted(results.items()) if error and not _is_needless(error)
    }
    if output == "json":
        print_json(
            {
                "election_type": election.name,
                "elected": [str(tp) for tp in succeeded],
                "not_needed": [str(tp) for tp in needless],
                "failed": {str(tp): str(error) for tp, error in failed.items()},
            }
        )
    else:
        for line in _lines(election, succeeded, needless, failed):
            click.echo(line)
    if failed:
        raise ElectionFailed(f"{len(failed)} replica(s) could not be elected")


def _is_needless(error: KafkaError | None) -> bool:
    return error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED


def _request_failure(error: KafkaError) -> str:
    if error.code is ErrorCode.REQUEST_TIMED_OUT:
        return f"Timeout waiting for election results ({error})"
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return "Not authorized to perform leader election"
    return f"Error while making request ({error})"


def _lines(
    election: ElectionType,
    succeeded: list[TopicPartition],
    needless: list[TopicPartition],
    failed: Mapping[TopicPartition, KafkaError],
) -> list[str]:
    names = ", ".join(map(str, succeeded))
    lines = []
    if succeeded:
        lines.append(
            f"Successfully completed leader election ({election.name}) for partitions {names}"
        )
    if needless:
        # Kafka 2.8 names the elected ones here, not those that needed no election.
        lines.append(f"Valid replica already elected for partitions {names}")
    lines += [
        f"Error completing leader election ({election.name}) for partition: {tp}: "
        f"{_PACKAGE}.{java_exception(error.code)}: {error}"
        for tp, error in failed.items()
    ]
    return lines
