"""What to say to somebody who asks for a command that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import click

# What other tools call it.
OTHER_NAMES = {
    "acl": "acls",
    "console-consumer": "consume",
    "console-producer": "produce",
    "consumer-groups": "groups",
    "dump": "dump-log",
    "leader-election": "elect",
    "ps": "status",
    "read": "consume",
    "reassign-partitions": "reassign",
    "server-start": "broker",
    "server-stop": "down",
    "start": "up",
    "stop": "down",
    "write": "produce",
    "zookeeper-server-start": "zookeeper",
    "zookeeper-shell": "zk",
}


def likely_command(asked: str, known: Collection[str]) -> str | None:
    """The command that was probably meant: `topic`, `kafka-topics.sh` and `stop` have one."""
    name = asked.lower().removeprefix("kafka-").removesuffix(".sh").replace("_", "-")
    for candidate in (name, OTHER_NAMES.get(name)):
        if candidate in known:
            return candidate
    close = difflib.get_close_matches(name, known, n=1)
    return close[0] if close else None


class HintingGroup(click.Group):
    """A group of commands whose answer to an unknown name says what to do next."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            meant = likely_command(name, known)
            hint = (
                f"Did you mean {meant!r}?" if meant else f"`{ctx.command_path} --help` lists all."
            )
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)
