"""Give plain requests at once what Scrapy's middlewares for headers and time-outs give each.

They add the same to every request that has none of it, in four calls: what that is, is found out by
a request that nobody sends. Others go to the middlewares, as ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from scrapy import Request
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.downloadtimeout import DownloadTimeoutMiddleware
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware

from crawler.middlewares.decompression import Decompression

Method = Callable[..., Any]

_THEIRS = (
    Decompression,
    DefaultHeadersMiddleware,
    DownloadTimeoutMiddleware,
    HttpCompressionMiddleware,
    UserAgentMiddleware,
)


class RequestDefaults:
    """In the place of methods that follow each other."""

    def __init__(self, methods: Sequence[Method]) -> None:
        self._methods = methods
        tried = Request("http://plain.invalid/")
        for method in methods:
            method(request=tried)
        self._headers: list[tuple[bytes, list[bytes]]] = list(dict.items(tried.headers))
        self._meta = tried.meta

    def process_request(self, request: Request) -> None:
        headers, meta = request.headers, request.meta
        if headers or not meta.keys().isdisjoint(self._meta):
            for method in self._methods:
                method(request=request)
            return
        # They are in their normal form already, and each request has lists of its own.
        dict.update(headers, [(name, [*values]) for name, values in self._headers])
        meta.update(self._meta)


def merged(methods: Iterable[Method | None]) -> deque[Method | None]:
    """These methods `process_request`, with one in the place of Scrapy's that stand together."""
    found: deque[Method | None] = deque()
    for is_theirs, group in groupby(methods, _is_theirs):
        together = list(group)
        if is_theirs:
            found.append(RequestDefaults([method for method in together if method]).process_request)
        else:
            found += together
    return found


def _is_theirs(method: Method | None) -> bool:
    # Not any class that derives from theirs: it may do anything.
    return type(getattr(method, "__self__", None)) in _THEIRS
