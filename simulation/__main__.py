"""Run simulated fleets: python -m simulation [--minutes 5] [--seed 1] [--workers 2].

Each seed is one schedule. One that fails is shrunk, and its history is printed with a line that
runs it again: python -m simulation --scenario '{…}'.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

# Sets of texts have an order of their own in each program, unless this is fixed.
_HASH_SEED = {"PYTHONHASHSEED": "0"}
# What shrinking may take.
_SHRINK_S = 60.0
# Failures after which a worker stops: the rest would say the same.
_FAILURES_MAX = 3


@dataclass(slots=True)
class Result:
    """What one worker has seen."""

    schedules: int = 0
    # Simulated.
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return 1 if a schedule failed."""
    given = _arguments(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "simulation", *(arguments or sys.argv[1:])]
        os.execve(sys.executable, command, os.environ | _HASH_SEED)  # noqa: S606 - ourselves
    if given.scenario:
        return _show(given.scenario)
    began_s = time.monotonic()
    results = _run_all(given)
    return _print(results, time.monotonic() - began_s)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m simulation", description="Run simulated fleets, one seed after the other."
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--schedules", type=int, default=0, help="so many at the most")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--bug", default="", help="with a bug on purpose, see simulation/bugs.py")
    parser.add_argument("--scenario", help="run this one and print its history")
    return parser.parse_args(arguments)


def _run_all(given: argparse.Namespace) -> list[Result]:
    most = given.schedules or sys.maxsize
    tasks = [
        (given.seed + number, given.workers, -(-most // given.workers), given.minutes, given.bug)
        for number in range(given.workers)
    ]
    if given.workers == 1:
        return [_work(*tasks[0])]
    with ProcessPoolExecutor(given.workers) as pool:
        return [done.result() for done in as_completed(pool.submit(_work, *t) for t in tasks)]


def _work(first: int, step: int, most: int, minutes: float, bug: str) -> Result:
    """Run every so manieth seed until the time is over."""
    # Here: with these modules the crawler is imported.
    from simulation.bugs import planted
    from simulation.history import lines
    from simulation.runner import Runner
    from simulation.scenario import Scenario

    monotonic, result = time.monotonic, Result()
    ends_s = monotonic() + 60 * minutes
    with planted(bug), Runner.ready() as runner:
        for seed in range(first, first + most * step, step):
            if monotonic() > ends_s or len(result.failures) >= _FAILURES_MAX:
                break
            scenario = Scenario.drawn(seed)
            result.faults.update(fault.kind for fault in scenario.faults)
            failure = runner.run(scenario)
            result.schedules += 1
            if failure is None:
                continue
            failure = runner.shrink(failure, within_s=_SHRINK_S)
            result.failures.append(
                f"seed {seed}: {failure.wrong}\n"
                + "\n".join(lines(failure.history))
                + f"\nagain: python -m simulation --scenario '{failure.scenario.to_json()}'"
            )
        result.seconds = runner.seconds
    return result


def _show(text: str) -> int:
    from simulation.history import lines
    from simulation.runner import Runner
    from simulation.scenario import Scenario

    with Runner.ready() as runner:
        world = runner.world(Scenario.from_json(text))
        wrong = world.run()
    print("\n".join(lines(world.history)))
    print(wrong or "nothing is wrong")
    return int(wrong is not None)


def _print(results: Sequence[Result], took_s: float) -> int:
    for result in results:
        for text in result.failures:
            print(text, end="\n\n")
    schedules = sum(result.schedules for result in results)
    seconds = sum(result.seconds for result in results)
    failures = sum(len(result.failures) for result in results)
    faults = sum((result.faults for result in results), Counter[str]())
    print(f"schedules  {schedules} in {took_s:.0f} s, {schedules / took_s * 60:.0f} a minute")
    print(f"simulated  {seconds / 3600:.1f} hours")
    print("faults     " + ", ".join(f"{name} {n}" for name, n in sorted(faults.items())))
    print(f"failures   {failures}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
