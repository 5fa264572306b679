"""Scenarios are drawn from a seed, written as a line, and shrunk."""

import pytest

from simulation.scenario import Fault, Scenario
from simulation.web import Web


def test_a_seed_always_draws_the_same() -> None:
    assert [Scenario.drawn(seed) for seed in range(9)] == [Scenario.drawn(n) for n in range(9)]
    assert len({Scenario.drawn(seed) for seed in range(100)}) == 100


def test_the_line_of_a_scenario_is_the_scenario() -> None:
    for seed in range(50):
        scenario = Scenario.drawn(seed)
        assert Scenario.from_json(scenario.to_json()) == scenario


def test_all_kinds_of_faults_are_drawn_at_times_and_at_moments() -> None:
    faults = [fault for seed in range(500) for fault in Scenario.drawn(seed).faults]
    assert len({fault.kind for fault in faults}) == 9
    assert {bool(fault.moment) for fault in faults} == {True, False}


def _size(scenario: Scenario) -> tuple[float, ...]:
    faults = scenario.faults
    return (
        *(len(faults), scenario.processes, scenario.hosts, scenario.pages, scenario.shards),
        *(scenario.has_bad_pages, scenario.slow_s),
        sum(len(repr(value)) for f in faults for value in (f.at_s, f.for_s, f.lost_s, f.depth)),
    )


@pytest.mark.parametrize("seed", range(20))
def test_smaller_scenarios_are_smaller_in_one_way(seed: int) -> None:
    scenario = Scenario.drawn(seed)
    size = _size(scenario)
    for smaller in scenario.smaller():
        assert smaller != scenario
        # All others stay, but the last, which is less without a fault.
        assert [a < b for a, b in zip(_size(smaller)[:-1], size[:-1], strict=True)].count(True) <= 1
        assert all(a <= b for a, b in zip(_size(smaller)[:-1], size[:-1], strict=True))


def test_faults_are_told_in_words() -> None:
    assert str(Fault("restart", for_s=1.5, lost_s=0.25)) == "restart for 1.50 s losing 0.25 s"
    assert str(Fault("kill", 1.0, depth=3)) == "kill after 3 callbacks"


@pytest.mark.parametrize("seed", range(30))
def test_every_page_of_a_web_without_bad_ones_is_found(seed: int) -> None:
    scenario = Scenario.drawn(seed)
    web = Web(scenario)
    assert web.reachable() <= web.sites.keys()
    if not scenario.has_bad_pages:
        assert web.reachable() == web.sites.keys()
