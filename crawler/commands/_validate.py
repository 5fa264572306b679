"""Check all settings before a command starts, so that a mistake is one line and no traceback."""

from __future__ import annotations

import logging
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scrapy.settings import SETTINGS_PRIORITIES, default_settings

from crawler.config.values import NAMES, value
from crawler.dns import addresses
from crawler.download.address_guard import Guard
from crawler.politeness.host_delays import host_rules
from crawler.scheduling.recrawl_policy import recrawl_tuning
from crawler.servers.connections import redis_limit_s
from crawler.servers.redis.settings import redis_url, start_urls_key
from crawler.storage.retention import Retention
from crawler.storage.sinks import FORMER, named_sinks

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# Names this similar to an existing setting are taken for a typing error.
_SIMILARITY = 0.85


def check(settings: BaseSettings) -> None:
    """Raise ConfigurationError for the first setting whose value is wrong."""
    _warn_of_typos(settings)
    for name in NAMES:
        value(settings, name)
    redis_url(settings)
    start_urls_key(settings, None)
    Guard(settings.getlist("ALLOW_NETWORKS"))
    addresses.overrides(settings.getdict("DNS_OVERRIDES"))
    addresses.servers(settings.getlist("DNS_SERVERS"))
    host_rules(settings)
    recrawl_tuning(settings)
    redis_limit_s(settings)
    Retention.from_settings(settings)
    for sink in named_sinks(settings):
        sink.load()


def _warn_of_typos(settings: BaseSettings) -> None:
    """Warn of settings on the command line that nobody reads but that resemble one that is read."""
    known = {*NAMES, FORMER, *(name for name in dir(default_settings) if name.isupper())}
    for name in settings:
        if name in known or settings.getpriority(name) != SETTINGS_PRIORITIES["cmdline"]:
            continue
        meant = get_close_matches(name, known, n=1, cutoff=_SIMILARITY)
        # A project may have its own, as MY_REDIS_URL.
        if meant and not name.endswith(f"_{meant[0]}"):
            logger.warning("There is no setting %s; did you mean %s?", name, meant[0])
