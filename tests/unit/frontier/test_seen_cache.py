"""A bounded memory of fingerprints."""

import random

import pytest

from crawler.frontier.outbox import SeenCache


def fingerprints(number: int) -> list[int]:
    draw = random.Random(number)
    return [draw.getrandbits(64) for _ in range(number)]


def test_what_was_added_is_known_and_nothing_else() -> None:
    known = SeenCache(10)
    known.update([1])
    assert 1 in known
    assert known.among([0, 1, 2, 2**64 - 1]) == {1}
    assert known.among([]) == set()


@pytest.mark.parametrize("size", [0, 1, 2, 10, 1000])
def test_nothing_is_known_at_the_beginning(size: int) -> None:
    assert not SeenCache(size).among([*range(3000), *fingerprints(1000)])


@pytest.mark.parametrize("size", [0, 2, 10, 1000])
def test_what_came_last_is_known(size: int) -> None:
    known = SeenCache(size)
    for fingerprint in fingerprints(5 * size + 10):
        known.update([fingerprint])
        assert fingerprint in known


@pytest.mark.parametrize("batch", [1, 60, 1000])
def test_it_has_a_fixed_size_and_keeps_most_of_the_younger_half(batch: int) -> None:
    size, found = 10_000, fingerprints(50_000)
    known = SeenCache(size)
    assert known.size_bytes < 10 * size
    for start in range(0, len(found), batch):
        known.update(found[start : start + batch])
    assert len(known.among(found)) <= size
    assert len(known.among(found[-size // 2 :])) > 0.9 * size / 2


def test_clear_forgets_all() -> None:
    known = SeenCache(4)
    known.update(range(4))
    known.clear()
    assert not known.among(range(4))
