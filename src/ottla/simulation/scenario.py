"""A scenario is a small TOML file: a cluster, a workload, faults, and how many seeds to try."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.errors import OttlaError
from ottla.zk.server.journal import SNAPSHOT_AFTER_BYTES

# What a workload does unless its weights say otherwise.
LIFECYCLE = ("create", "expand", "alter", "delete", "recreate", "plant", "uproot")
OPERATIONS = (
    *LIFECYCLE,
    "reassign",
    "elect",
    "lose",
    "rename",
    "write",
    "undelete",
    "purge",
)
FAULTS = (
    "crash",
    "crash_controller",
    "power",
    "stop",
    "pause",
    "expire",
    "store_crash",
    "store_power",
    "cut",
    "cut_one_way",
    "slow",
    "reset",
)


class BadScenario(OttlaError):
    """The file does not describe a scenario; the text says where."""


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    clients: int = 2
    topics: int = 3
    operations: int = 10
    pause_ms: tuple[float, float] = (20.0, 3_000.0)
    weights: dict[str, float] = field(default_factory=lambda: dict.fromkeys(LIFECYCLE, 1.0))


@dataclass(frozen=True, slots=True)
class DataPlan:
    """Records: who writes them, who reads them, and how often their partitions move."""

    topics: int = 1
    partitions: int = 2
    replicas: int = 3
    producers: int = 0
    # Producers with several batches under way.
    pipelines: int = 0
    readers: int = 1
    groups: int = 0
    # Members per group, and how often, of its rounds, one stalls longer than its session may last.
    members: int = 3
    stalls: float = 0.01
    # Between two batches of a producer.
    pause_ms: tuple[float, float] = (50.0, 1_500.0)
    # Who moves partitions, and the time between two moves.
    movers: int = 0
    moves_ms: tuple[float, float] = (500.0, 5_000.0)
    # Who give topics other numbers of partitions, up to `max_partitions`: resizer n has topic n. At
    # each step of a resize one dies with the probability `deaths`, and another takes its place.
    resizers: int = 0
    max_partitions: int = 5
    deaths: float = 0.06


@dataclass(frozen=True, slots=True)
class SocketPlan:
    """Listening sockets with queues, and brokers whose work takes time."""

    # Connections that may wait to be accepted (net.core.somaxconn).
    backlog: int = 4096
    # Sockets that one question to the kernel returns (libuv: 1024).
    events: int = 1024
    # What a broker's thread needs, in microseconds: to read a socket and do what follows from it at
    # once, to run any other callback, to accept a connection.
    read_us: tuple[float, float] = (100.0, 300.0)
    callback_us: tuple[float, float] = (5.0, 20.0)
    accept_us: float = 30.0


@dataclass(frozen=True, slots=True)
class CrowdPlan:
    """Producers with one request under way each, all the time."""

    clients: int = 0
    # When each of them comes.
    arrive_ms: tuple[float, float] = (0.0, 100.0)
    # From a client's first SYN to its first answer, and from a request to its answer, at most.
    first_answer_ms: float = 3_000.0
    answer_ms: float = 1_000.0
    # So long without any trouble, with everybody there, nobody has more than twice as many answers
    # as another one.
    window_ms: float = 2_000.0


@dataclass(frozen=True, slots=True)
class FaultPlan:
    duration_ms: float = 30_000.0
    interval_ms: tuple[float, float] = (500.0, 6_000.0)
    lasts_ms: tuple[float, float] = (50.0, 12_000.0)
    max_down: int = 1
    weights: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    path: Path
    description: str
    seeds: int
    brokers: int
    config: dict[str, str]
    # Of the store's journal.
    snapshot_after_bytes: int
    workload: WorkloadPlan
    data: DataPlan
    crowd: CrowdPlan
    # None: connections are handed over at once, and nothing that brokers do takes time.
    sockets: SocketPlan | None
    faults: FaultPlan
    # Seeds that once failed, tried every time: seed -> what was wrong.
    regressions: dict[int, str]

    def all_seeds(self) -> list[int]:
        return list(dict.fromkeys([*self.regressions, *range(1, self.seeds + 1)]))


def load(path: Path) -> Scenario:
    try:
        raw = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadScenario(f"{path}: {error}") from error
    cluster = raw.pop("cluster", {})
    scenario = Scenario(
        path=path,
        description=raw.pop("description", ""),
        seeds=raw.pop("seeds", 10),
        brokers=cluster.pop("brokers", 3),
        config=cluster.pop("config", {}),
        snapshot_after_bytes=cluster.pop("snapshot_after_bytes", SNAPSHOT_AFTER_BYTES),
        workload=_plan(path, WorkloadPlan, raw.pop("workload", {}), OPERATIONS),
        data=_plan(path, DataPlan, raw.pop("data", {}), ()),
        crowd=_plan(path, CrowdPlan, raw.pop("crowd", {}), ()),
        sockets=_plan(path, SocketPlan, raw.pop("sockets"), ()) if "sockets" in raw else None,
        faults=_plan(path, FaultPlan, raw.pop("faults", {}), FAULTS),
        regressions={entry["seed"]: entry["found"] for entry in raw.pop("regressions", [])},
    )
    unknown = [*raw, *cluster]
    if unknown:
        raise BadScenario(f"{path}: unknown {', '.join(unknown)}")
    return scenario


def _plan(path: Path, kind: type[Any], values: dict[str, Any], known: tuple[str, ...]) -> Any:
    unknown = [name for name in values.get("weights", {}) if name not in known]
    unknown += [name for name in values if name not in kind.__dataclass_fields__]
    if unknown:
        raise BadScenario(f"{path}: unknown {', '.join(unknown)}")
    ranges = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return kind(**(values | ranges))
