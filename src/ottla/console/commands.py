"""`ottla` command lines for the cluster of a console; the writes of the page Topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.console.web.routes import command_line

if TYPE_CHECKING:
    from ottla.console.settings import ConsoleSettings

# The file in which whoever types the command keeps their own credentials.
CLIENT_FILE = "client.properties"


def ottla(settings: ConsoleSettings, command: str, *words: object) -> str:
    """A command line for the cluster of this console; words that are None are left out."""
    protocol = settings.properties.get("security.protocol", "PLAINTEXT").upper()
    with_file = () if protocol == "PLAINTEXT" else ("--command-config", CLIENT_FILE)
    where = ("--bootstrap-server", settings.bootstrap)
    return command_line("ottla", command, *where, *with_file, *words)


def arguments(*names: str) -> tuple[str, ...]:
    """Last in a command line: a topic may be called -x, which is no option then."""
    return ("--", *names) if any(name.startswith("-") for name in names) else names


def topic_pattern(name: str) -> str:
    """`--topic` is a regular expression but for --create: a dot would stand for any character."""
    return name.replace(".", r"\.")


def assignment_text(assignment: Sequence[Sequence[int]]) -> str:
    """1:2,2:3: the brokers of partition 0, of partition 1, and so on."""
    return ",".join(":".join(map(str, replicas)) for replicas in assignment)


def create_topic(
    settings: ConsoleSettings,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    assignment: Sequence[Sequence[int]] | None,
    configs: Mapping[str, str],
) -> list[str]:
    """kafka-topics takes no value that is empty or has a `=`: such configs come after it."""
    plain = {key: value for key, value in configs.items() if value.strip() and "=" not in value}
    words: list[object] = ["--create", "--topic", name]
    if assignment is not None:
        words += ["--replica-assignment", assignment_text(assignment)]
    else:
        if partitions is not None:
            words += ["--partitions", partitions]
        if replication_factor is not None:
            words += ["--replication-factor", replication_factor]
    for key, value in plain.items():
        words += ["--config", f"{key}={value}"]
    lines = [ottla(settings, "topics", *words)]
    others = {key: value for key, value in configs.items() if key not in plain}
    return lines + (alter_configs(settings, name, others, ()) if others else [])


def expand_topic(
    settings: ConsoleSettings,
    name: str,
    total: int,
    present: Sequence[Sequence[int]],
    added: Sequence[Sequence[int]] | None,
) -> str:
    """The list of the command covers all partitions, those there are as well."""
    words: list[object] = ["--alter", "--topic", topic_pattern(name), "--partitions", total]
    if added is not None:
        width = len(added[0]) if added else 1
        # What stands there for partitions that exist is passed over, but has to have their form.
        known = [replicas if len(replicas) == width else added[0] for replicas in present]
        words += ["--replica-assignment", assignment_text([*known, *added])]
    return ottla(settings, "topics", *words)


def delete_topic(settings: ConsoleSettings, name: str) -> str:
    return ottla(settings, "topics", "--delete", "--topic", topic_pattern(name), "--wait")


def alter_configs(
    settings: ConsoleSettings, topic: str, given: Mapping[str, str], reset: Sequence[str]
) -> list[str]:
    words: list[object] = ["--alter", "--entity-type", "topics", "--entity-name", topic]
    if given:
        pairs = (f"{name}={_bracketed(value)}" for name, value in given.items())
        words += ["--add-config", ",".join(pairs)]
    if reset:
        words += ["--delete-config", ",".join(reset)]
    return [ottla(settings, "configs", *words)]


def _bracketed(value: str) -> str:
    """kafka-configs splits at commas and equal signs, unless brackets are around them."""
    return f"[{value}]" if any(character in value for character in ",=") else value
