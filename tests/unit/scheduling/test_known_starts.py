"""Start requests that a crawl knows are logged once, and counted; all of them are a warning."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from scrapy import Request

from crawler.frontier import Added, Sizes
from crawler.scheduler import KnownStarts, how_to_start_anew


async def test_the_first_is_told_and_all_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    counted: Counter[str] = Counter()
    anew = how_to_start_anew("mine", has_commands=True)
    starts = KnownStarts("shop", anew, lambda name, by: counted.update({name: by}))
    futures = [asyncio.get_running_loop().create_future() for _ in range(4)]
    for number, future in enumerate(futures):
        starts.sent(Request(f"http://h.test/{number}?token=secret99"), future)
    futures[0].set_result(Added("1"))
    futures[1].set_result(Added("0"))
    futures[2].cancel()
    futures[3].set_exception(ConnectionError())
    await asyncio.sleep(0)
    starts.sent(Request("http://h.test/known"), None)
    assert counted == {"scheduler/start_known": 2}
    [line] = [record.getMessage() for record in caplog.records]
    assert "<GET http://h.test/1?token=***> is known to the crawl 'shop'" in line
    assert "`scrapy crawl mine --fresh` starts it anew" in line
    assert isinstance(futures[3].exception(), ConnectionError)


NO_SIZES = Sizes((0,) * 5, *[0] * 19)
FINISHED = replace(NO_SIZES, added=5, done=4, dead=1, recrawls=2)


@pytest.mark.parametrize(
    ("sizes", "known", "new", "warns"),
    [
        (FINISHED, 2, 0, True),
        # Others work on it.
        (replace(FINISHED, leased=1), 2, 0, False),
        (replace(FINISHED, retries=1), 2, 0, False),
        # It began with this run, and with others at the same time.
        (NO_SIZES, 2, 0, False),
        (FINISHED, 2, 1, False),
        # Seeds are pushed.
        (FINISHED, 0, 0, False),
    ],
)
def test_a_finished_crawl_that_knows_all_is_a_warning(
    caplog: pytest.LogCaptureFixture, sizes: Sizes, known: int, new: int, warns: bool
) -> None:
    anew = how_to_start_anew("mine", has_commands=False)
    starts = KnownStarts("shop", anew, lambda name, by: None)
    starts.begin(sizes)
    starts.add(known=known, new=new)
    starts.warn_if_all()
    warning = (
        "Nothing was crawled: the crawl 'shop' was finished before, and knows all start requests "
        "of this run (2). -s CRAWL=NAME begins another crawl, with COMMANDS_MODULE = "
        '"crawler.commands" in the settings `scrapy crawl mine --fresh` starts it anew'
    )
    assert caplog.messages == [warning] * warns
