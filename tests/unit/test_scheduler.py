"""Redirects: between URLs that are folded into one, and through proxies."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.http import Response

from crawler.discovery.parents import ParentUrls
from crawler.frontier import Added, Entry, Kind, Lease
from crawler.frontier.entry import DOCUMENTS, MEDIA
from crawler.middlewares.redirects import Redirects
from crawler.scheduling.request_codec import to_request
from crawler.servers.health import GaveUp
from crawler.urls import DEFAULT, UrlRules, Urls
from crawler.util.request_meta import LEASE
from tests.support.crawlers import project_crawler
from tests.support.schedulers import WritingScheduler, lease_of


class _Discoveries:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.entries: list[Entry] = []
        # Of the answer, where it is not there at once.
        self.future: asyncio.Future[Added] | None = None

    def send(
        self, entry: Entry, mode: str, wake: Callable[[], None]
    ) -> asyncio.Future[Added] | None:
        self.sent.append((entry.url, mode))
        self.entries.append(entry)
        return self.future


class _Engine:
    def wake(self) -> None: ...


class RedirectedScheduler(WritingScheduler):
    """One whose spider was redirected; writes down what goes to the frontier."""

    def __init__(self, urls: Urls) -> None:
        super().__init__()
        self.urls = urls
        self.sent = _Discoveries()
        self.adder = self.sent  # type: ignore[assignment]
        self._engine = _Engine()  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("target", "mode"),
    [
        ("https://h.test/a", "force"),
        ("http://h.test/b", "all"),
        # To itself: fetching it again would bring the same answer.
        ("http://h.test/a", "all"),
    ],
)
def test_a_redirect_that_folds_into_its_source_is_followed(target: str, mode: str) -> None:
    urls = Urls(UrlRules(fold=frozenset({"scheme"})))
    scheduler = RedirectedScheduler(urls)
    source = "http://h.test/a"
    lease = Lease(shard=0, token=b"1", entry=Entry(id=urls.fingerprint(source), url=source))
    assert scheduler.enqueue_request(Request(target, meta={LEASE: lease}))
    assert scheduler.sent.sent == [(target, mode)]
    assert scheduler.calls == [("done", source, False)]


def test_a_redirect_to_itself_with_what_the_canonical_form_leaves_out_is_followed() -> None:
    scheduler = RedirectedScheduler(DEFAULT)
    lease = lease_of("http://h.test/a")
    assert scheduler.enqueue_request(Request("http://h.test/a?utm_id=1", meta={LEASE: lease}))
    assert scheduler.sent.sent == [("http://h.test/a", "force")]
    (entry,) = scheduler.sent.entries
    assert to_request(entry, Spider(name="any")).url == "http://h.test/a?utm_id=1"


def test_the_target_of_a_redirect_is_a_new_url_whose_parent_is_known() -> None:
    scheduler = RedirectedScheduler(DEFAULT)
    lease = lease_of("http://h.test/a", discovered_s=5)
    scheduler.enqueue_request(Request("http://h.test/b", meta={LEASE: lease}))
    (entry,) = scheduler.sent.entries
    assert entry.parent == lease.entry.id
    assert ParentUrls.of(scheduler._crawler).url_of(entry.parent) == "http://h.test/a"
    assert time.time() - 60 < entry.discovered_s <= time.time()


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        (1, "http://h.test/a.pdf", DOCUMENTS),
        (DOCUMENTS, "http://h.test/a.png", MEDIA),
        # As its source, since its URL does not say.
        (DOCUMENTS, "http://h.test/a?b", DOCUMENTS),
        # By what its page said of the link.
        (3, "http://h.test/a/b/c", 3),
    ],
)
def test_the_target_of_a_redirect_is_in_the_queue_of_its_type(
    before: int, target: str, after: int
) -> None:
    scheduler = RedirectedScheduler(DEFAULT)
    scheduler.is_scoped = True
    lease = lease_of("http://h.test/x", queue=before)
    scheduler.enqueue_request(Request(target, meta={LEASE: lease}))
    (entry,) = scheduler.sent.entries
    assert entry.queue == after


def test_a_url_that_takes_its_own_place_keeps_the_time_of_its_discovery() -> None:
    scheduler = RedirectedScheduler(DEFAULT)
    lease = lease_of("http://h.test/a", discovered_s=5)
    scheduler.enqueue_request(Request("http://h.test/a?utm_id=1", meta={LEASE: lease}))
    (entry,) = scheduler.sent.entries
    assert entry.discovered_s == 5


@pytest.mark.parametrize("kind", Kind)
def test_where_a_sitemap_is_redirected_to_is_a_sitemap(kind: Kind) -> None:
    scheduler = RedirectedScheduler(DEFAULT)
    lease = lease_of("http://h.test/a", kind=kind)
    assert scheduler.enqueue_request(Request("http://h.test/b", meta={LEASE: lease}))
    (entry,) = scheduler.sent.entries
    assert entry.kind is kind
    assert (entry.id == DEFAULT.fingerprint("http://h.test/b")) == (kind is Kind.PAGE)


def answer(future: asyncio.Future[Added], outcome: Added | Exception) -> None:
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


@pytest.mark.parametrize(
    ("outcome", "verb"),
    [
        (Added("1"), "done"),
        (GaveUp("Redis is away"), "hand_back"),
        (ValueError("too deep"), "fail"),
    ],
)
async def test_a_redirect_is_done_when_redis_has_its_target_and_not_before(
    outcome: Added | Exception, verb: str
) -> None:
    scheduler = RedirectedScheduler(DEFAULT)
    future = scheduler.sent.future = asyncio.get_running_loop().create_future()
    lease = lease_of("http://h.test/a")
    request = Request("http://h.test/b", meta={LEASE: lease})
    assert scheduler.enqueue_request(request)
    # Given back once more, it is no second target.
    assert scheduler.enqueue_request(request)
    assert len(scheduler.sent.sent) == 1
    assert scheduler.calls == []
    assert scheduler.leases.settling == {lease.key}
    answer(future, outcome)
    await asyncio.sleep(0)
    assert [call[0] for call in scheduler.calls] == [verb]
    assert scheduler.leases.settling == set()


# --- proxies -------------------------------------------------------------------------------------


def redirected(
    target: str, tail: dict[str, Any], chosen: str | None = None
) -> tuple[Entry, Request]:
    """The entry of a redirect's target, and its request as it is sent in the end.

    `chosen` is the proxy that a middleware gives to requests without one.
    """
    crawler = project_crawler()
    crawler.spider = Spider(name="any")
    proxies = HttpProxyMiddleware.from_crawler(crawler)
    scheduler = RedirectedScheduler(DEFAULT)
    lease = lease_of("http://h.test/a", tail=tail)
    request = to_request(lease.entry, crawler.spider)
    request.meta[LEASE] = lease
    if chosen is not None:
        request.meta.setdefault("proxy", chosen)
    proxies.process_request(request)
    answer = Response(request.url, status=302, headers={"Location": target})
    again = Redirects.from_crawler(crawler).process_response(request, answer)
    assert isinstance(again, Request)
    scheduler.enqueue_request(again)
    (entry,) = scheduler.sent.entries
    sent = to_request(entry, crawler.spider)
    proxies.process_request(sent)
    return entry, sent


@pytest.mark.parametrize("target", ["http://h.test/b", "https://other.test/b"])
def test_a_redirect_goes_through_the_same_proxy_with_its_credentials(target: str) -> None:
    tail: dict[str, Any] = {"meta": {"proxy": "http://user:secret@proxy.test:3128"}}
    tail["headers"] = {"X": [b"1"]}
    entry, sent = redirected(target, tail)
    # As it was given: its robots.txt goes the same way.
    assert entry.tail["meta"]["proxy"] == tail["meta"]["proxy"]
    assert sent.meta["proxy"] == "http://proxy.test:3128"
    assert sent.headers["Proxy-Authorization"] == b"Basic dXNlcjpzZWNyZXQ="
    assert sent.headers["X"] == b"1"


def test_a_redirect_keeps_the_proxy_that_a_middleware_chose() -> None:
    _, sent = redirected("http://h.test/b", {}, chosen="http://user:secret@proxy.test:3128")
    assert sent.meta["proxy"] == "http://proxy.test:3128"
    assert sent.headers["Proxy-Authorization"] == b"Basic dXNlcjpzZWNyZXQ="


@pytest.mark.parametrize(
    ("target", "proxy", "secret"),
    [
        ("http://h.test/b", "http://proxy.test:3128", b"Basic dXNlcjpzZWNyZXQ="),
        ("https://h.test/b", "http://secure.test:3128", b"Basic dTpw"),
        ("http://near.test/b", None, None),
    ],
)
def test_of_the_environments_proxies_a_redirect_gets_its_own(
    monkeypatch: pytest.MonkeyPatch, target: str, proxy: str | None, secret: bytes | None
) -> None:
    monkeypatch.setenv("http_proxy", "http://user:secret@proxy.test:3128")
    monkeypatch.setenv("https_proxy", "http://u:p@secure.test:3128")
    monkeypatch.setenv("no_proxy", "near.test")
    entry, sent = redirected(target, {})
    assert sent.meta.get("proxy") == proxy
    assert sent.headers.get("Proxy-Authorization") == secret
    # What the environment of a process says is no business of others.
    assert "proxy" not in entry.tail["meta"]
    assert "headers" not in entry.tail
