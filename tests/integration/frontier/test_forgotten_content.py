"""A URL that people forget is no original any more; a crawl that ends takes its contents along."""

from __future__ import annotations

from crawler.dedup.index import Content, ContentIndex, Duplicate
from crawler.frontier import CrawlControl, Frontier
from crawler.frontier.frontier import tags
from tests.integration.frontier.fleet import CRAWL, Place, entry

CONTENT = Content(b"a" * 32, 0x0123_4567_89AB_CDEF)
OTHER = 7


async def contents(place: Place) -> ContentIndex:
    return await ContentIndex.open(
        place.redis, CRAWL, tags(CRAWL, place.shards), pages=1000, max_distance=3
    )


async def test_forgetting_a_url_forgets_its_content(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    page = entry("http://a.test/1")
    await frontier.add([page])
    seen = await contents(place)
    seen.remember(page.id, CONTENT)
    await seen.flush()
    assert await seen.find(OTHER, CONTENT) == Duplicate(page.id, None)
    assert await control.forget(page.url)
    assert await seen.find(OTHER, CONTENT) is None
    assert await seen.find(OTHER, Content(b"b" * 32, CONTENT.simhash)) is None


async def test_a_crawl_without_contents_can_forget_too(
    frontier: Frontier, control: CrawlControl
) -> None:
    await frontier.add([entry("http://a.test/1")])
    assert await control.forget("http://a.test/1")


async def test_deleting_a_crawl_deletes_its_contents(
    frontier: Frontier, control: CrawlControl, place: Place
) -> None:
    seen = await contents(place)
    seen.remember(OTHER, CONTENT)
    await seen.flush()
    await frontier.leave()
    async for _ in control.delete(silence_ms=0):
        pass
    assert await (await contents(place)).find(1, CONTENT) is None
