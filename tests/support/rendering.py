"""Pages for real browsers, and what answers the requests of their scripts."""

from collections.abc import Callable, Mapping
from typing import Any

from crawler.rendering.browsers import BrowserLimits, Browsers
from crawler.rendering.messages import BrowserConfig, Part, PartAnswer, Rendered, RenderJob
from tests.support.browser import PROGRAM

URL = "http://page.test/"
KINDS = ("script", "stylesheet", "xhr", "fetch")
# Far beyond what a page needs on a busy machine; tests of the limit itself take less.
PATIENT_S = 60.0
TYPES = {"js": "text/javascript", "css": "text/css", "json": "application/json"}


def limits(
    *, count: int = 1, config: Mapping[str, Any] | None = None, **others: Any
) -> BrowserLimits:
    """Limits of browsers for tests: without a sandbox, which does not work for root."""
    assert PROGRAM is not None
    given = {
        "program": PROGRAM,
        "user_agent": "tester/1.0",
        "kinds": KINDS,
        "nice": 0,
        "sandbox": False,
        "start_s": PATIENT_S,
        **(config or {}),
    }
    return BrowserLimits(BrowserConfig(**given), count=count, **others)


class Site:
    """Site that answers for the parts of its pages, and keeps who asked for what."""

    def __init__(self, parts: Mapping[str, str] | None = None) -> None:
        self._parts = parts or {}
        self.asked: list[Part] = []
        # Called with each part before it is answered.
        self.on_part: Callable[[Part], Any] = lambda _part: None

    @property
    def urls(self) -> list[str]:
        return [part.url for part in self.asked]

    async def part(self, part: Part) -> PartAnswer | str:
        self.asked.append(part)
        waits = self.on_part(part)
        if waits is not None:
            await waits
        path = part.url.removeprefix(URL)
        if path not in self._parts:
            return "not here"
        media_type = TYPES.get(path.rpartition(".")[2], "text/plain")
        return PartAnswer(200, [("Content-Type", media_type)], self._parts[path].encode())


async def render(
    browsers: Browsers, document: str, site: Site | Mapping[str, str] | None = None, **job: Any
) -> Rendered:
    """Render a page with this HTML."""
    if not isinstance(site, Site):
        site = Site(site)
    headers = [("Content-Type", "text/html; charset=utf-8"), *job.pop("headers", ())]
    given = {"url": URL, "status": 200, "deadline_s": PATIENT_S, **job}
    body = f"<!DOCTYPE html><title>Page</title><body>{document}".encode()
    return await browsers.render(RenderJob(headers=headers, body=body, **given), site.part)
