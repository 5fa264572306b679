"""Answers of the frontier's verbs, as people see them."""

from crawler.frontier.records import Added, by_queue


def test_queues_of_types_are_shown_if_urls_wait_in_them() -> None:
    pages = {"F1": 1, "F2": 0, "F3": 0, "F4": 0, "F5": 0}
    assert by_queue((1, 0, 0, 0, 0, 0, 0)) == pages
    assert by_queue((1, 0, 0, 0, 0, 3, 2)) == {**pages, "docs": 3, "media": 2}


def test_an_answer_tells_what_the_frontier_has() -> None:
    added = Added("1023")
    assert (added.new, added.refused, added.over_budget, added.has_all) == (1, 1, 1, False)
    assert [added.is_taken(at) for at in range(4)] == [True, True, False, False]
    assert list(added.over_budget_of("abcd")) == ["d"]
    assert Added("10").has_all
