"""Redirects between URLs that are folded into one."""

from collections.abc import Callable

import pytest
from scrapy import Request, Spider

from crawler.frontier import Entry, Lease
from crawler.requests import LEASE
from crawler.urls import UrlRules, Urls
from tests.unit.schedulers import WritingScheduler


class _Discoveries:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def send(self, entry: Entry, mode: str, wake: Callable[[], None]) -> None:
        self.sent.append((entry.url, mode))


class _Engine:
    def wake(self) -> None: ...


class RedirectedScheduler(WritingScheduler):
    """One whose spider was redirected; writes down what goes to the frontier."""

    def __init__(self, urls: Urls) -> None:
        super().__init__()
        self.urls = urls
        self._spider = Spider(name="any")
        self.sent = _Discoveries()
        self.discoveries = self.sent  # type: ignore[assignment]
        self._engine = _Engine()  # type: ignore[assignment]

    def done(self, lease: Lease, *, page: bool) -> None:
        self.calls.append(("done", lease.entry.url, page))


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
