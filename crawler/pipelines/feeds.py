"""Write items to Scrapy's feeds (-o pages.jsonl) before their leases are settled. Last pipeline.

The URIs of feeds may have %(process)s, so that several processes write different files.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.extensions.feedexport import (
    FeedExporter,
    FeedSlot,
    FileFeedStorage,
    StdoutFeedStorage,
)
from w3lib.url import file_uri_to_path

from crawler.errors import ConfigurationError, NotStored
from crawler.scheduler import this_process
from crawler.scheduling.engine import Engine
from crawler.storage.sinks import named_sinks, shown_sinks
from crawler.util.full_disk import REMEDY, is_full
from crawler.util.secrets import without_secrets

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)


FEED_FAILED = "feed_failed"


class Feeds:
    """Pipeline that calls Scrapy's feed exporter, with all its formats, storages and options."""

    def __init__(self, crawler: Crawler, exporter: FeedExporter) -> None:
        self._crawler = crawler
        self._exporter = exporter
        self._failed = False
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        exporter = crawler.get_extension(FeedExporter)
        settings = crawler.settings
        if exporter is None:
            feeds = [*settings.getdict("FEEDS"), *filter(None, [settings["FEED_URI"]])]
            if feeds:
                raise ConfigurationError(
                    f"FEEDS cannot be written, Scrapy's error in the log says why: {_shown(feeds)}."
                )
            raise NotConfigured
        later = [uri for uri in exporter.feeds if _is_written_late(exporter, uri)]
        is_only_place = not named_sinks(settings) and not has_pipelines_of_others(settings)
        if later and is_only_place:
            raise ConfigurationError(
                f"The feed {_shown(later)} is whole only when the crawl or a batch ends "
                "(uploads, postprocessing), and SINKS is none: a process that is killed "
                "would lose pages that count as crawled. Write a plain file and upload or compress "
                "that (-o pages.jsonl), or keep the pages in MongoDB as well "
                "(-s SINKS=mongo), or items by a pipeline of your own."
            )
        if later:
            logger.warning(
                "The feed %s is whole only when the crawl or a batch ends (uploads, "
                "postprocessing): if this process is killed, it lacks items that count as crawled. "
                "Pages are in %s, other items where your own pipelines keep them",
                *(_shown(later), shown_sinks(settings)),
            )
        crawler.signals.disconnect(exporter.item_scraped, signals.item_scraped)
        return cls(crawler, exporter)

    def open_spider(self) -> None:
        for uri in self._exporter.feeds:
            # A name with %( is known only when the feed is written.
            if "%(" not in uri and urlsplit(uri).scheme in ("", "file"):
                _check_writable(Path(file_uri_to_path(uri) if uri.startswith("file:") else uri))

    async def process_item(self, item: Any) -> Any:
        if self._failed:
            raise NotStored("A feed failed.")
        assert self._crawler.spider is not None
        sizes = [(slot, _size_bytes(slot)) for slot in self._exporter.slots]
        try:
            self._exporter.item_scraped(item, self._crawler.spider)
            for slot in self._exporter.slots:
                if slot.file is not None:
                    # A crash must not lose items in memory whose leases are settled.
                    slot.file.flush()
        except OSError as error:
            for slot, size_bytes in sizes:
                _cut_off(slot, size_bytes)
            self._fail(error)
            raise NotStored(f"A feed failed: {error}") from error
        return item

    def _fail(self, error: OSError) -> None:
        self._failed = True
        logger.error(
            "A feed cannot be written (%s): the crawl ends, and goes on when it is started again%s",
            error,
            f"; {REMEDY} before" if is_full(error) else "",
        )
        if not Engine.is_closing(self._crawler):
            self._closing = asyncio.get_running_loop().create_task(
                self._crawler.engine.close_spider_async(reason=FEED_FAILED)
            )


def _size_bytes(slot: FeedSlot) -> int:
    """Return the bytes of a feed's file before an item is written to it; -1 if it is no file."""
    if not isinstance(slot.storage, FileFeedStorage):
        return -1
    path = Path(slot.storage.path)
    # It is made for the first item, and emptied then if it is to be overwritten.
    is_begun = slot.file is not None or slot.storage.write_mode == "ab"
    return path.stat().st_size if is_begun and path.exists() else 0


def _cut_off(slot: FeedSlot, size_bytes: int) -> None:
    """Take half an item out of a feed: the next run would write its first item behind it."""
    if size_bytes < 0 or slot.file is None:
        return
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        number = slot.file.fileno()
        os.ftruncate(number, size_bytes)
        # What is still in memory would be written when the file is closed.
        os.dup2(nowhere.fileno(), number)


def has_pipelines_of_others(settings: BaseSettings) -> bool:
    """Whether there is a pipeline that is neither ours nor Scrapy's, and may keep items."""
    pipelines = settings.getwithbase("ITEM_PIPELINES")
    used = [pipeline for pipeline, order in pipelines.items() if order is not None]
    names = [name if isinstance(name, str) else name.__module__ for name in used]
    return any(not name.startswith(("crawler.", "scrapy.")) for name in names)


def _is_written_late(exporter: FeedExporter, uri: str) -> bool:
    """Whether the items of a feed are safe only when the feed is closed."""
    # The storage that the exporter takes.
    storage: Any = exporter.storages.get(urlsplit(uri).scheme, FileFeedStorage)
    at_once = isinstance(storage, type) and issubclass(storage, FileFeedStorage | StdoutFeedStorage)
    # Compressors keep much in memory, and cannot be flushed.
    return not at_once or bool(exporter.feeds[uri].get("postprocessing"))


def _shown(uris: Iterable[Any]) -> str:
    return without_secrets(", ".join(map(str, uris)))


def _check_writable(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"The feed {path} cannot be written ({error.strerror}); name another file."
        ) from error


def with_process(params: dict[str, Any], spider: Spider) -> dict[str, Any]:  # noqa: ARG001 - Scrapy's form
    """Add the machine and the number of this process to Scrapy's parameters of feed URIs."""
    return {**params, "process": "{machine}-{pid}".format(**this_process())}
