"""`python -m ottla.simulation FILE.toml`: all seeds of a scenario, or one with its trace."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ottla.errors import OttlaError
from ottla.simulation import scenario as scenarios
from ottla.simulation.runner import Result, run_seed

# Sets of strings have another order under another hash seed, and so has what is done with them.
_HASH_SEED = "0"


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        scenario = scenarios.load(options.scenario)
    except OttlaError as error:
        print(error, file=sys.stderr)
        return 2
    if options.seed is not None:
        seeds = [options.seed]
    elif options.seeds is not None:
        seeds = list(range(options.first, options.first + options.seeds))
    else:
        seeds = scenario.all_seeds()
    failed = 0
    total = Totals()
    for result in _run_all(scenario, seeds, options.jobs, keep_trace=options.trace is not None):
        total.add(result)
        if options.trace is not None:
            options.trace.write_text("".join(result.lines))
        if not result.ok:
            failed += 1
            _report(options.scenario, result)
            if failed >= options.max_failures:
                break
    total.print(options.scenario, failed)
    return 1 if failed else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ottla.simulation", description=__doc__)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--seeds", type=int, help="how many, instead of the file's number")
    parser.add_argument("--first", type=int, default=1, help="the first seed (with --seeds)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--trace", type=Path, help="write the last run's trace with log lines")
    parser.add_argument("--max-failures", type=int, default=5, help="stop after so many")
    return parser.parse_args(arguments)


class Totals:
    def __init__(self) -> None:
        self._seeds = 0
        self._virtual_s = 0.0
        self._real_s = 0.0
        self._slowest_s = 0.0
        self.digest = ""

    def add(self, result: Result) -> None:
        self._seeds += 1
        self._virtual_s += result.virtual_s
        self._real_s += result.real_s
        self._slowest_s = max(self._slowest_s, result.real_s)
        self.digest = result.digest

    def print(self, path: Path, failed: int) -> None:
        ending = f", trace {self.digest}" if self._seeds == 1 else ""
        print(
            f"{path}: {self._seeds} seeds, {failed} failed, {self._virtual_s:.0f} s of virtual "
            f"time in {self._real_s:.1f} s (slowest seed {self._slowest_s:.2f} s){ending}"
        )


def _run_all(
    scenario: scenarios.Scenario, seeds: list[int], jobs: int, *, keep_trace: bool
) -> Iterable[Result]:
    # A seed ends with collections: what was there before it (modules, classes) need not be looked
    # through by each of them.
    if jobs <= 1 or len(seeds) == 1:
        gc.freeze()
        for seed in seeds:
            yield run_seed(scenario, seed, keep_trace=keep_trace)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=gc.freeze) as pool:
        pending = [pool.submit(run_seed, scenario, seed) for seed in seeds]
        try:
            for future in pending:
                yield future.result()
        finally:
            for future in pending:
                future.cancel()


def _report(path: Path, result: Result) -> None:
    print(f"seed {result.seed} failed after {result.virtual_s:.3f} s of virtual time:")
    for text in result.problems:
        print(f"  {text}")
    print(f"  again: {sys.executable} -m ottla.simulation {path} --seed {result.seed}")


def _with_fixed_hash_seed() -> None:
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        os.environ["PYTHONHASHSEED"] = _HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "ottla.simulation", *sys.argv[1:]])


if __name__ == "__main__":
    _with_fixed_hash_seed()
    sys.exit(main())
