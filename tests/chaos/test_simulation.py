"""Simulated fleets crawl their webs through all faults, and bugs that are planted are found."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from simulation.bugs import BUGS, planted
from simulation.clock import NoCompiler
from simulation.history import lines
from simulation.runner import Runner
from simulation.scenario import Scenario

ROOT = Path(__file__).parents[2]
# Schedules in which each bug is found at the latest: in less than a minute.
SEEDS = 300
# The seed of a schedule that finds each bug at once, and a part of what is wrong then.
FOUND = {
    "done-before-links": (25, "is done before Redis has its link"),
    "kept-leases": (82, "is fetched"),
    "never-doubts": (119, "is fetched"),
    "lost-claims": (6, "the crawl does not end"),
    "stored-late": (0, "before the sink"),
    "trusted-after-restart": (32, "is lost"),
    "slot-of-the-dead": (3, "the crawl does not end"),
}


@pytest.fixture
def runner() -> Iterator[Runner]:
    try:
        with Runner.ready() as found:
            yield found
    except NoCompiler as error:
        pytest.skip(str(error))


def test_fleets_finish_their_crawls_through_faults(runner: Runner) -> None:
    for seed in range(15):
        failure = runner.run(Scenario.drawn(seed))
        assert failure is None, f"{failure.wrong}\n" + "\n".join(lines(failure.history))
    # Of which the test took a few seconds.
    assert runner.seconds > 30


def test_the_same_seed_has_the_same_history(runner: Runner) -> None:
    # It has a restart of Redis and another fault.
    scenario = Scenario.drawn(6)
    assert {fault.kind for fault in scenario.faults} >= {"restart"}
    histories = []
    for _ in range(2):
        world = runner.world(scenario)
        assert world.run() is None
        histories.append(lines(world.history))
    assert histories[0] == histories[1]
    assert len(histories[0]) > 20


def test_every_bug_has_its_seed() -> None:
    assert FOUND.keys() == BUGS.keys()


@pytest.mark.parametrize("bug", FOUND)
def test_a_planted_bug_is_found(runner: Runner, bug: str) -> None:
    seed, wrong = FOUND[bug]
    with planted(bug):
        # Any change of the crawler's calls gives seeds another history: then others find it.
        failures = (runner.run(Scenario.drawn(each)) for each in (seed, *range(SEEDS)))
        failure = next((each for each in failures if each is not None), None)
    assert failure is not None
    assert wrong in failure.wrong
    # It is the bug, and not the scenario.
    assert runner.run(failure.scenario) is None


def test_a_failure_is_shrunk_to_a_short_history(runner: Runner) -> None:
    with planted("stored-late"):
        failure = runner.run(Scenario.drawn(1))
        assert failure is not None
        smallest = runner.shrink(failure, within_s=20.0)
    assert smallest.kind == failure.kind
    found = smallest.scenario
    assert (found.processes, found.hosts, found.pages, found.faults) == (1, 1, 1, ())
    assert len(lines(smallest.history)) < 15


@pytest.mark.skipif(not (which("gcc") or which("cc")), reason="there is no C compiler")
def test_the_command_prints_the_history_of_a_failure_and_how_to_run_it_again() -> None:
    command = [sys.executable, "-m", "simulation", "--workers", "1", "--schedules", "1"]
    found = subprocess.run(
        [*command, "--bug", "stored-late"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 1, found.stderr
    assert "WRONG" in found.stdout
    [line] = [line for line in found.stdout.splitlines() if line.startswith("again: ")]
    scenario = line.partition("--scenario ")[2].strip("'")
    # Without the bug nothing is wrong.
    again = subprocess.run(
        [sys.executable, "-m", "simulation", "--scenario", scenario],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == "nothing is wrong"
