"""Decide what each host is: its size, its robots.txt and its misbehaviours. Pure.

Hosts come in blocks of 64. In a zoo block every odd host has a special robots.txt and every
second even host (2, 6, 10, …) has two features; the hosts 0, 4, 8, … stay ordinary and carry the
tree that makes every host reachable. One block in four is a zoo block, beginning with the first.
In the zoo `documents` the hosts with features have hostile files, and nothing else is special.
In the zoo `hostile` nothing is special: its hosts stand beside those of demo/hostile.
In the zoo `browser` the first eleven of every 24 hosts have scripts; the others are those of the
zoo `demo`.
"""

from dataclasses import dataclass
from typing import Final

from demo.chance import draw
from demo.robots_kinds import (
    ALLOW_ALL,
    CLOSES_API,
    DEMO_KINDS,
    FULL_KINDS,
    SHARES_SCRIPTS,
    RobotsKind,
)

BLOCK: Final = 64
DEMO_FEATURES: Final = (
    "redirects",
    "redirect_chains",
    "redirect_loops",
    "cross_redirects",
    "exact_duplicates",
    "near_duplicates",
    "canonicals",
    "meta_robots",
    "nofollow_links",
    "gone",
    "gzip",
    "charsets",
    "flaky",
    "resets",
    "sitemaps",
    "changing",
)
FULL_FEATURES: Final = (
    "errors",
    "timeouts",
    "truncated",
    "huge",
    "drip",
    "calendar",
    "deep_paths",
    "session_ids",
    "query_combinations",
    "retry_dates",
)
# The zoo, and its only feature, of hosts with documents that are hostile.
DOCUMENTS: Final = "documents"
# The zoo of ordinary hosts beside hostile ones.
HOSTILE: Final = "hostile"
# The zoo of hosts with scripts, and their features by place among 24 hosts.
BROWSER: Final = "browser"
_BROWSER_BLOCK: Final = 24
BROWSER_FEATURES: Final = {
    0: "scripts",
    1: "spa",
    2: "frame",
    3: "ready",
    4: "scripts",
    5: "endless",
    6: "slow",
    7: "shared",
    8: "scripts",
    9: "heavy",
    10: "moves",
}
_BROWSER_ROBOTS: Final = {4: SHARES_SCRIPTS, 7: CLOSES_API}
# Those whose ordinary pages the feature makes, and those that need a browser.
_OWN_PAGES: Final = frozenset({"spa", "frame", "ready", "endless", "slow", "shared", "heavy"})
_NEED_BROWSER: Final = _OWN_PAGES - {"ready"} | {"moves"}
# Sizes relative to the average, and how many of 20 hosts have each; the mean is 0.98.
_SIZES: Final = (0.5,) * 10 + (1.0,) * 6 + (1.8,) * 3 + (3.0,)
SMALLEST: Final = 0.5


@dataclass(frozen=True, slots=True)
class Profile:
    """What host number `number` is."""

    number: int
    size: int
    robots: RobotsKind
    features: tuple[str, ...]

    @property
    def host(self) -> str:
        """The host name."""
        return f"s{self.number}.test"

    @property
    def has_own_pages(self) -> bool:
        """Whether a feature makes the host's pages, so that none is ordinary."""
        return not _OWN_PAGES.isdisjoint(self.features)

    @property
    def needs_browser(self) -> bool:
        """Whether text or links of the host are in no HTML."""
        return not _NEED_BROWSER.isdisjoint(self.features)


def smallest_size(pages: int) -> int:
    """Return the number of pages that every host has at least."""
    return max(1, int(pages * SMALLEST))


def _is_zoo(number: int) -> bool:
    return (number // BLOCK) % 4 == 0


def _robots(seed: int, number: int, zoo: str) -> RobotsKind:
    place = number % _BROWSER_BLOCK
    if zoo == BROWSER and place in BROWSER_FEATURES:
        return _BROWSER_ROBOTS.get(place, ALLOW_ALL)
    if zoo in ("none", DOCUMENTS, HOSTILE) or number % 2 == 0 or not _is_zoo(number):
        return ALLOW_ALL
    kinds = DEMO_KINDS + FULL_KINDS if zoo == "full" else DEMO_KINDS
    return kinds[(number // 2 + seed) % len(kinds)]


def _features(seed: int, number: int, zoo: str) -> tuple[str, ...]:
    place = number % _BROWSER_BLOCK
    if zoo == BROWSER and place in BROWSER_FEATURES:
        return (BROWSER_FEATURES[place],)
    if zoo in ("none", HOSTILE) or number % 4 != 2 or not _is_zoo(number):
        return ()
    if zoo == DOCUMENTS:
        return (DOCUMENTS,)
    names = DEMO_FEATURES + FULL_FEATURES if zoo == "full" else DEMO_FEATURES
    first = 2 * (number // 4) + seed
    return (names[first % len(names)], names[(first + 1) % len(names)])


def profile(seed: int, number: int, pages: int, zoo: str) -> Profile:
    """Return the profile of a host.

    Hosts with a crawl-delay and hosts with pages for browsers are always of the smallest size.
    """
    robots, features = _robots(seed, number, zoo), _features(seed, number, zoo)
    factor = _SIZES[draw(f"size:{seed}:{number}") % len(_SIZES)]
    if robots.crawl_delays_s or not _OWN_PAGES.isdisjoint(features):
        factor = SMALLEST
    size = max(1, int(pages * factor))
    return Profile(number, size, robots, features)
