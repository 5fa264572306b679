"""Read the elements that others push to `<spider>:start_urls`, as spiders of scrapy-redis do.

For the generic spider an element is a URL, or JSON with a `url`. For any other it is a request: its
JSON may have a `method`, `meta` and fields of a form besides, and a spider that has the method
`make_request_from_data` makes the requests itself. Those that it does not make pass the offsite
filter, as with scrapy-redis: whoever pushes a URL wants it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scrapy import FormRequest, Request

from crawler.discovery.seeds import parse_seed, why
from crawler.frontier.entry import Entry
from crawler.urls import DEFAULT, Rejected, Urls
from crawler.util.secrets import shown

if TYPE_CHECKING:
    from scrapy import Spider

logger = logging.getLogger(__name__)

EntryOf = Callable[[Request], Entry | None]


class Pushed(NamedTuple):
    """A URL that was pushed; forced: it is fetched though it is known (`dont_filter`)."""

    entry: Entry
    forced: bool = False


class PushedReader(Protocol):
    """Makes of an element what it asks for. What it cannot read it tells, and leaves out."""

    # May elements ask for URLs that are known? Then each may be taken in by one process only.
    may_force: bool

    def read(self, raw: bytes) -> list[Pushed]: ...


def reader_for(spider: Spider, key: str, entry_of: EntryOf, urls: Urls) -> PushedReader:
    """The reader of a spider's elements."""
    if getattr(spider, "is_scoped", False):
        return UrlReader(key, urls)
    has_filter = bool(getattr(spider, "allowed_domains", None))
    make = getattr(spider, "make_request_from_data", None)
    return RequestReader(key, urls, entry_of, make, has_filter=has_filter)


class UrlReader:
    """Elements of the generic spider."""

    may_force = False

    def __init__(self, key: str, urls: Urls = DEFAULT) -> None:
        self._key = key
        self._urls = urls
        self._told = False

    def read(self, raw: bytes) -> list[Pushed]:
        found = parse_url(raw, self._urls)
        if isinstance(found, Rejected):
            _tell(self._key, raw, why(found.reason))
            return []
        if not self._told and (more := _beside_url(raw)):
            self._told = True
            logger.warning(
                "%s: of JSON only the url is taken, and fetched by GET; left out: %s",
                *(self._key, shown(", ".join(sorted(more)))),
            )
        return [Pushed(found)]


class RequestReader:
    """Elements of any other spider; `has_filter`: its requests meet the offsite filter."""

    def __init__(
        self,
        key: str,
        urls: Urls,
        entry_of: EntryOf,
        make: Callable[[bytes], Any] | None = None,
        *,
        has_filter: bool = False,
    ) -> None:
        self.may_force = make is not None
        self._key = key
        self._urls = urls
        self._entry_of = entry_of
        self._make = make
        # For Scrapy's filter. Not without need: it is carried by each entry.
        self._meta = {"allow_offsite": True} if has_filter else {}

    def read(self, raw: bytes) -> list[Pushed]:
        if self._make is not None:
            return self._made(self._make, raw)
        found = parse_url(raw, self._urls)
        if isinstance(found, Rejected):
            _tell(self._key, raw, why(found.reason))
        elif not (more := _beside_url(raw)):
            tail = {**found.tail, "meta": self._meta} if self._meta else found.tail
            return [Pushed(replace(found, tail=tail))]
        else:
            try:
                entry = self._entry_of(_request(found.written_url, more, self._meta))
            except (TypeError, ValueError) as error:
                _tell(self._key, raw, str(error))
            else:
                # A known one is not asked for again: several processes may read this element.
                return [] if entry is None else [Pushed(entry)]
        return []

    def _made(self, make: Callable[[bytes], Any], raw: bytes) -> list[Pushed]:
        try:
            # Those that have no entry are told there.
            entries = [(self._entry_of(each), each.dont_filter) for each in _requests(make(raw))]
        except Exception as error:  # noqa: BLE001 - the spider's own code; others wait behind it
            _tell(self._key, raw, f"make_request_from_data: {error!r}", exc_info=True)
            return []
        return [Pushed(entry, forced) for entry, forced in entries if entry is not None]


def parse_url(raw: bytes, urls: Urls = DEFAULT) -> Entry | Rejected:
    """The URL of an element."""
    text = raw.decode("utf-8", "replace").strip()
    if text.startswith("{"):
        try:
            text = str(json.loads(text)["url"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return Rejected("malformed")
    return parse_seed(text, urls)


def _beside_url(raw: bytes) -> dict[str, Any]:
    """What an element says beside its URL."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return {name: found[name] for name in found if name != "url"} if isinstance(found, dict) else {}


def _request(url: str, more: dict[str, Any], our_meta: dict[str, Any]) -> Request:
    """The request of JSON: what is neither method nor meta are fields of a form."""
    method, meta = more.pop("method", "GET"), more.pop("meta", None)
    if not isinstance(method, str):
        raise TypeError(f"its method is {method!r}, and no text")
    if not isinstance(meta, dict | None):
        raise TypeError("its meta is no object")
    form = {
        name: [_field(part) for part in value] if isinstance(value, list) else _field(value)
        for name, value in more.items()
    }
    meta = {**our_meta, **(meta or {})}
    return FormRequest(url, method=method.upper(), meta=meta, formdata=form)


def _field(value: Any) -> str:
    if isinstance(value, dict | list | None):
        raise TypeError(f"{value!r} is no field of a form; give texts and numbers")
    return value if isinstance(value, str) else json.dumps(value)


def _requests(made: Any) -> list[Request]:
    """What a spider made: a request, several, or none."""
    requests = [] if made is None else list(made) if isinstance(made, Iterable) else [made]
    for request in requests:
        if not isinstance(request, Request):
            raise TypeError(f"it gave a {type(request).__name__}, and no Request")
    return requests


def _tell(key: str, raw: bytes, reason: str, *, exc_info: bool = False) -> None:
    text = shown(raw.decode("utf-8", "replace"))
    logger.warning("%s: %r was left out: %s", key, text, reason, exc_info=exc_info)
