"""Turn a Scrapy Request into a frontier entry and back, with msgpack instead of pickle.

The entry of a plain GET is only its URL. Everything else that a request has (method, body, headers,
cookies, callback and errback by name, cb_kwargs, meta, flags, priority, dont_filter, encoding) is
in the tail. A request is known by its canonical URL and fetched by the URL as it was written.
Tuples come back as lists, except the local address of a connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgpack
from scrapy import Request

from crawler.discovery.priority import clamp, front_queue, score
from crawler.errors import CrawlerError
from crawler.frontier.entry import MAX_DEPTH, Entry, Kind
from crawler.urls import DEFAULT, SITEMAP, Rejected, Urls, with_fragment
from crawler.util.request_meta import (
    CRAWL_DELAY,
    EXCHANGE,
    FETCH,
    FETCH_STARTED,
    FINISH,
    GIVEN_UP,
    LEASE,
    MAY_FETCH,
    RENDERING,
    USAGE,
)

if TYPE_CHECKING:
    from scrapy import Spider


# Set by Scrapy's proxy middleware: the proxy is from the environment; the proxy that the
# credentials are for.
_OF_ENVIRONMENT, _TRUSTED_PROXY = "_scheme_proxy", "_auth_proxy"
_PROXY_SECRET = "Proxy-Authorization"  # noqa: S105 - a header
_BIND = "bindaddress"
_RETRIES = "retry_times"
# Set while a request is processed, by Scrapy or by this project; of no use to another process.
_LOCAL_META = frozenset(
    {
        LEASE,
        MAY_FETCH,
        EXCHANGE,
        GIVEN_UP,
        FINISH,
        FETCH,
        RENDERING,
        "depth",
        "download_slot",
        "download_latency",
        FETCH_STARTED,
        "fetch_ms",
        CRAWL_DELAY,
        USAGE,
        "redirect_ttl",
        "is_start_request",
        _OF_ENVIRONMENT,
        _TRUSTED_PROXY,
    }
)

# URLs in which nothing needs escaping, as in most. Scrapy's check for it takes longer than the rest
# of making a request; a key of the meta turns it off.
_SAFE_URL = re.compile(
    r"https?://[a-z0-9.-]+(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"
    r"/[A-Za-z0-9/._~%&=+-]*(?:\?[A-Za-z0-9/._~%&=+-]*)?"
)
_VERBATIM = "verbatim_url"


class NotCarried(CrawlerError):
    """Request that cannot be stored in Redis; the text names the field."""


def to_entry(
    request: Request,
    spider: Spider,
    thresholds: Sequence[int],
    *,
    depth: int | None = None,
    parent: int = 0,
    urls: Urls = DEFAULT,
    kind: Kind = Kind.PAGE,
    now_s: float,
) -> Entry | Rejected:
    """Make the entry of a request that is new. Return Rejected for a URL that is not crawled.

    Raises NotCarried for a request that cannot be stored.
    """
    spelling = urls.spelling(request.url)
    if isinstance(spelling, Rejected):
        return spelling
    url, written = spelling
    if depth is None:
        depth = request.meta.get("depth", 0)
        if not isinstance(depth, int):
            raise NotCarried(
                f"{request} cannot go through the frontier: meta['depth'] is {depth!r}. Use a "
                "whole number, or leave it out."
            )
    tail = _tail(request, spider)
    method = SITEMAP if kind is Kind.SITEMAP else request.method
    return Entry(
        id=urls.fingerprint(url, method, request.body),
        url=url,
        queue=front_queue(clamp(score(url, depth) + request.priority), thresholds),
        depth=max(0, min(depth, MAX_DEPTH)),
        parent=parent,
        group_skip=urls.group_skip(url),
        kind=kind,
        written=with_fragment(url, written, request.url.partition("#")[2]),
        discovered_s=int(now_s),
        tail=tail,
    )


def to_request(entry: Entry, spider: Spider) -> Request:
    """Make the request of an entry."""
    meta: dict[str, Any] = {"depth": entry.depth, "download_slot": entry.host}
    tail = entry.tail
    if entry.attempts:
        # As Scrapy's own retries have it.
        meta[_RETRIES] = entry.attempts
    if not tail:
        return _request(entry.written_url, meta)
    meta.update(tail.get("meta", {}))
    if isinstance(meta.get(_BIND), list):
        # Sockets only take tuples.
        meta[_BIND] = tuple(meta[_BIND])
    return _request(
        entry.written_url,
        meta,
        method=tail.get("method", "GET"),
        body=tail.get("body"),
        headers=tail.get("headers"),
        cookies=tail.get("cookies"),
        callback=_method(spider, tail.get("callback")),
        errback=_method(spider, tail.get("errback")),
        cb_kwargs=tail.get("cb_kwargs"),
        flags=tail.get("flags"),
        priority=tail.get("priority", 0),
        dont_filter=tail.get("dont_filter", False),
        encoding=tail.get("encoding", "utf-8"),
    )


def as_given(request: Request, source: Entry) -> Request:
    """Return a request that replaces that of `source`, as after a redirect, as the user gave it.

    It keeps the user's headers, without Scrapy's defaults. The address of its proxy gets back the
    credentials that Scrapy removed; a proxy of the environment is removed, to be chosen again.
    """
    given = source.tail.get("headers", {})
    headers = {name: values for name, values in given.items() if name in request.headers}
    meta = request.meta
    if _OF_ENVIRONMENT in meta:
        meta = {key: value for key, value in meta.items() if key != "proxy"}
    elif _TRUSTED_PROXY in meta and meta[_TRUSTED_PROXY] == meta.get("proxy"):
        if proxy := source.tail.get("meta", {}).get("proxy"):
            meta = {**meta, "proxy": proxy}
        else:
            # Chosen by a middleware.
            headers[_PROXY_SECRET] = request.headers.getlist(_PROXY_SECRET)
    return request.replace(headers=headers, meta=meta)


def _request(url: str, meta: dict[str, Any], **more: Any) -> Request:
    if _SAFE_URL.fullmatch(url) is None:
        return Request(url, meta=meta, **more)
    request = Request(url, meta={**meta, _VERBATIM: True}, **more)
    del request.meta[_VERBATIM]
    return request


def _tail(request: Request, spider: Spider) -> dict[str, Any]:
    """Return what the request has beside its URL; empty for a plain GET."""
    tail: dict[str, Any] = {
        "method": "" if request.method == "GET" else request.method,
        "body": request.body,
        "headers": {key.decode("latin-1"): values for key, values in request.headers.items()},
        "cookies": request.cookies,
        "callback": _name(request, "callback", spider),
        "errback": _name(request, "errback", spider),
        "cb_kwargs": request.cb_kwargs,
        "flags": request.flags,
        "priority": request.priority,
        "dont_filter": request.dont_filter,
        "encoding": "" if request.encoding == "utf-8" else request.encoding,
        "meta": {key: value for key, value in request.meta.items() if key not in _LOCAL_META},
    }
    tail = {name: value for name, value in tail.items() if value}
    _check(request, tail)
    return tail


def _check(request: Request, tail: dict[str, Any]) -> None:
    for name, value in tail.items():
        parts = value.items() if name in ("meta", "cb_kwargs") else [(None, value)]
        for key, part in parts:
            try:
                # In both directions: some values can be packed, but not unpacked.
                msgpack.unpackb(msgpack.packb({"" if key is None else key: part}))
            except (TypeError, ValueError, OverflowError) as error:
                field = name if key is None else f"{name}[{key!r}]"
                raise NotCarried(
                    f"{request} cannot go through the frontier: {field} is a "
                    f"{type(part).__name__} ({error}). Use numbers, strings, bytes, lists and "
                    "dicts with strings as keys, or keep it in the spider."
                ) from error


def _name(request: Request, field: str, spider: Spider) -> str:
    function = getattr(request, field)
    # The scheduler wraps the spider's errback.
    function = getattr(function, "wrapped", function)
    if function is None:
        return ""
    name = getattr(function, "__name__", "")
    if getattr(function, "__self__", None) is spider and hasattr(spider, name):
        return name
    raise NotCarried(
        f"{request} cannot go through the frontier: its {field} {function!r} must be a method of "
        f"the spider {spider.name!r}."
    )


def _method(spider: Spider, name: str | None) -> Callable[..., Any] | None:
    return getattr(spider, name) if name else None
