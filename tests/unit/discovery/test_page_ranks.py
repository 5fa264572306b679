"""Files with the ranks of pages."""

from pathlib import Path

import numpy as np
import pytest

from crawler.discovery.page_ranks import PageRanks, write_page_ranks
from crawler.errors import ConfigurationError

HIGHEST = 2**64 - 1


def test_ranks_are_found_by_id_as_multiples_of_the_mean(tmp_path: Path) -> None:
    file = tmp_path / "ranks"
    write_page_ranks(file, [HIGHEST, 3, 7], [0.5, 0.1, 0.3])
    ranks = PageRanks.open(file)
    assert len(ranks) == 3
    assert ranks.of([7, 4, HIGHEST, 0, 3]) == pytest.approx([1, 0, 5 / 3, 0, 1 / 3])
    assert ranks.of([]) == []
    assert [path.name for path in tmp_path.iterdir()] == ["ranks"]


def test_an_open_file_may_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "ranks"
    write_page_ranks(file, np.arange(5000, dtype=np.uint64), np.ones(5000, np.float32))
    old = PageRanks.open(file)
    write_page_ranks(file, [9], [2])
    assert (old.of([9, 4999]), PageRanks.open(file).of([9, 4999])) == ([1, 1], [1, 0])


@pytest.mark.parametrize(
    ("ids", "ranks", "why"),
    [
        ([], [], "no ranks"),
        ([1, 2], [1], "2 ids and 1 ranks"),
        ([5, 5], [1, 2], "an id comes twice"),
        ([1, 2], [1, -1], "negative"),
        ([1, 2], [1, float("nan")], "no number"),
        ([1, 2], [0, 0], "all are 0"),
    ],
)
def test_wrong_values_are_not_written(
    tmp_path: Path, ids: list[int], ranks: list[float], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        write_page_ranks(tmp_path / "ranks", ids, ranks)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda _data: b"", "it does not begin like one"),
        (lambda data: b"url,rank" + data[8:], "it does not begin like one"),
        (lambda data: data[:8] + b"\2" + data[9:], "version 2"),
        (lambda data: data[:-1], "55 bytes, and its 2 pages need 56"),
        (lambda data: data[:24] + b"\0" * 8 + data[32:], "the mean of its ranks is 0"),
        (lambda data: data[:32] + data[40:48] + data[32:40] + data[48:], "not in order"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, damage, why: str) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "ranks"
    write_page_ranks(file, [1, 2], [1, 2])
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ConfigurationError, match=why):
        PageRanks.open(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing cannot be read: No such file"):
        PageRanks.open(tmp_path / "nothing")
