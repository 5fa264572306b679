"""Options and seeds' domains that a fleet shares, on a real Redis."""

from __future__ import annotations

import asyncio
import logging

import pytest

from crawler.frontier import CrawlControl, keys
from crawler.scheduling import options
from crawler.scheduling.options import REFRESH_S, CrawlOptions, OptionsWatcher
from tests.integration.frontier.fleet import CRAWL, Place, entry


async def opened(control: CrawlControl, **given: object) -> OptionsWatcher:
    options_watcher = OptionsWatcher()
    await options_watcher.open(control, given)
    return options_watcher


async def test_options_that_one_process_is_given_hold_for_all(control: CrawlControl) -> None:
    one = await opened(control)
    other = await opened(control, scope="any", excluded_domains=["b.test"], follow=False)
    await one.refresh()
    assert one.options == other.options == CrawlOptions("any", (), ("b.test",), follow=False)
    assert one.scope.excludes("http://www.b.test/")
    await control.set_options({"excluded_domains": None})
    await one.refresh()
    assert not one.scope.excludes("http://www.b.test/")


async def test_weights_are_an_option_of_the_fleet(
    control: CrawlControl, caplog: pytest.LogCaptureFixture
) -> None:
    one = await opened(control, weights=[50, 20, 20, 5, 5])
    other = await opened(control)
    assert other.options.weights == (50, 20, 20, 5, 5)
    assert other.options.load_weights == (60, 25, 10, 4, 1)
    with caplog.at_level(logging.WARNING):
        await opened(control, weights=[1, 1, 1, 1, 1], load_threshold=9)
    assert "weights is now [1, 1, 1, 1, 1] for every process of this crawl" in caplog.text
    await one.refresh()
    assert (one.options.weights, one.options.load_threshold) == ((1, 1, 1, 1, 1), 9)


async def test_a_wrong_option_is_told_once_and_left_out(
    control: CrawlControl, caplog: pytest.LogCaptureFixture
) -> None:
    options_watcher = await opened(control)
    await control.set_options({"include": ["("], "max_pages": 7})
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await options_watcher.refresh()
    assert (options_watcher.options.include, options_watcher.options.max_pages) == ((), 7)
    assert len([line for line in caplog.messages if "include" in line]) == 1


async def test_the_domains_of_seeds_are_known_to_all(control: CrawlControl) -> None:
    one, other = await opened(control, scope="seeds"), await opened(control)
    await one.note_seeds([entry("http://www.a.test/"), entry("http://a.test/")])
    await other.note_seeds([entry("http://b.test/")])
    await one.refresh()
    await other.refresh()
    assert one.options.seed_domains == other.options.seed_domains == {"a.test", "b.test"}
    page = "http://x.test/"
    assert other.scope.refuses("http://a.test/1", page_url=page, depth=1) is None
    assert other.scope.refuses("http://c.test/1", page_url=page, depth=1) == "scope"
    assert (await opened(control)).options == one.options


async def test_seeds_that_come_while_options_are_read_stay(
    control: CrawlControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = await opened(control, scope="seeds"), await opened(control)
    await other.note_seeds([entry("http://b.test/")])
    read = control.seed_domains

    async def slow() -> list[str]:
        found = await read()
        await one.note_seeds([entry("http://a.test/")])
        return found

    monkeypatch.setattr(control, "seed_domains", slow)
    await one.refresh()
    assert one.options.seed_domains == {"a.test", "b.test"}


async def test_who_wants_to_know_is_told_of_what_people_order(control: CrawlControl) -> None:
    options_watcher = await opened(control)
    heard: list[CrawlOptions] = []
    options_watcher.subscribe(heard.append)
    assert [dict(now.host_delays) for now in heard] == [{}]
    await options.set_host_delay(control, "h.test", 2.5)
    await options_watcher.refresh()
    assert dict(heard[-1].host_delays) == {"h.test": 2.5}
    await options.set_host_delay(control, "h.test", None)
    await options_watcher.refresh()
    assert not heard[-1].host_delays


async def test_orders_are_followed_without_being_asked_to_look(control: CrawlControl) -> None:
    assert REFRESH_S <= 1
    options_watcher = await opened(control)
    followed = asyncio.Event()
    options_watcher.subscribe(lambda now: followed.set() if now.max_depth == 3 else None)
    await control.set_options({"max_depth": 3})
    async with asyncio.timeout(30):
        await followed.wait()
    await options_watcher.close()


async def test_options_that_redis_lost_are_written_again(
    control: CrawlControl, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    one = await opened(control, scope="any", max_depth=3)
    late = await opened(control)
    await control.set_options({"max_pages": 9, "max_depth": None})
    await one.refresh()
    await place.redis.delete(keys.options(CRAWL))
    with caplog.at_level(logging.WARNING):
        # It has not heard of the last change; the other one has.
        await late.refresh()
        await one.refresh()
        await late.refresh()
    assert one.options == late.options == CrawlOptions("any", max_pages=9)
    assert await control.options() == {"scope": "any", "max_pages": 9}
    assert "Redis lost options of the crawl" in caplog.text
