"""Read the elements that are pushed to `<spider>:start_urls`, compatible with scrapy-redis.

For the generic spider an element is a URL, or JSON with a `url`. For other spiders it is a request:
its JSON may also have a `method`, `meta` and form fields, and a spider with the method
`make_request_from_data` makes the requests itself. Requests that are made here pass the offsite
filter, as with scrapy-redis: whoever pushes a URL wants it.

Messages of Kafka are the same (scheduling/kafka_seeds.py). So may be the URLs that another crawl
discovered: their JSON names its schema. They are seeds here, in the front queue of their score.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from scrapy import FormRequest, Request

from crawler.discovery.priority import clamp, front_queue
from crawler.discovery.seeds import parse_seed, why
from crawler.frontier.entry import Entry
from crawler.urls import DEFAULT, Rejected, Urls
from crawler.util.secrets import shown

if TYPE_CHECKING:
    from scrapy import Spider

logger = logging.getLogger(__name__)

EntryOf = Callable[[Request], Entry | None]

# Schema of the JSON that crawls write about the URLs they discover (docs/streams.md), any version.
_DISCOVERED = "discovered/"
_REFUSED = "its requests cannot be crawled; the log says why"


class Pushed(NamedTuple):
    """URL that was pushed; `forced` URLs are fetched even if they are known (`dont_filter`)."""

    entry: Entry
    forced: bool = False


class Unreadable(ValueError):
    """Element that gives no URL; the text says why, and `reason` is a code for programs."""

    def __init__(self, reason: str, text: str, *, is_logged: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        self.is_logged = is_logged


class PushedReader:
    """Reader of the elements pushed for one spider."""

    def __init__(
        self,
        key: str,
        urls: Urls = DEFAULT,
        entry_of: EntryOf | None = None,
        make: Callable[[bytes], Any] | None = None,
        *,
        has_filter: bool = False,
        thresholds: Sequence[int] = (),
    ) -> None:
        """Without `entry_of` an element is a URL and nothing more, as for the generic spider.

        `make` is the spider's own `make_request_from_data`. With `has_filter` the requests must
        pass Scrapy's offsite filter. `thresholds` are the minimum scores of the front queues, for
        elements with a score.
        """
        # May elements ask for known URLs? Then only one process may take each element.
        self.may_force = make is not None
        self._key = key
        self._urls = urls
        self._entry_of = entry_of
        self._make = make
        # Only if needed, since every entry carries it.
        self._meta = {"allow_offsite": True} if has_filter else {}
        self._thresholds = thresholds
        self._warned = False

    @classmethod
    def from_spider(
        cls,
        spider: Spider,
        key: str,
        entry_of: EntryOf,
        urls: Urls,
        thresholds: Sequence[int] = (),
    ) -> Self:
        if getattr(spider, "is_scoped", False):
            return cls(key, urls, thresholds=thresholds)
        has_filter = bool(getattr(spider, "allowed_domains", None))
        make = getattr(spider, "make_request_from_data", None)
        return cls(key, urls, entry_of, make, has_filter=has_filter, thresholds=thresholds)

    def read(self, raw: bytes, *, now_s: float) -> list[Pushed]:
        """Return the URLs of an element that is taken in now; log one that cannot be read."""
        try:
            return self.parse(raw, now_s=now_s)
        except Unreadable as error:
            if not error.is_logged:
                text = shown(raw.decode("utf-8", "replace"))
                cause = error.__cause__
                logger.warning("%s: %r was left out: %s", self._key, text, error, exc_info=cause)
            return []

    def parse(self, raw: bytes, *, now_s: float) -> list[Pushed]:
        """Return the URLs of an element that is taken in now, or raise Unreadable."""
        if self._make is not None and self._entry_of is not None:
            return self._made(self._make, self._entry_of, raw)
        found = parse_url(raw, self._urls, now_s=now_s)
        if isinstance(found, Rejected):
            raise Unreadable(found.reason, why(found.reason))
        more = _beside_url(raw)
        if str(more.get("schema")).startswith(_DISCOVERED):
            found, more = self._scored(found, more.get("score")), {}
        if more and self._entry_of is not None:
            try:
                entry = self._entry_of(_request(found.written_url, more, self._meta))
            except (TypeError, ValueError) as error:
                raise Unreadable("bad_request", str(error)) from None
            if entry is None:
                raise Unreadable("bad_request", _REFUSED, is_logged=True)
            # Not forced: several processes may read this element.
            return [Pushed(entry)]
        if more and not self._warned:
            self._warned = True
            logger.warning(
                "%s: of JSON only the url is taken, and fetched by GET; left out: %s",
                *(self._key, shown(", ".join(sorted(more)))),
            )
        tail = {**found.tail, "meta": self._meta} if self._meta else found.tail
        return [Pushed(replace(found, tail=tail))]

    def _scored(self, seed: Entry, score: Any) -> Entry:
        if not self._thresholds or not isinstance(score, int):
            return seed
        return replace(seed, queue=front_queue(clamp(score), self._thresholds))

    def _made(self, make: Callable[[bytes], Any], entry_of: EntryOf, raw: bytes) -> list[Pushed]:
        try:
            # entry_of logs requests that cannot be crawled.
            entries = [(entry_of(each), each.dont_filter) for each in _requests(make(raw))]
        except Exception as error:  # the spider's own code; others wait behind it
            text = f"make_request_from_data: {error!r}"
            raise Unreadable("spider_error", text) from error
        found = [Pushed(entry, forced) for entry, forced in entries if entry is not None]
        if entries and not found:
            raise Unreadable("bad_request", _REFUSED, is_logged=True)
        return found


def parse_url(raw: bytes, urls: Urls = DEFAULT, *, now_s: float) -> Entry | Rejected:
    """Return the entry of an element's URL, or why there is none."""
    text = raw.decode("utf-8", "replace").strip()
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return Rejected("no_json")
        if not isinstance(found.get("url"), str):
            return Rejected("no_url")
        text = found["url"]
    return parse_seed(text, urls, now_s=now_s)


def _beside_url(raw: bytes) -> dict[str, Any]:
    """Return the fields of an element except its URL."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return {name: found[name] for name in found if name != "url"} if isinstance(found, dict) else {}


def _request(url: str, more: dict[str, Any], our_meta: dict[str, Any]) -> Request:
    """Make the request of a JSON element; fields other than method and meta are form fields."""
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
    """Return the requests that a spider made: one, several, or none."""
    requests = [] if made is None else list(made) if isinstance(made, Iterable) else [made]
    for request in requests:
        if not isinstance(request, Request):
            raise TypeError(f"it gave a {type(request).__name__}, and no Request")
    return requests
