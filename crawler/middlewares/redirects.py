"""Send redirects through the frontier, so that the target host's clock and rules count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.redirect import RedirectMiddleware

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response


class Redirects(RedirectMiddleware):
    """Scrapy's own redirects, less the Referer header: the scheduler takes what it returns."""

    def _engine_started(self) -> None:
        """Scrapy would look for its Referer middleware here, and warn without it."""

    def handle_referer(self, request: Request, response: Response) -> None:
        request.headers.pop("Referer", None)
