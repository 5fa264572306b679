"""A small web that knows what a crawl of it must find."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from simulation.scenario import Scenario

OK, MISSING, REDIRECT, BROKEN, TIMEOUT, ERROR, RAISES = (
    *("ok", "missing", "redirect", "broken"),
    *("timeout", "error", "raises"),
)


@dataclass(slots=True)
class Site:
    """One URL: its links, and how its fetches end; the last end holds for all others."""

    url: str
    links: list[str] = field(default_factory=list)
    ends: tuple[str, ...] = (OK,)

    def end(self, fetches: int) -> str:
        """Return how a fetch ends, after so many others."""
        return self.ends[min(fetches, len(self.ends) - 1)]


class Web:
    """All URLs of a scenario. The first page of the first host is the seed."""

    def __init__(self, scenario: Scenario) -> None:
        chance = random.Random(f"web-{scenario.seed}")
        urls = [
            f"http://h{host}.web.test/{page}"
            for page in range(scenario.pages)
            for host in range(scenario.hosts)
        ]
        self.seed = urls[0]
        self.sites: Mapping[str, Site] = {url: Site(url) for url in urls}
        # Every page is linked from an earlier one, and some from several.
        for number, url in enumerate(urls[1:], start=1):
            for _ in range(chance.choice((1, 1, 2))):
                parent = self.sites[urls[chance.randrange(number)]]
                if url not in parent.links:
                    parent.links.append(url)
        if scenario.has_bad_pages:
            self._spoil(chance, urls)

    def _spoil(self, chance: random.Random, urls: list[str]) -> None:
        for number, url in enumerate(urls):
            site = self.sites[url]
            if number and not site.links and chance.random() < 0.5:
                site.ends = chance.choice(((MISSING,), (BROKEN,), (RAISES,)))
            elif len(site.links) == 1 and chance.random() < 0.3:
                site.ends = (REDIRECT,)
            elif chance.random() < 0.3:
                site.ends = (chance.choice((TIMEOUT, ERROR, RAISES)), OK)

    def reachable(self) -> set[str]:
        """Return all URLs that a crawl finds."""
        found, left = set(), [self.seed]
        while left:
            url = left.pop()
            if url not in found:
                found.add(url)
                left += self.children(url)
        return found

    def children(self, url: str) -> list[str]:
        """Return the URLs that a page leads to in the end."""
        site = self.sites[url]
        return site.links if site.ends[-1] in (OK, REDIRECT) else []

    def gives_page(self, url: str) -> bool:
        """Return whether the last of its fetches gives a page of its own."""
        return self.sites[url].ends[-1] == OK
