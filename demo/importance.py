"""A web of links in which the importance of every page is known. Pure; only in memory.

It has the properties of the real one that matter for the order of a crawl. Links to hosts and to
pages follow power laws. A host has a home page, sections, articles, and more views of them than
articles: listings by filter, tags, archives. What is important is visible only in part: home pages
and sections are shallow, but which articles people link to shows neither in the depth nor in the
form of their URLs, which differ from site to site; many articles are found by way of listings only;
and hardly anybody links to views. Some sites link to friends from each of their pages.

How important a page is, is its PageRank in the graph of all pages and all links (crawler/storage/
link_graph.py): what a surfer at random would see, who knows the whole web. No crawl knows that.
"""

from __future__ import annotations

import random
from array import array
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

SECTIONS: Final = ("news", "products", "about", "guides", "people", "places", "events", "help")
_COLORS: Final = ("red", "green", "blue", "black", "white")
# Sizes of hosts: a Pareto distribution, cut off.
_SMALLEST, _LARGEST, _SIZES = 20, 1500, 1.2
# Of the pages beside home page and sections.
_ARTICLES: Final = 0.35
# Exponents of the power laws by which hosts, and the articles of a host, are linked to.
_HOSTS_LINKED, _ARTICLES_LINKED = 0.8, 0.9
# Share of links across that stay among hosts that know each other, and the number of these.
_NEAR, _NEIGHBOURS = 0.4, 10
# What a link across leads to: home page, section, article; otherwise any page.
_TO_HOME, _TO_SECTION, _TO_ARTICLE = 0.25, 0.05, 0.68
# Articles that a section, a listing and an article link to.
_ON_SECTION, _ON_LISTING, _ON_ARTICLE = 8, 15, 4
# Sites that link to friends on each page, and the number of these links.
_FRIENDLY, _FRIENDS = 0.3, 2


@dataclass(slots=True)
class LinkedWeb:
    """URLs by number, the links between them, and where a crawl starts."""

    urls: list[str] = field(default_factory=list)
    links: list[Sequence[int]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)


def linked_web(hosts: int, seed: int = 1) -> LinkedWeb:
    """Return a web of so many hosts; equal arguments give equal webs."""
    return _Maker(hosts, random.Random(seed)).make()


class _Site:
    """Numbers the pages of a host: home, sections, articles, views."""

    def __init__(self, number: int, first: int, chance: random.Random) -> None:
        size = min(_LARGEST, round(_SMALLEST * chance.paretovariate(_SIZES)))
        self.number = number
        self.first = first
        self.sections = min(4 + size // 40, len(SECTIONS))
        self.articles = max(2, round((size - 1 - self.sections) * _ARTICLES))
        self.views = max(2, size - 1 - self.sections - self.articles)
        self.first_article = 1 + self.sections
        self.first_view = self.first_article + self.articles
        self.pages = self.first_view + self.views
        # How articles are named: by title, by date and title, by number.
        self.style = chance.choices((0, 1, 2), (5, 3, 2))[0]
        # Articles by how often others link to them.
        self.order = list(range(self.articles))
        chance.shuffle(self.order)
        self.sums = list(accumulate((rank + 1) ** -_ARTICLES_LINKED for rank in self.order))

    def url(self, page: int) -> str:
        start = f"http://www.h{self.number}.test"
        if page == 0:
            return f"{start}/"
        if page < self.first_article:
            return f"{start}/{SECTIONS[page - 1]}"
        number = page - self.first_article
        section = SECTIONS[number % self.sections]
        if page < self.first_view:
            if self.style == 0:
                return f"{start}/{section}/some-title-{number}"
            if self.style == 1:
                return (
                    f"{start}/2024/{number % 12 + 1:02}/{number % 28 + 1:02}/{section}/a-{number}"
                )
            return f"{start}/?p={number}"
        number = page - self.first_view
        kind = number % 20
        if kind < 8:
            query = f"color={_COLORS[number % 5]}&order=price&page={number}&size=large"
            return f"{start}/products/catalogue?{query}&stock=any&view=grid&currency=usd"
        if kind < 12:
            return f"{start}/archive/by/tag/{2000 + number % 12}/{number % 12 + 1:02}/{number}"
        return f"{start}/tag/word-{number}" if kind < 16 else f"{start}/user-{number}"


class _Maker:
    def __init__(self, hosts: int, chance: random.Random) -> None:
        self._chance = chance
        ranks = list(range(hosts))
        chance.shuffle(ranks)
        self._sums = list(accumulate((rank + 1) ** -_HOSTS_LINKED for rank in ranks))
        self._sites: list[_Site] = []
        for number in range(hosts):
            last = self._sites[-1] if self._sites else None
            first = last.first + last.pages if last else 0
            self._sites.append(_Site(number, first, chance))

    def make(self) -> LinkedWeb:
        web = LinkedWeb()
        for site in self._sites:
            is_friendly = self._chance.random() < _FRIENDLY
            friends = [self._linked(site) for _ in range(_FRIENDS)] if is_friendly else []
            for page in range(site.pages):
                web.urls.append(site.url(page))
                inside = [site.first + target for target in self._inside(site, page)]
                targets = dict.fromkeys(inside + friends + self._across(site, page))
                targets.pop(site.first + page, None)
                web.links.append(array("L", targets))
        web.seeds = [site.first for site in self._sites[::20]]
        return web

    def _some(self, first: int, count: int, wanted: int) -> list[int]:
        return [first + self._chance.randrange(count) for _ in range(wanted)]

    def _inside(self, site: _Site, page: int) -> list[int]:
        """Links to the same host. All pages have the navigation; listings follow each other."""
        navigation = list(range(site.first_article))
        articles, views = (site.first_article, site.articles), (site.first_view, site.views)
        if page < site.first_article:
            # The newest articles, and the first listings.
            first = site.first_view + page * 3 % site.views
            listings = [min(first + more, site.pages - 1) for more in range(3)]
            return navigation + self._some(*articles, _ON_SECTION) + listings
        if page < site.first_view:
            return navigation + self._some(*articles, _ON_ARTICLE) + self._some(*views, 5)
        # A listing has the articles of its place, so that each article is in some of them.
        place = (page - site.first_view) * site.articles // site.views
        some = range(place, min(place + _ON_LISTING, site.articles))
        following = [min(page + more, site.pages - 1) for more in (1, 2, 3)]
        listed = [site.first_article + number for number in some]
        return navigation + listed + following + self._some(*views, 10)

    def _across(self, site: _Site, page: int) -> list[int]:
        """Links to other hosts: people set them, on home pages and in articles."""
        if page == 0:
            return [self._linked(site) for _ in range(4)]
        if not site.first_article <= page < site.first_view:
            return []
        wanted = min(20, int(self._chance.expovariate(0.2)))
        return [self._linked(site) for _ in range(wanted)]

    def _linked(self, site: _Site) -> int:
        """Return a page that another host's people think worth a link."""
        chance, sites = self._chance, self._sites
        if chance.random() < _NEAR:
            other = sites[(site.number + chance.randrange(1, _NEIGHBOURS)) % len(sites)]
        else:
            other = sites[self._drawn(self._sums)]
        kind = chance.random()
        if kind < _TO_HOME:
            page = 0
        elif kind < _TO_HOME + _TO_SECTION:
            page = chance.randrange(1, other.first_article)
        elif kind < _TO_HOME + _TO_SECTION + _TO_ARTICLE:
            page = other.first_article + self._drawn(other.sums)
        else:
            page = chance.randrange(other.pages)
        return other.first + page

    def _drawn(self, sums: Sequence[float]) -> int:
        return min(bisect(sums, self._chance.random() * sums[-1]), len(sums) - 1)
