"""Score the pages of a crawl: how well each fits the topic, and what its links promise.

A score function takes a page and returns its relevance, from 0 to 1, or None if it cannot tell. It
may also return how well the targets of single links seem to fit, by their URLs, 0.5 for those that
say nothing: `(0.9, {"https://example.com/a": 0.8})`. It may be a coroutine function. The model of
`-a topic=` is such a function, and the setting PAGE_SCORER names the user's own.

Whatever a function does wrong is logged and counted, and its page is one without a relevance.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, SupportsFloat
from urllib.parse import unquote

from scrapy.utils.misc import load_object

from crawler import config
from crawler.errors import ConfigurationError
from crawler.topics.model import TopicModel, text_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.items import Page

logger = logging.getLogger(__name__)

Score = float | tuple[float | None, Mapping[str, float]] | None
ScoreFunction = Callable[["Page"], Score | Awaitable[Score]]

# Characters of a URL that are scored; the texts of links have 200 at the most. A link takes some
# 3 µs: pages with more of them are scored in a thread.
_LINK_CHARS = 300
_LINKS_INLINE = 500
# Scores of links that are remembered: some 3 MB, and 25 MB if all URLs are as long as may be.
_LINKS_KEPT = 10_000
# Errors of a function that are logged; the others are only counted.
_LOGGED_MAX = 10
# Seconds that a function may block the event loop before a warning, and that a coroutine may take.
_BLOCKING_S = 0.1
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Relevance:
    """Relevance of a page, and that expected of the pages that it links to, from 0 to 1."""

    page: float | None
    links: Mapping[str, float] = field(default_factory=dict)


class PageScorer:
    """Scorer of pages by a function. `name` is what the user gave, for messages."""

    def __init__(
        self, function: ScoreFunction, *, name: str, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self._function = function
        self._score_links = function.score_links if isinstance(function, ModelFunction) else None
        self.name = name
        self._timeout_s = timeout_s
        self._failed = 0
        self._has_warned = False

    async def score(self, page: Page) -> Relevance | None:
        """Score a page; None if its function failed."""
        try:
            since = monotonic()
            found = self._function(page)
            if not self._has_warned and monotonic() - since > _BLOCKING_S:
                self._has_warned = True
                logger.warning(
                    "%s held up the crawl for %.2f s at %s: make it faster, or a coroutine that "
                    "works in a thread (asyncio.to_thread). This is logged once",
                    *(self.name, monotonic() - since, page.url),
                )
            if inspect.isawaitable(found):
                async with asyncio.timeout(self._timeout_s):
                    found = await found
            return _checked(found, page)
        except Exception as error:
            self._failed += 1
            if self._failed <= _LOGGED_MAX:
                why = f"it took more than {self._timeout_s:g} s"
                logger.warning(
                    "%s does not score %s: %s",
                    *(self.name, page.url, why if isinstance(error, TimeoutError) else error),
                    exc_info=not isinstance(error, TimeoutError | _BadScore),
                )
            return None

    def score_links(self, urls: Sequence[str]) -> Mapping[str, float]:
        """Score URLs without a page, those of sitemaps; a function of the user cannot."""
        return {} if self._score_links is None else self._score_links(urls, {})


class _BadScore(Exception):
    """Result of a function that is no score."""


def _checked(found: Any, page: Page) -> Relevance:
    if not isinstance(found, tuple):
        return Relevance(_share(found))
    if len(found) != 2 or not isinstance(found[1], Mapping):
        raise _BadScore(f"{found!r:.100} is no pair of a relevance and a dict of links")
    score, links = found
    # Only those that the page has: this bounds them.
    shares = ((url, _share(links[url])) for url in page.links if url in links)
    return Relevance(_share(score), {url: share for url, share in shares if share is not None})


def _share(value: Any) -> float | None:
    if value is None:
        return None
    # Numbers of numpy are some too. So are True and False.
    number = float(value) if isinstance(value, SupportsFloat) else -1.0
    if not 0 <= number <= 1:
        raise _BadScore(f"{value!r:.100} is no number from 0 to 1")
    return number


class ModelFunction:
    """Score function of a trained model."""

    def __init__(self, model: TopicModel) -> None:
        self._model = model
        # The pages of a site share many links.
        self._score_link = lru_cache(_LINKS_KEPT)(self._score_of_link)

    def __call__(self, page: Page) -> Score | Awaitable[Score]:
        if len(page.links) > _LINKS_INLINE:
            return asyncio.to_thread(self._score, page)
        return self._score(page)

    def _score(self, page: Page) -> Score:
        texts = {anchor.url: anchor.text for anchor in page.anchors}
        return self._model.score(text_of(page)), self.score_links(page.links, texts)

    def score_links(self, urls: Iterable[str], texts: Mapping[str, str]) -> dict[str, float]:
        """Score links by their words; without those that have no word of the model."""
        found = {}
        for url in urls:
            score = self._score_link(url, texts.get(url, ""))
            if score is not None:
                found[url] = score
        return found

    def _score_of_link(self, url: str, text: str) -> float | None:
        return self._model.score_link(text_of_link(url, text))


def standing(relevance: float | None, threshold: float) -> str:
    """Return how a page stands to the topic: "on", "off", or "unknown" without a relevance.

    With "_topic" it is the name of the weight that its links get.
    """
    if relevance is None:
        return "unknown"
    return "on" if relevance >= threshold else "off"


def points_of_link(relevance: float, weight: Callable[[str], int]) -> int:
    """Return the points that a link gets for the relevance that its words promise."""
    return round(weight("topic_link") * (2 * relevance - 1))


def text_of_link(url: str, text: str) -> str:
    """Return what is known of a link: its text, and the words of its URL without the host."""
    path = url.split("/", 3)[-1][:_LINK_CHARS]
    return f"{text} {unquote(path) if '%' in path else path}"


def page_scorer(settings: BaseSettings, topic: str | None) -> PageScorer | None:
    """Return the scorer of a crawl, or None; `topic` is the file of a model.

    Raises ConfigurationError for a wrong one, or for two.
    """
    given = config.value(settings, "PAGE_SCORER")
    if topic is not None and given:
        raise ConfigurationError(
            f"Both topic={topic} and PAGE_SCORER={given!r} are given, and a page has one relevance;"
            " leave one of them out."
        )
    return topic_scorer(settings, topic) if topic is not None or given else None


def topic_scorer(settings: BaseSettings, topic: str | None) -> PageScorer:
    """Return the scorer of a model's file, or without one that of PAGE_SCORER."""
    if topic is not None:
        return PageScorer(ModelFunction(TopicModel.open(topic)), name=f"The topic {topic}")
    given = config.value(settings, "PAGE_SCORER")
    return PageScorer(_loaded(given), name=f"PAGE_SCORER={given!r}")


def _loaded(given: Any) -> ScoreFunction:
    what = f"PAGE_SCORER is {given!r}"
    try:
        function = load_object(given)
    except (ImportError, ValueError, NameError, TypeError) as error:
        raise ConfigurationError(
            f"{what}, which cannot be imported ({error}); give the path of a function, such as "
            "myproject.scoring.score."
        ) from error
    if not callable(function):
        raise ConfigurationError(f"{what}, which is no function.")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise ConfigurationError(
            f"{what}, which does not take one argument, the page ({error})."
        ) from error
    except ValueError:
        # One of a library that does not say what it takes.
        pass
    found: ScoreFunction = function
    return found
