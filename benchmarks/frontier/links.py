"""A made-up web of links: URL number n is always the same entry. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator

from crawler.frontier.entry import Entry
from crawler.urls import fingerprint

LINKS_A_PAGE = 60
KNOWN_SHARE = 0.85
URL_CHARS = 70


def url(number: int, hosts: int) -> str:
    """A URL of 70 characters on one of so many hosts; neighbours are on different hosts."""
    start = f"http://www.site-{number % hosts}.example/articles/{number:010d}-"
    return start.ljust(URL_CHARS, "abcdefghij"[number % 10])


def entry(number: int, hosts: int) -> Entry:
    """The same URL as the scheduler would pass it on."""
    text = url(number, hosts)
    # Most URLs of a crawl are of middling importance.
    queue = (1, 2, 2, 3, 3, 3, 3, 4, 4, 5)[number // hosts % 10]
    return Entry(fingerprint(text), text, queue=queue, depth=3, parent=number)


def page_links(known: int, pages: int, *, first: int = 0, seed: int = 1) -> Iterator[list[int]]:
    """Numbers of the links of each page: 85% of them below `known`, the others new.

    New ones count up from `first`, by default from `known`.
    """
    chance = random.Random(seed)
    new = first or known
    known_links = round(LINKS_A_PAGE * KNOWN_SHARE)
    for _ in range(pages):
        links = [chance.randrange(known) for _ in range(known_links)]
        links += range(new, new + LINKS_A_PAGE - known_links)
        new += LINKS_A_PAGE - known_links
        chance.shuffle(links)
        yield links
