"""Make the frontier of a crawl anew, from the pages and links that a store has of it.

    1  every URL with a record is marked seen and counts as crawled; recrawls get their times back
    2  links of these pages that belong to the crawl and have no record wait to be crawled

The order matters: a link of the second step may lead to any page of the first. Both steps may be
repeated, and change nothing that is there, so after an interruption all is simply done again. In
memory there is one batch of pages at a time, and a bounded cache of known links.

docs/operations.md says what a store does not have, and so is lost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crawler.config.values import fill, value
from crawler.discovery.counts import HostTally
from crawler.discovery.follow import HOSTS_MAX_BYTES, Selection, SelectionRules, Source, scorer
from crawler.discovery.priority import front_queue
from crawler.discovery.scope import skipped_extensions
from crawler.discovery.traps import TrapRules, Traps
from crawler.frontier import ADD_MAX, CrawlControl, Entry, Frontier
from crawler.frontier.entry import MAX_DEPTH, QUEUES
from crawler.frontier.outbox import SeenCache
from crawler.scheduling.options import CrawlOptions, new_seed_domains
from crawler.scheduling.recrawl_policy import DIGEST_BYTES, OFF, Visit
from crawler.scheduling.recrawls import recrawl_tail
from crawler.storage.reader import Document, PageReader, Wanted
from crawler.urls import Urls, authority_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Links that are remembered, so that most are sent to Redis once: 8 bytes each.
_CACHED = 500_000
_URL_FIELDS = (
    *("url", "url_hash", "depth", "priority", "parent", "status", "crawled_at", "discovered_at"),
    *("redirects", "links_count", "links", "next_crawl", "recrawl_interval_s", "visits", "changes"),
    *("error_count", "content_hash", "simhash", "etag", "last_modified", "duplicate_of"),
)
_LINK_FIELDS = (
    *("url", "final_url", "url_hash", "depth", "parent", "links", "links_count", "simhash"),
    *("duplicate_of", "duplicate_distance", "duplicate_similarity"),
)


@dataclass(slots=True)
class Rebuilt:
    """What a rebuild has found; numbers of this attempt."""

    # Records in the store, and URLs of them that the frontier did not know.
    records: int = 0
    crawled: int = 0
    recrawls: int = 0
    # Pages with more links than a store keeps: they are fetched again, for the others.
    to_fetch_again: int = 0
    # Links that wait to be crawled.
    waiting: int = 0
    # Records that give no URL.
    unreadable: int = 0


class Rebuild:
    """Rebuild of one crawl. `rules` gives those by which links are chosen, see `link_rules`."""

    def __init__(
        self,
        frontier: Frontier,
        control: CrawlControl,
        reader: PageReader,
        options: CrawlOptions,
        rules: Callable[[CrawlOptions], SelectionRules],
    ) -> None:
        self.found = Rebuilt()
        self._frontier = frontier
        self._control = control
        self._reader = reader
        self._options = options
        self._rules = rules
        self._urls: Urls = control.urls
        self._wanted = Wanted(crawl=frontier.crawl)

    async def count(self) -> int:
        """Count the records of the crawl in the store."""
        return await self._reader.count(self._wanted)

    async def run(self, advance: Callable[[int], None] = lambda _records: None) -> Rebuilt:
        """Do both steps; `advance` is called with numbers of records, each of which comes twice."""
        async for pages in self._batches(_URL_FIELDS):
            await self._restore(pages)
            advance(len(pages))
        await self._follow_links(advance)
        return self.found

    async def _batches(self, fields: Sequence[str]) -> AsyncIterator[list[Document]]:
        batches = self._reader.with_content(self._wanted, fields=fields, contents=False)
        async for batch in batches:
            yield [page for page, _ in batch.pages]

    # --- crawled URLs --------------------------------------------------------------------------

    async def _restore(self, pages: Sequence[Document]) -> None:
        crawled: list[tuple[Entry, bool, int | None]] = []
        again: list[Entry] = []
        now_s = time.time()
        for page in pages:
            self.found.records += 1
            try:
                entry = self._entry(page)
            except (KeyError, TypeError, ValueError):
                self.found.unreadable += 1
                continue
            if _is_cut(page):
                again.append(entry)
            else:
                crawled.append(self._crawled(entry, page, now_s))
            sources = (self._source(str(url), entry) for url in page.get("redirects") or ())
            crawled += [(source, False, None) for source in sources if source is not None]
        await self._note_seeds(entry for entry, *_ in crawled if not (entry.depth or entry.parent))
        taken = await self._frontier.restore(crawled)
        new = [each for each, is_new in zip(crawled, taken, strict=True) if is_new]
        self.found.crawled += len(new)
        self.found.recrawls += sum(wait_ms is not None for *_, wait_ms in new)
        added = await self._frontier.add(again, mode="all")
        self.found.to_fetch_again += added.new
        await self._count_hosts(
            [*(entry.host for entry, *_ in new), *added.new_of([e.host for e in again])]
        )

    def _entry(self, page: Document) -> Entry:
        url, parent = str(page["url"]), page.get("parent") or "0"
        discovered = page.get("discovered_at")
        return Entry(
            id=int(page["url_hash"], 16),
            url=url,
            queue=min(max(int(page.get("priority") or 1), 1), QUEUES),
            depth=min(int(page.get("depth") or 0), MAX_DEPTH),
            parent=int(parent, 16),
            group_skip=self._urls.group_skip(url),
            discovered_s=int(_at_s(discovered)) if discovered else 0,
        )

    def _source(self, url: str, target: Entry) -> Entry | None:
        """Return the URL that redirected to a page; it has no record of its own."""
        source = self._urls.canonical(url)
        if not isinstance(source, str):
            return None
        id_ = self._urls.fingerprint(source)
        skip = self._urls.group_skip(source)
        return replace(target, id=id_, url=source, group_skip=skip, tail={})

    def _crawled(
        self, entry: Entry, page: Document, now_s: float
    ) -> tuple[Entry, bool, int | None]:
        is_page = 200 <= int(page.get("status") or 0) < 300
        due, content_hash = page.get("next_crawl"), page.get("content_hash") or ""
        # The body of a POST is not stored: it is not visited again.
        is_plain = entry.id == self._urls.fingerprint(entry.url)
        if self._options.recrawl == OFF or due is None or not (is_plain and content_hash):
            return entry, is_page, None
        visit = Visit(
            interval_s=float(page.get("recrawl_interval_s") or 0),
            digest=bytes.fromhex(content_hash)[:DIGEST_BYTES],
            simhash=int(page["simhash"], 16) if page.get("simhash") else None,
            visits=int(page.get("visits") or 1),
            changes=int(page.get("changes") or 0),
            failures_in_a_row=int(page.get("error_count") or 0),
            at_s=int(_at_s(page["crawled_at"])),
        )
        # A duplicate is not asked for conditionally: its original may have changed by then.
        validators = {} if page.get("duplicate_of") else page
        entry = replace(entry, tail=recrawl_tail(visit, validators))
        return entry, is_page, max(0, round((_at_s(due) - now_s) * 1000))

    async def _note_seeds(self, seeds: Iterable[Entry]) -> None:
        new = new_seed_domains(self._options, (seed.url for seed in seeds))
        if new:
            await self._control.add_seed_domains(new)
            domains = self._options.seed_domains.union(new)
            self._options = replace(self._options, seed_domains=domains)

    # --- links ---------------------------------------------------------------------------------

    async def _follow_links(self, advance: Callable[[int], None]) -> None:
        rules, sent = self._rules(self._options), SeenCache(_CACHED)
        entries: list[bytes] = []
        ids: list[int] = []
        hosts: list[str] = []

        async def send() -> None:
            added = await self._frontier.add(entries)
            sent.update(ids)
            self.found.waiting += added.new
            await self._count_hosts(added.new_of(hosts))
            entries.clear()
            ids.clear()
            hosts.clear()

        async for pages in self._batches(_LINK_FIELDS):
            for page in pages:
                chosen = self._chosen(page, rules, sent)
                if chosen is not None:
                    entries += chosen.entries
                    ids += chosen.ids
                    hosts += chosen.hosts
                if len(entries) >= ADD_MAX:
                    await send()
            advance(len(pages))
        await send()

    def _chosen(self, page: Document, rules: SelectionRules, sent: SeenCache) -> Selection | None:
        """Choose the links of a page; None for one whose links are not followed."""
        links, scope = page.get("links") or (), rules.scope
        depth = int(page.get("depth") or 0) + 1
        if not (links and self._options.follow and follows(page)) or scope.is_too_deep(depth):
            return None
        url = self._urls.canonical(str(page.get("final_url") or page["url"]))
        source = Source(
            *(url if isinstance(url, str) else page["url"], depth, int(page["url_hash"], 16)),
            parent_url=page["url"],
        )
        chosen = Selection(rules, source, now_s=time.time())
        found = self._urls.fingerprints(links)
        known = sent.among(found)
        new = [(link, id_) for link, id_ in zip(links, found, strict=True) if id_ not in known]
        chosen.choose([link for link, _ in new], [id_ for _, id_ in new], frozenset())
        return chosen

    async def _count_hosts(self, hosts: Iterable[str]) -> None:
        numbers = Counter(hosts)
        if numbers:
            await self._frontier.count_hosts({host: (n, 0) for host, n in numbers.items()})


def link_rules(settings: BaseSettings, urls: Urls, now: CrawlOptions) -> SelectionRules:
    """Return the rules by which a crawl with these options chooses links."""
    thresholds = value(settings, "FRONTIER_THRESHOLDS")
    return SelectionRules(
        now.url_filter(skipped_extensions(settings)),
        Traps(fill(TrapRules, settings)),
        scorer(settings),
        [front_queue(points, thresholds) for points in range(101)],
        urls,
        HostTally(HOSTS_MAX_BYTES),
    )


def follows(page: Mapping[str, Any]) -> bool:
    """Return whether the links of a stored page are followed, as pipelines/links.py decides."""
    original = page.get("duplicate_of")
    if not original:
        return True
    is_near = (
        page.get("duplicate_distance") is not None or page.get("duplicate_similarity") is not None
    )
    if is_near:
        return bool(original != page.get("parent"))
    is_home = page["url"] == f"{authority_of(page['url'])}/"
    return not page.get("simhash") and (is_home or not page.get("parent"))


def _is_cut(page: Document) -> bool:
    """Return whether a page has more links than its record."""
    return int(page.get("links_count") or 0) > len(page.get("links") or ())


def _at_s(at: datetime) -> float:
    # Some stores give times in UTC without a zone.
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
