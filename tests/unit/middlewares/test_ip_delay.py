"""Fetches wait for addresses that hosts share; what has no place in line does not."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import NotConfigured

from crawler.middlewares.ip_delay import IpDelay
from crawler.util.request_meta import LEASE
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

URL = "http://www.h.test:8080/a"


class Clock:
    """Says how long to wait, and knows who asked."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self.asked: list[tuple[str, str]] = []

    async def wait_ms(self, host: str, group: str) -> int:
        self.asked.append((host, group))
        return self._wait_ms


def middleware_with(scheduler: WritingScheduler, clock: Clock) -> IpDelay:
    middleware = IpDelay.from_crawler(crawler_with(scheduler, IP_DELAY=0.5))
    middleware._clock = clock  # type: ignore[assignment]
    return middleware


def test_it_is_off_by_default() -> None:
    with pytest.raises(NotConfigured):
        IpDelay.from_crawler(crawler_with(WritingScheduler()))


@pytest.mark.parametrize("wait_ms", [0, 700])
async def test_a_host_that_must_wait_is_handed_back_until_its_turn(wait_ms: int) -> None:
    scheduler, clock = WritingScheduler(), Clock(wait_ms)
    request = Request(URL, meta={LEASE: lease_of(URL)})
    found = await middleware_with(scheduler, clock).process_request(request)
    assert clock.asked == [("www.h.test", "www.h.test:8080")]
    assert found is (request if wait_ms else None)
    assert scheduler.calls == ([("hand_back", URL, wait_ms)] if wait_ms else [])


@pytest.mark.parametrize(
    "meta", [{}, {LEASE: lease_of(URL), "proxy": "http://proxy.test:3128"}], ids=["beside", "proxy"]
)
async def test_requests_by_a_proxy_or_without_a_lease_do_not_wait(meta: dict[str, Any]) -> None:
    clock = Clock(700)
    request = Request(URL, meta=meta)
    assert await middleware_with(WritingScheduler(), clock).process_request(request) is None
    assert clock.asked == []
