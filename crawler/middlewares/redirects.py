"""Send redirects through the frontier, so that the target host's clock and rules count.

The target takes the source's place at the same depth; the way there travels with it and is
recorded with its page (`redirects` and `redirect_statuses`: a 301 or 308 among them is permanent).
A loop, or a way that is too long, ends as the answer it is, with the reason as a flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.exceptions import IgnoreRequest

from crawler.urls.join import leads_nowhere

if TYPE_CHECKING:
    from scrapy.http import Response

LOOP, TOO_MANY = "redirect_loop", "too_many_redirects"


class Redirects(RedirectMiddleware):
    """Scrapy's own redirects, less the Referer header: the scheduler takes what it returns."""

    def _engine_started(self) -> None:
        """Scrapy would look for its Referer middleware here, and warn without it."""

    def handle_referer(self, request: Request, response: Response) -> None:
        request.headers.pop("Referer", None)

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Request | Response:
        location = response.headers.get("Location") if 300 <= response.status < 400 else None
        if location is not None and leads_nowhere(location):
            return response
        try:
            found = super().process_response(request, response)
        except IgnoreRequest:
            return self._end(response, TOO_MANY)
        except ValueError:
            # To no URL: brackets or a port that none has, "javascript:void(0)".
            return response
        if not isinstance(found, Request):
            return found
        # Unfiltered requests may pass a URL twice on purpose, as for a cookie.
        target = found.url.partition("#")[0]
        passed = (url.partition("#")[0] for url in found.meta["redirect_urls"])
        if not request.dont_filter and target in passed:
            return self._end(response, LOOP)
        self._count(f"redirects/{response.status}")
        return found

    def _end(self, response: Response, reason: str) -> Response:
        self._count(f"redirects/{reason}")
        return response.replace(flags=[*response.flags, reason])

    def _count(self, name: str) -> None:
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value(name)
