"""Fetch the parts of pages that are rendered: scripts, style sheets, data.

A part is a request like any other: robots.txt, address guard, DNS cache, limits of size and time
apply. It needs the slot of its host. That of the page's own host is held while the page is
rendered; the slot of another host is taken for the rest of the page, if that host is free within
two seconds. A host gets one request at a time here too. What cannot be had is left out and counted:
the page is shown without it.

Scripts and style sheets are kept in memory, for all pages of the process, as long as their
Cache-Control allows.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urljoin

from scrapy import Request

from crawler import config
from crawler.download.errors import failure_of
from crawler.politeness.host_delays import Fetch, retry_after_s
from crawler.rendering.messages import PartAnswer, is_of_site
from crawler.urls import Rejected, Urls, host_of
from crawler.util.recent import ENTRY_BYTES, RecentDict
from crawler.util.request_meta import ARCHIVED, BESIDE, MAY_FETCH

if TYPE_CHECKING:
    from scrapy.http import Headers, Response

    from crawler.rendering.messages import Part

# Seconds to wait for another host's slot, and for the delay after a fetch of its robots.txt.
_WAIT_S = 2.0
_REDIRECTS, _REDIRECTS_MAX = frozenset({301, 302, 303, 307, 308}), 5
_METHODS = frozenset({"GET", "HEAD", "POST"})
# Bytes of all parts of a page.
_PAGE_BYTES = 40_000_000
# Seconds in which sinks that archive have the parts of a page.
_ARCHIVE_S = 5.0
# Headers that our own client writes, or that belong to one connection.
_NOT_SENT = frozenset(
    "host connection keep-alive content-length transfer-encoding accept-encoding upgrade te "
    "proxy-authorization proxy-connection priority".split()
)
_NOT_PASSED_ON = frozenset(
    "connection keep-alive content-encoding content-length transfer-encoding upgrade trailer "
    "alt-svc".split()
)
# Reasons that may be gone at another time.
_PASSING = frozenset("host_busy host_lost overload robots_unknown timeout".split())
_STATIC = frozenset({"script", "stylesheet"})
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=\"?(\d{1,10})")
_NOT_KEPT = re.compile(r"(?:^|[\s,])(?:no-store|no-cache|private)")
# Headers of requests by which the answer for a part may differ, and that are the same for all pages
# or in the key of the cache.
_SAME_FOR_ALL = frozenset(
    "accept accept-encoding accept-language origin sec-fetch-dest sec-fetch-mode user-agent".split()
)
# Headers of requests that are for one origin, or make an answer one for somebody.
_CREDENTIALS = frozenset({"authorization", "cookie"})
# Seconds for which a part without max-age is kept, and the most for any.
_USUAL_AGE_S, _MAX_AGE_S = 600.0, 3600.0


class Rules(NamedTuple):
    """What robots.txt says of a part; `allowed` is None while the rules are unknown."""

    allowed: bool | None
    crawl_delay_s: float = 0.0


class Visit(Protocol):
    """Slot of a host that this process holds."""

    @property
    def host(self) -> str: ...

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Return the right to make a request: one at a time has it."""

    def may_fetch(self) -> bool:
        """Tell whether the host may be contacted at this moment."""

    def fetched(
        self, fetch: Fetch, crawl_delay_s: float = 0.0, answered: bool | None = None
    ) -> None:
        """Note a request, by which the delay of the host is found."""


class OwnHost:
    """Slot of the page's own host, which is held as long as the page is rendered."""

    def __init__(self, host: str, may_fetch: Callable[[], bool]) -> None:
        self.host = host
        # Answer that the host is overloaded, and the time of its slowest one.
        self.overload: Fetch | None = None
        self.slowest_s = 0.0
        # The lease may be another process's, so that parts are missing.
        self.is_lost = False
        # It did not answer to a part.
        self._is_silent = False
        self._may_fetch = may_fetch
        self._turn = asyncio.Lock()

    def turn(self) -> asyncio.Lock:
        return self._turn

    def may_fetch(self) -> bool:
        """Tell whether the page's lease belongs to this process, and its host answers."""
        self.is_lost |= not self._may_fetch()
        return self.overload is None and not self._is_silent and not self.is_lost

    def fetched(
        self, fetch: Fetch, crawl_delay_s: float = 0.0, answered: bool | None = None
    ) -> None:
        """Note a request; its delay is that of the page."""
        self.slowest_s = max(self.slowest_s, fetch.duration_s)
        self._is_silent |= answered is False
        if fetch.is_overload:
            self.overload = fetch


@dataclass(frozen=True, slots=True)
class Services:
    """What the parts need from their surroundings."""

    download: Callable[[Request], Awaitable[Response]]
    # Rules as far as they are known without a contact; and a fetch of them, perhaps by a proxy. It
    # returns the seconds until the host may be contacted again, or None if there are none now.
    rules: Callable[[str], Awaitable[Rules]]
    fetch_rules: Callable[[str, Visit, str], Awaitable[float | None]]
    # The slot of another host, if it is free within so many seconds.
    visit: Callable[[str, float], AbstractAsyncContextManager[Visit | None]]
    # Begins to store a response in sinks that archive.
    archive: Callable[[Response], asyncio.Future[None] | None]
    urls: Urls
    # Tells whether a URL is in a domain that the crawl excludes.
    excludes: Callable[[str], bool]
    count: Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Which parts are fetched, and how many."""

    per_page: int = config.setting("RENDER_PARTS")
    trackers: frozenset[str] | None = None
    timeout_s: float = config.setting("DOWNLOAD_TIMEOUT")
    max_bytes: int = config.setting("RENDER_PART_BYTES")


@cache
def known_trackers() -> frozenset[str]:
    """Return the domains in trackers.txt."""
    text = files("crawler.rendering").joinpath("trackers.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.split("\n") if line and not line.startswith("#"))


class PartCache:
    """Scripts and style sheets that the pages of a process share."""

    def __init__(self, max_bytes: int) -> None:
        self._kept = RecentDict[tuple[str, str], tuple[PartAnswer, float]](
            max_bytes, lambda key, kept: 2 * ENTRY_BYTES + sum(map(len, key)) + _size(kept[0])
        )

    def get(self, part: Part, *, now_s: float) -> PartAnswer | None:
        """Return a part that is still good."""
        found = self._kept.get(_key(part))
        if found is None:
            return None
        if now_s >= found[1]:
            self._kept.pop(_key(part))
            return None
        return found[0]

    def put(self, part: Part, answer: PartAnswer, *, now_s: float) -> None:
        """Keep a part, if it is one that is the same for all pages."""
        if part.kind not in _STATIC or part.method != "GET" or answer.status != 200:
            return
        if not _is_for_all(part, answer):
            return
        said = _values(answer, "cache-control")
        found = _MAX_AGE.search(said)
        age_s = min(float(found[1]), _MAX_AGE_S) if found else _USUAL_AGE_S
        if age_s and not _NOT_KEPT.search(said):
            self._kept[_key(part)] = (answer, now_s + age_s)


def _is_for_all(part: Part, answer: PartAnswer) -> bool:
    """Tell whether other pages get the same answer: it does not depend on who asks."""
    if _CREDENTIALS & part.headers.keys() or _values(answer, "set-cookie"):
        return False
    varies = {name.strip() for name in _values(answer, "vary").split(",")} - {""}
    return varies <= _SAME_FOR_ALL


def _values(answer: PartAnswer, wanted: str) -> str:
    return ",".join(value for name, value in answer.headers if name == wanted).lower()


def _size(answer: PartAnswer) -> int:
    headers = sum(ENTRY_BYTES + len(name) + len(value) for name, value in answer.headers)
    return headers + len(answer.body)


def _key(part: Part) -> tuple[str, str]:
    # The answer may be for scripts of one origin only.
    return part.url, part.headers.get("origin", "")


@dataclass(slots=True)
class PageParts:
    """Parts of one page."""

    services: Services
    limits: PartLimits
    cache: PartCache
    own: OwnHost
    # Of the page's request: a proxy, for one, is for its parts too.
    meta: Mapping[str, Any] = field(default_factory=dict)
    # Requests that were sent, answers from memory, and why others got none.
    fetched: int = 0
    cached: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    _bytes: int = 0
    _visits: dict[str, asyncio.Task[Visit | None]] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _archiving: list[asyncio.Future[None]] = field(default_factory=list)

    async def answer(self, part: Part) -> PartAnswer | str:
        """Return the response for a part, or the reason why there is none."""
        kept = self.cache.get(part, now_s=monotonic())
        if kept is not None:
            self.cached += 1
            self.services.count("render/parts/cached", 1)
            return kept
        try:
            answer = await self._fetch(part)
        except Exception as error:  # noqa: BLE001 - the page is shown without it, whatever it is
            answer = failure_of(error).reason
        if isinstance(answer, str):
            self.refused[answer] += 1
            self.services.count(f"render/parts/refused/{answer}", 1)
        else:
            self.cache.put(part, answer, now_s=monotonic())
        return answer

    @property
    def lacks_some(self) -> bool:
        """Whether parts could not be had now, as another time they might."""
        return self.own.overload is not None or not _PASSING.isdisjoint(self.refused)

    async def close(self) -> None:
        """Leave the hosts of the parts."""
        for task in self._visits.values():
            # One that goes on holds a slot in the end, which the stack must know.
            task.cancel()
        await asyncio.gather(*self._visits.values(), return_exceptions=True)
        await self._stack.aclose()
        if self._archiving:
            await asyncio.wait(self._archiving, timeout=_ARCHIVE_S)

    async def _fetch(self, part: Part) -> PartAnswer | str:
        url, method, body = part.url, part.method, part.body
        headers = {name: value for name, value in part.headers.items() if name not in _NOT_SENT}
        for _ in range(_REDIRECTS_MAX + 1):
            spelling = self.services.urls.spelling(url)
            if isinstance(spelling, Rejected):
                return "url"
            if reason := self._refusal(url, spelling[0], method):
                return reason
            canonical = spelling[0]
            group = host_of(canonical)[self.services.urls.group_skip(canonical) :]
            visit = await self._visit(group)
            if visit is None:
                return "host_busy"
            async with visit.turn():
                request = self._request(visit, url, method, headers, body)
                response = await self._fetch_in_turn(visit, request)
            if isinstance(response, str):
                return response
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or not location:
                return _answer(response)
            if response.status == 303 or (response.status in (301, 302) and method == "POST"):
                method, body = "GET", b""
            source, url = url, urljoin(url, location.decode("latin-1")).partition("#")[0]
            if not is_of_site(url, source):
                headers = {
                    name: value for name, value in headers.items() if name not in _CREDENTIALS
                }
        return "redirects"

    def _refusal(self, url: str, canonical: str, method: str) -> str:
        if method not in _METHODS:
            return "method"
        if self.services.excludes(canonical):
            return "excluded"
        trackers = known_trackers() if self.limits.trackers is None else self.limits.trackers
        host = host_of(canonical).partition(":")[0]
        while host:
            if host in trackers:
                return "tracker"
            host = host.partition(".")[2]
        if self.fetched >= self.limits.per_page or self._bytes > _PAGE_BYTES:
            return "budget"
        return ""

    async def _visit(self, group: str) -> Visit | None:
        """Return the slot of a host; that of another one is asked for once a page."""
        if group == self.own.host:
            return self.own
        task = self._visits.get(group)
        if task is None:
            entering = self._stack.enter_async_context(self.services.visit(group, _WAIT_S))
            task = self._visits[group] = asyncio.ensure_future(entering)
        return await asyncio.shield(task)

    async def _fetch_in_turn(self, visit: Visit, request: Request) -> Response | str:
        """Fetch from a host whose slot is held: its rules first, then the part."""
        url = request.url
        rules = await self.services.rules(url)
        if rules.allowed is None:
            delay_s = await self.services.fetch_rules(url, visit, self.meta.get("proxy") or "")
            if delay_s is None or delay_s > _WAIT_S:
                return "robots_unknown"
            await asyncio.sleep(delay_s)
            rules = await self.services.rules(url)
        if not rules.allowed:
            return "robots" if rules.allowed is False else "robots_unknown"
        if self.fetched >= self.limits.per_page:
            return "budget"
        if not visit.may_fetch():
            return "overload" if self.own.overload is not None else "host_lost"
        self.fetched += 1
        self.services.count("render/parts/fetched", 1)
        started, answered, response = monotonic(), None, None
        try:
            response = await self.services.download(request)
            answered = True
        except Exception as error:
            answered = failure_of(error).answered
            raise
        finally:
            # Also if the page ended meanwhile: the host was contacted.
            status = response.status if response is not None else None
            asked = response.headers.get("Retry-After") if response is not None else None
            fetch = Fetch(monotonic() - started, status, retry_after_s(asked))
            visit.fetched(fetch, rules.crawl_delay_s, answered)
        self._bytes += len(response.body)
        if (stored := self.services.archive(response)) is not None:
            # Its error is logged where it is stored.
            stored.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._archiving.append(stored)
        return response

    def _request(
        self, visit: Visit, url: str, method: str, headers: Mapping[str, str], body: bytes
    ) -> Request:
        meta: dict[str, Any] = {
            **self.meta,
            "dont_redirect": True,
            "dont_obey_robotstxt": True,
            "dont_retry": True,
            # A browser has its own cookies.
            "dont_merge_cookies": True,
            "handle_httpstatus_all": True,
            "download_timeout": self.limits.timeout_s,
            "download_maxsize": self.limits.max_bytes,
            # Where Scrapy delays requests, a page may have the only place of its own one.
            "download_slot": f"{visit.host} parts",
            MAY_FETCH: visit.may_fetch,
            ARCHIVED: True,
            BESIDE: True,
        }
        sent = dict(headers)
        return Request(url, method=method, headers=sent, body=body, meta=meta, dont_filter=True)


def _answer(response: Response) -> PartAnswer:
    return PartAnswer(response.status, passed_headers(response.headers), response.body)


def passed_headers(headers: Headers) -> list[tuple[str, str]]:
    """Return headers as a browser gets them, with names in lower case."""
    return [
        (name.lower(), value.decode("latin-1"))
        for key, values in headers.items()
        if (name := key.decode("latin-1")).lower() not in _NOT_PASSED_ON
        for value in values
    ]
