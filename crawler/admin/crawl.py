"""The crawl that the API speaks for: its name, its servers, its URLs' rules. Nothing of HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawler.admin.pages import Pages
from crawler.frontier import Steering
from crawler.frontier.connection import Client
from crawler.metrics import Worker
from crawler.urls import DEFAULT, Urls


@dataclass(frozen=True)
class Crawl:
    """One crawl by its name; whether it exists is found out with each question."""

    name: str
    redis: Client = field(repr=False)
    urls: Urls = DEFAULT
    # The process that serves the API, if it crawls as well.
    worker: Worker | None = field(default=None, repr=False)
    pages: Pages = field(default_factory=Pages, repr=False)

    async def steering(self) -> Steering:
        """What steers it, or NotFound when there is no such crawl (yet, or any more)."""
        return await Steering.of(self.redis, self.name, self.urls)
