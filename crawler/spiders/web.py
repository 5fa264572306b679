"""Generic spider: every response becomes one Page. It knows nothing of Redis.

An argument (`-a name=value`) is a line in `ARGUMENTS`, with the text of its help. If it is for the
whole fleet it is an option of scheduling/options.py and needs nothing else here; any other is a
field of `Arguments` and a line in `read_arguments`. An error names argument, value and rule.
"""

from __future__ import annotations

import logging
from asyncio import to_thread
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cached_property, partial
from itertools import islice
from time import time
from typing import TYPE_CHECKING, Any, ClassVar, Self

from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider
from scrapy.http import HtmlResponse, Response, XmlResponse
from scrapy.settings import Settings

from crawler import config
from crawler import settings as ours
from crawler.config import components
from crawler.dedup.index import MINHASH
from crawler.discovery import seeds
from crawler.discovery.follow import SITEMAP_LEVELS, LinkFollower
from crawler.discovery.priority import Facts
from crawler.discovery.scope import skipped_extensions
from crawler.errors import ConfigurationError, NotStored
from crawler.frontier import ADD_MAX, Entry, Lease
from crawler.frontier.entry import DOCUMENTS
from crawler.items import NOT_MODIFIED, Page
from crawler.parsing import language, sitemap
from crawler.parsing.document import Document, Unreadable
from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader, ReaderOptions, is_large, is_light
from crawler.parsing.rights import BY_HTML
from crawler.parsing.sniff import PDF, sniff
from crawler.reading.pool import DocumentPool
from crawler.robots.rules import robots_name
from crawler.scheduler import Scheduler, link_follower
from crawler.scheduling import options
from crawler.scheduling.engine import Engine
from crawler.scheduling.lease_pool import BAD_SEEDS, NO_SEEDS, REDIS_LOST
from crawler.scheduling.outcome import asked_by_headers
from crawler.scheduling.page_maker import PageMaker
from crawler.scheduling.recrawls import last_visit_s
from crawler.servers.kafka import kafka_library
from crawler.servers.kafka_group import GroupMember
from crawler.storage.screenshots import Screenshots
from crawler.topics.scorer import PageScorer, page_scorer, points_of_link, standing
from crawler.urls import DEFAULT, Base, Rejected, Spelling, Urls, authority_of, fingerprint
from crawler.util.extras import missing
from crawler.util.format import seconds
from crawler.util.request_meta import LEASE, RENDERING
from crawler.util.tasks import in_daemon_thread

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawler.items import Rendering

logger = logging.getLogger(__name__)

_SEED_BATCH = 1000
# Reading a sitemap takes about 100 µs a KB: larger ones are read in a thread.
_SITEMAP_INLINE_BYTES = 20_000
_FRESH = timedelta(days=1)
_BAD_SEEDS_SHOWN = 10
# Pipelines that do not compare the blocks of a page's text.
_BLIND = frozenset(
    f"crawler.pipelines.{name}"
    for name in ("links.Links", "recrawl.Recrawl", "store.Store", "feeds.Feeds")
)

# Making links canonical takes some µs for each: more of them are handled in a thread.
_LINKS_INLINE = 500

# Fields that a page has from its document.
_OF_DOCUMENT = (
    *("media_type", "charset", "title", "description", "language", "author", "published_at"),
    *("updated_at", "headings", "canonical", "feeds", "languages", "text", "blocks", "links"),
    *("article", "anchors", "written", "link_times"),
)
# Those that a page has only if PAGE_FIELDS names them.
_IF_WANTED = frozenset({"main_text", "markdown"})

# What users may give, in the order of `scrapy crawl web -h`: a name, and what it is for.
ARGUMENTS = {
    "seeds": "where to start: URLs separated by commas or blanks, files with one URL a line (gzip "
    "is fine, # starts a comment), - for standard input, or kafka://host:9092/topic",
    "sitemaps": "URLs of sitemaps to crawl; those that robots.txt names are read too "
    "(FOLLOW_SITEMAPS)",
    "scope": "which links to follow: host, domain (the same registered domain), seeds (the domains "
    "of all seeds) or any (domain)",
    "allowed_domains": "crawl only these domains and their subdomains; sets scope to any (all)",
    "excluded_domains": "never crawl these domains and their subdomains (none)",
    "include": "regular expressions, separated by blanks; a URL must match one of them (all)",
    "exclude": "regular expressions, separated by blanks; a URL must match none of them (none)",
    "languages": "keep only pages in these languages, as en,de (all)",
    "topic": "file of a trained topic: crawl pages about it first (see scrapy topic -h)",
    "render": "auto: pages that need JavaScript are rendered by a browser; always: all pages are "
    "(never)",
    "scroll": "how often a rendered page is scrolled to its end, for lists that grow (0)",
    "follow": "no: fetch only the seeds and the pages of sitemaps (yes)",
    "max_depth": "most links between a seed and a page; 0 for no limit, here and below (0)",
    "max_url_length": "longest URL to follow, in characters (URL_LENGTH_LIMIT)",
    "recrawl": "visit pages again: budget:1000000/d (so many visits), adaptive (each as often as "
    "it changes) or fixed:7d (off)",
    "max_pages": "stop the whole crawl, all processes, after this many pages (0)",
    "max_pages_per_host": "most pages of a host (0)",
    "max_pages_per_minute": "most URLs that all processes together begin to fetch in a minute (0)",
    "max_time": "stop this process gracefully after this time: seconds, or 10m, 2h, 1d (0)",
    "user_agent": "name of this crawler in requests (USER_AGENT)",
    "crawl": "name of the crawl: processes with the same name and spider share it (CRAWL, or the "
    "spider's name)",
}
# What a wrong name may stand for is this similar, or is what other spiders call it.
_SIMILARITY = 0.6
_ELSEWHERE = {"start_url": "seeds", "start_urls": "seeds", "url": "seeds", "urls": "seeds"}


class WebSpider(Spider):
    """Crawl pages from seeds. Subclass it and override `extract` to add fields of your own."""

    name = "web"
    custom_settings = {  # noqa: RUF012 - declared so by Scrapy
        # Pages with an error status are recorded as well.
        "HTTPERROR_ALLOW_ALL": True,
    }

    # Responses passed to `extract`. Selectors fail on others, such as JSON; add TextResponse to get
    # them all.
    extracted_types: tuple[type[Response], ...] = (HtmlResponse, XmlResponse)

    # Arguments, and what each is for: the help of `scrapy crawl`. A subclass that takes more of
    # them in its `__init__` adds theirs.
    argument_help: ClassVar[Mapping[str, str]] = ARGUMENTS

    # Redirects must keep to the crawl's scope too.
    is_scoped = True

    # Where documents are read that are no pages, and pages that are large; None: in a thread.
    documents: DocumentPool
    large_pages: DocumentPool | None = None

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        if domains := getattr(self, "allowed_domains", None):
            # Declared on the class, as other spiders do.
            arguments.setdefault("allowed_domains", " ".join(domains))
        self.arguments = read_arguments(arguments)
        # Parsed when the crawl's rules for URLs are known: see from_crawler.
        self.seeds: list[Spelling | str] = []
        self.sitemaps: dict[str, str] = {}
        # The setting or argument that names the topics with seeds, if any, for messages.
        self.topics_given_as = "KAFKA_SEEDS"
        # Only those that the user gave; for the others the crawl's values hold.
        self.options = self.arguments.options
        self.crawl = self.arguments.crawl
        self.urls = DEFAULT
        self.reader = DocumentReader(HtmlReader(max_links=0), max_links=0)
        self.pages = PageMaker()
        self.obey_noindex = True
        self.page_fields: frozenset[str] = frozenset(ours.PAGE_FIELDS)
        self.other_languages = ours.OTHER_LANGUAGES
        # Scorer of a focused crawl.
        self.scorer: PageScorer | None = None
        self.topic_threshold = ours.TOPIC_THRESHOLD
        self.off_topic = ours.OFF_TOPIC
        self.keep_anchors = ours.KEEP_ANCHORS
        self.robots_name = ""
        self.obey_nofollow = True
        self.max_links = ours.MAX_OUTLINKS
        # Where pictures of rendered pages are kept, if they are wanted.
        self.screenshots: Screenshots | None = None

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        components.keep(settings, components.GENERIC_SPIDER)
        components.leave_out_remote_control(settings)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        settings = crawler.settings
        if "MAX_OUTLINKS" not in settings:
            # An add-on is applied too late for a spider, and does not set pipelines.
            raise ConfigurationError(
                f"The spider {spider.name!r} is a WebSpider and needs all settings of its project; "
                "begin yours with: from crawler.settings import *"
            )
        if spider.arguments.user_agent is not None:
            settings.set("USER_AGENT", spider.arguments.user_agent, "cmdline")
        for name, given in spider.arguments.rendering.items():
            settings.set(name, given, "cmdline")
        if spider.arguments.max_time_s:
            settings.set("CLOSESPIDER_TIMEOUT", spider.arguments.max_time_s, "cmdline")
        if settings.getint("DEPTH_LIMIT"):
            # Scrapy's own middleware does not see the links of pages.
            spider.options = {"max_depth": settings.getint("DEPTH_LIMIT"), **spider.options}
        if config.value(settings, "FOLLOW_SITEMAPS"):
            crawler.signals.connect(spider.robots_parsed, signals.robots_parsed)
        spider.urls = Urls(config.url_rules(settings))
        if spider.arguments.seeds is not None:
            given, topics = seeds.split_topics(spider.arguments.seeds)
            if topics:
                # Checked here, where the argument is known by its name.
                GroupMember.from_settings(settings, topics, spider.name, what="seeds")
                settings.set("KAFKA_SEEDS", topics, "cmdline")
                spider.topics_given_as = "seeds"
            if given or not topics:
                spider.seeds = seeds.parse(given, spider.urls)
        if config.value(settings, "KAFKA_SEEDS"):
            kafka_library(spider.topics_given_as)
        if spider.arguments.sitemaps is not None:
            spider.sitemaps = seeds.parse_sitemaps(spider.arguments.sitemaps, spider.urls)
        spider.pages = PageMaker.of(crawler)
        spider.documents = DocumentPool.of(crawler)
        _warn_if_pdf_is_not_read(settings, spider.documents)
        spider.robots_name = robots_name(settings)
        spider.other_languages = config.value(settings, "OTHER_LANGUAGES")
        spider.scorer = page_scorer(settings, spider.arguments.topic)
        spider.topic_threshold = config.value(settings, "TOPIC_THRESHOLD")
        spider.off_topic = config.value(settings, "OFF_TOPIC")
        spider.keep_anchors = config.value(settings, "KEEP_ANCHORS")
        spider.obey_noindex = config.value(settings, "OBEY_NOINDEX")
        spider.page_fields = frozenset(config.value(settings, "PAGE_FIELDS"))
        spider.obey_nofollow = config.value(settings, "OBEY_NOFOLLOW")
        spider.max_links = max_links = config.value(settings, "MAX_OUTLINKS")
        spider.screenshots = _screenshots(crawler)
        wanted = {
            "max_links": max_links,
            "obey_nofollow": spider.obey_nofollow,
            "media": config.value(settings, "FOLLOW_MEDIA"),
            "anchors": spider.keep_anchors or spider.scorer is not None,
            "crawler_name": spider.robots_name,
            "unread": [name.strip().lower() for name in config.value(settings, "TEXT_WITHOUT")],
            "blocks": _may_compare(settings) or spider.scorer is not None,
            "article": _may_compare(settings) and config.value(settings, "NEAR_BY") == MINHASH,
            "main_text": "main_text" in spider.page_fields,
            "markdown": "markdown" in spider.page_fields,
        }
        options = ReaderOptions(wanted, spider.urls.rules)
        spider.reader = options.reader(spider.urls)
        spider.large_pages = DocumentPool.for_pages(crawler, options)
        return spider

    @cached_property
    def _scheduler(self) -> Scheduler:
        return Scheduler.of(self.crawler)

    async def start(self) -> AsyncIterator[Any]:
        """Add the seeds to the frontier, batch by batch."""
        try:
            if self.sitemaps:
                await self._add_sitemaps()
            if self.seeds:
                await self._plant_all()
                self._check_planted()
        except NotStored as error:
            # The next start adds the rest.
            logger.error("Not all seeds are added: %s", error)
            raise CloseSpider(REDIS_LOST) from error
        has_topics = config.value(self.crawler.settings, "KAFKA_SEEDS") is not None
        if not self.seeds and not self.sitemaps and not has_topics:
            self.crawler.signals.connect(self._idle, signals.spider_idle)
        nothing: tuple[Request, ...] = ()
        for request in nothing:
            yield request  # an async generator, as Scrapy wants it

    async def _add_sitemaps(self) -> None:
        known = await self._follower.add_sitemaps(
            self.sitemaps, site="", level=0, given=True, written=self.sitemaps
        )
        for url in known:
            logger.warning(
                "sitemaps: %s is known to the crawl %r and not added again: it was read, or waits "
                "for it. `scrapy frontier forget URL` lets it be read anew",
                url,
                self._scheduler.crawl,
            )

    async def _plant_all(self) -> None:
        reader = seeds.read(self.seeds, self._scheduler.urls)
        try:
            while batch := await in_daemon_thread(lambda: list(islice(reader, _SEED_BATCH))):
                await self._plant(batch)
        except ConfigurationError as error:
            logger.error("%s", error)
            raise CloseSpider(BAD_SEEDS) from error

    async def _plant(self, batch: list[Entry | seeds.BadSeed]) -> None:
        good = [seed for seed in batch if isinstance(seed, Entry)]
        stats = self.crawler.stats
        for bad in batch:
            if isinstance(bad, seeds.BadSeed):
                stats.inc_value("seeds/rejected")
                if stats.get_value("seeds/rejected") <= _BAD_SEEDS_SHOWN:
                    logger.warning("%s", bad)
        scheduler = self._scheduler
        added = await scheduler.add(good, "all")
        known = len(added.answers) - added.new
        stats.inc_value("seeds/added", added.new)
        stats.inc_value("seeds/known", known)
        scheduler.known_starts.add(known=known, new=added.new)

    def _check_planted(self) -> None:
        """Close the crawl with an error if the given seeds had no URL."""
        stats = self.crawler.stats
        rejected = stats.get_value("seeds/rejected", 0)
        if rejected > _BAD_SEEDS_SHOWN:
            logger.warning("%d lines of the seeds were left out in all", rejected)
        if not stats.get_value("seeds/added", 0) and not stats.get_value("seeds/known", 0):
            logger.error("There is no URL in seeds=%s", self.arguments.seeds)
            raise CloseSpider(NO_SEEDS)

    def _idle(self) -> None:
        """Nothing is left. If nothing ever was, somebody forgot the seeds."""
        scheduler = self._scheduler
        if scheduler.leases.completion.never_began:
            logger.error(
                "There is nothing to crawl: no seeds are given, and the crawl %r has no URLs. Give "
                "some: -a seeds=https://example.com",
                scheduler.crawl,
            )
            raise CloseSpider(NO_SEEDS)

    async def parse(self, response: Response) -> AsyncIterator[Page]:
        """Make the page of a response."""
        page = self.pages.page_of(response)
        asked = asked_by_headers(response, self.robots_name)
        is_noindex = asked.noindex
        rendering: Rendering | None = response.meta.get(RENDERING)
        document = None
        if page.stored:
            try:
                document = await self._document(page, nofollow=asked.nofollow)
            except Unreadable as unreadable:
                page.flags.append(f"unread:{unreadable.reason}")
        if document is not None:
            self._fill(page, document)
            if rendering is not None and not (document.nofollow and self.obey_nofollow):
                self._add_routes(page, rendering.routes)
            # Without a lease, as in `scrapy parse`, there is no crawl with options.
            wanted = self._languages if page.lease is not None else ()
            if wanted or "text_language" in self.page_fields:
                page.text_language = language.of_document(document)
            if wanted:
                self._keep_to(page, wanted)
            if self.scorer is not None:
                await self._keep_to_topic(self.scorer, page)
            is_noindex |= document.noindex
        if self.obey_noindex and is_noindex and page.stored:
            page.stored, page.reason = False, "noindex"
        if rendering is not None and page.stored:
            await self._keep_screenshot(page, rendering.screenshot)
        if isinstance(response, self.extracted_types) and NOT_MODIFIED not in page.flags:
            self.extract(response, page)
        yield page

    def _fill(self, page: Page, document: Document) -> None:
        for name in _OF_DOCUMENT:
            setattr(page, name, getattr(document, name))
        page.published_at = _past(page.published_at, page.crawled_at)
        page.updated_at = _past(page.updated_at, page.crawled_at)
        # Those of files come from the worker processes, wanted or not.
        for name in self.page_fields & _IF_WANTED:
            setattr(page, name, getattr(document, name))
        if document.cut:
            page.flags.append(f"cut:{document.cut}")
        if self.keep_anchors and document.anchors:
            page.extra["anchors"] = [asdict(anchor) for anchor in document.anchors]
        if document.rights:
            page.rights[BY_HTML] = document.rights

    def _add_routes(self, page: Page, routes: Sequence[str]) -> None:
        """Add URLs of a rendered page that are in no link of its HTML."""
        base = self.urls.base(page.final_url)
        if not isinstance(base, Base):
            return
        found, written = self.urls.resolve_all(base, routes[: self.max_links])
        links = dict.fromkeys((*page.links, *filter(None, found)))
        page.links = list(links)[: self.max_links]
        page.written = {**written, **page.written}

    async def _keep_screenshot(self, page: Page, screenshot: bytes) -> None:
        if not screenshot or self.screenshots is None:
            return
        place = await self.screenshots.put(self._scheduler.crawl, page.url_hash, screenshot)
        if place:
            page.extra["screenshot"] = place
        else:
            page.flags.append("no_screenshot")

    async def parse_sitemap(
        self, response: Response, *, site: str, level: int
    ) -> AsyncIterator[Page]:
        """Add the URLs of a sitemap to the frontier, at depth 1. A sitemap makes no page."""
        stats = self.crawler.stats
        lease: Lease | None = response.meta.get(LEASE)
        recrawls = self._scheduler.recrawls
        if lease is not None:
            recrawls.visited_sitemap(lease, response)
        if response.status != 200:
            if response.status == 304:
                stats.inc_value("sitemaps/unchanged")
            else:
                stats.inc_value("sitemaps/missing")
                self._warn_if_given(site, f"is not there (status {response.status})")
            return
        parse = partial(sitemap.read, response.body, response.url, self.urls)
        found = parse() if len(response.body) < _SITEMAP_INLINE_BYTES else await to_thread(parse)
        stats.inc_value("sitemaps/read")
        stats.inc_value("sitemaps/urls", len(found.pages))
        if not found.pages and not found.sitemaps:
            self._warn_if_given(site, "has no URLs in it")
        if found.cut:
            stats.inc_value("sitemaps/cut")
            logger.debug("%s could be read in part only", response.url)
        since = datetime.now(UTC) - _FRESH
        last_read_s = last_visit_s(lease.entry, now_s=time()) if lease is not None else 0
        # Batch by batch: a full sitemap at once would block the event loop for 0.2 s.
        for at in range(0, len(found.pages), ADD_MAX):
            pages = found.pages[at : at + ADD_MAX]
            urls = [page.url for page in pages]
            points, points_by_link = 0, {}
            if self.scorer is not None:
                points = self._follower.weight("unknown_topic")
                points_by_link = self._points_of(self.scorer.score_links(urls))
            await self._follower.follow(
                urls,
                page_url=site,
                depth=1,
                parent=fingerprint(lease.entry.url) if lease is not None else 0,
                parent_url=lease.entry.url if lease is not None else "",
                facts={page.url: _facts(page, since) for page in pages},
                tails=recrawls.hints(pages),
                written=found.written,
                points=points,
                points_by_link=points_by_link,
            )
            changed = {page.url: page.modified.timestamp() for page in pages if page.modified}
            await self._follower.bring_forward(changed, site=response.url, since_s=last_read_s)
        if level < SITEMAP_LEVELS:
            await self._follower.add_sitemaps(
                found.sitemaps, site=site, level=level + 1, written=found.written
            )
        nothing: tuple[Page, ...] = ()
        for page in nothing:
            yield page  # an async generator, as `parse` is

    def _warn_if_given(self, site: str, what: str) -> None:
        """Warn about a sitemap that the user named. Those that sites name may be missing."""
        if site in self.sitemaps:
            logger.warning("sitemaps: %s %s", site, what)

    async def robots_parsed(self, robotparser: Any, request: Request) -> None:
        """Add the sitemaps that a robots.txt names."""
        named = [self.urls.spelling(url) for url in getattr(robotparser, "sitemaps", ())]
        if named and self._scheduler.options_watcher.options.follow:
            site = f"{authority_of(request.url)}/"
            written: dict[str, str] = {}
            for found in named:
                if not isinstance(found, Rejected):
                    written.setdefault(*found)
            # Without Redis the process ends; whoever gets its leases reads these rules again.
            with suppress(NotStored):
                await self._follower.add_sitemaps(written, site=site, level=0, written=written)

    @property
    def _follower(self) -> LinkFollower:
        return link_follower(self.crawler)

    def extract(self, response: Response, page: Page) -> None:
        """Override to put fields of your own into `page.extra`; called for HTML and XML."""

    @property
    def _languages(self) -> Collection[str]:
        """The option `languages`; empty if pages in all languages are wanted."""
        return self._scheduler.options_watcher.options.languages

    def _keep_to(self, page: Page, languages: Collection[str]) -> None:
        """Keep the crawl to pages in these languages. One whose language is not known is kept."""
        found = page.text_language or language.base_of(page.language)
        if not found or found in languages:
            return
        self.crawler.stats.inc_value("pages/other_language")
        page.link_points += self._follower.weight("other_language")
        self._leave_out(page, self.other_languages, "language")

    async def _keep_to_topic(self, scorer: PageScorer, page: Page) -> None:
        """Give a page its relevance, and its links points for it."""
        found = await scorer.score(page)
        if found is not None:
            page.relevance = found.page
            page.points_by_link = self._points_of(found.links)
        how = standing(page.relevance, self.topic_threshold)
        self.crawler.stats.inc_value("topic/failed" if found is None else f"topic/{how}")
        page.link_points += self._follower.weight(f"{how}_topic")
        if how == "off":
            self._leave_out(page, self.off_topic, "topic")

    def _points_of(self, links: Mapping[str, float]) -> dict[str, int]:
        """Return the points of links for the relevance that their words promise."""
        weight = self._follower.weight
        return {url: points_of_link(relevance, weight) for url, relevance in links.items()}

    @staticmethod
    def _leave_out(page: Page, how: str, reason: str) -> None:
        """Treat a page that the crawl is not for as OTHER_LANGUAGES or OFF_TOPIC says."""
        if how == "leave":
            page.links = []
        if how != "store" and page.stored:
            page.stored, page.reason = False, reason

    async def _document(self, page: Page, *, nofollow: bool) -> Document:
        """Read the body of a page, in a worker process if that may be slow or dangerous."""
        content_type = page.headers.get("content-type", "")
        media_type = sniff(page.body, content_type, page.final_url)
        if media_type in self.documents.types:
            page.media_type = media_type
            document = await self._read_apart(page, media_type, content_type)
            finish = partial(
                self.reader.with_canonical_links, document, page.final_url, nofollow=nofollow
            )
            return finish() if len(document.links) < _LINKS_INLINE else await to_thread(finish)
        if is_light(page.body, media_type, with_main_text=self.reader.finds_main_text):
            return self._read(page, nofollow=nofollow)
        if is_large(page.body) and self.large_pages is not None:
            return await self._read_large(self.large_pages, page, nofollow=nofollow)
        # The parser releases the GIL.
        return await to_thread(self._read, page, nofollow=nofollow)

    async def _read_large(self, pool: DocumentPool, page: Page, *, nofollow: bool) -> Document:
        """Read a page in a process of its own: a hostile one takes all time and memory it gets."""
        # When too many bytes wait, fetching pauses.
        aside = nullcontext() if pool.is_full else Engine.set_aside(self.crawler, len(page.body))
        with aside:
            return await pool.read(
                *(page.headers.get("content-type", ""), page.body, page.final_url),
                nofollow=nofollow,
                is_closing=partial(Engine.is_closing, self.crawler),
            )

    async def _read_apart(self, page: Page, media_type: str, content_type: str) -> Document:
        lease = page.lease
        # The downloader has put off those that it knew, whatever their Content-Type is.
        was_known = lease is not None and lease.entry.queue == DOCUMENTS
        # The pool counts the bytes that wait: fetching pages goes on.
        with Engine.set_aside(self.crawler, len(page.body)):
            return await self.documents.read(
                *(media_type, page.body, page.final_url),
                declared=None if was_known else content_type,
                is_closing=partial(Engine.is_closing, self.crawler),
            )

    def _read(self, page: Page, *, nofollow: bool) -> Document:
        content_type = page.headers.get("content-type", "")
        return self.reader.read(
            page.body, page.final_url, content_type=content_type, nofollow=nofollow
        )


def _past(date: datetime | None, now: datetime) -> datetime | None:
    """Return a date, unless it is in the future: that is a mistake. Clocks and zones may differ."""
    return date if date is None or date <= now + _FRESH else None


def _facts(page: sitemap.Located, since: datetime) -> Facts:
    is_fresh = page.modified is not None and page.modified >= since
    return Facts(fresh=is_fresh, sitemap_priority=page.priority)


def _may_compare(settings: BaseSettings) -> bool:
    """May a pipeline ask for the blocks of a page's text? Pipelines of others might."""
    pipelines = settings.getwithbase("ITEM_PIPELINES")
    return not {name for name, order in pipelines.items() if order is not None} <= _BLIND


def _warn_if_pdf_is_not_read(settings: BaseSettings, documents: DocumentPool) -> None:
    """Warn if PDF files are followed, and the package that reads them is missing."""
    advice = missing("pypdfium2", extra="documents", what="The text of PDF files")
    if advice and PDF not in documents.own and "pdf" not in skipped_extensions(settings):
        logger.warning(
            "%s. They are stored without it; FOLLOW_DOCUMENTS=False follows no documents", advice
        )


def _screenshots(crawler: Crawler) -> Screenshots | None:
    if "screenshot" not in config.value(crawler.settings, "PAGE_FIELDS"):
        return None

    def count(name: str) -> None:
        # Not bound at once: spiders are made before a crawl has stats.
        assert crawler.stats is not None
        crawler.stats.inc_value(name)

    return Screenshots.from_settings(crawler.settings, count)


_USER_AGENT_MAX = 500
# Arguments that stand for a setting of this process.
_RENDERING = {"render": "RENDER", "scroll": "RENDER_SCROLL"}


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of the generic spider; where one is missing, the crawl's own value holds."""

    # Parsed by discovery/seeds.py when the crawl's rules for URLs are known.
    seeds: str | None = None
    sitemaps: str | None = None
    # For the whole fleet.
    options: dict[str, Any] = field(default_factory=dict)
    # File of a topic's model, on this machine.
    topic: str | None = None
    # Settings of rendering.
    rendering: Mapping[str, str | int] = field(default_factory=dict)
    # 0 for no limit.
    max_time_s: int = 0
    user_agent: str | None = None
    crawl: str | None = None


def read_arguments(given: Mapping[str, Any]) -> Arguments:
    """Return the checked arguments, or raise ConfigurationError."""
    # Programs such as scrapyd add names of their own, with an underscore in front.
    known = {name: value for name, value in given.items() if not name.startswith("_")}
    for name in known:
        if name not in ARGUMENTS:
            raise ConfigurationError(
                f"The spider has no argument {name!r}.{_meant(name)} It has {', '.join(ARGUMENTS)}."
            )
    found = options.checked(
        {name: known[name] for name in options.ARGUMENTS if known.get(name) is not None}
    )
    # Domains that are named need not be linked from each other's pages only.
    if found.get("allowed_domains") and "scope" not in found:
        found["scope"] = "any"
    return Arguments(
        seeds=known.get("seeds"),
        sitemaps=known.get("sitemaps"),
        options=found,
        topic=_topic(known.get("topic")),
        rendering=_rendering(known),
        max_time_s=_seconds("max_time", known.get("max_time")),
        user_agent=_user_agent(known.get("user_agent")),
        crawl=known.get("crawl"),
    )


def _meant(name: str) -> str:
    """Ask whether a similar argument is meant; empty if there is none."""
    similar = get_close_matches(name.lower(), ARGUMENTS, n=1, cutoff=_SIMILARITY)
    meant = _ELSEWHERE.get(name.lower()) or next(iter(similar), "")
    return f" Did you mean {meant}?" if meant else ""


def _topic(value: Any) -> str | None:
    if value is None:
        return None
    if not str(value).strip():
        raise ConfigurationError(
            f"topic is {value!r}; give the file of a topic, which scrapy topic train makes."
        )
    return str(value)


def _rendering(given: Mapping[str, Any]) -> dict[str, str | int]:
    found = {_RENDERING[name]: given[name] for name in _RENDERING if given.get(name) is not None}
    for name, setting in _RENDERING.items():
        if setting in found:
            try:
                found[setting] = config.value(Settings({setting: found[setting]}), setting)
            except ConfigurationError as error:
                raise ConfigurationError(str(error).replace(setting, name, 1)) from error
    return found


def _seconds(name: str, value: Any) -> int:
    if value is None:
        return 0
    found = seconds(str(value))
    if found is None:
        raise ConfigurationError(
            f"{name} is {value!r}; give seconds, or a number with m, h or d as in 10m."
        )
    return found


def _user_agent(value: Any) -> str | None:
    if value is None:
        return None
    text = str(value).strip()
    if not text or len(text) > _USER_AGENT_MAX or not text.isascii() or not text.isprintable():
        raise ConfigurationError(
            f"user_agent is {value!r}; give a product and an address in plain ASCII, as in "
            "'mybot/1.0 (+https://example.com/bot)'."
        )
    return text
