"""The id that tells deleted topics of one name apart, on the command line."""

from __future__ import annotations

import click

from ottla.types import ZERO_TOPIC_ID, TopicId, parse_topic_id

id_option = click.option(
    "--id",
    "topic_id",
    metavar="ID",
    help="Its topic id, where several of that name were deleted; else the last one.",
)


def read_id(text: str | None) -> TopicId | None:
    if text is None:
        return None
    try:
        found = parse_topic_id(text)
    except ValueError:
        found = ZERO_TOPIC_ID
    # To a broker zeros are any id: the topic that was deleted last.
    if found == ZERO_TOPIC_ID:
        raise click.UsageError(f"{text} is not a topic id")
    return found
