"""Add discovered URLs to the frontier, with their scores, if they belong to the crawl.

Links of pages and URLs of sitemaps are treated alike: scope, traps, priority, one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawler import config
from crawler.discovery.host_counts import HostTally
from crawler.discovery.priority import NEW_HOST_URLS, Facts, Scorer, front_queue
from crawler.discovery.selection import Selection, SelectionRules, Source
from crawler.discovery.traps import Traps
from crawler.errors import ConfigurationError
from crawler.frontier import ADD_MAX, Entry, Kind
from crawler.parsing.sitemap import MAX_BYTES
from crawler.urls import SITEMAP, Rejected, canonical, host_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawler.scheduler import Scheduler

# Trusted domains that are read from a file, about 100 bytes each.
MAX_TRUSTED_DOMAINS = 100_000
# Hosts whose URLs and inbound links are counted here, about 250 bytes each.
_HOSTS_KEPT = 100_000
# An index of sitemaps may list indexes once more, and no deeper.
SITEMAP_LEVELS = 2


class LinkFollower:
    """Follower of links and sitemaps, one for a crawl.

    It counts how many URLs of each host were found, and how often other domains link to it. These
    counts are the fleet's, a few seconds old; the counts of the traps are the process's own.
    """

    def __init__(
        self, crawler: Crawler, scheduler: Callable[[], Scheduler], scorer: Scorer, traps: Traps
    ) -> None:
        self._crawler = crawler
        # A function, since the scheduler does not exist yet when components are made.
        self._scheduler = scheduler
        self._scorer = scorer
        self._traps = traps
        self.hosts = HostTally(_HOSTS_KEPT)
        self._queue_of_score: list[int] = []

    async def follow(
        self,
        urls: Sequence[str],
        *,
        page_url: str,
        depth: int,
        parent: int,
        facts: Mapping[str, Facts] | None = None,
        tails: Mapping[str, dict[str, Any]] | None = None,
        written: Mapping[str, str] | None = None,
    ) -> None:
        """Add those canonical URLs of a page that belong to the crawl.

        For some URLs more may be known: facts for their scores, tails for their entries, and how
        they are written. Returns when Redis has them: only then may the page's lease be settled.
        """
        source = Source(page_url, depth, parent, facts or {}, tails or {}, written or {})
        for at in range(0, len(urls), ADD_MAX):
            await self._follow(urls[at : at + ADD_MAX], source)

    def queue_of(self, entry: Entry, *, unchanged: bool) -> int:
        """Return the front queue of a page that is visited again."""
        host = host_of(entry.url)
        urls, inbound = self.hosts.counts(host)
        # A host that was visited is not new.
        points = self._scorer.host_points(host, (max(urls, NEW_HOST_URLS), inbound))
        score = self._scorer.score(entry.url, entry.depth, points, Facts(unchanged=unchanged))
        return front_queue(score, self._scheduler().thresholds)

    def fetched(self, url: str, *, duplicate: bool) -> None:
        """Note a fetched page: URL patterns that give mostly duplicates are not followed."""
        self._traps.fetched(url, duplicate=duplicate)

    async def add_sitemaps(
        self,
        urls: Iterable[str],
        *,
        site: str,
        level: int,
        given: bool = False,
        written: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Add sitemaps of a site, `level` indexes deep, and return those that were known already.

        Those that the user gave (`given`) are not checked for scope. `written` is as for `follow`.
        """
        known: list[str] = []
        left = iter(urls)
        # In batches: an index may have 50,000, which take half a second to check.
        while some := list(islice(left, ADD_MAX)):
            entries = [
                self._sitemap_entry(url, site or url, level, given=given, written=written or {})
                for url in some
                if given or self._takes_sitemap(url, site)
            ]
            if entries:
                added = await self._scheduler().add(entries, "all" if given else "new")
                self._count("sitemaps/added", added.new)
                new = {entry.id for entry in added.new_of(entries)}
                known += [entry.url for entry in entries if entry.id not in new]
        return known

    # -------------------------------------------------------------------------------------------

    def _takes_sitemap(self, url: str, site: str) -> bool:
        reason = self._scheduler().options_watcher.scope.refuses_sitemap(url, site=site)
        if reason is not None:
            self._count(f"sitemaps/refused/{reason}")
        return reason is None

    async def _follow(self, urls: Sequence[str], source: Source) -> None:
        scheduler = self._scheduler()
        scope = scheduler.options_watcher.scope
        if scope.is_too_deep(source.depth):
            self._count("links/refused/depth", len(urls))
            return
        today = datetime.now(UTC).date()
        queues = self._queues(scheduler.thresholds)
        rules = SelectionRules(scope, self._traps, self._scorer, queues, scheduler.urls, self.hosts)
        chosen = Selection(rules, source, today=today)
        ids = scheduler.urls.fingerprints(urls)
        chosen.choose(urls, ids, scheduler.adder.known_among(ids))
        scheduler.adder.met_again(chosen.again)
        for name, count in chosen.refused.items():
            self._count(f"links/refused/{name}", count)
        if not chosen.ids:
            return
        added = await scheduler.add_links(chosen.ids, chosen.entries)
        for host, number in Counter(added.new_of(chosen.hosts)).items():
            self.hosts.add(host, number)
        if chosen.links.capped:
            new = set(added.new_of(chosen.urls))
            for url in chosen.links.capped:
                if url in new:
                    self._traps.followed(url, page_url=chosen.links.page_url, today=today)

    def _queues(self, thresholds: Sequence[int]) -> list[int]:
        """Return the front queue of each score."""
        if not self._queue_of_score:
            self._queue_of_score = [front_queue(points, thresholds) for points in range(101)]
        return self._queue_of_score

    def _sitemap_entry(
        self, url: str, site: str, level: int, *, given: bool, written: Mapping[str, str]
    ) -> Entry:
        spelling = self._scheduler().urls
        return Entry(
            id=spelling.fingerprint(url, SITEMAP),
            url=url,
            queue=1,
            depth=0 if given else 1,
            group_skip=spelling.group_skip(url),
            kind=Kind.SITEMAP,
            written=written.get(url, ""),
            tail={
                # A method of the generic spider.
                "callback": "parse_sitemap",
                "cb_kwargs": {"site": site, "level": level},
                # Of any content type, and as large as the protocol allows.
                "meta": {"download_any_type": True, "download_maxsize": MAX_BYTES},
            },
        )

    def _count(self, name: str, by: int = 1) -> None:
        if by:
            self._crawler.stats.inc_value(name, by)


def scorer(settings: BaseSettings) -> Scorer:
    """Make the scorer of a crawl. Reads the file of trusted domains, if one is named."""
    weights = config.value(settings, "PRIORITY_WEIGHTS")
    if not all(type(points) is int for points in weights.values()):
        raise ConfigurationError(f"PRIORITY_WEIGHTS is {weights!r}; give whole numbers.")
    try:
        return Scorer(weights, trusted=trusted_domains(config.value(settings, "TRUSTED_DOMAINS")))
    except ValueError as error:
        raise ConfigurationError(f"PRIORITY_WEIGHTS {error}.") from error


def trusted_domains(given: str | Iterable[str] | None) -> frozenset[str]:
    """Return the domains of a list, of a text with commas or blanks, or of a file.

    A line of a file is a domain, or a rank, a comma and a domain.
    """
    if not given:
        return frozenset()
    texts: Iterable[str] = given
    if isinstance(given, str):
        texts = given.replace(",", " ").split()
        with suppress(OSError, ValueError):
            if "/" in given or Path(given).is_file():
                texts = _lines_of(Path(given))
    return frozenset(_domain(text) for text in texts)


def _lines_of(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as lines:
            some = list(islice(lines, MAX_TRUSTED_DOMAINS))
    except OSError as error:
        raise ConfigurationError(
            f"TRUSTED_DOMAINS: {path} cannot be read: {error.strerror}."
        ) from error
    texts = (line.rpartition(",")[2].strip() for line in some)
    return [text for text in texts if text and not text.startswith("#")]


def _domain(text: str) -> str:
    url = canonical(f"http://{text.strip()}/")
    if isinstance(url, Rejected) or url.count("/") != 3:
        raise ConfigurationError(
            f"TRUSTED_DOMAINS has {text!r}, which is neither a domain such as example.com nor a "
            "file with one a line."
        )
    return host_of(url)
