"""Read and check the arguments of the spider `web` (`-a name=value`).

An argument for the whole fleet is an option of scheduling/options.py, and needs nothing here. Any
other is a field of `Arguments` and a line in `read`. An error names argument, value and rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crawler.errors import ConfigurationError
from crawler.scheduling import options
from crawler.util.format import seconds

_USER_AGENT_MAX = 500
NAMES = ("seeds", "sitemaps", *options.ARGUMENTS, "max_time", "user_agent", "crawl")


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of the generic spider; where one is missing, the crawl's own value holds."""

    # Parsed by discovery/seeds.py when the crawl's rules for URLs are known.
    seeds: str | None = None
    sitemaps: str | None = None
    # For the whole fleet.
    options: dict[str, Any] = field(default_factory=dict)
    # 0 for no limit.
    max_time_s: int = 0
    user_agent: str | None = None
    crawl: str | None = None


def read(given: Mapping[str, Any]) -> Arguments:
    """Return the checked arguments, or raise ConfigurationError."""
    # Programs such as scrapyd add names of their own, with an underscore in front.
    known = {name: value for name, value in given.items() if not name.startswith("_")}
    for name in known:
        if name not in NAMES:
            raise ConfigurationError(
                f"The spider has no argument {name!r}; it has {', '.join(NAMES)}."
            )
    found = options.checked(
        {name: known[name] for name in options.ARGUMENTS if known.get(name) is not None}
    )
    # Domains that are named need not be linked from each other's pages only.
    if found.get("allowed_domains") and "scope" not in found:
        found["scope"] = "any"
    return Arguments(
        seeds=known.get("seeds"),
        sitemaps=known.get("sitemaps"),
        options=found,
        max_time_s=_seconds("max_time", known.get("max_time")),
        user_agent=_user_agent(known.get("user_agent")),
        crawl=known.get("crawl"),
    )


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
