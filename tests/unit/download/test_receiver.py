"""Bodies as they are collected: whole, and in no more memory than they need."""

import tracemalloc

import pytest
from scrapy import Request
from scrapy.http import Headers

from crawler.download.receiver import DownloadLimits, Receiver
from tests.support.crawlers import project_crawler


@pytest.fixture
def receiver() -> Receiver:
    limits = DownloadLimits.from_crawler(project_crawler())
    receiver = Receiver(Request("http://h.test/"), limits)
    receiver.head(200, "1.1", Headers(), b"")
    return receiver


@pytest.mark.parametrize("number", [0, 1, 2, 256, 257, 258, 600, 3000])
def test_a_body_is_all_of_its_parts(receiver: Receiver, number: int) -> None:
    parts = [b"%d," % part for part in range(number)]
    for part in parts:
        assert receiver.body(part)
    assert receiver.content == b"".join(parts)


def test_a_body_that_comes_at_once_is_not_copied(receiver: Receiver) -> None:
    body = bytes(25_000)
    receiver.body(body)
    assert receiver.content is body


def test_a_body_in_tiny_parts_takes_little_more_memory_than_its_bytes(
    receiver: Receiver,
) -> None:
    number = 200_000
    tracemalloc.start()
    try:
        for _ in range(number):
            # Each an object of its own, as the parser makes them.
            receiver.body(bytes(2))
        assert len(receiver.content) == 2 * number
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * 2 * number
