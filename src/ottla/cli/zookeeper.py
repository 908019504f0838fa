"""`ottla zookeeper`: serves the metadata store on the ZooKeeper protocol, one node."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.zk.server.secure_port import SecurePort
    from ottla.zk.server.server import ZooKeeperServer

DEFAULT_PORT = 2181
# As in `zk/server`, which is not imported for a help text.
MAX_CLIENT_CNXNS = 60
MAX_CLIENT_MEMORY_MB = 512
WORDS = "envi,isro,mntr,ruok,srvr"
# Not a flag: whoever lists processes would read it.
SUPER_DIGEST = "OTTLA_SUPER_DIGEST"


async def serve(
    port: int,
    data_dir: Path | None,
    host: str = "127.0.0.1",
    *,
    ready_callback: Callable[[ZooKeeperServer], None] | None = None,
    tick_ms: int = 2000,
    min_session_timeout_ms: int | None = None,
    max_session_timeout_ms: int | None = None,
    fsync: bool = True,
    extended_types: bool = False,
    super_digest: str | None = None,
    max_client_connections: int = MAX_CLIENT_CNXNS,
    max_client_memory_mb: int = MAX_CLIENT_MEMORY_MB,
    words: str = WORDS,
    secure: SecurePort | None = None,
) -> None:
    """Runs until SIGTERM, SIGINT or SIGHUP. `ready_callback` is called once clients may come.

    Raises OSError where the port or the folder cannot be used, StoreFailed where the disk
    refuses a write later.
    """
    from ottla.process.stop_signals import stop_signals
    from ottla.runtime import system_runtime
    from ottla.zk.server.options import StoreOptions, parse_words
    from ottla.zk.server.pipeline import StoreFailed
    from ottla.zk.server.server import ZooKeeperServer
    from ottla.zk.server.sessions import SessionLimits

    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[None] = loop.create_future()

    def stop() -> None:
        if not stopped.done():
            stopped.set_result(None)

    def fail(failure: StoreFailed) -> None:
        if not stopped.done():
            stopped.set_exception(failure)

    server = ZooKeeperServer(
        system_runtime(),
        data_dir,
        host,
        port,
        limits=SessionLimits.of(tick_ms, min_session_timeout_ms, max_session_timeout_ms),
        fsync=fsync,
        options=StoreOptions(extended_types, super_digest, parse_words(words)),
        max_connections=_places(),
        max_client_connections=max_client_connections,
        max_held_bytes=max_client_memory_mb << 20,
        secure=secure,
        on_failure=fail,
    )
    await server.start()
    for number in stop_signals():
        loop.add_signal_handler(number, stop)
    try:
        if ready_callback is not None:
            ready_callback(server)
        await stopped
    finally:
        await server.stop()


def _places() -> int:
    """For connections: where they took all descriptors the journal could not be opened any more.
    A million nodes are also a long way to look for garbage."""
    from ottla.process.tuning import collect_rarely, raise_file_limit, share_for_connections
    from ottla.zk.server.admission import MAX_CONNECTIONS

    collect_rarely()
    raise_file_limit()
    return min(MAX_CONNECTIONS, share_for_connections() or MAX_CONNECTIONS)


@click.command("zookeeper")
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--data",
    "data_dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("ottla-data/store"),
    show_default=True,
    help="Folder of the journal and the snapshots.",
)
@click.option("--tick-ms", type=click.IntRange(min=10), default=2000, show_default=True)
@click.option("--min-session-timeout-ms", type=click.IntRange(min=1), help="Default: 2 ticks.")
@click.option("--max-session-timeout-ms", type=click.IntRange(min=1), help="Default: 20 ticks.")
@click.option("--fsync/--no-fsync", default=True, help="Without fsync a power cut loses writes.")
@click.option(
    "--repair",
    "is_repair",
    is_flag=True,
    help="Make a damaged folder usable again with what can be read of it, and end.",
)
@click.option(
    "--extended-types/--no-extended-types",
    default=False,
    help="Let clients make nodes with a time to live, as zookeeper.extendedTypesEnabled does.",
)
@click.option(
    "--super-digest-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"File with the digest of the super user, who passes every ACL; else {SUPER_DIGEST}.",
)
@click.option(
    "--max-client-cnxns",
    type=click.IntRange(min=0),
    default=MAX_CLIENT_CNXNS,
    show_default=True,
    help="Connections of one address, as ZooKeeper's maxClientCnxns; 0 for any number.",
)
@click.option(
    "--max-client-memory-mb",
    type=click.IntRange(min=16),
    default=MAX_CLIENT_MEMORY_MB,
    show_default=True,
    help="What all clients together may make the store hold: unread answers, watches.",
)
@click.option(
    "--4lw-commands-whitelist",
    "words",
    default=WORDS,
    show_default=True,
    help="Four-letter words that are answered, or *.",
)
@click.option(
    "--secure-client-port",
    type=click.IntRange(0, 65535),
    help="A second port, on which clients speak TLS; needs --tls-properties.",
)
@click.option(
    "--tls-properties",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The ssl.* lines of zoo.cfg: ssl.keyStore.location, ssl.trustStore.location, …",
)
def command(
    port: int,
    host: str,
    data_dir: Path,
    tick_ms: int,
    min_session_timeout_ms: int | None,
    max_session_timeout_ms: int | None,
    fsync: bool,
    is_repair: bool,
    extended_types: bool,
    super_digest_file: Path | None,
    max_client_cnxns: int,
    max_client_memory_mb: int,
    words: str,
    secure_client_port: int | None,
    tls_properties: Path | None,
) -> None:
    """Serve a metadata store that ZooKeeper clients and Apache Kafka brokers can use."""
    if is_repair:
        _repair(data_dir)
        return
    import uvloop

    from ottla.process.data_folder import make_private

    secure = _secure_port(secure_client_port, tls_properties)

    def ready(server: ZooKeeperServer) -> None:
        also = "" if secure is None else f" secure={host}:{server.secure_port}"
        click.echo(f"ready: zookeeper={host}:{server.port}{also} data={data_dir}")
        sys.stdout.flush()

    try:
        make_private(data_dir)
        uvloop.run(
            serve(
                port,
                data_dir,
                host,
                ready_callback=ready,
                tick_ms=tick_ms,
                min_session_timeout_ms=min_session_timeout_ms,
                max_session_timeout_ms=max_session_timeout_ms,
                fsync=fsync,
                extended_types=extended_types,
                super_digest=_super_digest(super_digest_file),
                max_client_connections=max_client_cnxns,
                max_client_memory_mb=max_client_memory_mb,
                words=words,
                secure=secure,
            )
        )
    except OSError as error:
        reason = error.strerror or str(error)
        raise click.ClickException(
            f"cannot serve on {host}:{port} from {data_dir}: {reason}"
        ) from None
    except OttlaError as error:
        raise click.ClickException(str(error)) from None


def _repair(folder: Path) -> None:
    from ottla.runtime import SystemDisk
    from ottla.zk.server.repair import repair

    disk = SystemDisk()
    if not folder.is_dir():
        raise click.ClickException(f"{folder} is not a folder")
    lock = disk.lock(folder)
    try:
        told = repair(disk, folder)
    finally:
        lock.release()
    for line in told or [f"{folder} is whole: nothing was changed"]:
        click.echo(line)


def _secure_port(port: int | None, file: Path | None) -> SecurePort | None:
    if port is None and file is None:
        return None
    if port is None or file is None:
        raise click.UsageError("--secure-client-port and --tls-properties go together")
    from ottla.config.definitions import parse_properties
    from ottla.runtime import SystemDisk
    from ottla.security.tls.store import StoreTls
    from ottla.security.tls.transport import TlsServer
    from ottla.zk.server.secure_port import SecurePort

    try:
        tls = StoreTls(parse_properties(file.read_text(encoding="latin-1")), SystemDisk())
    except OttlaError as error:
        raise click.ClickException(f"{file}: {error}") from None
    return SecurePort(port, TlsServer(tls, "secureClientPort").wrap)


def _super_digest(file: Path | None) -> str | None:
    """Of the file, else of the environment."""
    from ottla.zk.server.options import parse_super_digest

    text = os.environ.get(SUPER_DIGEST) if file is None else file.read_text(errors="replace")
    try:
        return None if text is None else parse_super_digest(text)
    except OttlaError as error:
        raise click.ClickException(f"{file or SUPER_DIGEST}: {error}") from None
