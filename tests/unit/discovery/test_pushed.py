"""What others push to Redis: URLs, JSON, and whatever a spider makes requests of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request, Spider

from crawler.discovery.pushed import Pushed, PushedReader, Unreadable, parse_url
from crawler.frontier import Entry
from crawler.scheduling.request_codec import NotCarried, to_entry, to_request
from crawler.urls import DEFAULT, Rejected, fingerprint

KEY = "shop:start_urls"
NOW_S = 1_800_000_000.9


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"http://a.test", "http://a.test/"),
        (b'  {"url": "http://a.test", "meta": {"x": 1}}', "http://a.test/"),
        (b"nonsense", "no_scheme"),
        (b"ftp://a.test", "scheme"),
        (b"{", "no_json"),
        (b'{"link": "http://a.test"}', "no_url"),
        (b'{"url": null}', "no_url"),
        (b'{"url": ' + b"[" * 100_000, "no_json"),
        (b"\xff\xfe", "no_scheme"),
        (b"", "no_scheme"),
    ],
)
def test_what_others_push_is_a_url_or_json_with_one(raw: bytes, found: str) -> None:
    seed = parse_url(raw, now_s=NOW_S)
    assert (seed.reason if isinstance(seed, Rejected) else seed.url) == found


def test_a_pushed_url_is_fetched_as_it_is_written() -> None:
    raw = b"http://h.test/?b=2&a=1&utm_id=3"
    seed = parse_url(raw, now_s=NOW_S)
    assert isinstance(seed, Entry)
    assert (seed.url, seed.written_url) == ("http://h.test/?a=1&b=2", raw.decode())
    assert seed.id == fingerprint(seed.url)


@given(st.one_of(st.binary(), st.binary().map(lambda tail: b"{" + tail)))
def test_anything_may_be_pushed(raw: bytes) -> None:
    assert isinstance(parse_url(raw, now_s=NOW_S), Entry | Rejected)


# --- spiders of one's own -----------------------------------------------------------------------


class Shop(Spider):
    name = "shop"


def entry_of(request: Request) -> Entry | None:
    try:
        found = to_entry(request, Shop(), (80, 60, 40, 20), now_s=NOW_S)
    except NotCarried:
        return None
    return found if isinstance(found, Entry) else None


def requests(reader: PushedReader, raw: bytes) -> list[Request]:
    return [to_request(pushed.entry, Shop()) for pushed in reader.read(raw, now_s=NOW_S)]


def making(make: Callable[[bytes], Any]) -> PushedReader:
    return PushedReader(KEY, DEFAULT, entry_of, make)


def test_the_generic_spider_takes_urls_and_others_take_requests() -> None:
    class Generic(Shop):
        is_scoped = True

    class Own(Shop):
        def make_request_from_data(self, data: bytes) -> Request:
            return Request(data.decode())

    assert not PushedReader.from_spider(Generic(), KEY, entry_of, DEFAULT).may_force
    assert not PushedReader.from_spider(Shop(), KEY, entry_of, DEFAULT).may_force
    own = PushedReader.from_spider(Own(), KEY, entry_of, DEFAULT)
    assert own.may_force
    assert [request.url for request in requests(own, b"http://h.test/")] == ["http://h.test/"]


def test_a_url_alone_is_a_seed() -> None:
    for raw in (b"http://h.test/", b'{"url": "http://h.test/"}'):
        [found] = PushedReader(KEY, DEFAULT, entry_of).read(raw, now_s=NOW_S)
        url = "http://h.test/"
        assert found == Pushed(Entry(fingerprint(url), url, queue=1, discovered_s=int(NOW_S)))


@pytest.mark.parametrize(
    ("raw", "meta"),
    [
        (b"http://h.test/", {"allow_offsite": True}),
        (b'{"url": "http://h.test/", "meta": {"job": 1}}', {"allow_offsite": True, "job": 1}),
        (b'{"url": "http://h.test/", "meta": {"allow_offsite": false}}', {"allow_offsite": False}),
    ],
)
def test_what_is_pushed_passes_the_offsite_filter(raw: bytes, meta: dict[str, Any]) -> None:
    class Filtered(Shop):
        allowed_domains = ["elsewhere.test"]  # noqa: RUF012 - declared so by Scrapy

    [request] = requests(PushedReader.from_spider(Filtered(), KEY, entry_of, DEFAULT), raw)
    assert request.meta.items() >= meta.items()
    # Without a filter nothing is carried for it.
    [pushed] = PushedReader.from_spider(Shop(), KEY, entry_of, DEFAULT).read(
        b"http://h.test/", now_s=NOW_S
    )
    assert pushed.entry.tail == {}


def test_a_spider_that_makes_its_requests_decides_on_the_filter_itself() -> None:
    class Own(Shop):
        allowed_domains = ["elsewhere.test"]  # noqa: RUF012 - declared so by Scrapy

        def make_request_from_data(self, data: bytes) -> Request:
            return Request(data.decode())

    [request] = requests(PushedReader.from_spider(Own(), KEY, entry_of, DEFAULT), b"http://h.test/")
    assert "allow_offsite" not in request.meta


def test_json_may_have_meta_a_method_and_fields_of_a_form() -> None:
    raw = b"""{"url": "http://h.test/search", "method": "post", "meta": {"job": [1, "x"]},
               "word": "caf\xc3\xa9 & bar", "page": 2, "tags": ["a", "b"], "all": true}"""
    reader = PushedReader(KEY, DEFAULT, entry_of)
    [request] = requests(reader, raw)
    assert (request.method, request.url) == ("POST", "http://h.test/search")
    assert request.meta["job"] == [1, "x"]
    assert request.headers["Content-Type"] == b"application/x-www-form-urlencoded"
    assert parse_qs(request.body.decode()) == {
        "word": ["café & bar"],
        "page": ["2"],
        "tags": ["a", "b"],
        "all": ["true"],
    }
    [pushed] = reader.read(raw, now_s=NOW_S)
    assert not pushed.forced


def test_without_a_method_the_form_is_the_query() -> None:
    reader = PushedReader(KEY, DEFAULT, entry_of)
    [request] = requests(reader, b'{"url": "http://h.test/search", "word": "x"}')
    assert (request.method, request.url, request.body) == (
        "GET",
        "http://h.test/search?word=x",
        b"",
    )


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"nonsense", "it is no URL"),
        (b'{"url": "http://h.test/", "meta": []}', "its meta is no object"),
        (b'{"url": "http://h.test/", "method": 1}', "its method is 1, and no text"),
        (b'{"url": "http://h.test/", "form": {}}', "{} is no field of a form"),
        (b'{"url": "http://h.test/", "form": [null]}', "None is no field of a form"),
    ],
)
def test_what_is_no_request_is_told_and_left_out(
    raw: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert PushedReader(KEY, DEFAULT, entry_of).read(raw, now_s=NOW_S) == []
    assert f"{KEY}: {raw.decode()!r} was left out: {reason}" in caplog.text


@pytest.mark.parametrize(
    ("raw", "reason", "text"),
    [
        (b"nonsense", "no_scheme", "it is no URL; write it with http:// or https://"),
        (b'{"link": 1}', "no_url", "the JSON has no url"),
        (b'{"url": "http://h.test/", "method": 1}', "bad_request", "its method is 1, and no text"),
        (
            b'{"url": "http://h.test/", "meta": {"depth": "deep"}}',
            "bad_request",
            "its requests cannot be crawled; the log says why",
        ),
    ],
)
def test_whoever_keeps_bad_elements_gets_the_reason(raw: bytes, reason: str, text: str) -> None:
    with pytest.raises(Unreadable, match=text) as raised:
        PushedReader(KEY, DEFAULT, entry_of).parse(raw, now_s=NOW_S)
    assert raised.value.reason == reason


@pytest.mark.parametrize(
    ("score", "queue"), [(100, 1), (79, 2), (0, 5), (-5, 5), (10**6, 1), (None, 1), ("5", 1)]
)
@pytest.mark.parametrize("entry_of", [None, entry_of], ids=["generic", "own"])
def test_a_url_that_another_crawl_discovered_is_a_seed_in_the_queue_of_its_score(
    score: Any, queue: int, entry_of: Any
) -> None:
    found = {
        "schema": "discovered/1",
        "crawl": "other",
        "url": "http://h.test/?b=1&a=2",
        "score": score,
        "depth": 3,
        "parent": "00000000000000ff",
        "priority": 4,
    }
    reader = PushedReader(KEY, DEFAULT, entry_of, thresholds=(80, 60, 40, 20))
    [pushed] = reader.parse(json.dumps(found).encode(), now_s=NOW_S)
    entry = pushed.entry
    assert (entry.written_url, entry.queue) == ("http://h.test/?b=1&a=2", queue)
    assert (entry.depth, entry.parent, entry.tail) == (0, 0, {})


def test_a_spider_makes_its_own_requests_and_says_which_are_fetched_again() -> None:
    def make(data: bytes) -> Iterator[Request]:
        for word in data.decode().split():
            yield Request(f"http://h.test/{word}", meta={"word": word}, dont_filter=word == "again")

    found = making(make).read(b"again once", now_s=NOW_S)
    assert [(one.entry.url, one.forced) for one in found] == [
        ("http://h.test/again", True),
        ("http://h.test/once", False),
    ]
    assert [to_request(one.entry, Shop()).meta["word"] for one in found] == ["again", "once"]


@pytest.mark.parametrize("made", [None, [], ()])
def test_a_spider_may_make_no_request(made: Any) -> None:
    assert making(lambda _: made).read(b"x", now_s=NOW_S) == []


@pytest.mark.parametrize("meta", [{"x": object()}, {"depth": 1.5}, {"depth": None}])
def test_requests_that_redis_does_not_take_are_left_out(meta: dict[str, Any]) -> None:
    made = [Request("http://h.test/a", meta=meta), Request("http://h.test/b")]
    assert [one.entry.url for one in making(lambda _: made).read(b"x", now_s=NOW_S)] == [
        "http://h.test/b"
    ]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda data: 1 / 0, "make_request_from_data: ZeroDivisionError('division by zero')"),
        (lambda data: data, "it gave a int, and no Request"),
        (lambda data: {"url": "x"}, "it gave a str, and no Request"),
    ],
)
def test_a_spider_that_fails_at_one_element_is_told_and_goes_on(
    make: Callable[[bytes], Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert making(make).read(b"x", now_s=NOW_S) == []
    assert f"{KEY}: 'x' was left out: make_request_from_data: " in caplog.text
    assert reason in caplog.text
