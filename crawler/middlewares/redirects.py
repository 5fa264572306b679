"""Send redirects through the frontier, so that the target host's clock and rules apply.

The target has the depth of the source. The chain of redirects travels with the request and is
stored with its page (`redirects` and `redirect_statuses`; 301 and 308 are permanent). A loop, or a
chain that is too long, ends with the redirect itself as the response, and the reason as a flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy import Request
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.exceptions import IgnoreRequest

from crawler.urls.canonical import leads_nowhere

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

LOOP, TOO_MANY = "redirect_loop", "too_many_redirects"


class Redirects(RedirectMiddleware):
    """Scrapy's RedirectMiddleware without Referer headers; its requests go to the scheduler."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        # Scrapy's own also looks for its Referer middleware, and warns if there is none.
        redirects = cls(crawler.settings)
        redirects.crawler = crawler
        return redirects

    def handle_referer(self, request: Request, response: Response) -> None:
        request.headers.pop("Referer", None)

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Request | Response:
        if not 300 <= response.status < 400:
            return response
        location = response.headers.get("Location")
        if location is not None and leads_nowhere(location):
            return response
        try:
            found = super().process_response(request, response)
        except IgnoreRequest:
            return self._end(response, TOO_MANY)
        except ValueError:
            # The target is no URL: wrong brackets or port, "javascript:void(0)".
            return response
        if not isinstance(found, Request):
            return found
        # Requests with dont_filter may visit a URL twice on purpose, for example for a cookie.
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
