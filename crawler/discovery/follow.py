"""Add discovered URLs to the frontier, with their scores, if they belong to the crawl.

Links of pages and URLs of sitemaps are treated alike: scope, traps, priority, one batch.

For their scores the URLs of hosts are counted, and the links to hosts and URLs (counts.py).

Choosing runs for every link of every page. For a URL that is surely in the frontier only its host
is checked, and the link is counted. A new URL is encoded as an entry at once.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawler import config
from crawler.discovery.counts import HostTally, Linked, LinkTally
from crawler.discovery.page_ranks import PageRanks
from crawler.discovery.parents import ParentUrls
from crawler.discovery.priority import (
    NEW_HOST_URLS,
    Facts,
    Scorer,
    clamp,
    front_queue,
    is_home_page,
)
from crawler.discovery.scope import QUEUE_OF_ENDING, Scope, extension
from crawler.discovery.traps import PageLinks, Traps
from crawler.errors import ConfigurationError
from crawler.frontier import ADD_MAX, Entry, Kind
from crawler.frontier.entry import DOCUMENTS, NewEntries, add_tail
from crawler.parsing.sitemap import MAX_BYTES
from crawler.servers.redis.errors import RedisAway
from crawler.urls import (
    SITEMAP,
    Rejected,
    Urls,
    authority_of,
    canonical,
    host_of,
    registered_domain,
)

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawler.scheduler import Scheduler

# Value of TRUSTED_DOMAINS that stands for our own list.
WELL_KNOWN = "well-known"
# Trusted domains that are read from a file, about 100 bytes each.
MAX_TRUSTED_DOMAINS = 100_000
# Memory of the hosts whose counts are known, some 40,000.
HOSTS_MAX_BYTES = 8_000_000
# An index of sitemaps may list indexes once more, and no deeper.
SITEMAP_LEVELS = 2


_NO_FACTS = Facts()
_DAY_S = 86_400


class LinkFollower:
    """Follower of links and sitemaps, one for a crawl.

    It counts how many URLs of each host were found, and how often other domains link to it and to
    each URL. These counts are the fleet's, a few seconds old; the counts of the traps are the
    process's own.
    """

    def __init__(
        self, crawler: Crawler, scheduler: Callable[[], Scheduler], scorer: Scorer, traps: Traps
    ) -> None:
        self._crawler = crawler
        # A function, since the scheduler does not exist yet when components are made.
        self._scheduler = scheduler
        self._scorer = scorer
        self.traps = traps
        self.hosts = HostTally(HOSTS_MAX_BYTES)
        # None if the links to single URLs are not counted.
        self.links = LinkTally() if config.value(crawler.settings, "INBOUND_SKETCH_BYTES") else None
        self._page_ranks = page_ranks(crawler.settings)
        self._parents = ParentUrls.of(crawler)
        self._queue_of_score: list[int] = []
        # Read the list of suffixes now. It takes 40 ms, and later the event loop would stand still.
        registered_domain("")

    async def follow(
        self,
        urls: Sequence[str],
        *,
        page_url: str,
        depth: int,
        parent: int,
        parent_url: str,
        facts: Mapping[str, Facts] | None = None,
        tails: Mapping[str, dict[str, Any]] | None = None,
        written: Mapping[str, str] | None = None,
        points: int = 0,
        points_by_link: Mapping[str, int] | None = None,
    ) -> None:
        """Add those canonical URLs of a page that belong to the crawl.

        `page_url` is where the page was found in the end, and `parent_url` the URL that it is known
        by, whose id is `parent`. `points` are added to the scores of all URLs, `points_by_link` to
        those of some. For some more may be known: facts for their scores, tails for their entries,
        and how they are written. Returns when Redis has them: only then may the page's lease be
        settled.
        """
        source = Source(
            *(page_url, depth, parent, facts or {}, tails or {}, written or {}),
            parent_url=parent_url,
            points=points,
            points_by_link=points_by_link or {},
        )
        for at in range(0, len(urls), ADD_MAX):
            await self._follow(urls[at : at + ADD_MAX], source)

    async def bring_forward(
        self, changed: Mapping[str, float], *, site: str, since_s: float
    ) -> None:
        """Let pages of a site be visited soon that changed since their last visit.

        `changed` has canonical URLs and unix times, as a sitemap or a feed of `site` says; it was
        read before at `since_s`. If Redis is away, they are visited when they are due.
        """
        scheduler = self._scheduler()
        if not changed or scheduler.recrawls.policy is None:
            return
        now_s, spelling = time.time(), scheduler.urls
        domain = spelling.registered_domain(host_of(site))
        wanted = []
        for url, at_s in changed.items():
            changed_s = past_s(at_s, now_s)
            # A day earlier, since a sitemap may tell of a change some hours later.
            if changed_s is None or changed_s < since_s - _DAY_S:
                continue
            host = host_of(url)
            group = host[spelling.group_skip(url) :]
            if spelling.registered_domain(host) == domain and scheduler.recrawls.accept_news(
                group, now_s=now_s
            ):
                wanted.append((spelling.fingerprint(url), group, changed_s))
        with suppress(*RedisAway):
            if wanted:
                await scheduler.frontier.bring_forward(wanted)

    def weight(self, name: str) -> int:
        """Return the points for a property that callers find out, for `points`."""
        return self._scorer.weight(name)

    def queue_of(self, entry: Entry, *, unchanged: bool) -> int:
        """Return the front queue of a page that is visited again, which is no document."""
        host = host_of(entry.url)
        urls, inbound = self.hosts.counts(host)
        authority = authority_of(entry.url)
        # A host that was visited is not new.
        points = self._scorer.host_points(host, (max(urls, NEW_HOST_URLS), inbound))
        facts = Facts(
            unchanged=unchanged,
            page_rank=self._ranks_of([entry.id])[0],
            links=self.links.count(entry.id) if self.links is not None else 0,
            on_home_page=entry.parent == self._scheduler().urls.fingerprint(f"{authority}/"),
        )
        score = self._scorer.score(entry.url, entry.depth, points, facts)
        return front_queue(score, self._scheduler().thresholds)

    def queue_of_linked(self, link: Linked, number: int) -> int | None:
        """Return the front queue of a URL with so many links to it; None if they change nothing."""
        scorer = self._scorer
        if scorer.link_points(number) == scorer.link_points(number - link.number):
            return None
        if extension(link.url) in QUEUE_OF_ENDING:
            return None
        host = host_of(link.url)
        points = link.points + scorer.host_points(host, self.hosts.counts(host))
        score = scorer.score(link.url, 0, points, Facts(links=number))
        return front_queue(score, self._scheduler().thresholds)

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
            now_s = time.time()
            entries = [
                self._sitemap_entry(
                    url, site or url, level, given=given, written=written or {}, now_s=now_s
                )
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
        queues = self._queues(scheduler.thresholds)
        ids = scheduler.urls.fingerprints(urls)
        if self._page_ranks is not None:
            source = replace(source, facts=self._facts(urls, ids, source.facts))
        rules = SelectionRules(
            *(scope, self.traps, self._scorer, queues, scheduler.urls, self.hosts, self.links)
        )
        chosen = Selection(rules, source, now_s=time.time())
        chosen.choose(urls, ids, scheduler.adder.known_among(ids))
        scheduler.adder.met_again(chosen.again)
        for name, count in chosen.refused.items():
            self._count(f"links/refused/{name}", count)
        if not chosen.ids:
            return
        self._parents.remember(source.id, source.parent_url)
        added = await scheduler.add_links(chosen.ids, chosen.entries, chosen.scores)
        if added.over_budget:
            for url in added.over_budget_of(chosen.urls):
                is_document = QUEUE_OF_ENDING[extension(url)] == DOCUMENTS
                self._count(f"links/refused/budget_{'document' if is_document else 'medium'}")
        for host, number in Counter(added.new_of(chosen.hosts)).items():
            self.hosts.add(host, number)
        if chosen.links.capped:
            new = set(added.new_of(chosen.urls))
            for url in chosen.links.capped:
                if url in new:
                    self.traps.followed(url, page_url=chosen.links.page_url, today=chosen.today)

    def _ranks_of(self, ids: Sequence[int]) -> list[float]:
        return [0.0] * len(ids) if self._page_ranks is None else self._page_ranks.of(ids)

    def _facts(
        self, urls: Sequence[str], ids: Sequence[int], known: Mapping[str, Facts]
    ) -> Mapping[str, Facts]:
        """Add the ranks of URLs to the facts about them."""
        found = dict(known)
        for url, rank in zip(urls, self._ranks_of(ids), strict=True):
            if rank:
                found[url] = replace(found.get(url, _NO_FACTS), page_rank=rank)
        return found

    def _queues(self, thresholds: Sequence[int]) -> list[int]:
        """Return the front queue of each score."""
        if not self._queue_of_score:
            self._queue_of_score = [front_queue(points, thresholds) for points in range(101)]
        return self._queue_of_score

    def _sitemap_entry(
        self,
        url: str,
        site: str,
        level: int,
        *,
        given: bool,
        written: Mapping[str, str],
        now_s: float,
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
            discovered_s=int(now_s),
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


def past_s(at_s: float, now_s: float) -> int | None:
    """Return a time of the past, or None.

    A date without a time is read as the end of its day. Until then, its beginning counts: a page
    visited since may change again today, and is looked at when the day is over.
    """
    if at_s > now_s:
        at_s -= at_s % _DAY_S
    return int(at_s) if at_s <= now_s else None


def page_ranks(settings: BaseSettings) -> PageRanks | None:
    """Open the file of page ranks, if one is named."""
    path = config.value(settings, "PAGE_RANKS")
    return PageRanks.open(path) if path else None


def scorer(settings: BaseSettings) -> Scorer:
    """Make the scorer of a crawl. Reads the file of trusted domains, if one is named."""
    weights = config.value(settings, "PRIORITY_WEIGHTS")
    if not all(type(points) is int for points in weights.values()):
        raise ConfigurationError(f"PRIORITY_WEIGHTS is {weights!r}; give whole numbers.")
    try:
        return Scorer(weights, trusted=trusted_domains(config.value(settings, "TRUSTED_DOMAINS")))
    except ValueError as error:
        raise ConfigurationError(f"PRIORITY_WEIGHTS {error}.") from error


def trusted_domains(given: str | Iterable[str] | None) -> dict[str, int]:
    """Return the domains of a list, of a text with commas or blanks, or of a file, and their ranks.

    A line of a file is a domain, or a rank, a comma and a domain. A domain without a rank has 0.
    "well-known" is the list trusted_domains.txt beside this module.
    """
    if not given:
        return {}
    texts: Iterable[str] = given
    if given == WELL_KNOWN:
        texts = _listed(
            (files(__package__) / "trusted_domains.txt").read_text("utf-8").splitlines()
        )
    elif isinstance(given, str):
        texts = given.replace(",", " ").split()
        with suppress(OSError, ValueError):
            if "/" in given or Path(given).is_file():
                texts = _lines_of(Path(given))
    found: dict[str, int] = {}
    for text in texts:
        rank, _, name = text.rpartition(",")
        found.setdefault(_domain(name), int(rank) if rank.strip().isdecimal() else 0)
    return found


def _lines_of(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as lines:
            some = list(islice(lines, MAX_TRUSTED_DOMAINS))
    except OSError as error:
        raise ConfigurationError(
            f"TRUSTED_DOMAINS: {path} cannot be read: {error.strerror}."
        ) from error
    return _listed(some)


def _listed(lines: Iterable[str]) -> list[str]:
    """Return the lines that are neither empty nor comments."""
    texts = (line.strip() for line in lines)
    return [text for text in texts if text and not text.startswith("#")]


def _domain(text: str) -> str:
    url = canonical(f"http://{text.strip()}/")
    if isinstance(url, Rejected) or url.count("/") != 3:
        raise ConfigurationError(
            f"TRUSTED_DOMAINS has {text!r}, which is neither a domain such as example.com nor a "
            "file with one a line."
        )
    return host_of(url)


@dataclass(slots=True)
class SelectionRules:
    """Rules by which links are chosen; `queues` has the front queue of each score."""

    scope: Scope
    traps: Traps
    scorer: Scorer
    queues: Sequence[int]
    urls: Urls
    hosts: HostTally
    links: LinkTally | None = None


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
    # URL that `id` belongs to; `url` may be the end of redirects, or the site of a sitemap.
    parent_url: str = ""
    # Points for the scores of all links, and more for some of them.
    points: int = 0
    points_by_link: Mapping[str, int] = field(default_factory=dict)


class Selection:
    """Links chosen from one page, in parallel lists; at most a batch."""

    def __init__(self, rules: SelectionRules, source: Source, *, now_s: float) -> None:
        self.ids: list[int] = []
        self.entries: list[bytes] = []
        self.urls: list[str] = []
        self.hosts: list[str] = []
        self.scores: list[int] = []
        # Number of known links, and of refused links by reason.
        self.again = 0
        self.refused: dict[str, int] = {}
        self.links = PageLinks(source.url)
        self.today = datetime.fromtimestamp(now_s, UTC).date()
        self._rules = rules
        self._source = source
        self._base = rules.scorer.base(source.depth) + source.points
        self._new = NewEntries(source.depth, source.id, now_s)
        self._host = host_of(source.url)
        # Not for URLs of its sitemaps, whose parents are these.
        self._is_home = is_home_page(source.url) and is_home_page(source.parent_url)
        self._on_home_page = rules.scorer.weight("on_home_page")
        self._domain = rules.urls.registered_domain(self._host)
        # Most links of a page lead to a few hosts. For hosts that are followed: the points of their
        # URLs, the length that their politeness group skips, and whether links to their URLs are
        # counted. For the others: the reason.
        self._linked: dict[str, tuple[int, int, bool]] = {}
        self._verdicts: dict[str, str | None] = {}

    def choose(self, urls: Sequence[str], ids: Sequence[int], known: AbstractSet[int]) -> None:
        """Choose from canonical URLs, given with their fingerprints, those to add.

        All that is the same for all links is found before the loop, and most links are judged in it
        without a call: a page may have hundreds.
        """
        rules, source, linked, again = self._rules, self._source, self._linked, 0
        written, tails, more_points = source.written, source.tails, self._points_by_link()
        scope, url_points, encode = rules.scope, rules.scorer.url_points, self._new.encode
        takes_any_host, skipped = scope.takes_any_host(), scope.skipped_extensions
        longest = scope.max_url_length or sys.maxsize
        is_harmless = rules.traps.is_harmless
        # Each link is checked against these.
        has_patterns = bool(scope.include or scope.exclude) or rules.traps.is_long(source.url)
        for url, id_ in zip(urls, ids, strict=True):
            _, _, host, path = url.split("/", 3)
            of_host = linked.get(host)
            refusal = None
            if of_host is None and not takes_any_host:
                refusal = self._verdict(host)
            if id_ in known and refusal is None:
                again += 1
                of_host = of_host or self._link_to(host, url)
                if of_host[2]:
                    self._count_link(id_, url, of_host[1])
                continue
            query = ""
            if "?" in path:
                path, _, query = path.partition("?")
            segments, length = path.split("/"), len(url)
            last = segments[-1]
            ending = last.rpartition(".")[2].lower() if "." in last else ""
            # In the order of the documentation.
            if length > longest:
                refusal = "too_long"
            elif ending in skipped:
                refusal = "extension"
            elif refusal is None and (query or has_patterns or not is_harmless(segments)):
                refusal = self._refuses(url)
            if refusal is not None:
                self.refused[refusal] = self.refused.get(refusal, 0) + 1
                continue
            points, group_skip, is_counted = of_host or self._link_to(host, url)
            score = self._base + points + url_points(segments, ending, len(query), length)
            if is_counted:
                self._count_link(id_, url, group_skip)
                score += self._link_points(id_)
            score += more_points.get(url, 0)
            if not 0 <= score <= 100:
                score = clamp(score)
            queue = QUEUE_OF_ENDING.get(ending) or rules.queues[score]
            data = encode(id_, url, queue, group_skip, written.get(url, ""))
            self.ids.append(id_)
            self.urls.append(url)
            self.hosts.append(host)
            self.scores.append(score)
            self.entries.append(add_tail(data, tails[url]) if url in tails else data)
        self.again += again

    def _points_by_link(self) -> Mapping[str, int]:
        """Return the points for single links, those for facts about them included."""
        source, fact_points = self._source, self._rules.scorer.fact_points
        if not source.facts:
            return source.points_by_link
        found = dict(source.points_by_link)
        for url, facts in source.facts.items():
            found[url] = found.get(url, 0) + fact_points(facts)
        return found

    def _refuses(self, url: str) -> str | None:
        """Return the reason not to follow a link: the patterns of the scope, or a trap."""
        reason = self._rules.scope.refuses_text(url)
        if reason is None:
            trap = self._rules.traps.refuses(url, self.links, self.today)
            reason = trap and f"trap_{trap}"
        return reason

    def _verdict(self, host: str) -> str | None:
        """Return the reason not to follow links to a host, or None."""
        verdicts = self._verdicts
        if host not in verdicts:
            verdicts[host] = self._rules.scope.refuses_host(host, self._host)
        return verdicts[host]

    def _link_to(self, host: str, url: str) -> tuple[int, int, bool]:
        """Count the first link to a host, for the points of later pages."""
        rules = self._rules
        is_other = host != self._host and rules.urls.registered_domain(host) != self._domain
        counts = rules.hosts.add(host, 0, 1) if is_other else rules.hosts.counts(host)
        points = rules.scorer.host_points(host, counts)
        if self._is_home and host == self._host:
            points += self._on_home_page
        is_counted = is_other and rules.links is not None
        found = self._linked[host] = points, rules.urls.group_skip(url), is_counted
        return found

    def _count_link(self, id_: int, url: str, group_skip: int) -> None:
        """Count a link from another domain to a URL."""
        if self._rules.links is not None:
            self._rules.links.add(id_, self._domain, url, group_skip, self._base - 100)

    def _link_points(self, id_: int) -> int:
        """Return the points of a URL for the links to it."""
        links = self._rules.links
        return 0 if links is None else self._rules.scorer.link_points(links.count(id_))
