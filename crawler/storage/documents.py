"""The document of a page, as MongoDB, object stores and exports have it. Pure.

docs/pages.md describes its fields. In JSON, dates are ISO 8601.
"""

from __future__ import annotations

import codecs
import json
from base64 import b64encode
from dataclasses import fields
from datetime import datetime
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any

from crawler.items import Page
from crawler.urls import host_of, registered_domain

# Fields that a document has only if the page has some, and what they become when it has none.
OPTIONAL: dict[str, Any] = {
    "items": [],
    "places": {},
    **dict.fromkeys(("media_type", "text_language", "author"), ""),
    **dict.fromkeys(("published_at", "updated_at", "relevance", "duplicate_similarity"), None),
    "headings": [],
    "rights": {},
    "rendered": False,
}
# Fields that are stored elsewhere (body, texts), in part (links), or not at all.
_NOT_METADATA = frozenset(
    {"body", "text", "main_text", "markdown", "links", "stored", "parent_url", *OPTIONAL}
)
_METADATA = tuple(field.name for field in fields(Page) if field.name not in _NOT_METADATA)
_metadata_of = attrgetter(*_METADATA)
_optional_of = attrgetter(*OPTIONAL)
_LINKS_KEPT = 1000
# Characters of a text: far more than people read, and few enough for a document of MongoDB.
TEXT_KEPT = 1_000_000
# Texts that are stored if PAGE_FIELDS has them, and can be made of the body.
MADE = ("main_text", "markdown")
# Fields of the metadata by which they are made.
READ_BY = ("url", "final_url", "headers", "content_type")


def texts_of(page: Page) -> dict[str, str]:
    """Return the text of a page, and its main text and Markdown if it has them."""
    found = {"text": page.text[:TEXT_KEPT]}
    for name in MADE:
        if text := getattr(page, name):
            found[name] = text[:TEXT_KEPT]
    return found


def page_fields(page: Page) -> dict[str, Any]:
    """Return the metadata of a page, as far as one visit tells it; all but `parent_url`."""
    document = dict(zip(_METADATA, _metadata_of(page), strict=True))
    host = host_of(page.url)
    document["host"] = host
    document["domain"] = registered_domain(host)
    document["is_active"] = page.is_active
    document["links_count"] = len(page.links)
    document["links"] = page.links[:_LINKS_KEPT]
    document.update(optional_fields(page))
    return document


def optional_fields(page: Page) -> dict[str, Any]:
    """Return the fields that not every page has, those that this one has."""
    found = zip(OPTIONAL, _optional_of(page), strict=True)
    # A relevance of 0 is one.
    return {name: value for name, value in found if value or (value == 0 and value is not False)}


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Format a value as JSON; dates in ISO 8601, and null for numbers that JSON does not have."""
    encode = _encoder(indent).encode
    try:
        return encode(value)
    except ValueError:
        return encode(_finite(value))


@cache
def _encoder(indent: int | None) -> json.JSONEncoder:
    # Made once: to make it takes longer than to encode a few fields.
    return json.JSONEncoder(
        indent=indent, ensure_ascii=False, allow_nan=False, default=_json_default
    )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _json_default(value: object) -> str:
    """Convert a value that JSON has no type for."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def body_fields(body: bytes, charset: str | None) -> dict[str, str]:
    """Return a body for JSON, from which it comes back byte for byte.

    It is text in `body` if the charset turns that into the same bytes again, and `body_base64`
    otherwise.
    """
    text = _as_text(body, charset)
    return {"body_base64": b64encode(body).decode("ascii")} if text is None else {"body": text}


def _as_text(body: bytes, charset: str | None) -> str | None:
    """Decode a body; None if the text would not give the same bytes again."""
    name = charset_of(charset)
    try:
        text = body.decode(name)
        # JSON is UTF-8, which has no halves of surrogate pairs.
        text.encode()
        return text if text.encode(name) == body else None
    except (LookupError, ValueError):
        return None


# Python's codecs whose time grows with the square of the length, or that are for host names.
_NO_CHARSETS = frozenset({"punycode", "idna"})


def charset_of(name: str | None) -> str:
    """Return the charset by which the body of a page is text; Python may not know it."""
    if not name:
        return "utf-8"
    try:
        return "utf-8" if codecs.lookup(name).name in _NO_CHARSETS else name
    except (LookupError, ValueError):
        return name
