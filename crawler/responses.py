"""Make Scrapy's responses of the class that Scrapy chooses, without a copy of their headers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes


def make(url: str, headers: Headers, body: bytes, **facts: Any) -> Response:
    """A response that has these headers; `facts` are what else Response takes."""
    response = _kind(url, headers, body)(url, body=body, **facts)
    # The constructor would make each name and value anew.
    response.headers = headers
    return response


def _kind(url: str, headers: Headers, body: bytes) -> type[Response]:
    types = dict.get(headers, b"Content-Type")
    if types and not dict.get(headers, b"Content-Encoding"):
        kind = _kind_of_type(types[-1])
        if kind is not Response:
            return kind
    return responsetypes.from_args(headers=headers, url=url, body=body)


@lru_cache(256)
def _kind_of_type(content_type: bytes) -> type[Response]:
    return responsetypes.from_content_type(content_type)
