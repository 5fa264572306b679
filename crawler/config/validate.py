"""Check the values of settings before anything starts, so that a mistake is told in one line."""

from __future__ import annotations

import logging
import math
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from scrapy.settings import SETTINGS_PRIORITIES, default_settings

from crawler import settings as ours
from crawler.config.read import pulse, recrawl_tuning
from crawler.dns import addresses
from crawler.download.address_guard import Guard
from crawler.errors import ConfigurationError
from crawler.politeness.host_delays import host_rules
from crawler.servers.connections import mongo_limit_s, redis_limit_s
from crawler.servers.redis.settings import redis_url, start_urls_key

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# How alike a name must be to one that exists to be taken for a slip.
_LIKENESS = 0.85
# Seconds, of which our default is a whole number.
_FRACTIONS = frozenset({"DOWNLOAD_DELAY", "DOWNLOAD_TIMEOUT"})
# With none of these a crawl would wait for ever.
_ONE_OR_MORE = frozenset(
    {"CONCURRENT_ITEMS", "CONCURRENT_REQUESTS", "CONCURRENT_REQUESTS_PER_DOMAIN"}
)


def check(settings: BaseSettings) -> None:
    """Raise ConfigurationError for a value that its setting cannot have."""
    _warn_of_slips(settings)
    for name in dir(ours):
        if not name.isupper():
            continue
        wanted = _wanted(name, getattr(ours, name))
        try:
            _read(settings, name, wanted)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"{name} is {settings[name]!r}; give {wanted}.") from error
    user_agent = str(settings["USER_AGENT"] or "")
    if not user_agent.isprintable():
        raise ConfigurationError(f"USER_AGENT is {user_agent!r}; give one line of text.")
    redis_url(settings)
    start_urls_key(settings, None)
    Guard(settings.getlist("ALLOW_NETWORKS"))
    addresses.overrides(settings.getdict("DNS_OVERRIDES"))
    addresses.servers(settings.getlist("DNS_SERVERS"))
    host_rules(settings)
    recrawl_tuning(settings)
    pulse(settings)
    redis_limit_s(settings)
    mongo_limit_s(settings)


def _warn_of_slips(settings: BaseSettings) -> None:
    """Say of names on the command line that nobody reads, but that look like one that is read."""
    known = {name for module in (default_settings, ours) for name in dir(module) if name.isupper()}
    for name in settings:
        if name in known or settings.getpriority(name) != SETTINGS_PRIORITIES["cmdline"]:
            continue
        meant = get_close_matches(name, known, n=1, cutoff=_LIKENESS)
        # A project may have its own, as MY_REDIS_URL.
        if meant and not name.endswith(f"_{meant[0]}"):
            logger.warning("There is no setting %s; did you mean %s?", name, meant[0])


def _wanted(name: str, default: Any) -> str:
    """What a value must be, as the default shows."""
    if isinstance(default, bool):
        return "True or False"
    if name in _ONE_OR_MORE:
        return "a whole number, 1 or more"
    if isinstance(default, int) and name not in _FRACTIONS:
        return "a whole number, 0 or more"
    if isinstance(default, int | float):
        return "a number, 0 or more"
    return "a JSON object" if isinstance(default, dict) else ""


def _read(settings: BaseSettings, name: str, wanted: str) -> None:
    if wanted == "True or False":
        settings.getbool(name)
    elif wanted == "a JSON object":
        settings.getdict(name)
    elif wanted:
        value = settings.getint(name) if "whole" in wanted else settings.getfloat(name)
        if not math.isfinite(value) or value < (1 if name in _ONE_OR_MORE else 0):
            raise ValueError
