"""Hosts that are not crawled are not contacted."""

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from crawler.middlewares.host_rules import HostRulesMiddleware
from crawler.util.request_meta import LEASE
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of


def middleware() -> HostRulesMiddleware:
    rules = {".closed.test": {"blocked": True}, "open.closed.test": {"delay": 1}}
    return HostRulesMiddleware.from_crawler(crawler_with(WritingScheduler(), HOST_RULES=rules))


def leased(url: str) -> Request:
    return Request(url, meta={LEASE: lease_of(url)})


async def test_a_blocked_host_is_not_contacted() -> None:
    found = middleware()
    with pytest.raises(IgnoreRequest, match=r"HOST_RULES block a\.closed\.test"):
        await found.process_request(leased("http://a.closed.test/x"))
    assert found._crawler.stats is not None
    assert found._crawler.stats.get_value("host_rules/blocked") == 1


@pytest.mark.parametrize("url", ["http://open.closed.test/", "http://h.test/"])
async def test_other_hosts_are(url: str) -> None:
    assert await middleware().process_request(leased(url)) is None


async def test_a_request_without_a_lease_passes() -> None:
    assert await middleware().process_request(Request("http://a.closed.test/x")) is None
