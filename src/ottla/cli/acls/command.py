"""`ottla acls`: kafka-acls' flags and lines, on Ottla and on Apache Kafka (AclCommand)."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.acls.options import (
    AclCommandError,
    AclOptions,
    check_usage,
    entries_to_add,
    entries_to_change,
    filter_of,
    parse_principals,
    resources,
)
from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    describe_error,
    flag,
    interruptible,
    output_option,
    print_json,
    run_async,
)
from ottla.errors import OttlaError
from ottla.security.acls import AclEntry, PatternType, ResourcePattern

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin

_PATTERN_TYPES = {kind.name.lower(): kind for kind in PatternType if kind}


def _pattern_type(_ctx: click.Context, _param: click.Parameter, value: str) -> PatternType:
    return _PATTERN_TYPES[value]


def _several(name: str, metavar: str, text: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", multiple=True, metavar=metavar, help=text)


@click.command("acls", help="Add, remove and list ACLs: who may do what.")
@bootstrap_option
@command_config_option
@flag("add", "Add ACLs.")
@flag("remove", "Remove ACLs; all of the resource where no principal is named.")
@flag("list", "List ACLs of the resources that are named, or all.")
@_several("topic", "NAME", "A topic; * for all. May be given more than once, as what follows.")
@flag("cluster", "The cluster itself.")
@_several("group", "NAME", "A consumer group; * for all.")
@_several("transactional-id", "NAME", "A transactional id; * for all.")
@_several("delegation-token", "NAME", "A delegation token; * for all.")
@click.option(
    "--resource-pattern-type", type=click.Choice(list(_PATTERN_TYPES), case_sensitive=False),
    default="literal", show_default=True, callback=_pattern_type,
    help="How names are meant; to list and remove also 'any' (the name, whichever type) and "
    "'match' (everything that applies to the name).",
)  # fmt: skip
@_several("operation", "NAME", "What is allowed or denied: Read, Write, …  [default: All]")
@_several("allow-principal", "TYPE:NAME", "Who may: User:alice, or User:* for everyone.")
@_several("deny-principal", "TYPE:NAME", "Who may not; a denial wins.")
@_several("allow-host", "ADDRESS", "From where they may.  [default: *]")
@_several("deny-host", "ADDRESS", "From where they may not.  [default: *]")
@_several("principal", "TYPE:NAME", "With --list: only entries about this one.")
@flag("producer", "All that a producer needs on the topics and transactional ids.")
@flag("consumer", "All that a consumer needs on the topics and groups.")
@flag("idempotent", "With --producer: idempotent writes, too.")
@click.option("--force", "--yes", "force", is_flag=True, help="With --remove: do not ask.")
@output_option
def command(**given: Any) -> None:
    options = AclOptions(**given)
    check_usage(options)
    actions: dict[str, Callable[[Admin, AclOptions], Awaitable[None]]] = {
        "add": _add,
        "remove": _remove,
        "list": _list,
    }

    async def work() -> None:
        async with connect_admin(options.bootstrap_server, options.command_config) as admin:
            await actions[options.action](admin, options)

    try:
        run_async(work())
    except OttlaError as error:
        reason = describe_error(error)
        raise click.ClickException(f"Error while executing ACL command: {reason}") from None


async def _add(admin: Admin, options: AclOptions) -> None:
    from ottla.client.admin.acls import AclBinding

    for resource, entries in entries_to_add(options).items():
        _say(options, f"Adding ACLs for resource `{_text(resource)}`: \n {_listing(entries)} \n")
        await admin.create_acls(AclBinding(resource, entry) for entry in entries)
    await _list(admin, options)


async def _remove(admin: Admin, options: AclOptions) -> None:
    for resource, entries in entries_to_change(options).items():
        if not options.force and not _is_confirmed(options, resource, entries):
            continue
        await admin.delete_acls(
            [filter_of(resource, entry) for entry in entries] or [filter_of(resource)]
        )
    await _list(admin, options)


def _is_confirmed(
    options: AclOptions, resource: ResourcePattern, entries: Sequence[AclEntry]
) -> bool:
    if entries:
        _say(
            options,
            f"Are you sure you want to remove ACLs: \n {_listing(entries)} \n from resource filter "
            f"`{_text(resource)}`? (y/n)",
        )
    else:
        _say(
            options,
            "Are you sure you want to delete all ACLs for resource filter "
            f"`{_text(resource)}`? (y/n)",
        )
    with interruptible():
        answer = sys.stdin.readline()
    if not answer:
        raise AclCommandError("nobody answered, nothing was removed: --force does not ask")
    return answer.strip().lower() == "y"


async def _list(admin: Admin, options: AclOptions) -> None:
    found: dict[ResourcePattern, set[AclEntry]] = {}
    for wanted in [filter_of(resource) for resource in resources(options)] or [filter_of(None)]:
        for pattern, entry in await admin.describe_acls(wanted):
            found.setdefault(pattern, set()).add(entry)
    principals = parse_principals(options.principal)
    if options.output == "json":
        print_json(_values(found, principals))
        return
    if not principals:
        _print_current(found)
    for principal in principals:
        click.echo(f"ACLs for principal `{principal}`")
        _print_current(_about(found, [principal]))


def _about(
    found: Mapping[ResourcePattern, Iterable[AclEntry]], principals: Sequence[str]
) -> dict[ResourcePattern, list[AclEntry]]:
    chosen = {
        resource: [entry for entry in entries if entry.principal in principals]
        for resource, entries in found.items()
    }
    return {resource: entries for resource, entries in chosen.items() if entries}


def _print_current(found: Mapping[ResourcePattern, Iterable[AclEntry]]) -> None:
    for resource in sorted(found):
        listing = _listing(found[resource])
        click.echo(f"Current ACLs for resource `{_text(resource)}`: \n {listing} \n")


def _values(
    found: Mapping[ResourcePattern, Iterable[AclEntry]], principals: Sequence[str]
) -> list[dict[str, str]]:
    chosen = _about(found, principals) if principals else found
    return [
        {
            "resource_type": resource.type.name,
            "resource_name": resource.name,
            "pattern_type": resource.pattern_type.name,
            "principal": entry.principal,
            "host": entry.host,
            "operation": entry.operation.name,
            "permission": entry.permission.name,
        }
        for resource in sorted(chosen)
        for entry in sorted(chosen[resource])
    ]


def _say(options: AclOptions, text: str) -> None:
    click.echo(text, err=options.output == "json")


def _text(resource: ResourcePattern) -> str:
    return (
        f"ResourcePattern(resourceType={resource.type.name}, name={resource.name}, "
        f"patternType={resource.pattern_type.name})"
    )


def _listing(entries: Iterable[AclEntry]) -> str:
    return "\n".join(
        f"\t(principal={entry.principal}, host={entry.host}, operation={entry.operation.name}, "
        f"permissionType={entry.permission.name})"
        for entry in sorted(entries)
    )
