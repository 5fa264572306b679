"""The sink of WARC files: what it remembers, where pages are, and when files are complete."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from crawler.errors import ServerAway
from crawler.items import NOT_MODIFIED, Page
from crawler.storage.warc.records import Records
from crawler.storage.warc.sink import WarcSettings, WarcSink
from tests.support.archives import audit, record_at
from tests.support.full_disk import files_of_at_most
from tests.unit.storage.warc.pages import exchange, page

URL = "http://a.test/"


def sink_in(folder: Path) -> WarcSink:
    settings = WarcSettings(
        codec="gzip", level=2, max_bytes=3000, max_age_s=3600.0, metadata=False, operator=""
    )
    return WarcSink(str(folder), crawl="web", settings=settings, info={"a": "b"})


@pytest.fixture
async def sink(tmp_path: Path) -> WarcSink:
    """A sink that is open; each test closes it."""
    sink = sink_in(tmp_path / "archive")
    await sink.open()
    return sink


async def write(sink: WarcSink, *pages: Page) -> list[Any]:
    results = await sink.write([sink.prepare(each) for each in pages])
    return [results.get(number) for number in range(len(pages))]


async def test_pages_are_where_the_sink_says(sink: WarcSink) -> None:
    pages = [page(f"{URL}{number}", exchange(body=b"%d" % number * 700)) for number in range(5)]
    places = [place for each in pages for place in await write(sink, each)]
    await sink.close()
    # Each file is complete when it has 3,000 bytes.
    assert len({place["file"] for place in places}) > 1
    found = await asyncio.to_thread(audit, sink.folder)
    assert len(found.lines) == 5
    for each, place in zip(pages, places, strict=True):
        assert record_at(sink.folder, place).content == each.body


async def test_a_page_that_is_not_archived_has_no_place(sink: WarcSink) -> None:
    forbidden = page(reason="noindex", stored=False)
    places = await write(sink, forbidden, page(), forbidden)
    await sink.close()
    assert [place is not None for place in places] == [False, True, False]


@pytest.mark.parametrize(("status", "is_dated"), [(200, True), (500, False)])
async def test_only_good_visits_date_those_that_find_no_change(
    sink: WarcSink, status: int, is_dated: bool
) -> None:
    await write(sink, page(URL, status=status))
    wire = exchange(head=b"HTTP/1.1 304 Not Modified\r\n\r\n", body=b"")
    unchanged = sink.prepare(page(URL, wire, status=304, flags=[NOT_MODIFIED], visits=2))
    assert isinstance(unchanged, Records)
    (place,) = (await sink.write([unchanged])).values()
    await sink.close()
    header = record_at(sink.folder, dict(place)).rec_headers.get_header
    assert (header("WARC-Refers-To-Date") is not None) is is_dated


async def test_a_start_without_room_for_repairs_is_to_be_tried_again(
    sink: WarcSink, tmp_path: Path
) -> None:
    await write(sink, page())
    # As a process leaves it that is killed.
    left = tmp_path / "left"
    await asyncio.to_thread(shutil.copytree, sink.folder, left)
    await sink.close()
    with (
        files_of_at_most(0),
        pytest.raises(ServerAway, match=r"left has no room .*free"),
    ):
        await sink_in(left).open()
    again = sink_in(left)
    await again.open()
    await again.close()
    assert (await asyncio.to_thread(audit, left)).unindexed == 0
