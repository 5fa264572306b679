"""What a crawl and its browser processes say to each other. Pure.

A browser process renders one page at a time. It is sent a `RenderJob`, asks for parts of the page
(`Part`) as the page wants them, and gets a `PartAnswer` or the reason why there is none; it ends
with a `Rendered`. Nothing in its messages is trusted: a page may have taken its browser over. So
their sizes and words are bounded, and a page says nothing for other sites than its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from crawler.reading.messages import Garbage

# Bytes of what a browser process sends: of a page, of its picture, and of a message with both.
MAX_HTML_BYTES, MAX_SCREENSHOT_BYTES, MAX_MESSAGE_BYTES = 10_000_000, 4_000_000, 20_000_000
# Parts that a page asks for, at once and in all, and what a request for one may have.
PARTS_AT_ONCE, MAX_PARTS = 6, 1000
MAX_URL_CHARS, MAX_HEADERS, MAX_HEADER_CHARS, MAX_BODY_BYTES = 8192, 100, 32_768, 1_000_000
MAX_ROUTES = 200
MAX_TEXT_CHARS = 1000
# Why a browser process leaves a request out: its kind, what it is, or that there are too many.
LEFT_OUT = frozenset(
    "budget cspreport document eventsource fetch font iframe image manifest media navigation other "
    "ping popup script stylesheet texttrack url websocket xhr".split()
)
_MAX_COUNT = 1_000_000
_METHOD_CHARS = 20
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class BrowserConfig:
    """What a browser process is told when it starts, as the argument of its command."""

    program: str
    user_agent: str
    # Kinds of parts that are asked for.
    kinds: tuple[str, ...]
    nice: int = 10
    # Chromium's own, which does not work for root.
    sandbox: bool = True
    start_s: float = 30.0
    # Without any interface of a network, if this process may do that: as root.
    own_network: bool = True

    def to_argument(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls, text: str) -> Self:
        found = json.loads(text)
        return cls(**{**found, "kinds": tuple(found["kinds"])})


@dataclass(frozen=True, slots=True)
class RenderJob:
    """One page to render: its document as it was fetched, which is not fetched again."""

    url: str
    status: int
    # Of the response, without those of its transfer: length, encoding, connection.
    headers: list[tuple[str, str]]
    # Not compressed.
    body: bytes
    # How often the page is scrolled to its end, for lists that grow.
    scroll: int = 0
    # Seconds after which the page is taken as it is.
    deadline_s: float = 10.0
    screenshot: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Request of a page: a script, a style sheet, data."""

    url: str
    method: str
    # As Chromium names resource types, in lower case: "script", "stylesheet", "xhr", "fetch" …
    kind: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class PartAnswer:
    """Response for a part; redirects are followed before."""

    status: int
    headers: list[tuple[str, str]]
    # Not compressed.
    body: bytes


@dataclass(frozen=True, slots=True)
class Rendered:
    """Page as a browser shows it."""

    # Where the page is after calls of the history API; the same document.
    url: str
    # The DOM as HTML in UTF-8.
    html: bytes
    # Another document to which the page wants to go. It was not fetched.
    redirect: str = ""
    # URLs that the page gave to the history API, and links in shadow trees.
    routes: list[str] = field(default_factory=list)
    # False: it was still busy at the deadline, and is taken as it was then.
    settled: bool = True
    console_errors: int = 0
    # Requests that the browser process did not pass on, by reason: one of LEFT_OUT.
    left_out: dict[str, int] = field(default_factory=dict)
    # WebP; empty if none was wanted.
    screenshot: bytes = b""


class RenderFailed(Exception):
    """Page that could not be rendered; `reason` is one of REASONS."""

    REASONS = ("crashed", "timeout", "memory", "start")

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(text or reason)
        self.reason = reason


def job_message(job: RenderJob) -> dict[str, Any]:
    """Return the message that gives a page to a browser process."""
    return {"job": asdict(job)}


def answer_message(number: int, answer: PartAnswer | str) -> dict[str, Any]:
    """Return the message that answers a request for a part."""
    if isinstance(answer, str):
        return {"answer": number, "reason": answer}
    return {"answer": number, **asdict(answer)}


def part_in(message: Mapping[str, Any]) -> tuple[int, Part]:
    """Return the part that a browser process asks for, and its number; or Garbage."""
    match message:
        case {
            "part": int() as number,
            "url": str() as url,
            "method": str() as method,
            "kind": str() as kind,
            "headers": dict() as headers,
            "body": bytes() as body,
        } if (
            is_web_url(url)
            and len(method) <= _METHOD_CHARS
            and kind in LEFT_OUT
            and are_headers(headers)
            and len(body) <= MAX_BODY_BYTES
        ):
            return number, Part(url, method, kind, headers, body)
    raise Garbage("a message that asks for no part")


def outcome_in(message: Mapping[str, Any], url: str = "") -> tuple[Rendered | RenderFailed, bool]:
    """Return what became of the page at `url`, and whether its browser is done for; or Garbage."""
    match message:
        case {"failed": str() as reason, "text": str() as text} if reason in RenderFailed.REASONS:
            return RenderFailed(reason, text[:MAX_TEXT_CHARS]), True
        case {"rendered": dict() as found, "last": bool() as is_last}:
            return _rendered(found, url), is_last
    raise Garbage("a message that is no page")


def _rendered(found: Mapping[str, Any], url: str) -> Rendered:
    match found:
        case {
            "url": str() as shown,
            "html": bytes() as html,
            "redirect": str() as redirect,
            "routes": list() as routes,
            "settled": bool() as settled,
            "console_errors": int() as console_errors,
            "left_out": dict() as left_out,
            "screenshot": bytes() as screenshot,
        } if (
            len(html) <= MAX_HTML_BYTES
            and len(screenshot) <= MAX_SCREENSHOT_BYTES
            and (not redirect or is_web_url(redirect))
            and len(routes) <= MAX_ROUTES
            and all(map(is_web_url, routes))
            and 0 <= console_errors <= _MAX_COUNT
            and all(map(_is_count, left_out.items()))
        ):
            return Rendered(
                url=shown if is_of_site(shown, url) else url,
                html=html,
                redirect=redirect,
                routes=routes,
                settled=settled,
                console_errors=console_errors,
                left_out=left_out,
                screenshot=screenshot,
            )
    raise Garbage("a page with wrong fields")


def is_web_url(url: object) -> bool:
    """Return whether something is a URL of bounded length whose scheme is http or https."""
    return (
        isinstance(url, str)
        and len(url) <= MAX_URL_CHARS
        and url.startswith(("http://", "https://"))
    )


def is_of_site(url: str, page: str) -> bool:
    """Return whether a page can take this URL by the history API: its origin is the page's."""
    return is_web_url(url) and _origin(url) == _origin(page) is not None


def are_headers(headers: Mapping[Any, Any]) -> bool:
    """Return whether these are headers, not too many and not too long."""
    return len(headers) <= MAX_HEADERS and (
        all(isinstance(each, str) for pair in headers.items() for each in pair)
        and sum(len(each) for pair in headers.items() for each in pair) <= MAX_HEADER_CHARS
    )


def _origin(url: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, parts.hostname or "", port


def _is_count(pair: tuple[Any, Any]) -> bool:
    name, number = pair
    return name in LEFT_OUT and isinstance(number, int) and 0 <= number <= _MAX_COUNT
