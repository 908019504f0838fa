"""`ottla zk ls|get|watch|secure`: znodes of Ottla's store and of Apache ZooKeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.data.record_text import json_data
from ottla.cli.hints import HintingGroup
from ottla.cli.options import (
    credentials_option,
    flag,
    output_option,
    print_json,
    run_async,
    run_until_interrupted,
    store_runtime,
    zk_tls_option,
)
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore, Stat
    from ottla.zk.client.store import ZooKeeperClient

DEFAULT_ADDRESS = "localhost:2181"
CONNECT_TIMEOUT_MS = 5_000
# In the names and with the bases of ZooKeeper's own command line.
_STAT_NAMES = {
    "czxid": "cZxid", "ctime": "ctime", "mzxid": "mZxid", "mtime": "mtime", "pzxid": "pZxid",
    "cversion": "cversion", "version": "dataVersion", "aversion": "aclVersion",
    "ephemeral_owner": "ephemeralOwner", "data_length": "dataLength",
    "num_children": "numChildren",
}  # fmt: skip
_HEXADECIMAL = ("czxid", "mzxid", "pzxid", "ephemeral_owner")
_TIMES = ("ctime", "mtime")

zookeeper_option = click.option(
    "--zookeeper", metavar="HOST:PORT/CHROOT", default=DEFAULT_ADDRESS, show_default=True,
    help="The store: several hosts are separated by commas.",
)  # fmt: skip


class StoreUnreachable(OttlaError):
    """No ZooKeeper answered in time."""


@click.group(
    "zk",
    cls=HintingGroup,
    help="Read znodes: ls, get, watch. Only secure changes anything: who may.",
)
def command() -> None: ...


def _path_argument(**settings: Any) -> Callable[[Any], Any]:
    return click.argument("path", callback=_normalised, **settings)


def _normalised(_ctx: click.Context, _param: click.Parameter, path: str) -> str:
    """An absolute path without a slash at its end."""
    return "/" + path.strip("/")


@command.command("ls", help="List the children of a znode.")
@_path_argument(default="/")
@zookeeper_option
@credentials_option
@click.option("-R", "--recursive", is_flag=True, help="All that is below, with whole paths.")
@output_option
def ls(
    path: str, zookeeper: str, zk_credentials: Path | None, recursive: bool, output: str
) -> None:
    async def work() -> None:
        async with _connected(zookeeper, zk_credentials) as store:
            found = [name async for name in _names(store, path, recursive=recursive)]
        if output == "json":
            print_json(found)
        else:
            for name in found:
                click.echo(name)

    run_async(work())


async def _names(store: MetadataStore, path: str, *, recursive: bool) -> AsyncIterator[str]:
    """Children by name; with all that is below, paths in the order of a walk."""
    from ottla.cli.zk.watch import child_of
    from ottla.metadata.store import NoNodeError

    names = sorted(await store.children(path))
    if not recursive:
        for name in names:
            yield name
        return
    # The next is at the end.
    waiting = [child_of(path, name) for name in reversed(names)]
    while waiting:
        node = waiting.pop()
        try:
            below = sorted(await store.children(node), reverse=True)
        except NoNodeError:
            continue  # it went in the meantime
        yield node
        waiting += [child_of(node, name) for name in below]


@command.command("get", help="Show the data of a znode.")
@_path_argument()
@zookeeper_option
@credentials_option
@click.option("-s", "--stat", "with_stat", is_flag=True, help="Show its versions and times, too.")
@output_option
def get(
    path: str, zookeeper: str, zk_credentials: Path | None, with_stat: bool, output: str
) -> None:
    async def work() -> None:
        async with _connected(zookeeper, zk_credentials) as store:
            data, stat = await store.get(path)
        if output == "json":
            print_json({"path": path, "data": json_data(data), "stat": stat._asdict()})
            return
        click.echo(text_data(data))
        for line in stat_lines(stat) if with_stat else ():
            click.echo(line)

    run_async(work())


@command.command("watch", help="Show changes of a znode and its children until Ctrl-C.")
@_path_argument(default="/")
@zookeeper_option
@credentials_option
@click.option("-R", "--recursive", is_flag=True, help="Of all that is below, too.")
@flag("new", "Leave out what is there already.")
@click.option("--max-changes", type=click.IntRange(min=1), metavar="N", help="Stop after N lines.")
@output_option
def watch(
    path: str,
    zookeeper: str,
    zk_credentials: Path | None,
    recursive: bool,
    new: bool,
    max_changes: int | None,
    output: str,
) -> None:
    from ottla.cli.zk.watch import TreeWatch
    from ottla.runtime import system_runtime

    clock = system_runtime().clock

    async def work() -> None:
        left = max_changes
        async with (
            _connected(zookeeper, zk_credentials) as store,
            aclosing(TreeWatch(store, path, recursive=recursive).changes()) as changes,
        ):
            async for change in changes:
                if new and change.kind == "there":
                    continue
                if output == "json":
                    value = {"ts_ms": clock.now_ms(), "change": change.kind}
                    print_json(value | {"path": change.path, "data": json_data(change.data)})
                else:
                    shown = "" if change.kind == "deleted" else f" {text_data(change.data)}"
                    click.echo(f"{_time(clock.now_ms())} {change.kind} {change.path}{shown}")
                left = None if left is None else left - 1
                if left == 0:
                    return

    run_until_interrupted(work())


@command.command("secure", help="Let only the owner of the credentials change Kafka's znodes.")
@zookeeper_option
@click.option(
    "--zk-credentials", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE", required=True, help="A file with the user:password of the brokers.",
)  # fmt: skip
@zk_tls_option
def secure(zookeeper: str, zk_credentials: Path) -> None:
    """What zookeeper-security-migration does: for znodes that are older than
    zookeeper.set.acl=true."""
    from ottla.metadata.node_acls import close_tree

    async def work() -> None:
        async with _connected(zookeeper, zk_credentials) as store:
            closed = await close_tree(store)
        click.echo(f"{closed} znodes were open to everybody and are not any more.")

    run_async(work())


@asynccontextmanager
async def _connected(address: str, credentials: Path | None) -> AsyncIterator[ZooKeeperClient]:
    from ottla.metadata.store import ConnectionLossError
    from ottla.zk.client.store import ZooKeeperClient
    from ottla.zk.credentials import digest_credentials

    try:
        store = await ZooKeeperClient.connect(
            store_runtime(),
            address,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            credentials=digest_credentials(credentials),
        )
    except ConnectionLossError:
        raise StoreUnreachable(
            f"no ZooKeeper answers at {address}: --zookeeper HOST:PORT names it, as the ready line "
            "of `ottla up` does"
        ) from None
    try:
        yield store
    finally:
        await store.close()


def text_data(data: bytes | None) -> str:
    """As text in one piece: what a terminal would act on, and bytes that are no text, are shown
    as `\\x1b`; a node without data is `null`, as in ZooKeeper's own command line."""
    if data is None:
        return "null"
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text
    )


def stat_lines(stat: Stat) -> list[str]:
    lines = []
    for field, name in _STAT_NAMES.items():
        value = getattr(stat, field)
        if field in _HEXADECIMAL:
            value = f"{value & 2**64 - 1:#x}"
        elif field in _TIMES:
            value = _time(value)
        lines.append(f"{name} = {value}")
    return lines


def _time(ts_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(ts_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(ts_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}Z"
