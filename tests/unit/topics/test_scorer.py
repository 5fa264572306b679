"""Scores of pages: by a model, and by functions of users, which may be wrong in any way."""

import asyncio
import logging
import re
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from crawler.errors import ConfigurationError
from crawler.items import Page
from crawler.parsing.document import Link
from crawler.topics.model import TopicModel
from crawler.topics.scorer import ModelFunction, PageScorer, Relevance, page_scorer
from tests.support.crawlers import project_crawler

URL, A, B = "http://h.test/", "http://h.test/p?id=1", "http://o.test/gravel-bicycle"
MODEL = TopicModel.of(0.0, ["bicycle", "stock", "p"], [1.0, 1.0, 1.0], [3.0, -3.0, 0.0])


def page_with(text: str = "", links: tuple[str, ...] = (A, B)) -> Page:
    page = Page(URL, URL, 200, datetime.now(UTC), text=text, links=list(links))
    page.anchors = [Link(A, text="a stock")]
    return page


def scorer_of(function: Any, **options: Any) -> PageScorer:
    return PageScorer(function, name="PAGE_SCORER='mine'", **options)


async def test_a_model_scores_the_page_and_its_links_by_their_words() -> None:
    found = await scorer_of(ModelFunction(MODEL)).score(page_with("A bicycle"))
    assert found is not None
    assert found.page == MODEL.score("bicycle")
    # The text of the link, and the words of its URL.
    assert found.links == {A: MODEL.score_link("stock p"), B: MODEL.score_link("bicycle")}


async def test_the_words_of_a_url_may_be_escaped_and_need_no_page() -> None:
    url = "http://h.test/%C3%BCber-bi%63ycle"
    score = MODEL.score_link("bicycle")
    assert scorer_of(ModelFunction(MODEL)).score_links([url, URL]) == {url: score}
    assert scorer_of(lambda page: 0.5).score_links([url]) == {}


async def test_a_page_with_many_links_is_scored_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = []
    score = TopicModel.score

    def noting(self: TopicModel, text: str) -> float | None:
        threads.append(threading.get_ident())
        return score(self, text)

    monkeypatch.setattr(TopicModel, "score", noting)
    scorer = scorer_of(ModelFunction(MODEL))
    many = tuple(f"http://h.test/bicycle/{number}" for number in range(600))
    few, found = (
        await scorer.score(page_with("bicycle")),
        await scorer.score(page_with("bicycle", many)),
    )
    assert few is not None
    assert found is not None
    assert found.page == few.page
    assert len(found.links) == 600
    assert threads[0] == threading.get_ident() != threads[1]


@pytest.mark.parametrize(
    ("result", "relevance"),
    [
        (0.25, Relevance(0.25)),
        (1, Relevance(1.0)),
        (True, Relevance(1.0)),
        (np.float32(0.5), Relevance(0.5)),
        (None, Relevance(None)),
        ((0.5, {}), Relevance(0.5)),
        ((None, {A: 1}), Relevance(None, {A: 1.0})),
        # Links that the page does not have do not count.
        ((0.5, {A: 0.75, "http://x.test/": 1, B: None}), Relevance(0.5, {A: 0.75})),
    ],
)
async def test_a_function_may_be_a_coroutine_or_not(result: Any, relevance: Relevance) -> None:
    async def later(_page: Page) -> Any:
        await asyncio.sleep(0)
        return result

    assert await scorer_of(lambda page: result).score(page_with()) == relevance
    assert await scorer_of(later).score(page_with()) == relevance


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (1.5, "1.5 is no number from 0 to 1"),
        (-0.1, "-0.1 is no number"),
        (float("nan"), "nan is no number"),
        ("0.5", "'0.5' is no number"),
        ((0.5,), "(0.5,) is no pair of a relevance and a dict of links"),
        ((0.5, [A]), "is no pair"),
        ((0.5, {A: 2}), "2 is no number from 0 to 1"),
    ],
)
async def test_a_result_that_is_no_score_is_logged(
    result: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await scorer_of(lambda page: result).score(page_with()) is None
    assert f"PAGE_SCORER='mine' does not score {URL}" in caplog.text
    assert text in caplog.text


async def test_an_exception_is_logged_with_its_place_ten_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(page: Page) -> float:
        return page.no_such_field  # type: ignore[attr-defined,no-any-return]

    scorer = scorer_of(broken)
    assert [await scorer.score(page_with()) for _ in range(20)] == [None] * 20
    assert len(caplog.records) == 10
    assert "in broken" in caplog.text


async def test_a_coroutine_that_hangs_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async def hanging(_page: Page) -> float:
        await asyncio.Event().wait()
        return 1.0

    assert await scorer_of(hanging, timeout_s=0.01).score(page_with()) is None
    assert "it took more than 0.01 s" in caplog.text


async def test_a_function_that_holds_up_the_event_loop_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    times = iter([0.0, 0.5, 0.5, 1.0])
    monkeypatch.setattr("crawler.topics.scorer.monotonic", lambda: next(times))
    scorer = scorer_of(lambda page: 0.5)
    with caplog.at_level(logging.WARNING):
        assert await scorer.score(page_with()) == await scorer.score(page_with())
    assert len(caplog.records) == 1
    assert "held up the crawl for 0.50 s" in caplog.text


# --- settings -------------------------------------------------------------------------------------


@pytest.fixture
def own_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("own_scoring")
    monkeypatch.setitem(sys.modules, "own_scoring", module)
    return module


async def test_a_function_of_the_user_is_found_by_its_path(own_module: ModuleType) -> None:
    own_module.score = lambda page: 0.5  # type: ignore[attr-defined]
    settings = project_crawler(PAGE_SCORER="own_scoring.score").settings
    scorer = page_scorer(settings, None)
    assert scorer is not None
    assert await scorer.score(page_with()) == Relevance(0.5)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("no_such_module.score", "PAGE_SCORER is 'no_such_module.score', which cannot be imported"),
        ("score", "PAGE_SCORER is 'score', which cannot be imported"),
        ("own_scoring.missing", "which cannot be imported"),
        ("own_scoring.number", "which is no function"),
        ("own_scoring.two", "which does not take one argument, the page"),
        (5, "PAGE_SCORER is 5, which cannot be imported"),
    ],
)
def test_a_wrong_function_is_refused_at_the_start(
    own_module: ModuleType, path: Any, text: str
) -> None:
    own_module.number, own_module.two = 5, lambda a, b: 0.5  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError) as caught:
        page_scorer(project_crawler(PAGE_SCORER=path).settings, None)
    assert text in str(caught.value)


def test_a_topic_and_a_function_are_one_too_many(tmp_path: Path) -> None:
    settings = project_crawler(PAGE_SCORER="own_scoring.score").settings
    with pytest.raises(ConfigurationError, match=r"Both topic=a\.topic and PAGE_SCORER="):
        page_scorer(settings, "a.topic")
    assert page_scorer(project_crawler().settings, None) is None


async def test_the_example_of_the_documentation_scores_pages(own_module: ModuleType) -> None:
    text = Path(__file__).parents[3].joinpath("docs/topics.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(example, own_module.__dict__)
    scorer = page_scorer(project_crawler(PAGE_SCORER="own_scoring.score").settings, None)
    assert scorer is not None
    page = page_with("A bicycle and a bicycle")
    page.anchors = [Link(A, text="Bicycles"), Link(B, text="Stocks")]
    assert await scorer.score(page) == Relevance(0.4, {A: 1.0})
