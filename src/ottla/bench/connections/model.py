"""How many requests a machine can serve, from what one of them costs."""

from __future__ import annotations


def requests_per_s(
    cores: int, brokers: int, broker_us: float, load_us: float = 0.0, load_threads: int = 1
) -> float:
    """The least of three limits: every broker has one thread that serves, the load has
    `load_threads`, and together they have the cores of the machine.

    `broker_us` and `load_us` are processor time of one request; 0 for a load from elsewhere.
    """
    if broker_us <= 0 or min(cores, brokers, load_threads) < 1 or load_us < 0:
        raise ValueError("a request costs something, and there is somebody to serve it")
    limits = [brokers / broker_us, cores / (broker_us + load_us)]
    if load_us:
        limits.append(load_threads / load_us)
    return 1e6 * min(limits)
