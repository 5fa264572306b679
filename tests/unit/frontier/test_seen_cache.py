"""A bounded memory of fingerprints."""

import pytest

from crawler.frontier.outbox import SeenCache


def remembered(known: SeenCache, numbers: range) -> int:
    return sum(number in known for number in numbers)


def test_what_was_added_is_known_and_nothing_else() -> None:
    known = SeenCache(10)
    known.add(1)
    assert 1 in known
    assert 2 not in known


@pytest.mark.parametrize("size", [2, 10, 1000])
def test_it_never_holds_more_than_its_size_and_keeps_the_younger_half(size: int) -> None:
    known = SeenCache(size)
    for number in range(5 * size):
        known.add(number)
        assert number in known
    assert remembered(known, range(5 * size)) <= size
    assert remembered(known, range(5 * size - size // 2, 5 * size)) == size // 2


@pytest.mark.parametrize("size", [2, 10, 1000])
@pytest.mark.parametrize("batch", [1, 7, 60])
def test_many_at_a_time_are_remembered_as_one_by_one(size: int, batch: int) -> None:
    known, numbers = SeenCache(size), range(5 * size)
    for start in range(0, len(numbers), batch):
        known.update(numbers[start : start + batch])
        found = known.among(numbers)
        assert found == {number for number in numbers if number in known}
        assert len(found) <= size
    assert found.issuperset(numbers[-(size // 2) :])


@pytest.mark.parametrize("size", [-1, 0, 1])
def test_a_tiny_one_still_works(size: int) -> None:
    known = SeenCache(size)
    for number in range(10):
        known.add(number)
    assert remembered(known, range(10)) <= 2


def test_clear_forgets_all() -> None:
    known = SeenCache(4)
    for number in range(4):
        known.add(number)
    known.clear()
    assert remembered(known, range(4)) == 0
