"""Requests travel through the frontier as entries, and come out as they went in."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest

from crawler.errors import CrawlerError
from crawler.frontier import Entry
from crawler.frontier.entry import decode, encode
from crawler.scheduling.request_codec import NotCarried, to_entry, to_request
from crawler.urls import Rejected, host_of
from crawler.util.request_meta import LEASE, USAGE

THRESHOLDS = (80, 60, 40, 20)


class ASpider(Spider):
    name = "a"

    def parse_page(self, response: Any) -> None: ...

    def failed(self, failure: Any) -> None: ...


SPIDER = ASpider()
NOW_S = 1_800_000_000.9


def entry_of(request: Request, **arguments: Any) -> Entry:
    entry = to_entry(request, SPIDER, THRESHOLDS, now_s=NOW_S, **arguments)
    assert isinstance(entry, Entry)
    return entry


def travelled(request: Request) -> Request:
    """The request after a way through Redis."""
    return to_request(decode(encode(entry_of(request))), SPIDER)


def test_an_entry_has_the_second_in_which_its_request_came() -> None:
    assert entry_of(Request("http://h.test/a")).discovered_s == 1_800_000_000


def test_a_plain_get_needs_nothing_but_its_url() -> None:
    entry = entry_of(Request("http://h.test/a"))
    assert entry.tail == {}
    request = to_request(entry, SPIDER)
    assert (request.url, request.method, request.body) == ("http://h.test/a", "GET", b"")
    assert request.callback is None
    assert request.meta == {"depth": 0, "download_slot": "h.test"}


FULL = {
    "method": "PUT",
    "body": b"\x00\xff",
    "headers": {"X-One": [b"1", b"\xff"], "Accept": [b"text/html"]},
    "cookies": {"a": "b"},
    "callback": SPIDER.parse_page,
    "errback": SPIDER.failed,
    "cb_kwargs": {"number": 1, "nested": {"list": [1, 2.5, None, True, b"x"]}},
    "meta": {"mine": "x", "download_timeout": 5, "handle_httpstatus_list": [404]},
    "flags": ["one"],
    "priority": -3,
    "dont_filter": True,
    "encoding": "latin-1",
}


@pytest.mark.parametrize("field", [*FULL, "all"])
def test_every_field_of_a_request_survives(field: str) -> None:
    chosen: dict[str, Any] = FULL if field == "all" else {field: FULL[field]}
    before = Request("http://h.test/", **chosen)
    after = travelled(before)
    for name in before.attributes:
        if name != "meta":
            assert getattr(after, name) == getattr(before, name), name
    assert after.meta.items() >= before.meta.items()


def test_every_field_that_scrapy_has_is_tried_here() -> None:
    assert set(Request.attributes) == {*FULL, "url"}


def test_forms_and_json_travel_as_what_they_send() -> None:
    for before in (
        FormRequest("http://h.test/", formdata={"a": "ü"}),
        JsonRequest("http://h.test/", data={"a": [1]}),
    ):
        after = travelled(before)
        assert (after.method, after.body, after.headers) == (
            before.method,
            before.body,
            before.headers,
        )


def test_cookies_in_a_list_survive() -> None:
    cookies = [{"name": "a", "value": "b", "path": "/x"}]
    assert travelled(Request("http://h.test/", cookies=cookies)).cookies == cookies


@pytest.mark.parametrize("address", ["127.0.0.3", ("127.0.0.3", 0)])
def test_the_local_address_of_a_connection_is_one_that_sockets_take(address: Any) -> None:
    request = travelled(Request("http://h.test/", meta={"bindaddress": address}))
    assert request.meta["bindaddress"] == address


def test_what_a_process_notes_for_itself_stays_behind() -> None:
    own = {LEASE: object(), "fetch_started": 1.0, USAGE: ["Content-Signal: search=yes"]}
    meta = {**own, "depth": 4, "download_slot": "other"}
    entry = entry_of(Request("http://h.test/", meta=meta))
    assert entry.tail == {}
    assert entry.depth == 4
    assert to_request(entry, SPIDER).meta == {"depth": 4, "download_slot": "h.test"}


class Odd: ...


class OtherSpider(ASpider):
    name = "other"


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"meta": {"thing": Odd()}}, "meta['thing'] is a Odd"),
        ({"meta": {"set": {1}}}, "meta['set'] is a set"),
        ({"meta": {"when": datetime.now(UTC)}}, "meta['when'] is a datetime"),
        ({"meta": {"numbers": {1: "one"}}}, "meta['numbers'] is a dict"),
        ({"meta": {7: "seven"}}, "meta[7] is a str"),
        ({"meta": {"big": 2**64}}, "meta['big'] is a int"),
        ({"meta": {"text": "\ud800"}}, "meta['text'] is a str"),
        ({"meta": {"cycle": CYCLE}}, "meta['cycle'] is a list"),
        ({"cb_kwargs": {"thing": Odd()}}, "cb_kwargs['thing'] is a Odd"),
        ({"cookies": {"a": Odd()}}, "cookies is a dict"),
        ({"flags": [Odd()]}, "flags is a list"),
        ({"callback": lambda response: None}, "callback"),
        ({"callback": OtherSpider().parse_page}, "callback"),
        ({"callback": print}, "callback"),
        ({"errback": lambda failure: None}, "errback"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_travel_is_named(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(NotCarried) as caught:
        to_entry(Request("http://h.test/", **arguments), SPIDER, THRESHOLDS, now_s=NOW_S)
    assert field in str(caught.value)
    assert isinstance(caught.value, CrawlerError)


@pytest.mark.parametrize(
    ("url", "reason"), [("ftp://h.test/", "scheme"), ("http://u:p@h.test/", "credentials")]
)
def test_a_url_that_is_not_crawled_is_rejected(url: str, reason: str) -> None:
    assert to_entry(Request(url), SPIDER, THRESHOLDS, now_s=NOW_S) == Rejected(reason)


@pytest.mark.parametrize(
    ("priority", "depth", "queue"), [(0, 0, 1), (0, 4, 3), (-100, 0, 5), (100, 30, 1), (-25, 0, 2)]
)
def test_priority_and_depth_choose_the_queue(priority: int, depth: int, queue: int) -> None:
    request = Request("http://h.test/a", priority=priority)
    assert entry_of(request, depth=depth).queue == queue


def test_a_depth_beyond_what_an_entry_can_hold_is_cut() -> None:
    assert decode(encode(entry_of(Request("http://h.test/"), depth=1000))).depth == 255


def test_the_same_url_by_another_method_is_another_entry() -> None:
    get, post = Request("http://h.test/"), Request("http://h.test/", method="POST", body="a")
    assert entry_of(get).id != entry_of(post).id


def test_the_errback_that_settles_leases_is_not_carried_but_the_one_in_it() -> None:
    class Settling:
        def __init__(self, wrapped: Callable[..., Any] | None) -> None:
            self.wrapped = wrapped

        def __call__(self, failure: Any) -> None: ...

    around = Request("http://h.test/", errback=Settling(SPIDER.failed))
    assert travelled(around).errback == SPIDER.failed
    alone = Request("http://h.test/", errback=Settling(None))
    assert entry_of(alone).tail == {}


def test_urls_are_escaped_as_scrapy_does_it() -> None:
    chance = random.Random(5)
    usual, odd = "abcXYZ019/._~%&=+-?", ";,'!()*|[]{}^\" #:@ü\\<>$`"
    for _ in range(5000):
        host = "".join(chance.choices("ab0.-", k=chance.randint(1, 8)))
        port = chance.choice(["", "", ":80", ":08", ":65535", ":59999", ":0"])
        path = "".join(chance.choices(chance.choice([usual, usual + odd]), k=chance.randint(0, 20)))
        url = f"{chance.choice(['http', 'https'])}://{host}{port}/{path}"
        expected = Request(url, meta={"depth": 2, "download_slot": "h"})
        found = to_request(Entry(id=1, url=url, depth=2), SPIDER)
        # A link may end with it, and is fetched as it is written; Scrapy leaves it out.
        assert found.url.removesuffix("?") == expected.url.removesuffix("?")
        assert found.meta.keys() == expected.meta.keys()


@pytest.mark.parametrize(
    ("url", "known_as", "fetched"),
    [
        ("http://h.test/?sig=1&b=2&a=1", "http://h.test/?a=1&b=2&sig=1", None),
        ("http://h.test/?utm_source=x&a=1", "http://h.test/?a=1", None),
        ("http://h.test/;jsessionid=1234567890123456789012345678", "http://h.test/", None),
        ("http://h.test/%7Eme", "http://h.test/~me", None),
        ("http://h.test/a?#part", "http://h.test/a", "http://h.test/a"),
        # Where it is fetched from, and what robots.txt says of it, is judged by one spelling.
        ("HTTP://H.TEST:80?b&a", "http://h.test/?a&b", "http://h.test/?b&a"),
        ("http://h.test./?b&a", "http://h.test/?a&b", "http://h.test/?b&a"),
        ("http://h.test/x/../%2e/y?b&a", "http://h.test/y?a&b", "http://h.test/y?b&a"),
        ("http://h.test/.x/../y?b&a#a/../b", "http://h.test/y?a&b", "http://h.test/y?b&a#a/../b"),
        # No server sees a fragment.
        ("http://h.test/y#part", "http://h.test/y", "http://h.test/y"),
        ("http://bücher.test/ü?b&a", "http://xn--bcher-kva.test/%C3%BC?a&b", None),
    ],
)
def test_a_request_is_known_by_its_canonical_url_and_fetched_as_it_is_spelled(
    url: str, known_as: str, fetched: str | None
) -> None:
    request = Request(url)
    entry = entry_of(request)
    assert entry.url == known_as
    assert entry.id == entry_of(Request(known_as)).id
    assert travelled(request).url == (fetched or request.url)
    assert host_of(entry.written_url) == host_of(known_as)


@pytest.mark.parametrize("tail", [{}, {"etag": "1"}])
@pytest.mark.parametrize(
    ("written", "fetched"),
    [("", "/p?a"), ("?", "/p?"), ("?utm_id=1&a", "/p?utm_id=1&a"), ("/q;s=1?a", "/q;s=1?a")],
)
def test_a_link_is_fetched_as_it_is_written(
    written: str, fetched: str, tail: dict[str, Any]
) -> None:
    entry = Entry(id=1, url="http://h.test/p?a", written=written, tail=tail)
    assert to_request(entry, SPIDER).url == f"http://h.test{fetched}"


def test_a_request_is_spelled_the_same_however_often_it_travels() -> None:
    chance = random.Random(6)
    for _ in range(3000):
        path = "".join(chance.choices("ab/._%&=+?;,'|[]{}^ #:@ü\\", k=chance.randint(0, 20)))
        once = travelled(Request(f"http://h.test/{path}"))
        again = travelled(once)
        assert again.url == once.url
        assert entry_of(again).id == entry_of(once).id


def test_retries_are_counted_in_the_meta_as_scrapy_does() -> None:
    entry = Entry(id=1, url="http://h.test/")
    assert "retry_times" not in to_request(entry, Spider("a")).meta
    again = entry.retried("timeout", now_s=0).retried("timeout", now_s=0)
    assert to_request(again, Spider("a")).meta["retry_times"] == 2
