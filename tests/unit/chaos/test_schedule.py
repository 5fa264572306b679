"""Schedules of faults: the same seed gives the same faults, and a log of them can be replayed."""

from random import Random

import pytest

from chaos.faults import Fault, kinds
from chaos.schedule import Happened, Planned, draw, read, to_line

KINDS = [kind for kind in kinds().values() if kind.weight]


def test_the_same_seed_gives_the_same_faults_at_the_same_times() -> None:
    first, again, other = (draw(seed, KINDS, length_s=60, count=200) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_every_kind_comes_once_before_any_comes_twice() -> None:
    found = draw(3, KINDS, length_s=60, count=len(KINDS))
    assert sorted(each.kind for each in found) == sorted(kind.name for kind in KINDS)
    assert [each.at_s for each in found] == sorted(each.at_s for each in found)
    assert 0 <= found[0].at_s <= found[-1].at_s <= 60


def test_kinds_are_drawn_by_their_weights_and_those_without_any_are_not() -> None:
    def nothing(storm: object, chance: Random) -> str:
        return ""

    often, rare, never = (
        Fault(name, "here", nothing, weight=weight)
        for name, weight in (("often", 9), ("rare", 1), ("never", 0))
    )
    names = [each.kind for each in draw(1, [often, rare, never], length_s=1, count=1000)]
    assert 850 < names.count("often") < 950
    assert "never" not in names
    assert draw(1, [never], length_s=1, count=5) == []


def test_a_log_of_faults_gives_what_was_planned() -> None:
    planned = Planned(1.25, "redis killed", 4711)
    happened = Happened(planned, 1000.5, 1001.75, "redis", "it failed")
    assert list(read([to_line(happened)])) == [happened]


def test_a_line_that_is_no_fault_is_named() -> None:
    good = to_line(Happened(Planned(1.0, "redis killed", 1), 0, 0, "redis"))
    with pytest.raises(ValueError, match="line 2 of the fault log is no fault"):
        list(read([good, "{}"]))


def test_every_kind_says_what_it_needs_and_names_are_plain() -> None:
    for name, kind in kinds().items():
        assert name == kind.name
        assert name == name.strip().lower(), name
        assert kind.place
        assert isinstance(kind.missing(), str)
