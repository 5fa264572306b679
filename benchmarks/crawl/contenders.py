"""Who crawls, and by which command."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Contender:
    """One crawler. `{seeds}` in its command is a file of URLs, `{pages}` when to stop."""

    key: str
    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    # The checkout that it runs in, if it is another one.
    folder: Path | None = None
    # Which servers it uses: redis, mongo. Those with MongoDB store every page there.
    servers: frozenset[str] = frozenset()
    # It takes much longer than ours, so quick measurements give it one round.
    is_slow: bool = False


def _ours(key: str, name: str, kind: str) -> Contender:
    command = ("-m", "scrapy", "crawl", "web", "-a", "seeds={seeds}")
    arguments = ("-a", "scope=any", "-a", "max_pages={pages}")
    settings = ("-s", "PROGRESS=off", "-s", "LOG_LEVEL=WARNING")
    environment = {
        "SCRAPY_SETTINGS_MODULE": "benchmarks.crawl.ours_settings",
        "BENCH_CRAWL": kind,
    }
    return Contender(
        key,
        name,
        (sys.executable, *command, *arguments, *settings),
        environment,
        servers=frozenset(("redis", "mongo") if kind == "pages" else ("redis",)),
    )


def _peer(key: str, name: str, *servers: str) -> Contender:
    command = (sys.executable, "-m", "benchmarks.crawl.peers", name, "{seeds}", "{pages}")
    return Contender(key, name, command, is_slow=True, servers=frozenset(servers))


def base(folder: Path) -> Contender:
    """Return our crawler as it is in another checkout."""
    return replace(OURS, key="base", name="ours, the other checkout", folder=folder)


OURS = _ours("ours", "ours, everything on", "pages")
ALL = (
    _peer("scrapy", "scrapy"),
    _peer("scrapy_redis", "scrapy-redis", "redis"),
    Contender(
        "crawlee",
        "Crawlee (Parsel)",
        (sys.executable, "-m", "benchmarks.crawl.crawlee_peer", "{seeds}", "{pages}"),
        is_slow=True,
    ),
    OURS,
    _ours("ours_no_store", "ours, no content dedup, no storage", "links"),
    Contender(
        "bare",
        "aiohttp, lexbor, SimHash",
        (sys.executable, "-m", "benchmarks.crawl.bare_client", "{seeds}", "{pages}"),
    ),
)
