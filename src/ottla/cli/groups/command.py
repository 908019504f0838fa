"""`ottla groups`: kafka-consumer-groups' flags and lines.

Where Kafka's tool says that something failed and exits with 0, this one exits with 1. Rows are in
order of topic and partition; Kafka prints them in the order of a hash map.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    describe_error,
    flag,
    output_option,
    run_async,
)
from ottla.errors import KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.cli.groups.reset import Reset

ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets")
STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
LONG = click.IntRange(-(1 << 63), (1 << 63) - 1)
# These say what to describe.
VIEWS = ("members", "offsets", "verbose")
_DRY_RUN_WARNING = (
    "WARN: No action will be performed as the --execute option is missing."
    "In a future major release, the default behavior of this command will be to prompt the user "
    "before executing the reset rather than doing a dry run. You should add the --dry-run option "
    "explicitly if you are scripting this command and want to keep the current default behavior "
    "without prompting."
)


@dataclass(frozen=True, slots=True)
class Arguments:
    """What was given on the command line; options that are not there are None, False or ()."""

    bootstrap_server: str | None
    command_config: Path | None
    output: str
    timeout: int
    list: bool
    describe: bool
    delete: bool
    reset_offsets: bool
    delete_offsets: bool
    group: tuple[str, ...]
    all_groups: bool
    topic: tuple[str, ...]
    all_topics: bool
    members: bool
    offsets: bool
    state: str | None
    verbose: bool
    dry_run: bool
    execute: bool
    export: bool
    to_offset: int | None
    to_datetime: str | None
    by_duration: str | None
    to_earliest: bool
    to_latest: bool
    to_current: bool
    shift_by: int | None
    from_file: Path | None

    def has(self, name: str) -> bool:
        value = getattr(self, name.replace("-", "_"))
        return value is not None and value is not False and value != ()


@click.command("groups", help="List, describe, reset and delete consumer groups.")
@bootstrap_option
@command_config_option
@flag("list", "List all consumer groups.")
@flag("describe", "Show offsets and lag, members or the state of groups.")
@flag("delete", "Delete groups that have no members.")
@flag("reset-offsets", "Set the offsets of groups that have no members; see --execute.")
@flag("delete-offsets", "Delete a group's offsets for topics that it is not reading.")
@click.option("--group", multiple=True, help="The group to act on; may be given more than once.")
@flag("all-groups", "Act on all groups.")
@click.option(
    "--topic", multiple=True, metavar="TOPIC[:0,1…]",
    help="Topics, or partitions of them, whose offsets are reset or deleted.",
)  # fmt: skip
@flag("all-topics", "Reset the offsets of all topics that the group has committed.")
@flag("members", "With --describe: the members.")
@flag("offsets", "With --describe: offsets and lag, which is the default.")
@click.option(
    "--state", is_flag=False, flag_value="", metavar="[STATE,…]",
    help="With --describe: the state. With --list: states, or only groups in these states.",
)  # fmt: skip
@flag("verbose", "With --members: what each is assigned.")
@flag("dry-run", "With --reset-offsets: only show what would be done.")
@flag("execute", "With --reset-offsets: do it.")
@flag("export", "With --reset-offsets: print CSV for --from-file.")
@click.option("--to-offset", type=LONG, metavar="OFFSET", help="Reset to this offset.")
@click.option("--to-datetime", metavar="ISO8601", help="Reset to a time, 2026-01-31T09:30:00.000.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="Reset to this long ago.")
@flag("to-earliest", "Reset to the first record there is.")
@flag("to-latest", "Reset to the end.")
@flag("to-current", "Reset to what is committed; to the end where nothing is.")
@click.option(
    "--shift-by",
    type=LONG,
    metavar="N",
    help="Move N records forward, or back where N is negative.",
)
@click.option(
    "--from-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Reset to the offsets in a CSV file.",
)
@click.option(
    "--timeout", type=click.IntRange(min=1), default=5000, show_default=True, metavar="MS",
    help="How long a call may take.",
)  # fmt: skip
@output_option
def command(**given: Any) -> None:
    arguments = Arguments(**given)
    reset = check(arguments)
    try:
        run_async(_execute(arguments, reset))
    except KafkaError as error:
        from ottla.cli.groups.output import java_error

        raise click.ClickException(_failure(java_error(error))) from None
    except OttlaError as error:
        raise click.ClickException(describe_error(error)) from None


def _failure(reason: str) -> str:
    return f"Error: Executing consumer group command failed due to {reason}"


def check(given: Arguments) -> Reset | None:
    """ConsumerGroupCommandOptions.checkArgs, in its order."""
    views = [name for name in VIEWS if given.has(name)]
    _refuse_if(
        bool(views) and not given.describe,
        f"Option(s) [{', '.join(views)}] are unavailable given other options on the command line",
    )
    selected = given.has("group") or given.all_groups
    scope = "takes one of these options: [group], [all-groups]"
    if given.describe:
        _refuse_if(not selected, f"Option [describe] {scope}")
        _refuse_if(
            [given.members, given.offsets, given.state is not None].count(True) > 1,
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        )
        _refuse_if(bool(given.state), "Option [describe] does not take a value for [state]")
    if given.delete:
        _refuse_if(not selected, f"Option [delete] {scope}")
        _refuse_if(
            given.has("topic"),
            "The consumer does not support topic-specific offset deletion from a consumer group.",
        )
    if given.delete_offsets:
        _refuse_if(
            not (given.has("group") and given.has("topic")),
            "Option [delete-offsets] takes the following options: [group], [topic]",
        )
        _refuse_if(
            len(given.group) > 1,
            "Found multiple arguments for option group, but you asked for only one",
        )
    reset = _check_reset(given, selected) if given.reset_offsets else None
    for option, others in (("group", ("all-groups", "list")), ("topic", ("list", "describe"))):
        for other in others:
            _refuse_together(given, option, other)
    _refuse_if(
        [given.has(action) for action in ACTIONS].count(True) != 1,
        "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "
        "--delete-offsets",
    )
    states = given.state.split(",") if given.list and given.state else []
    _refuse_if(
        not {state.strip() for state in states} <= set(STATES),
        f"Invalid state list '{given.state}'. Valid states are: {', '.join(STATES)}",
    )
    return reset


def _check_reset(given: Arguments, selected: bool) -> Reset:
    from ottla.cli.groups.reset import Reset, parse_datetime, parse_duration
    from ottla.client.groups.resets import Scenario
    from ottla.runtime import system_runtime

    _refuse_if(
        given.dry_run and given.execute,
        "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
    )
    _refuse_if(
        not selected, "Option [reset-offsets] takes one of these options: [group], [all-groups]"
    )
    chosen = [scenario for scenario in Scenario if given.has(scenario.value)]
    names = ", ".join(f"[{scenario.value}]" for scenario in Scenario)
    _refuse_if(
        not chosen, f"Option '[reset-offsets]' requires one of the following scenarios: {names}"
    )
    if len(chosen) > 1:
        _refuse_together(given, chosen[0].value, chosen[1].value)
    _refuse_if(
        not (given.all_topics or given.has("topic") or given.has("from_file")),
        "One of the reset scopes should be defined: --all-topics, --topic.",
    )
    timestamp_ms = 0
    try:
        if given.to_datetime is not None:
            timestamp_ms = parse_datetime(given.to_datetime)
        elif given.by_duration is not None:
            timestamp_ms = system_runtime().clock.now_ms() - parse_duration(given.by_duration)
    except OttlaError as error:
        raise click.ClickException(_failure(str(error))) from None
    number = given.to_offset if given.to_offset is not None else given.shift_by
    if not (given.dry_run or given.execute):
        click.echo(_DRY_RUN_WARNING, err=True)
    return Reset(
        chosen[0],
        number or 0,
        # No record is older than 1970; to a broker, numbers below 0 mean other things than times.
        max(timestamp_ms, 0),
        given.from_file,
        # Kafka's tool looks at the options, not at how many groups were found or could be reset.
        names_groups=len(given.group) != 1,
    )


def _refuse_if(wrong: bool, text: str) -> None:
    if wrong:
        raise click.UsageError(text)


def _refuse_together(given: Arguments, option: str, other: str) -> None:
    _refuse_if(
        given.has(option) and given.has(other),
        f'Option "[{option}]" can\'t be used with option "[{other}]"',
    )


async def _execute(given: Arguments, reset: Reset | None) -> None:
    from ottla.cli.groups import actions

    async with connect_admin(given.bootstrap_server, given.command_config) as admin:
        groups = actions.Groups(admin, timeout_ms=given.timeout, as_json=given.output == "json")
        if given.list:
            await groups.list_all(given.state)
            return
        group_ids = await groups.consumer_groups() if given.all_groups else list(given.group)
        if given.describe:
            view = "state" if given.state is not None else "members" if given.members else "offsets"
            await groups.describe(group_ids, view, verbose=given.verbose)
        elif given.delete:
            await groups.delete(group_ids)
        elif given.delete_offsets:
            await groups.delete_offsets(group_ids[0], given.topic)
        elif reset is not None:
            topics = None if given.all_topics else given.topic
            plans = await groups.plan_reset(group_ids, topics, reset)
            if given.execute:
                await groups.execute_reset(plans)
            groups.show_reset(plans, reset, export=given.export)
            groups.raise_failures()
