"""Read and check the arguments of the spider `web`. An error names argument, value and rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from crawler.discovery import seeds
from crawler.errors import ConfigurationError
from crawler.scheduling import options
from crawler.urls import UrlRules, Urls
from crawler.util.format import seconds

_USER_AGENT_MAX = 500
# The crawl's own rules are not known yet.
_ANY_LENGTH = Urls(UrlRules(max_length=1_000_000))
NAMES = (
    "seeds",
    "sitemaps",
    "scope",
    "allowed_domains",
    "excluded_domains",
    "include",
    "exclude",
    "follow",
    "max_depth",
    "max_url_length",
    "max_pages",
    "max_pages_per_host",
    "recrawl",
    "max_time",
    "user_agent",
    "crawl",
)


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the user gave; what is missing stays as the crawl has it."""

    seeds: str | None = None
    # As they were given; see `spelled`, which also says how they are written.
    sitemaps: tuple[str, ...] = ()
    written: Mapping[str, str] = field(default_factory=dict)
    # For the whole fleet.
    options: dict[str, Any] = field(default_factory=dict)
    # 0 for no limit.
    max_time_s: int = 0
    user_agent: str | None = None
    crawl: str | None = None

    def spelled(self, urls: Urls) -> Arguments:
        """The same with sitemaps as the crawl spells them, each once; seeds are checked by it."""
        if self.seeds is not None:
            seeds.check(self.seeds, urls)
        written: dict[str, str] = {}
        for given in self.sitemaps:
            entry = seeds.seed_entry(given, urls, argument="sitemaps")
            written.setdefault(entry.url, entry.written)
        return replace(self, sitemaps=tuple(written), written=written)


def read(given: Mapping[str, Any]) -> Arguments:
    """The arguments, or ConfigurationError. Files of seeds are looked for, not read."""
    # Programs such as scrapyd add names of their own, with an underscore in front.
    known = {name: value for name, value in given.items() if not name.startswith("_")}
    for name in known:
        if name not in NAMES:
            raise ConfigurationError(
                f"The spider has no argument {name!r}; it has {', '.join(NAMES)}."
            )
    if known.get("seeds") is not None:
        seeds.check(known["seeds"], _ANY_LENGTH)
    chosen = {
        name: value for name, value in known.items() if name in options.NAMES and value is not None
    }
    found = options.checked(chosen)
    # Domains that are named need not be linked from each other's pages only.
    if found.get("allowed_domains") and "scope" not in found:
        found["scope"] = "any"
    return Arguments(
        seeds=known.get("seeds"),
        sitemaps=_sitemaps(known.get("sitemaps")),
        options=found,
        max_time_s=_seconds("max_time", known.get("max_time")),
        user_agent=_user_agent(known.get("user_agent")),
        crawl=known.get("crawl"),
    )


def _sitemaps(value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    parts = value.replace(",", " ").split()
    if not parts:
        raise ConfigurationError(
            "sitemaps is empty; give URLs: -a sitemaps=https://example.com/sitemap.xml"
        )
    for part in parts:
        seeds.seed_entry(part, _ANY_LENGTH, argument="sitemaps")
    return tuple(parts)


def _seconds(name: str, value: Any) -> int:
    if value is None:
        return 0
    found = seconds(str(value))
    if found is None:
        raise ConfigurationError(
            f"{name} is {value!r}; give seconds, or a number with m, h or d as in 10m."
        )
    return found


def _user_agent(value: Any) -> str | None:
    if value is None:
        return None
    text = str(value).strip()
    if not text or len(text) > _USER_AGENT_MAX or not text.isascii() or not text.isprintable():
        raise ConfigurationError(
            f"user_agent is {value!r}; give a product and an address in plain ASCII, as in "
            "'mybot/1.0 (+https://example.com/bot)'."
        )
    return text
