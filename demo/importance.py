"""A web of links in which the importance of every page is known. Pure; only in memory.

Each host has a home page, sections and articles, and, as shops and blogs in the wild have, far more
views of them: listings by filter, and archives. Half of the links across hosts stay within the
neighbourhood, the others prefer popular hosts. The importance of a page is the share of all links
across that lead to it: what other people found worth a link. Views have none.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

SECTIONS: Final = ("news", "products", "about", "guides", "people", "places")
_COLORS: Final = ("red", "green", "blue", "black", "white")
# Most links across lead to hosts of the same neighbourhood, the others to popular ones.
_LINKS_ACROSS: Final = 3
_NEAR: Final = 0.5
_NEIGHBOURS: Final = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """How many pages of each kind a host has."""

    articles: int = 16
    listings: int = 80
    archives: int = 40

    @property
    def pages(self) -> int:
        """Pages of a host in all."""
        return 1 + len(SECTIONS) + self.articles + self.listings + self.archives


@dataclass(slots=True)
class LinkedWeb:
    """URLs by number, the links between them, and where a crawl starts."""

    urls: list[str] = field(default_factory=list)
    links: list[list[int]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)


def linked_web(hosts: int, seed: int = 1, shape: Shape | None = None) -> LinkedWeb:
    """Return a web of so many hosts; equal arguments give equal webs."""
    return _Maker(hosts, random.Random(seed), shape or Shape()).make()


class _Maker:
    """Numbers the pages of a host: home, sections, articles, listings, archives."""

    def __init__(self, hosts: int, chance: random.Random, shape: Shape) -> None:
        self._hosts = hosts
        self._chance = chance
        self._shape = shape
        ranks = list(range(hosts))
        chance.shuffle(ranks)
        self._sums = list(accumulate((rank + 1) ** -0.5 for rank in ranks))
        self._articles = 1 + len(SECTIONS)
        self._listings = self._articles + shape.articles
        self._archives = self._listings + shape.listings

    def make(self) -> LinkedWeb:
        web = LinkedWeb()
        for host in range(self._hosts):
            for page in range(self._shape.pages):
                web.urls.append(self._url(host, page))
                first = host * self._shape.pages
                inside = [first + target for target in self._inside(page)]
                targets = dict.fromkeys(inside + self._across(page, host))
                targets.pop(first + page, None)
                web.links.append(list(targets))
        web.seeds = [host * self._shape.pages for host in range(self._hosts)]
        return web

    def _url(self, host: int, page: int) -> str:
        start = f"http://www.h{host}.test"
        if page == 0:
            return f"{start}/"
        if page < self._articles:
            return f"{start}/{SECTIONS[page - 1]}"
        if page < self._listings:
            number = page - self._articles
            return f"{start}/{SECTIONS[number % len(SECTIONS)]}/some-title-{number}"
        if page < self._archives:
            number = page - self._listings
            color, order = _COLORS[number % 5], ("price", "name")[number // 5 % 2]
            query = f"color={color}&order={order}&page={number}&size=large&stock=any&view=grid"
            return f"{start}/products/catalogue/women/shoes/boots?{query}&from=0&currency=usd"
        number = page - self._archives
        return (
            f"{start}/archive/by/tag/autumn/{2000 + number % 12}/{number % 12 + 1:02}/page/{number}"
        )

    def _some(self, first: int, count: int, wanted: int) -> list[int]:
        return [first + self._chance.randrange(count) for _ in range(wanted)]

    def _inside(self, page: int) -> list[int]:
        """Links to the same host; all pages have the navigation."""
        shape = self._shape
        navigation = list(range(self._articles))
        # Articles, listings and archives that a page of each kind links to.
        if page < self._articles:
            wanted = (3, 30, 15)
        elif page < self._listings:
            wanted = (3, 8, 4)
        elif page < self._archives:
            wanted = (2, 20, 0)
        else:
            wanted = (3, 0, 12)
        firsts = (self._articles, self._listings, self._archives)
        counts = (shape.articles, shape.listings, shape.archives)
        for first, count, number in zip(firsts, counts, wanted, strict=True):
            navigation += self._some(first, count, number)
        return navigation

    def _across(self, page: int, host: int) -> list[int]:
        """Links to other hosts: people set them, on home pages and in articles."""
        if page >= self._listings or 0 < page < self._articles:
            return []
        return [self._linked(host) for _ in range(_LINKS_ACROSS)]

    def _linked(self, host: int) -> int:
        """A page that another host's people think worth a link."""
        chance = self._chance
        if chance.random() < _NEAR:
            other = (host + chance.randrange(1, _NEIGHBOURS)) % self._hosts
        else:
            (other,) = chance.choices(range(self._hosts), cum_weights=self._sums)
        kind = chance.random()
        if kind < 0.15:
            page = 0
        elif kind < 0.25:
            page = chance.randrange(1, self._articles)
        else:
            page = self._articles + chance.randrange(self._shape.articles)
        return other * self._shape.pages + page


def importance(web: LinkedWeb) -> list[float]:
    """Return each page's share of all links across hosts; they add up to 1."""
    hosts = [url.split("/")[2] for url in web.urls]
    counts = [0] * len(hosts)
    for page, targets in enumerate(web.links):
        for target in targets:
            counts[target] += hosts[target] != hosts[page]
    total = sum(counts)
    return [count / total for count in counts]
