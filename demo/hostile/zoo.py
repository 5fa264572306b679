"""All hostile behaviours, in the order of the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from demo.hostile.behaviour import Behaviour
from demo.hostile.bodies import BODIES
from demo.hostile.discovery import NAMES, REDIRECTS, ROBOTS, SITEMAPS
from demo.hostile.handshakes import HANDSHAKES
from demo.hostile.pages import PAGES
from demo.hostile.streams import STREAMS

GROUPS: Final[Mapping[str, tuple[Behaviour, ...]]] = {
    "Connections and heads": STREAMS,
    "Bodies": BODIES,
    "TLS": HANDSHAKES,
    "Pages": PAGES,
    "Redirects": REDIRECTS,
    "robots.txt": ROBOTS,
    "Sitemaps": SITEMAPS,
    "DNS": NAMES,
}


def behaviours() -> Iterator[Behaviour]:
    """Yield all of them."""
    for group in GROUPS.values():
        yield from group
