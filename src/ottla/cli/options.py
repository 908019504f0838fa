"""What several commands share: options, connections, and the way to run a short piece of work."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.errors import ErrorCode, KafkaError, OttlaError

if TYPE_CHECKING:
    import asyncio

    from ottla.client.admin.client import Admin
    from ottla.runtime import Runtime

BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP_SERVER"
DEFAULT_BOOTSTRAP = "localhost:9092"


def run_async(work: Coroutine[Any, Any, None]) -> None:
    """asyncio.run for a client: Ctrl-C at any moment ends without a word of asyncio's own."""
    import asyncio  # not for `ottla --help`

    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(_report_unless_cancelled)
        runner.run(work)


def run_until_interrupted(work: Coroutine[Any, Any, None]) -> None:
    """For what goes on until Ctrl-C, which then is no failure."""
    with contextlib.suppress(KeyboardInterrupt):
        run_async(work)


def _report_unless_cancelled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    from asyncio import InvalidStateError

    # A cancelled connection attempt may have a callback due that then finds its future done.
    if not isinstance(context.get("exception"), InvalidStateError):
        loop.default_exception_handler(context)


@contextmanager
def interruptible() -> Iterator[None]:
    """For a question to the user amid work: Ctrl-C ends it at once, where asyncio would first
    wait for the work's next pause, which comes with the answer."""
    import signal

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def describe_error(error: OttlaError) -> str:
    """A failure in words."""
    # Needed on the way to an error message only.
    from ottla.metadata.store import NoAuthError, StoreError, StoreUnreachableError

    if not isinstance(error, StoreError) or isinstance(error, StoreUnreachableError):
        return str(error) or type(error).__name__
    # Errors of the store carry a path at most: `ConnectionLossError` reads "connection loss".
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__.removesuffix("Error")).lower()
    hint = ": --zk-credentials names who you are" if isinstance(error, NoAuthError) else ""
    return f"metadata store: {words} {error.path}".rstrip() + hint


def print_json(value: object) -> None:
    import json

    click.echo(json.dumps(value, ensure_ascii=False))


_PROPERTIES = "ottla.properties"


def parse_settings(
    ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """`--set key=value`, as often as wanted; the value may be empty and may hold '='."""
    settings = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{item!r} is not key=value")
        check_not_secret(key.strip())
        settings[key.strip()] = value.strip()
    given_in_file: dict[str, str] = ctx.meta.get(_PROPERTIES, {})
    return given_in_file | settings


def _with_properties(ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    """What the file says is kept for `parse_settings`, which wins over it."""
    from ottla.config.definitions import parse_properties

    if path is not None:
        ctx.meta[_PROPERTIES] = parse_properties(path.read_text(errors="replace"))
    return path


def check_not_secret(key: str) -> None:
    """A command line can be read by everybody on the machine."""
    from ottla.config.catalog import all_definitions, definition_behind

    definition = all_definitions().get(key) or definition_behind(key)
    if key.endswith("jaas.config") or (definition is not None and definition.is_sensitive):
        raise click.BadParameter(
            f"{key} is a secret, and everybody on this machine can read command lines: put it "
            "into a file and name that with --config"
        )


settings_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_settings,
    help="A broker config; may be given more than once and wins over everything else.",
)

properties_option = click.option(
    "--config",
    "config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_with_properties,
    help="A property file with broker configs for all brokers; the place for passwords.",
)

_ZK_TLS = "ottla.zk-tls"


def _keep_zk_tls(ctx: click.Context, _: click.Parameter, file: Path | None) -> None:
    ctx.meta[_ZK_TLS] = file


zk_tls_option = click.option(
    "--zk-tls-config-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    expose_value=False,
    callback=_keep_zk_tls,
    help="A property file with zookeeper.ssl.* for a store that speaks TLS.",
)


def store_runtime() -> Runtime:
    """For sessions on the store, encrypted where --zk-tls-config-file was given; raises OSError or
    ConfigError."""
    from ottla.runtime import system_runtime

    ctx = click.get_current_context(silent=True)
    file = None if ctx is None else ctx.meta.get(_ZK_TLS)
    if file is None:
        return system_runtime()
    from ottla.config.definitions import parse_properties
    from ottla.security.tls.store import tool_runtime

    return tool_runtime(system_runtime(), parse_properties(file.read_text(encoding="latin-1")))


def credentials_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Who one is for the store, and how to get there."""
    return zk_tls_option(_credentials_option(command))


_credentials_option = click.option(
    "--zk-credentials",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with user:password, for a store that is not open; `ottla up` has one in its "
    "config folder.",
)

data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("ottla-data"),
    show_default=True,
    help="Folder for everything that is kept.",
)

bootstrap_option = click.option(
    "--bootstrap-server",
    metavar="HOST:PORT,…",
    help=f"Brokers to ask first.  [default: ${BOOTSTRAP_VARIABLE} or {DEFAULT_BOOTSTRAP}]",
)

command_config_option = click.option(
    "--command-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A property file with settings of the admin client.",
)

output_option = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)


def flag(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", is_flag=True, help=text)


def connect_admin(bootstrap_server: str | None, command_config: Path | None = None) -> Admin:
    """A session with the cluster that was named, or with the usual one."""
    from ottla.client.admin.client import Admin
    from ottla.client.settings import AdminConfig
    from ottla.runtime import system_runtime

    config = AdminConfig() if command_config is None else AdminConfig.from_file(command_config)
    bootstrap = bootstrap_server or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
    return Admin.connect(
        config.connected(system_runtime()),
        bootstrap,
        client_id=config.client_id,
        timeout_ms=config.timeout_ms,
        credentials=config.credentials,
    )


def topic_argument(command: Callable[..., None]) -> Callable[..., None]:
    """The parameter `topic`: an argument, or `--topic` for those who are used to Kafka's tools."""

    @click.argument("given", metavar="TOPIC", required=False)
    @click.option("--topic", "named", metavar="TOPIC", help="The topic, as with Kafka's tools.")
    @functools.wraps(command)
    def with_topic(given: str | None, named: str | None, **others: Any) -> None:
        if given is None and named is None:
            raise click.UsageError("Missing argument 'TOPIC'.")
        if given is not None and named is not None:
            raise click.UsageError(f"Name the topic once: {given}, or --topic {named}.")
        command(given or named, **others)

    return with_topic


def topic_failure(topic: str, error: KafkaError) -> KafkaError:
    """Why a topic cannot be read or written; one that is missing comes with what to do."""
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(
            error.code,
            f"there is no topic {topic!r}: `ottla topics --create --topic {topic}` makes one",
        )
    return error


def read_text_file(path: Path) -> str:
    """A file named on the command line; raises OSError, or OttlaError for other bytes than text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise OttlaError(f"{path} is not UTF-8 text") from None
