"""A made-up web of links: URL number n is always the same entry. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator

from crawler.frontier.entry import Entry
from crawler.urls import fingerprint

LINKS_A_PAGE = 60
KNOWN_SHARE = 0.85
URL_CHARS = 70
# Links of one page to one site that follow each other.
HOST_RUN = 3

_NEW_LINKS = LINKS_A_PAGE - round(LINKS_A_PAGE * KNOWN_SHARE)
# The time of the first page, and how many of them come in a second.
_START_S = 1_800_000_000
_PAGES_A_SECOND = 50
_WORDS = (
    "about account archive article author blog book business category city comments contact "
    "culture daily design download economy education election energy english event family film "
    "finance food forum future gallery garden global green guide health help history home house "
    "image index industry interview journal kitchen language latest learn library life local "
    "magazine market media member message model money mountain movie museum music nature network "
    "news notes opinion order page people photo player politics press privacy product profile "
    "project question radio recipe record region report research review school science search "
    "season security series service shop social society software source sport staff station story "
    "student summer support system team technology theatre topic travel update video village "
    "weather winter woman world writing"
).split()


def url(number: int, hosts: int) -> str:
    """A URL of 70 characters on one of so many hosts."""
    host = number // HOST_RUN % hosts
    mixed = number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    words = [_WORDS[(mixed >> shift) % len(_WORDS)] for shift in (15, 22, 29, 36, 43, 50, 57)]
    start = f"http://www.{_WORDS[host % len(_WORDS)]}{host}.example/{words[0]}/{number}/"
    return (start + "-".join(words[1:]))[:URL_CHARS].ljust(URL_CHARS, "x")


def entry(number: int, hosts: int) -> Entry:
    """The same URL as the scheduler would pass it on."""
    text = url(number, hosts)
    # Most URLs of a crawl are of middling importance.
    queue = (1, 2, 2, 3, 3, 3, 3, 4, 4, 5)[number % 10]
    page = number // _NEW_LINKS
    parent = page * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    now_s = _START_S + page // _PAGES_A_SECOND
    return Entry(fingerprint(text), text, queue=queue, depth=3, parent=parent, discovered_s=now_s)


def page_links(known: int, pages: int, *, first: int = 0, seed: int = 1) -> Iterator[list[int]]:
    """Numbers of the links of each page: 85% of them below `known`, the others new.

    New ones count up from `first`, by default from `known`.
    """
    chance = random.Random(seed)
    new = first or known
    for _ in range(pages):
        links = [chance.randrange(known) for _ in range(LINKS_A_PAGE - _NEW_LINKS)]
        links += range(new, new + _NEW_LINKS)
        new += _NEW_LINKS
        chance.shuffle(links)
        yield links
