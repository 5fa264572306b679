"""Start requests that a crawl knows are told once, and counted."""

import asyncio
from collections import Counter

import pytest
from scrapy import Request

from crawler.frontier import Added
from crawler.known_starts import KnownStarts


async def test_the_first_is_told_and_all_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    counted: Counter[str] = Counter()
    starts = KnownStarts("shop", lambda name, by: counted.update({name: by}))
    futures = [asyncio.get_running_loop().create_future() for _ in range(4)]
    for number, future in enumerate(futures):
        starts.look(Request(f"http://h.test/{number}?token=secret99"), future)
    futures[0].set_result(Added("1"))
    futures[1].set_result(Added("0"))
    futures[2].cancel()
    futures[3].set_exception(ConnectionError())
    await asyncio.sleep(0)
    starts.look(Request("http://h.test/known"), None)
    assert counted == {"scheduler/start_known": 2}
    [line] = [record.getMessage() for record in caplog.records]
    assert "<GET http://h.test/1?token=***> is known to the crawl 'shop'" in line
    assert "frontier delete --crawl shop" in line
    assert isinstance(futures[3].exception(), ConnectionError)
