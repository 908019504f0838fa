"""The flags of `ottla reassign`, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
_REQUIRED = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
}
_PERMITTED = {
    "generate": ("disable_rack_aware",),
    "execute": ("additional", "throttle", "replica_alter_log_dirs_throttle", "timeout"),
    "verify": ("preserve_throttles",),
    "cancel": ("preserve_throttles", "timeout"),
    "list": (),
}
DEFAULT_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class ReassignOptions:
    """The flags of kafka-reassign-partitions, None or false where one was not given."""

    bootstrap_server: str | None = None
    command_config: Path | None = None
    output: str = "text"
    generate: bool = False
    execute: bool = False
    verify: bool = False
    cancel: bool = False
    list: bool = False
    reassignment_json_file: Path | None = None
    topics_to_move_json_file: Path | None = None
    broker_list: str | None = None
    disable_rack_aware: bool = False
    throttle: int | None = None
    replica_alter_log_dirs_throttle: int | None = None
    timeout: int | None = None  # of moves between directories
    additional: bool = False
    preserve_throttles: bool = False

    @property
    def action(self) -> str:
        return next(name for name in ACTIONS if getattr(self, name))

    @property
    def timeout_ms(self) -> int:
        return DEFAULT_TIMEOUT_MS if self.timeout is None else self.timeout

    @property
    def is_json(self) -> bool:
        return self.output == "json"


def check_usage(options: ReassignOptions) -> None:
    """validateAndParseArgs: raises click.UsageError with Kafka's texts."""
    given = [name for name in ACTIONS if getattr(options, name)]
    if len(given) != 1:
        shown = ", ".join(f"--{name}" for name in ACTIONS)
        raise click.UsageError(f"Command must include exactly one action: {shown}")
    action = given[0]
    for name in _REQUIRED[action]:
        if getattr(options, name) is None:
            raise click.UsageError(f'Missing required argument "[{name.replace("_", "-")}]"')
    everything = {
        name for group in (_REQUIRED, _PERMITTED) for names in group.values() for name in names
    }
    for name in sorted(everything - {*_REQUIRED[action], *_PERMITTED[action]}):
        if getattr(options, name) not in (None, False):
            raise click.UsageError(
                f'Option "[{name.replace("_", "-")}]" can\'t be used with action "[{action}]"'
            )
