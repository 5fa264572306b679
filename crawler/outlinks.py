"""Bring discovered URLs into the frontier: those that belong to the crawl, with their scores.

Links of pages and URLs of sitemaps take the same way: scope, traps, priority, one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakKeyDictionary

from crawler import assembly
from crawler.frontier import ADD_MAX, Entry
from crawler.policy.host_tally import HostTally
from crawler.policy.priority import NEW_HOST_URLS, Facts, Scorer, front_queue
from crawler.policy.traps import PageLinks, Traps
from crawler.policy.url_filter import Scope
from crawler.scheduler import Scheduler
from crawler.sitemaps import CALLBACK, MAX_BYTES
from crawler.urls import host_of, registered_domain

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Hosts whose URLs and inbound links are known here, about 250 bytes each.
_HOSTS_KEPT = 100_000
# An index of sitemaps may list indexes once more, and no deeper.
SITEMAP_LEVELS = 2


class _Judge:
    """Says which links of one page belong to the crawl, and counts the others by the reason."""

    def __init__(self, scope: Scope, traps: Traps, page_url: str, *, today: date) -> None:
        self.refused: dict[str, int] = {}
        self._scope = scope
        self._traps = traps
        self._page_host = host_of(page_url)
        self._page = PageLinks(page_url)
        self._today = today
        # Most links of a page lead to a few hosts.
        self._hosts: dict[str, str | None] = {}
        self._reads_text = bool(scope.include or scope.exclude)

    def refuses(self, url: str, host: str) -> bool:
        """Is this link left out?"""
        scope, hosts = self._scope, self._hosts
        if host not in hosts:
            hosts[host] = scope.refuses_host(host, self._page_host)
        reason = scope.refuses_form(url) or hosts[host]
        if reason is None and self._reads_text:
            reason = scope.refuses_text(url)
        if reason is None:
            trap = self._traps.refuses(url, self._page, today=self._today)
            reason = trap and f"trap_{trap}"
        if reason is None:
            return False
        self.refused[reason] = self.refused.get(reason, 0) + 1
        return True


class Outlinks:
    """Knows of each host how many of its URLs were found, and how often others link to it.

    These counts are the fleet's, a few seconds old; those of the traps are the process's own.
    """

    _of_crawlers: ClassVar[WeakKeyDictionary[Crawler, Outlinks]] = WeakKeyDictionary()

    def __init__(self, crawler: Crawler, scorer: Scorer, traps: Traps) -> None:
        self._crawler = crawler
        self._scorer = scorer
        self._traps = traps
        self.hosts = HostTally(_HOSTS_KEPT)
        self._queue_of_score: list[int] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        return cls(crawler, assembly.scorer(settings), Traps(assembly.trap_rules(settings)))

    @classmethod
    def of(cls, crawler: Crawler) -> Outlinks:
        """The one that all components of a crawl share."""
        found = cls._of_crawlers.get(crawler)
        if found is None:
            found = cls._of_crawlers[crawler] = cls.from_crawler(crawler)
        return found

    async def follow(
        self,
        urls: Sequence[str],
        *,
        page_url: str,
        depth: int,
        parent: int,
        facts: Mapping[str, Facts] | None = None,
        tails: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        """Add what belongs to the crawl of the canonical URLs that a page lists.

        Of some more is known: facts for their scores, and tails for their entries.

        Returns when Redis has them: only then may the page's lease be settled.
        """
        for at in range(0, len(urls), ADD_MAX):
            batch = urls[at : at + ADD_MAX]
            entries = self._entries(
                batch, page_url, depth, parent, facts=facts or {}, tails=tails or {}
            )
            if not entries:
                continue
            added = await Scheduler.of(self._crawler).add(entries)
            today = datetime.now(UTC).date()
            new = [entry.url for index, entry in enumerate(entries) if added.is_new(index)]
            for url in new:
                self._traps.followed(url, today=today)
            for host, number in Counter(map(host_of, new)).items():
                self.hosts.add(host, urls=number)

    def queue_of(self, entry: Entry, *, unchanged: bool) -> int:
        """The front queue of a page that is visited again."""
        host = host_of(entry.url)
        known = self.hosts.of(host)
        # One that was visited is not new.
        known = replace(known, urls=max(known.urls, NEW_HOST_URLS))
        points = self._scorer.host_points(host, known)
        score = self._scorer.score(entry.url, entry.depth, points, Facts(unchanged=unchanged))
        return front_queue(score, Scheduler.of(self._crawler).thresholds)

    def fetched(self, url: str, *, duplicate: bool) -> None:
        """A page was fetched: a kind of URLs that gives mostly duplicates is not followed."""
        self._traps.fetched(url, duplicate=duplicate)

    async def add_sitemaps(
        self, urls: Iterable[str], *, site: str, level: int, given: bool = False
    ) -> int:
        """Add sitemaps of a site, `level` indexes away from their origin; says how many are new.

        With `given` they are the user's own and not judged.
        """
        scheduler = Scheduler.of(self._crawler)
        entries = []
        for url in urls:
            reason = None if given else scheduler.orders.scope.refuses_sitemap(url, site=site)
            if reason is None:
                entries.append(self._sitemap_entry(url, site or url, level, given=given))
            else:
                self._count(f"sitemaps/refused/{reason}")
        new = 0
        for at in range(0, len(entries), ADD_MAX):
            added = await scheduler.add(entries[at : at + ADD_MAX], "all" if given else "new")
            new += added.new
        self._count("sitemaps/added", new)
        return new

    # -------------------------------------------------------------------------------------------

    def _entries(
        self,
        batch: Sequence[str],
        page_url: str,
        depth: int,
        parent: int,
        *,
        facts: Mapping[str, Facts],
        tails: Mapping[str, dict[str, Any]],
    ) -> list[Entry]:
        scheduler = Scheduler.of(self._crawler)
        scope, spelling, found = scheduler.orders.scope, scheduler.urls, scheduler.discoveries
        if scope.is_too_deep(depth):
            self._count("links/refused/depth", len(batch))
            return []
        judge = _Judge(scope, self._traps, page_url, today=datetime.now(UTC).date())
        page_host, points = host_of(page_url), dict[str, int]()
        score, queues = self._scorer.score, self._queues(scheduler.thresholds)
        again = 0
        entries: list[Entry] = []
        for url in batch:
            host = host_of(url)
            if judge.refuses(url, host):
                continue
            if host not in points:
                points[host] = self._host_points(host, page_host)
            id_ = spelling.fingerprint(url)
            if found.knows(id_):
                again += 1
                continue
            entries.append(
                Entry(
                    id=id_,
                    url=url,
                    queue=queues[score(url, depth, points[host], facts.get(url))],
                    depth=depth,
                    parent=parent,
                    group_skip=spelling.group_skip(url),
                    tail=tails.get(url, {}),
                )
            )
        found.met_again(again)
        for name, count in judge.refused.items():
            self._count(f"links/refused/{name}", count)
        return entries

    def _queues(self, thresholds: Sequence[int]) -> list[int]:
        """The front queue of each score."""
        if not self._queue_of_score:
            self._queue_of_score = [front_queue(points, thresholds) for points in range(101)]
        return self._queue_of_score

    def _host_points(self, host: str, page_host: str) -> int:
        """The points of a host that a page links to; the link itself counts for later ones."""
        if host != page_host and registered_domain(host) != registered_domain(page_host):
            self.hosts.add(host, inbound=1)
        return self._scorer.host_points(host, self.hosts.of(host))

    def _sitemap_entry(self, url: str, site: str, level: int, *, given: bool) -> Entry:
        spelling = Scheduler.of(self._crawler).urls
        return Entry(
            id=spelling.fingerprint(url),
            url=url,
            queue=1,
            depth=0 if given else 1,
            group_skip=spelling.group_skip(url),
            tail={
                "callback": CALLBACK,
                "cb_kwargs": {"site": site, "level": level},
                # Whatever its type is called, and as large as the protocol allows.
                "meta": {"download_any_type": True, "download_maxsize": MAX_BYTES},
            },
        )

    def _count(self, name: str, by: int = 1) -> None:
        if by:
            self._crawler.stats.inc_value(name, by)
