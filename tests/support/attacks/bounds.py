"""What an attack may cost, and what it cost."""

from __future__ import annotations

from ottla.bench.attack_cases import Attack
from ottla.bench.attack_sides import Side
from ottla.bench.attacks import Measured


def exceeded(attack: Attack, measured: Measured) -> dict[str, str]:
    """Every bound that did not hold, with the figure."""
    bound = attack.bound
    found = {
        "processor seconds": (measured.cpu_s, bound.cpu_s),
        "megabytes of memory": (measured.memory_mb, bound.memory_mb),
        "megabytes of answer": (measured.traffic.answered / 1e6, bound.answer_mb),
        "kilobytes of log": (measured.log_kb, bound.log_kb),
        "longest wait of a good client, ms": (measured.seen.quantile(1), bound.wait_ms),
        "good requests that failed": (measured.seen.failures, 0),
    }
    return {
        what: f"{value:,.1f}, allowed {limit:,.1f}"
        for what, (value, limit) in found.items()
        if value > limit
    }


def complaints(side: Side) -> list[str]:
    """Lines of the log that tell of a fault of our own."""
    with side.log.open(errors="replace") as lines:
        return [line for line in lines if "Traceback" in line or "unexpectedly" in line][:20]
