"""A dict with a bound in bytes."""

import tracemalloc

import pytest

from crawler.util.recent import RecentDict, text_bytes


def recent(max_bytes: int = 1000) -> RecentDict[str, int]:
    return RecentDict[str, int](max_bytes, lambda key, _: len(key))


def test_what_was_set_is_there_and_nothing_else() -> None:
    found = recent()
    found["a"] = 1
    found["a"] = 2
    assert (found.get("a"), found.get("b"), found.get("b", 7)) == (2, None, 7)
    assert "a" in found
    assert "b" not in found
    assert len(found) == 1


def test_what_was_used_last_is_kept() -> None:
    found = recent(20)
    for number in range(1000):
        found[f"{number:02}"] = number
        assert found.get("00") == 0
    assert [number for number in range(1000) if f"{number:02}" in found][-3:] == [997, 998, 999]
    assert len(found) <= 10


def test_a_new_value_of_an_old_entry_is_the_one_that_counts() -> None:
    found = recent(4)
    found["a"] = 1
    found["b"] = 2
    found["c"] = 3
    found["a"] = 4
    assert (found.get("a"), found.get("c")) == (4, 3)


def test_an_entry_can_be_forgotten_wherever_it_is() -> None:
    found = recent(4)
    for key in ("a", "b", "c", "a"):
        found[key] = 1
        found.pop("a")
        found.pop("x")
        assert "a" not in found
    found.clear()
    assert len(found) == 0


def test_forgotten_entries_make_room() -> None:
    found = recent(20)
    found["kept"] = 1
    for number in range(100):
        found[f"{number:03}"] = 1
        found.pop(f"{number:03}")
    assert len(found) == 1


@pytest.mark.parametrize("letters", [10, 60, 200])
def test_the_estimate_of_entries_with_texts_is_no_less_than_what_they_take(letters: int) -> None:
    max_bytes = 1_000_000
    tracemalloc.start()
    try:
        found = RecentDict[str, float](max_bytes, text_bytes)
        for number in range(20_000):
            found[f"{number:0{letters}}"] = number / 7
        assert tracemalloc.get_traced_memory()[1] < max_bytes
    finally:
        tracemalloc.stop()
