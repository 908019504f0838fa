"""Runs one seed of a scenario: workload and faults, then peace, then everything must converge."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import traceback
import warnings
from dataclasses import dataclass, field
from typing import Any

from ottla.simulation.cluster import SimCluster
from ottla.simulation.convergence import problems
from ottla.simulation.crowd import Crowd
from ottla.simulation.data import Data
from ottla.simulation.faults import Faults
from ottla.simulation.history import History
from ottla.simulation.loop import SimulationLoop, SimulationStuck, current_process, run
from ottla.simulation.resizing.data import ResizeData
from ottla.simulation.scenario import Scenario
from ottla.simulation.trace import Trace
from ottla.simulation.workload import Client, Expectations

# Virtual seconds from the end of all faults until everybody must agree.
CONVERGENCE_S = 150.0
# Virtual seconds that a run may take before the end of its workload.
WORKLOAD_S = 600.0
_LOOK_S = 0.25
_START_S = 60.0


@dataclass(slots=True)
class Result:
    seed: int
    digest: str
    problems: list[str]
    virtual_s: float
    converged_s: float
    real_s: float
    callbacks: int
    writes: int
    lines: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


class _Failed(Exception):
    """The run is over: something is wrong already."""


class _Listener(logging.Handler):
    """Log lines join the trace where it is kept; errors with a traceback are problems."""

    def __init__(self, loop: SimulationLoop, trace: Trace, history: History) -> None:
        super().__init__(logging.DEBUG)
        self._loop = loop
        self._trace = trace
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        if not self._loop.is_running():
            return  # dropped coroutines talk while they are closed
        process = current_process()
        who = process.name if process is not None else "simulation"
        text = f"{who} {record.levelname} {record.getMessage()} ({record.name})"
        self._trace.note(text)
        if record.exc_info is not None and record.levelno >= logging.ERROR:
            formatter = logging.Formatter()
            self._history.violated(f"{text}\n{formatter.formatException(record.exc_info)}")


class _Run:
    def __init__(self, scenario: Scenario, seed: int, *, keep_trace: bool) -> None:
        self._scenario = scenario
        self._seed = f"{scenario.path.stem}/{seed}"
        self.loop = SimulationLoop(self._seed)
        self.trace = Trace(self.loop.time, keep=keep_trace)
        self.history = History(self.trace, range(scenario.brokers))
        self.expected = Expectations()
        self.cluster = SimCluster(
            self.loop,
            self._seed,
            self.trace,
            self.history,
            brokers=scenario.brokers,
            config=scenario.config,
            snapshot_after_bytes=scenario.snapshot_after_bytes,
            sockets=scenario.sockets,
        )
        self.crowd = Crowd(self.cluster, scenario.crowd, self._seed)
        make = ResizeData if scenario.data.resizers else Data
        self.data = make(self.cluster, scenario.data, self._seed)
        self.converged_s = 0.0
        self.loop.set_exception_handler(self._unhandled)

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Nobody took an exception. In a process that was killed nobody could."""
        future = context.get("future") or context.get("task")
        process = getattr(future, "process", current_process())
        if process is not None and not process.alive:
            return
        error = context.get("exception")
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        who = process.name if process is not None else "simulation"
        self.history.violated(f"{who}: {context['message']}\n{trace}")

    async def main(self) -> None:
        monitor = self.loop.create_task(self._monitor())
        story = self.loop.create_task(self._story())
        await asyncio.wait((monitor, story), return_when=asyncio.FIRST_COMPLETED)
        if story.done():
            story.result()
        monitor.cancel()
        # What was never looked at shows now, while it is known who was alive.
        _collect()
        self.cluster.end()

    async def _monitor(self) -> None:
        while not self.history.violations:
            await asyncio.sleep(_LOOK_S)
            self.history.look_at(self.cluster.nodes.values())
            self.data.look_at(self.cluster.nodes.values())
            self.crowd.look_at()

    async def _story(self) -> None:
        cluster = self.cluster
        await cluster.start_store()
        for broker_id in cluster.broker_ids:
            cluster.start_broker(broker_id)
        await self._until(lambda: len(cluster.nodes) == len(cluster.broker_ids), _START_S, "start")
        names = [f"client-{number}" for number in range(self._scenario.workload.clients)]
        await self.data.start(self.expected)
        await self.crowd.start(self.expected)
        clients = [self.loop.create_task(self._client(name)) for name in names]
        hosts = names + self.data.client_names + self.crowd.hosts
        promise = self.data if self.data.stage.topics else None
        await Faults(cluster, self._scenario.faults, self._seed, hosts, promise).run()
        self._make_peace()
        self.data.end()
        self.crowd.end()
        await self._until(
            lambda: (
                self.data.is_written and self.crowd.is_done and all(task.done() for task in clients)
            ),
            WORKLOAD_S,
            "workload",
        )
        for task in clients:
            task.result()
        begun = self.loop.time()
        await self._converge()
        self.converged_s = self.loop.time() - begun

    async def _client(self, name: str) -> None:
        process, runtime = self.cluster.begin(name)
        client = Client(
            self.cluster, self.expected, self._scenario.workload, name, runtime, self._seed
        )
        await self.cluster.run_on(process, client.run())

    def _make_peace(self) -> None:
        """Every fault has undone itself; whoever gave up comes back by itself."""
        self.trace.add("peace", "")
        self.cluster.network.heal_all()

    async def _until(self, holds: Any, limit_s: float, what: str) -> None:
        ending = self.loop.time() + limit_s
        while not holds():
            if self.loop.time() > ending:
                self.history.violated(f"{what} did not end within {limit_s:.0f} s")
                raise _Failed
            await asyncio.sleep(_LOOK_S)

    async def _converge(self) -> None:
        ending = self.loop.time() + CONVERGENCE_S
        pause_s = 0.5
        while found := [
            *problems(self.cluster, self.expected),
            *self.data.problems(),
            *self.crowd.problems(),
        ]:
            self.data.raise_failures()
            if self.loop.time() > ending:
                for text in found:
                    self.history.violated(f"after {CONVERGENCE_S:.0f} s of peace: {text}")
                raise _Failed
            await asyncio.sleep(pause_s)
            pause_s = min(2.0, pause_s * 1.5)


def _collect() -> None:
    with warnings.catch_warnings():
        # A killed process leaves coroutines that it had no time to begin.
        warnings.simplefilter("ignore", RuntimeWarning)
        gc.collect()


def run_seed(scenario: Scenario, seed: int, *, keep_trace: bool = False) -> Result:
    """One seed from start to end; never raises for what the simulated cluster does."""
    begun = time.perf_counter()
    one = _Run(scenario, seed, keep_trace=keep_trace)
    listener = _Listener(one.loop, one.trace, one.history)
    loggers = [logging.getLogger(name) for name in ("ottla", "state.change.logger")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(listener)
        logger.setLevel(logging.INFO if keep_trace else logging.WARNING)
        logger.propagate = False
    collecting = gc.isenabled()
    # Collections at moments of their own would end dropped coroutines in the middle of others.
    gc.disable()
    try:
        run(one.loop, one.main())
    except _Failed:
        pass
    except SimulationStuck as error:
        one.history.violated(str(error))
    finally:
        _collect()
        if collecting:
            gc.enable()
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(listener)
            logger.setLevel(level)
            logger.propagate = propagate
    return Result(
        seed,
        one.trace.digest(),
        one.history.violations,
        one.loop.time(),
        one.converged_s,
        time.perf_counter() - begun,
        one.loop.callbacks,
        one.history.writes,
        one.trace.lines,
    )
