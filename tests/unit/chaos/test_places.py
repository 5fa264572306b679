"""Turns of faults: one at a time at each place, and some that overlap with none."""

import threading
from random import Random

from chaos.faults import Fault
from chaos.storm import Places


def _inject(storm: object, chance: Random) -> str:
    return ""


HERE, ALSO_HERE, THERE = (
    Fault(name, place, _inject) for name, place in (("a", "x"), ("b", "x"), ("c", "y"))
)
ALONE = Fault("d", "z", _inject, alone=True)
_TIMEOUT_S = 10.0


class Turn:
    """Thread that waits for the turn of a fault."""

    def __init__(self, places: Places, fault: Fault, over: threading.Event) -> None:
        self.has_it = threading.Event()
        self._thread = threading.Thread(target=self._wait, args=(places, fault, over))
        self._thread.start()

    def _wait(self, places: Places, fault: Fault, over: threading.Event) -> None:
        if places.enter(fault, over):
            self.has_it.set()

    def ended(self) -> bool:
        self._thread.join(_TIMEOUT_S)
        return not self._thread.is_alive()


def test_faults_at_one_place_wait_for_each_other_and_others_do_not() -> None:
    places, over = Places(), threading.Event()
    assert places.enter(HERE, over)
    assert places.enter(THERE, over)
    turn = Turn(places, ALSO_HERE, over)
    assert not turn.has_it.wait(0.1)
    places.leave(HERE)
    assert turn.has_it.wait(_TIMEOUT_S)


def test_a_fault_that_is_alone_waits_for_all_and_all_wait_for_it() -> None:
    places, over = Places(), threading.Event()
    assert places.enter(HERE, over)
    alone = Turn(places, ALONE, over)
    assert not alone.has_it.wait(0.1)
    # Otherwise its turn would never come.
    other = Turn(places, THERE, over)
    assert not other.has_it.wait(0.1)
    places.leave(HERE)
    assert alone.has_it.wait(_TIMEOUT_S)
    assert not other.has_it.wait(0.1)
    places.leave(ALONE)
    assert other.has_it.wait(_TIMEOUT_S)


def test_nobody_waits_when_the_storm_is_over() -> None:
    places, over = Places(), threading.Event()
    assert places.enter(HERE, over)
    turn = Turn(places, ALSO_HERE, over)
    over.set()
    assert turn.ended()
    assert not turn.has_it.is_set()
