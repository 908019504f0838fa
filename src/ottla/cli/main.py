"""The `ottla` command. Every failure ends in one line on stderr and a non-zero exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import click

from ottla import __version__
from ottla.cli.hints import HintingGroup
from ottla.cli.options import describe_error
from ottla.errors import OttlaError


class _Entry(NamedTuple):
    module: str  # in `ottla.cli`; its `command` is imported only when asked for: help is instant
    text: str


COMMANDS = {
    "up": _Entry("up", "Start a cluster on this machine."),
    "status": _Entry("status", "Show what runs of a cluster that `ottla up` started."),
    "down": _Entry("down", "Stop a cluster that `ottla up` started."),
    "broker": _Entry("broker", "Run one broker from a server.properties file."),
    "zookeeper": _Entry(
        "zookeeper", "Serve a single-node metadata store over the ZooKeeper protocol."
    ),
    "topics": _Entry("topics.command", "Create, list, describe, alter and delete topics."),
    "undelete": _Entry("undelete", "Bring a deleted topic back from the trash."),
    "purge": _Entry("purge", "Remove a deleted topic from the trash, for good."),
    "rename": _Entry("rename", "Give a topic another name, with its records and groups."),
    "configs": _Entry(
        "configs.command", "Show and change configs of topics and brokers, and quotas."
    ),
    "cluster": _Entry("cluster", "Show who is alive and who is the controller."),
    "reassign": _Entry("reassign.command", "Move partitions between brokers and log directories."),
    "log-dirs": _Entry("log_dirs", "Show log directories, and logs that no topic owns."),
    "elect": _Entry("elect", "Elect leaders of partitions."),
    "groups": _Entry("groups.command", "List, describe, reset and delete consumer groups."),
    "acls": _Entry("acls.command", "Add, remove and list ACLs: who may do what."),
    "delegation-tokens": _Entry(
        "delegation_tokens", "Create, renew, expire and describe delegation tokens."
    ),
    "produce": _Entry("data.produce", "Write lines of text as records to a topic."),
    "consume": _Entry("data.consume", "Read records of a topic."),
    "get-offsets": _Entry("data.get_offsets", "Show offsets of topics, by end or by time."),
    "delete-records": _Entry(
        "data.delete_records", "Delete the records before given offsets, for good."
    ),
    "dump-log": _Entry(
        "data.dump_log", "Show batches, records and index entries of a log's files."
    ),
    "resize": _Entry("data.resize", "Give a topic another number of partitions."),
    "clone": _Entry(
        "data.clone", "Copy a topic into a new one: records, configs, group positions."
    ),
    "zk": _Entry("zk.command", "Read znodes: ls, get, watch."),
    "events": _Entry("events", "Show what the controller did to topics."),
    "console": _Entry("console", "Serve a web console for any cluster, Apache Kafka included."),
    "pipeline": _Entry("pipeline", "Run data pipelines over topics, on Spark."),
    "bench": _Entry("bench", "Measure parts of Ottla beside their peers."),
}
FAILED = 1
INTERRUPTED = 130


class _LazyGroup(HintingGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(f"ottla.cli.{entry.module}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.text) for name, entry in COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="OTTLA_BOOTSTRAP_SERVER names the brokers where --bootstrap-server is not given.",
)
@click.version_option(__version__, prog_name="ottla")
def cli() -> None:
    """Apache Kafka's topic machinery as a Python system."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code; prints at most one line on failure."""
    try:
        code = cli.main(args=arguments, prog_name="ottla", standalone_mode=False)
        # What is still buffered may meet a closed pipe: here it can be told from success.
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else str(error), err=True)
        return FAILED
    except click.ClickException as error:
        return _fail(error.format_message(), prefix="")
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return FAILED
    except OttlaError as error:
        return _fail(describe_error(error))
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        return _fail(f"{error.filename}: {reason}" if error.filename else reason)


def _fail(message: str, prefix: str = "Error: ") -> int:
    # One line, whatever was raised; spaces inside a line are Kafka's and stay.
    click.echo(prefix + " ".join(line.strip() for line in message.splitlines()), err=True)
    return FAILED


def _abandon_stdout() -> None:
    """The reader is gone: what the interpreter flushes at exit must not fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_missing_streams() -> None:
    """Whoever starts a command with `>&-` leaves Python without one: nothing is read or shown."""
    # In this order each gets the descriptor that is missing, the lowest that is free.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def guard_terminals(arguments: Sequence[str]) -> None:
    # The table of a running pipeline is drawn with escape sequences of its own.
    if "pipeline" in arguments:
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream.isatty():
            from ottla.cli.terminal import Terminal

            setattr(sys, name, Terminal(stream))


def main() -> NoReturn:
    _open_missing_streams()
    guard_terminals(sys.argv[1:2])
    sys.exit(run())
