"""Options that several commands share."""

from __future__ import annotations

import click


def parse_settings(
    _ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """`--set key=value`, as often as wanted; the value may be empty and may hold '='."""
    settings = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{item!r} is not key=value")
        settings[key.strip()] = value.strip()
    return settings


settings_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_settings,
    help="A broker config; may be given often and wins over everything else.",
)
