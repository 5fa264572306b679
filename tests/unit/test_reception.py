"""Bodies as they are collected: whole, and in no more memory than they need."""

import tracemalloc

import pytest
from scrapy import Request
from scrapy.http import Headers

from crawler.reception import Limits, Reception
from tests.crawlers import project_crawler


@pytest.fixture
def reception() -> Reception:
    limits = Limits.from_crawler(project_crawler())
    reception = Reception(Request("http://h.test/"), limits)
    reception.head(200, "1.1", Headers())
    return reception


@pytest.mark.parametrize("number", [0, 1, 2, 256, 257, 258, 600, 3000])
def test_a_body_is_all_of_its_parts(reception: Reception, number: int) -> None:
    parts = [b"%d," % part for part in range(number)]
    for part in parts:
        assert reception.body(part)
    assert reception.content == b"".join(parts)


def test_a_body_that_comes_at_once_is_not_copied(reception: Reception) -> None:
    body = bytes(25_000)
    reception.body(body)
    assert reception.content is body


def test_a_body_in_tiny_parts_takes_little_more_memory_than_its_bytes(
    reception: Reception,
) -> None:
    number = 200_000
    tracemalloc.start()
    try:
        for _ in range(number):
            # Each an object of its own, as the parser makes them.
            reception.body(bytes(2))
        assert len(reception.content) == 2 * number
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * 2 * number
