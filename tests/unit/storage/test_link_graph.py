"""PageRank over links in files."""

import random
from pathlib import Path

import networkx
import numpy as np
import pytest

from crawler.storage import link_graph
from crawler.storage.link_graph import LinkGraph, Ranking

HIGH = 2**64 - 5


def ranked(folder: Path, links: dict[int, list[int]]) -> Ranking:
    graph = LinkGraph(folder)
    for page, targets in links.items():
        graph.add(page, targets)
    return graph.rank()


def random_links(pages: int, urls: int) -> dict[int, list[int]]:
    chance = random.Random(pages)
    ids = [chance.getrandbits(64) for _ in range(urls)]
    return {
        page: chance.choices(ids, [1 / (place + 1) for place in range(urls)], k=chance.randrange(9))
        for page in ids[:pages]
    }


@pytest.mark.parametrize("chunk", [1 << 20, 64])
def test_ranks_are_those_of_networkx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(link_graph, "_CHUNK", chunk)
    links = random_links(500, 700)
    found = ranked(tmp_path, links)
    graph = networkx.DiGraph()
    graph.add_nodes_from(links)
    pairs = [(page, target) for page, targets in links.items() for target in targets]
    graph.add_edges_from(pair for pair in pairs if pair[0] != pair[1])
    expected = networkx.pagerank(graph, tol=1e-9, max_iter=500)
    assert found.is_settled
    assert found.links == graph.number_of_edges()
    assert found.ids.tolist() == sorted(expected)
    total = len(expected)
    assert found.ranks / total == pytest.approx([expected[each] for each in sorted(expected)], 1e-3)
    assert found.ranks.mean() == pytest.approx(1)


def test_linked_pages_rank_above_others_and_ids_may_be_any(tmp_path: Path) -> None:
    found = ranked(tmp_path, {1: [HIGH, 1], 2: [HIGH], HIGH: []})
    high, one, two, unknown = found.of([HIGH, 1, 2, 3])
    assert unknown is None
    assert high > one == two
    assert found.links == 2


def test_pages_without_links_rank_the_same(tmp_path: Path) -> None:
    found = ranked(tmp_path, {1: [], 2: [], 3: []})
    assert found.ranks.tolist() == pytest.approx([1, 1, 1])


def test_rounds_that_were_too_few_are_told(tmp_path: Path) -> None:
    graph = LinkGraph(tmp_path)
    for page, targets in random_links(50, 60).items():
        graph.add(page, targets)
    reported: list[int] = []
    found = graph.rank(rounds=2, report=reported.append)
    assert (found.rounds, found.is_settled, reported) == (2, False, [1, 2])
    assert np.all(found.ranks > 0)
