"""A crawl's counts beside the truth's."""

from typing import Any

import pytest

from demo.account import differences
from demo.truth import truth
from demo.web import WebOptions

TRUTH = truth(WebOptions(hosts=64, pages=4), read_sitemaps=True)
assert TRUTH.sitemaps
PAGES = sum(status == 200 for status in TRUTH.statuses.values()) - len(TRUTH.sitemaps)
STORED = len(TRUTH.must_store)


def run(pages: int, duplicates: int = 0) -> list[dict[str, Any]]:
    ended = {"stored": pages, "duplicates_exact": duplicates, "duplicates_near": 0}
    return [{"started": True}, {"ended": ended}]


def found(runs: list[dict[str, Any]], pages: int = PAGES, *, exact: bool = True) -> list[str]:
    return differences(TRUTH, runs, {"pages": pages}, exact=exact)


def test_a_crawl_that_stored_all_agrees() -> None:
    assert found(run(STORED)) == []
    assert found(run(STORED - 2, 2)) == []


def test_runs_are_added_up() -> None:
    assert found(run(STORED - 5, 1) + run(4)) == []


@pytest.mark.parametrize("runs", [run(STORED - 1), run(STORED + 1), run(STORED - 1) + run(2)])
def test_a_page_too_few_or_too_many_is_told(runs: list[dict[str, Any]]) -> None:
    [line] = found(runs)
    assert f"the web has {STORED} pages to store" in line


def test_more_duplicates_than_there_are_copies_are_told() -> None:
    [line] = found(run(0, STORED))
    assert line.startswith("duplicates: ")


def test_a_wrong_number_of_pages_is_told() -> None:
    assert len(found(run(STORED), PAGES + 1)) == 1


def test_traps_allow_more_but_not_less() -> None:
    assert found(run(STORED + 100), PAGES + 100, exact=False) == []
    assert len(found(run(STORED - 1), exact=False)) == 1


def test_after_a_killed_run_stored_pages_cannot_be_added_up() -> None:
    assert found([{"started": True}, *run(3)]) == []
