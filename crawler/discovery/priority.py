"""Score a URL from 0 to 100 and choose its front queue. Pure.

A URL starts with 100 points, as seeds have, and its properties add or subtract some. The setting
PRIORITY_WEIGHTS changes their weights; `Scorer.explain` lists the parts of a score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from types import MappingProxyType
from typing import NamedTuple

from crawler.discovery.scope import SKIPPED_EXTENSIONS, domain_within, extension, extension_of
from crawler.urls import host_of

LONG_QUERY = 50
LONG_URL = 120
# A host is new until this many of its URLs were found.
NEW_HOST_URLS = 10
# Digits of the largest number that Redis counts to.
_DIGITS = 19
# Largest number of links to a URL that is told apart.
_LINKS_MAX = 255

# Property → points; PRIORITY_WEIGHTS changes them.
WEIGHTS: Mapping[str, int] = {
    # For each link away from a seed; for more than one path segment; for files that are no pages.
    "depth": -15,
    "segments": -40,
    "document": -20,
    # It has a query; more than 50 characters of query; more than 120 characters in all.
    "query": -30,
    "long_query": -10,
    "long_url": -5,
    # It is a home page, or linked from that of its host.
    "home_page": 30,
    "on_home_page": 30,
    # The path starts with a word such as news or blog.
    "news": 5,
    # Fewer than ten URLs of its host were found so far; for each factor of ten from 100 on.
    "new_host": 5,
    "crowded": -30,
    # For each factor of ten of links to its host from other domains, and the maximum.
    "inbound": 15,
    "inbound_max": 45,
    # For the first link to the URL itself from another domain, for two of them, for each factor of
    # four from there, and the maximum.
    "linked": 25,
    "linked_max": 75,
    # One of TRUSTED_DOMAINS without a rank; for each factor of ten by which its rank is better than
    # 10,000,000.
    "trusted": 10,
    "ranked": 3,
    # By PAGE_RANKS: for each factor of ten of a page's rank above or below the mean, and the
    # maximum.
    "page_rank": 5,
    "page_rank_max": 15,
    # By its sitemap: changed within a day; for each tenth of priority above or below 0.5.
    "fresh": 5,
    "sitemap_priority": 1,
    # Linked from a page in another language than those of the crawl.
    "other_language": -30,
    # In a focused crawl: linked from a page on its topic, from one off it, from one without a
    # relevance or from a sitemap. What the words of the link say is added: so much, or as much
    # below 0.
    "on_topic": 70,
    "off_topic": -70,
    "unknown_topic": -30,
    "topic_link": 20,
    # It had not changed when it was fetched again.
    "unchanged": -10,
}
# First path segments under which sites publish news.
NEWS_WORDS = frozenset(
    "news blog article articles story stories press press-releases releases updates".split()
)


class HostFacts(NamedTuple):
    """Counts of a URL's host: its URLs found so far, and links to it from other hosts."""

    urls: int = NEW_HOST_URLS
    inbound: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a URL from its sitemap, earlier fetches, a file of ranks and links to it."""

    # Its sitemap says that it changed within a day.
    fresh: bool = False
    # From 0 to 1; sitemaps that give none mean 0.5.
    sitemap_priority: float = 0.5
    # It did not change at the last fetches.
    unchanged: bool = False
    # Multiple of the mean by PAGE_RANKS; 0 for a page that has none.
    page_rank: float = 0.0
    # Links to it from other domains.
    links: int = 0
    # The home page of its host links to it.
    on_home_page: bool = False


_KNOWN_HOST = HostFacts()


class Scorer:
    """Scorer of URLs with one set of weights."""

    def __init__(
        self,
        weights: Mapping[str, int] | None = None,
        *,
        trusted: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Weights that are not given keep their defaults; an unknown one is a ValueError.

        `trusted` has the ranks of domains, 0 for one without.
        """
        unknown = set(weights or {}) - set(WEIGHTS)
        if unknown:
            raise ValueError(f"has no weight {min(unknown)!r}; it has {', '.join(WEIGHTS)}")
        self._weights = {**WEIGHTS, **(weights or {})}
        self._trusted = trusted
        known = self._weights
        self._depth, self._segments = known["depth"], known["segments"]
        self._document, self._home_page = known["document"], known["home_page"]
        self._query, self._long_query = known["query"], known["long_query"]
        self._long_url = known["long_url"]
        self._news = known["news"]
        self._new_host, self._crowded = known["new_host"], known["crowded"]
        # Points for links from other domains, by the number of digits of their count.
        self._of_digits = [
            min(known["inbound"] * (digits - 1), known["inbound_max"])
            for digits in range(_DIGITS + 1)
        ]
        # Points for links to the URL, by their number: 1, 2, 8, 32 and 128 are the steps.
        self._of_links = [0] + [
            min(known["linked"] * (1 + number.bit_length() // 2), known["linked_max"])
            for number in range(1, _LINKS_MAX + 1)
        ]

    def score(self, url: str, depth: int, host_points: int = 0, facts: Facts | None = None) -> int:
        """Score a canonical URL found at this depth."""
        path, _, query = url.split("/", 3)[3].partition("?")
        segments = path.split("/")
        points = self.base(depth) + host_points
        points += self.url_points(segments, extension_of(segments[-1]), len(query), len(url))
        return clamp(points if facts is None else points + self.fact_points(facts))

    def weight(self, name: str) -> int:
        """Return the points for a property."""
        return self._weights[name]

    # Parts of it, for callers that score many links of one page.

    def base(self, depth: int) -> int:
        """Return the points with which all URLs at this depth start."""
        return 100 + self._depth * depth

    def url_points(
        self, segments: Sequence[str], ending: str, query_length: int, url_length: int
    ) -> int:
        """Return the points of a URL itself, by its path segments and its file extension."""
        points = self._long_url if url_length > LONG_URL else 0
        if query_length:
            points += self._query
        if query_length > LONG_QUERY:
            points += self._long_query
        first, number = segments[0], len(segments)
        if number > 1:
            # A slash at the end is followed by an empty segment.
            if number > 2 or segments[-1]:
                points += self._segments
        elif not first:
            return points if query_length else points + self._home_page
        if first in NEWS_WORDS:
            points += self._news
        if ending in SKIPPED_EXTENSIONS:
            points += self._document
        return points

    def fact_points(self, facts: Facts) -> int:
        """Return the points for facts about a URL."""
        return sum(points for _, points in self._of_facts(facts))

    def host_points(self, host: str, known: tuple[int, int] = _KNOWN_HOST) -> int:
        """Return the points that all URLs of a host share; `known` is as in HostFacts."""
        # The sum of _of_host without its texts: this runs for every host that a page links to.
        urls, inbound = known
        points = self._new_host if urls < NEW_HOST_URLS else 0
        if inbound >= 10:
            points += self._of_digits[len(str(inbound))]
        if urls >= 100:
            points += self._crowded * (len(str(urls)) - 2)
        if self._trusted:
            points += self._of_domain(host)[1]
        return points

    def link_points(self, number: int) -> int:
        """Return the points of a URL for links to it from other domains."""
        return self._of_links[min(number, _LINKS_MAX)]

    def explain(
        self,
        url: str,
        depth: int,
        host: HostFacts = _KNOWN_HOST,
        facts: Facts | None = None,
    ) -> list[tuple[str, int]]:
        """List the parts of a URL's score: reasons and points other than 0."""
        location, _, query = url.partition("?")
        path = location[location.index("/", 8) + 1 :]
        found = [("every URL", 100), (f"depth {depth}", self._depth * depth)]
        if not path and not query:
            found.append(("home page", self._home_page))
        if "/" in path.removesuffix("/"):
            found.append(("more than one path segment", self._segments))
        if path.partition("/")[0] in NEWS_WORDS:
            found.append(("news-like path", self._news))
        if extension(path) in SKIPPED_EXTENSIONS:
            found.append(("document or media file", self._document))
        if query:
            found.append(("query", self._query))
        if len(query) > LONG_QUERY:
            found.append((f"query longer than {LONG_QUERY}", self._long_query))
        if len(url) > LONG_URL:
            found.append((f"URL longer than {LONG_URL}", self._long_url))
        found += self._of_host(host_of(url), host) + self._of_facts(facts or Facts())
        return [(reason, points) for reason, points in found if points]

    def _of_host(self, host: str, known: HostFacts) -> list[tuple[str, int]]:
        weights = self._weights
        found = []
        if known.urls < NEW_HOST_URLS:
            found.append(("new host", weights["new_host"]))
        if known.urls >= 100:
            points = self._crowded * (len(str(known.urls)) - 2)
            found.append((f"{known.urls} URLs of its host", points))
        if known.inbound >= 10:
            points = self._of_digits[len(str(known.inbound))]
            found.append((f"{known.inbound} links to its host from other domains", points))
        if self._trusted:
            found.append(self._of_domain(host))
        return found

    def _of_domain(self, host: str) -> tuple[str, int]:
        """Return the reason and the points for a domain of TRUSTED_DOMAINS."""
        domain = domain_within(host, self._trusted)
        if domain is None:
            return "", 0
        rank = self._trusted[domain]
        if not rank:
            return "trusted domain", self._weights["trusted"]
        return f"domain of rank {rank}", self._weights["ranked"] * max(0, 8 - len(str(rank)))

    def _of_facts(self, facts: Facts) -> list[tuple[str, int]]:
        weights = self._weights
        found = []
        if facts.fresh:
            found.append(("changed within a day, says its sitemap", weights["fresh"]))
        tenths = round((facts.sitemap_priority - 0.5) * 10)
        if tenths:
            said = f"priority {facts.sitemap_priority:g} in its sitemap"
            found.append((said, weights["sitemap_priority"] * tenths))
        if facts.page_rank:
            most = weights["page_rank_max"]
            points = round(weights["page_rank"] * log10(facts.page_rank))
            said = f"page rank {facts.page_rank:.2g} times the mean"
            found.append((said, max(-most, min(most, points))))
        if facts.on_home_page:
            found.append(("linked from the home page of its host", weights["on_home_page"]))
        if points := self.link_points(facts.links):
            found.append((f"{facts.links} links to it from other domains", points))
        if facts.unchanged:
            found.append(("known and unchanged", weights["unchanged"]))
        return found


def is_home_page(url: str) -> bool:
    """Return whether a canonical URL is that of a home page."""
    return url.endswith("/") and url.count("/") == 3


def clamp(points: int) -> int:
    """Limit a score to 0 to 100."""
    return max(0, min(100, points))


def front_queue(points: int, thresholds: Sequence[int]) -> int:
    """Return the queue of a score: 1 from the first threshold on, down to the last queue."""
    for queue, threshold in enumerate(thresholds, start=1):
        if points >= threshold:
            return queue
    return len(thresholds) + 1


# Scores by the default weights, for URLs of which nothing else is known.
score = Scorer().score
