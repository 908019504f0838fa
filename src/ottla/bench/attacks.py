"""`ottla bench attacks`: how long a good client waits while rude ones do their worst.

A store and two brokers, one open to all and one with users and rights, are attacked one after the
other in every way of `attack_cases` and `attack_store_cases`; beside each attack a good client asks
every ten milliseconds. There is no peer: what is measured is what others feel.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.bench.attack_cases import BROKER_ATTACKS, SECURED_ATTACKS, Attack, Traffic, make_topic
from ottla.bench.attack_sides import BrokerSide, SecuredSide, Side, StoreSide
from ottla.bench.attack_store_cases import STORE_ATTACKS
from ottla.bench.attack_wire import StorePeer, create_body
from ottla.bench.attack_witness import NODE, TOPIC, Seen, Witness
from ottla.bench.table import Row, chosen_names, exit_code, print_rows
from ottla.errors import OttlaError
from ottla.testing.running import Running
from ottla.zk import jute

# For a machine that does nothing else. Never edited to fit a result.
GOAL_P99_MS = 100.0
ATTACKS = {attack.name: attack for attack in (*BROKER_ATTACKS, *SECURED_ATTACKS, *STORE_ATTACKS)}


class Measured(NamedTuple):
    """What an attack cost the server, and what the good client beside it saw."""

    cpu_s: float
    memory_mb: float
    log_kb: float
    traffic: Traffic
    seen: Seen


class Stage(Running):
    """The sides, started when they are first attacked, and a good client for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._sides: dict[str, tuple[Side, Witness]] = {}
        self._prepared: set[Callable[..., None]] = set()

    def start(self) -> Stage:
        self.store = self._stack.enter_context(StoreSide(self._folder / "store"))
        return self

    def stop(self) -> None:
        self._stack.close()

    def measure(self, attack: Attack) -> Measured:
        side, witness = self._pair_of(attack)
        if attack.prepare is not None and attack.prepare not in self._prepared:
            attack.prepare(side)
            self._prepared.add(attack.prepare)
        cpu_s, memory_mb, log_bytes = side.cpu_s(), side.memory_mb(), side.log_bytes()
        side.forget_peak()
        with contextlib.ExitStack() as held:
            witness.begin()
            traffic = attack.run(side, held)
            seen = witness.end()
            if not side.is_alive:
                raise OttlaError(f"{attack.name} has ended {side.name}")
            return Measured(
                side.cpu_s() - cpu_s,
                max(0.0, side.peak_mb() - memory_mb),
                (side.log_bytes() - log_bytes) / 1000,
                traffic,
                seen,
            )

    def side_of(self, attack: Attack) -> Side:
        return self._pair_of(attack)[0]

    def _pair_of(self, attack: Attack) -> tuple[Side, Witness]:
        kind = "store" if attack in STORE_ATTACKS else "broker"
        if attack in SECURED_ATTACKS:
            kind = "secured"
        if kind not in self._sides:
            self._sides[kind] = self._begin(kind)
        return self._sides[kind]

    def _begin(self, kind: str) -> tuple[Side, Witness]:
        if kind == "store":
            with StorePeer(self.store.port) as peer:
                peer.ask(jute.OP_CREATE, create_body(NODE))
            return self.store, self._stack.enter_context(Witness("store", self.store.port))
        made = SecuredSide if kind == "secured" else BrokerSide
        side = self._stack.enter_context(made(self._folder / kind, self.store))
        make_topic(side, TOPIC)
        return side, self._stack.enter_context(Witness("broker", side.port))


def main(output: str = "text", only: Sequence[str] = ()) -> int:
    """Prints the table; 1 where a goal was missed."""
    wanted = chosen_names(only, tuple(ATTACKS))
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="ottla-attacks-") as folder,
        Stage(Path(folder)) as stage,
    ):
        for name, attack in ATTACKS.items():
            if name in wanted:
                rows.append(row_of(attack, stage.measure(attack)))
    print_rows(rows, output, "Waits of a good client beside attacks")
    return exit_code(rows)


def row_of(attack: Attack, measured: Measured) -> Row:
    seen, traffic = measured.seen, measured.traffic
    p99 = seen.quantile(0.99)
    beside = (
        f"p50 {seen.quantile(0.5):.1f} ms, longest {seen.quantile(1):.0f} ms; the server: "
        f"{measured.cpu_s:.2f} s, +{measured.memory_mb:.0f} MB, "
        f"{traffic.sent / 1000:,.1f} KB in, {traffic.answered / 1000:,.1f} KB out"
    )
    failed = f", {seen.failures} failed" if seen.failures else ""
    return Row(
        f"{attack.name}: {attack.title} ({beside}{failed})",
        p99,
        None,
        "ms",
        f"p99 under {GOAL_P99_MS:.0f} ms",
        p99 < GOAL_P99_MS and not seen.failures,
    )
