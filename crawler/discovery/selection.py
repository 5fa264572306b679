"""Choose the links of a page that are new and belong to the crawl, each with its front queue.

This runs for every link of every page. For a URL that is surely in the frontier only its host is
checked, and the link is counted. A new URL is encoded as an entry at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from crawler.discovery.host_counts import HostTally
from crawler.discovery.priority import Facts, Scorer, clamp
from crawler.discovery.scope import Scope, extension_of
from crawler.discovery.traps import PageLinks, Traps
from crawler.frontier.entry import NewEntries, add_tail
from crawler.urls import Urls, host_of


@dataclass(slots=True)
class SelectionRules:
    """Rules by which links are chosen; `queues` has the front queue of each score."""

    scope: Scope
    traps: Traps
    scorer: Scorer
    queues: Sequence[int]
    urls: Urls
    hosts: HostTally


@dataclass(slots=True)
class Source:
    """Page that has the links, with what it says about some of them.

    `facts` is for scores and `tails` for entries. `written` has the links that are not written in
    their canonical form (see crawler/urls/canonical.py).
    """

    url: str
    # Depth of the links.
    depth: int
    id: int
    facts: Mapping[str, Facts] = field(default_factory=dict)
    tails: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)


class Selection:
    """Links chosen from one page, in parallel lists; at most a batch."""

    def __init__(self, rules: SelectionRules, source: Source, *, today: date) -> None:
        self.ids: list[int] = []
        self.entries: list[bytes] = []
        self.urls: list[str] = []
        self.hosts: list[str] = []
        # Number of known links, and of refused links by reason.
        self.again = 0
        self.refused: dict[str, int] = {}
        self.links = PageLinks(source.url)
        self._rules = rules
        self._source = source
        self._base = rules.scorer.base(source.depth)
        self._new = NewEntries(source.depth, source.id)
        self._today = today
        self._host = host_of(source.url)
        self._domain = rules.urls.registered_domain(self._host)
        # Most links of a page lead to a few hosts. For hosts that are followed: the points of their
        # URLs, and the length that their politeness group skips. For the others: the reason.
        self._linked: dict[str, tuple[int, int]] = {}
        self._verdicts: dict[str, str | None] = {}

    def choose(self, urls: Sequence[str], ids: Sequence[int], known: AbstractSet[int]) -> None:
        """Choose from canonical URLs, given with their fingerprints, those to add."""
        rules, linked, again = self._rules, self._linked, 0
        url_points = rules.scorer.url_points
        takes_any_host = rules.scope.takes_any_host()
        for url, id_ in zip(urls, ids, strict=True):
            _, _, host, path = url.split("/", 3)
            of_host = linked.get(host)
            refusal = None
            if of_host is None and not takes_any_host:
                refusal = self._verdict(host)
            if id_ in known and refusal is None:
                again += 1
                if of_host is None:
                    self._link_to(host, url)
                continue
            query = ""
            if "?" in path:
                path, _, query = path.partition("?")
            segments = path.split("/")
            ending = extension_of(segments[-1])
            reason = self._refuses(url, ending, refusal)
            if reason is not None:
                self.refused[reason] = self.refused.get(reason, 0) + 1
                continue
            points, group_skip = of_host or self._link_to(host, url)
            points += url_points(segments, ending, len(query), len(url))
            self.ids.append(id_)
            self.urls.append(url)
            self.hosts.append(host)
            self.entries.append(self._entry(id_, url, points, group_skip))
        self.again += again

    def _refuses(self, url: str, ending: str, refusal: str | None) -> str | None:
        """Return the reason not to follow a link, in the order of the documentation."""
        scope = self._rules.scope
        reason = scope.refuses_form(url, ending) or refusal
        if reason is None and (scope.include or scope.exclude):
            reason = scope.refuses_text(url)
        if reason is None:
            trap = self._rules.traps.refuses(url, self.links, self._today)
            reason = trap and f"trap_{trap}"
        return reason

    def _entry(self, id_: int, url: str, points: int, group_skip: int) -> bytes:
        source = self._source
        score = self._base + points
        if url in source.facts:
            score += self._rules.scorer.fact_points(source.facts[url])
        queue = self._rules.queues[score if 0 <= score <= 100 else clamp(score)]
        data = self._new.encode(id_, url, queue, group_skip, source.written.get(url, ""))
        return add_tail(data, source.tails[url]) if url in source.tails else data

    def _verdict(self, host: str) -> str | None:
        """Return the reason not to follow links to a host, or None."""
        verdicts = self._verdicts
        if host not in verdicts:
            verdicts[host] = self._rules.scope.refuses_host(host, self._host)
        return verdicts[host]

    def _link_to(self, host: str, url: str) -> tuple[int, int]:
        """Count the first link to a host, for the points of later pages."""
        rules = self._rules
        if host != self._host and rules.urls.registered_domain(host) != self._domain:
            counts = rules.hosts.add(host, 0, 1)
        else:
            counts = rules.hosts.counts(host)
        points = rules.scorer.host_points(host, counts)
        found = self._linked[host] = points, rules.urls.group_skip(url)
        return found
