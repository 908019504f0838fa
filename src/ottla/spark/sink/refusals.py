"""How to go on where a sink refuses to: with names that can be copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin.groups import GroupAdmin
from ottla.errors import OttlaError
from ottla.spark.sink.places import sink_group

if TYPE_CHECKING:
    from ottla.spark.kafka import KafkaClient
    from ottla.spark.sink.work import Work

_MAX_NAMED = 20
_LOOK_MS = 10_000


def way_out(client: KafkaClient, work: Work) -> str:
    """The command that makes the sink forget names every group that it has notes in."""
    group = sink_group(work.query_id)
    admin = GroupAdmin(client.cluster, timeout_ms=_LOOK_MS)
    try:
        names = [listing.group_id for listing in client.run(admin.list_groups())]
    except OttlaError:
        names = []
    return advice(client.connect.bootstrap, group, names)


def advice(servers: str, group: str, names: list[str]) -> str:
    mine = [n for n in names if n == group or n.removeprefix(f"{group}-").isdecimal()] or [group]
    groups = " ".join(f"--group {name}" for name in mine[:_MAX_NAMED])
    left = f" (and {len(mine) - _MAX_NAMED} more of that name)" if len(mine) > _MAX_NAMED else ""
    return (
        "Put the newest checkpoint back, or start with a new one. To write these rows all the same "
        "(some may be in the topic twice then), let the sink forget what it has written: "
        f"ottla groups --bootstrap-server {servers} --delete {groups}{left}"
    )
