"""Contract of a sink: a place where pages go, and that says when they are durable.

A sink of your own is a class with three methods, named in SINKS by its path:

    class Files(Sink):
        async def open(self) -> None: ...
        async def write(self, pages: Sequence[Page]) -> None: ...
        async def close(self) -> None: ...

`write` gets pages in batches, one batch at a time, and returns when all of them are durable. Then
the leases of these pages are settled. Batches, repeated writes, the breaker, counters and the spool
are around every sink (storage/storage.py), not in it.

A process may die between `write` and the settlement of a lease. The page is then fetched and
written again, so a sink replaces what it has with the same `crawl` and `url_hash`. docs/sinks.md
has more, and an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from crawler.errors import SinkAway

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.frontier import Entry
    from crawler.items import Page
    from crawler.servers.connections import Servers
    from crawler.servers.health import ServerHealth
    from crawler.storage.runs import Run

# Where a page lies in a sink of bodies, for example its file, offset and length.
Place = Mapping[str, str | int]
# Position in a batch → why that page was refused, or where it lies. All others are stored.
Results = Mapping[int, Exception | Place]
# What is repaired, as "files_left_open" → how often it was found.
Repairs = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Crawl of a sink, as far as the sink needs it."""

    crawl: str
    # What follows the sink's name in SINKS, or its whole URL.
    target: str
    settings: BaseSettings
    # Connections that all components of the crawl share.
    servers: Servers


class Discovered(NamedTuple):
    """URL that was found on a page, in a sitemap or by a redirect, and is not in the frontier."""

    entry: Entry
    # 0 to 100, of which its front queue comes; None if it was not computed.
    score: int | None = None
    parent_url: str | None = None


@dataclass(frozen=True, slots=True)
class RejectedMessage:
    """Message of a stream of seeds that gives no URL to crawl."""

    # Code, such as no_scheme.
    reason: str
    # Its beginning.
    text: str
    topic: str
    partition: int
    offset: int
    # The reason in words.
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class SinkReport:
    """Answer of a sink to `scrapy doctor`: one line, and what should be changed."""

    text: str
    # Problem → what to do about it.
    warnings: Mapping[str, str]


class Sink(ABC):
    """Place where pages go. Subclasses have the three abstract methods, and may have the others."""

    # Whether pages are written here first, and the sinks of records get the place of each.
    keeps_bodies: ClassVar[bool] = False
    # Bytes of a page above which `prepare` runs in a thread, which costs 0.1 ms more.
    inline_bytes: int = 150_000
    # Whether pages come with their bytes on the wire (`page.exchange`), and responses that are no
    # pages come too: robots.txt, sitemaps and redirects.
    archives: ClassVar[bool] = False

    # Whether `discover`, `reject` and `crawl_ended` are called; a sink may decide it when it is
    # made. Without a sink that wants them, rejected messages are dead letters.
    wants_discovered: bool = False
    wants_rejected: bool = False
    wants_end: bool = False

    def __init__(self, target: str = "") -> None:
        self.target = target

    @classmethod
    def from_context(cls, context: SinkContext) -> Self:
        """Make the sink of a crawl. By default the constructor only gets the target."""
        return cls(context.target)

    @abstractmethod
    async def open(self) -> None:
        """Prepare for writes; CrawlerError if that is impossible, with what to do about it."""

    @abstractmethod
    async def write(self, batch: Sequence[Any]) -> Results | None:
        """Write a batch; return when it is durable, with the pages that are refused and places.

        An error for which `is_away` is true lets the whole batch be written again later. After any
        other, each page of the batch is tried alone.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close connections and files. All batches are written."""

    def prepare(self, page: Page) -> Any:
        """Return what `write` gets of a page: by default the page itself.

        It runs in the event loop, or in threads for large pages, and raises for a page that can
        never be written. If the result has `size_bytes`, batches are bounded by it.
        """
        return page

    def is_away(self, error: Exception) -> bool:
        """Return whether an error of `write` passes by itself: by default those of connections."""
        return isinstance(error, (OSError, SinkAway))

    def health(self) -> ServerHealth | None:
        """Return the health of a server that others use, too; None: the sink has its own."""
        return None

    @property
    def timeout_s(self) -> float:
        """Seconds after which a write counts as failed."""
        return 60.0

    @property
    def close_timeout_s(self) -> float:
        """Seconds that `close` may take."""
        return 10.0

    async def discover(self, urls: Sequence[Discovered]) -> None:  # noqa: B027 - most get none
        """Take URLs that the crawl is about to add; return when they are durable.

        They are added afterwards, so after a crash they may come again. Errors are those of
        `write`.
        """

    async def reject(self, messages: Sequence[RejectedMessage]) -> None:  # noqa: B027 - likewise
        """Take messages that give no URL; return when they are durable.

        Errors are those of `write`. After a crash, the same messages may come again.
        """

    async def record_run(self, run: Run) -> None:  # noqa: B027 - most sinks ignore it
        """Store the record of this process in the place of an earlier one with the same id.

        Called at the start, every 30 s and at the end. Failures are logged, and harm nothing. Runs
        of the same crawl that are `running` and were seen before `run.lost_before` become lost,
        and those seen before `run.forgotten_before` are deleted.
        """

    async def crawl_ended(self, summary: Mapping[str, Any]) -> None:  # noqa: B027 - likewise
        """Take note that the crawl ended; return when that is durable.

        Called in the last process of the crawl that ends, after all its pages are written. Two
        calls for one end are possible, but rare.
        """

    # For people: the server, and the place in it, as "MongoDB" and "the database 'crawler'".
    store_name: ClassVar[str] = ""

    @property
    def store_place(self) -> str:
        return ""

    async def identity(self) -> str:
        """Return what tells the store from one that was dropped or made anew.

        It stays the same after a backup is restored. Empty: this cannot be told, as in sinks of
        files, or the store is not whole.
        """
        return ""

    async def has_pages(self, crawl: str) -> bool:
        """Return whether there are pages of a crawl."""
        return False

    async def repair(self, *, dry_run: bool) -> Repairs:
        """Mend what crashes left behind, or only find it; for `scrapy pages repair`."""
        return {}

    async def check(self) -> SinkReport:
        """Describe the sink for `scrapy doctor`; raise CrawlerError if it cannot be used."""
        await self.open()
        await self.close()
        return SinkReport("it opens", {})
