"""Decide what each host is: its size, its robots.txt and its misbehaviours. Pure.

Hosts come in blocks of 64. In a zoo block every odd host has a special robots.txt and every
second even host (2, 6, 10, …) has two features; the hosts 0, 4, 8, … stay ordinary and carry the
tree that makes every host reachable. One block in four is a zoo block, beginning with the first.
In the zoo `documents` the hosts with features have hostile files, and nothing else is special.
"""

from dataclasses import dataclass
from typing import Final

from demo.chance import draw
from demo.robots_kinds import ALLOW_ALL, DEMO_KINDS, FULL_KINDS, RobotsKind

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


def smallest_size(pages: int) -> int:
    """Return the number of pages that every host has at least."""
    return max(1, int(pages * SMALLEST))


def _is_zoo(number: int) -> bool:
    return (number // BLOCK) % 4 == 0


def _robots(seed: int, number: int, zoo: str) -> RobotsKind:
    if zoo in ("none", DOCUMENTS) or number % 2 == 0 or not _is_zoo(number):
        return ALLOW_ALL
    kinds = DEMO_KINDS if zoo == "demo" else DEMO_KINDS + FULL_KINDS
    return kinds[(number // 2 + seed) % len(kinds)]


def _features(seed: int, number: int, zoo: str) -> tuple[str, ...]:
    if zoo == "none" or number % 4 != 2 or not _is_zoo(number):
        return ()
    if zoo == DOCUMENTS:
        return (DOCUMENTS,)
    names = DEMO_FEATURES if zoo == "demo" else DEMO_FEATURES + FULL_FEATURES
    first = 2 * (number // 4) + seed
    return (names[first % len(names)], names[(first + 1) % len(names)])


def profile(seed: int, number: int, pages: int, zoo: str) -> Profile:
    """Return the profile of a host. A host with a crawl-delay is always of the smallest size."""
    robots = _robots(seed, number, zoo)
    factor = _SIZES[draw(f"size:{seed}:{number}") % len(_SIZES)]
    if robots.crawl_delays_s:
        factor = SMALLEST
    size = max(1, int(pages * factor))
    return Profile(number, size, robots, _features(seed, number, zoo))
