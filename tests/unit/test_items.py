"""Pages know their identity, and items of any kind become what every sink can store."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import bson
import msgpack
import pytest
from scrapy import Field, Item

from crawler.items import NOT_MODIFIED, Page, plain_item
from crawler.urls import fingerprint

AT = datetime(2026, 1, 2, tzinfo=UTC)
URL = "http://a.test/"


def page(**fields: Any) -> Page:
    return Page(**{"url": URL, "final_url": URL, "status": 200, "crawled_at": AT, **fields})


def test_a_page_is_known_by_the_hash_of_its_url_unless_it_is_given() -> None:
    assert page().url_hash == f"{fingerprint(URL):016x}"
    assert page(url_hash="0" * 16).url_hash == "0" * 16


@pytest.mark.parametrize(
    ("fields", "is_active"),
    [
        ({}, True),
        ({"status": 304, "flags": [NOT_MODIFIED]}, True),
        ({"status": 404}, False),
        ({"status": 0}, False),
        ({"status": 503, "next_crawl": AT}, True),
    ],
)
def test_a_page_is_active_while_it_is_there_or_visited_again(
    fields: dict[str, Any], is_active: bool
) -> None:
    assert page(**fields).is_active == is_active


class Book(Item):
    title = Field()
    price = Field()


@dataclass
class Shop:
    name: str
    books: list[Book]


def test_an_item_becomes_a_dict_of_plain_values() -> None:
    item = Shop("A", [Book(title="T", price=Decimal("1.50"))])
    assert plain_item(item) == {"name": "A", "books": [{"title": "T", "price": "1.50"}]}
    odd = {
        "day": date(2026, 1, 2),
        "naive": datetime(2026, 1, 2),  # noqa: DTZ001 - as spiders make them
        "set": {1},
        "tuple": (1, None, b"x"),
        "huge": 2**64,
        3: "number",
        "object": Decimal(1),
    }
    found = plain_item(odd)
    assert found == {
        "day": "2026-01-02",
        "naive": AT,
        "set": [1],
        "tuple": [1, None, b"x"],
        "huge": str(2**64),
        "3": "number",
        "object": "1",
    }
    bson.encode(found)
    msgpack.packb(found, datetime=True)
