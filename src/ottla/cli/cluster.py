"""`ottla cluster`: the cluster's id, its controller, and the brokers that are alive."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    output_option,
    print_json,
    run_async,
)

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin


@click.command("cluster", help="Show who is alive and who is the controller.")
@bootstrap_option
@command_config_option
@output_option
def command(bootstrap_server: str | None, command_config: Path | None, output: str) -> None:
    run_async(_execute(bootstrap_server, command_config, output))


async def _execute(bootstrap_server: str | None, command_config: Path | None, output: str) -> None:
    async with connect_admin(bootstrap_server, command_config) as admin:
        value = await _gather(admin)
    if output == "json":
        print_json(value)
        return
    for line in _lines(value):
        click.echo(line)


async def _gather(admin: Admin) -> dict[str, Any]:
    """One Metadata of everything: brokers, controller and leaders as one broker sees them."""
    answer = await admin.cluster.metadata(None)
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    leaderless = 0
    for topic in answer.topics:
        for partition in topic.partitions:
            leaders[partition.leader_id] += 1
            replicas.update(partition.replica_nodes)
            leaderless += partition.leader_id < 0
    return {
        "cluster_id": answer.cluster_id,
        "controller": answer.controller_id if answer.controller_id >= 0 else None,
        "topics": len(answer.topics),
        "partitions": leaders.total(),
        "partitions_without_leader": leaderless,
        "brokers": [
            {
                "id": broker.node_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "leaders": leaders[broker.node_id],
                "replicas": replicas[broker.node_id],
            }
            for broker in sorted(answer.brokers, key=lambda broker: broker.node_id)
        ],
    }


def _lines(value: dict[str, Any]) -> list[str]:
    controller = "none" if value["controller"] is None else value["controller"]
    lines = [
        f"Cluster: {value['cluster_id']}\tController: {controller}"
        f"\tBrokers: {len(value['brokers'])}\tTopics: {value['topics']}"
        f"\tPartitions: {value['partitions']}\tWithoutLeader: {value['partitions_without_leader']}"
    ]
    for broker in value["brokers"]:
        rack = "none" if broker["rack"] is None else broker["rack"]
        lines.append(
            f"\tBroker: {broker['id']}\tHost: {broker['host']}\tPort: {broker['port']}"
            f"\tRack: {rack}\tLeaders: {broker['leaders']}\tReplicas: {broker['replicas']}"
            + ("\tController: true" if broker["id"] == value["controller"] else "")
        )
    return lines
