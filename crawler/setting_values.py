"""Check the values of settings before anything starts, so that a mistake is told in one line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from crawler import settings as ours
from crawler import targets
from crawler.assembly import recrawl_tuning
from crawler.errors import ConfigurationError
from crawler.guard import Guard
from crawler.manners import host_rules

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Seconds, of which our default is a whole number.
_FRACTIONS = frozenset({"DOWNLOAD_DELAY", "DOWNLOAD_TIMEOUT"})


def check(settings: BaseSettings) -> None:
    """Raise ConfigurationError for a value that its setting cannot have."""
    for name in dir(ours):
        if not name.isupper():
            continue
        wanted = _wanted(name, getattr(ours, name))
        try:
            _read(settings, name, wanted)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"{name} is {settings[name]!r}; give {wanted}.") from error
    Guard(settings.getlist("ALLOW_NETWORKS"))
    targets.overrides(settings.getdict("DNS_OVERRIDES"))
    targets.servers(settings.getlist("DNS_SERVERS"))
    host_rules(settings)
    recrawl_tuning(settings)


def _wanted(name: str, default: Any) -> str:
    """What a value must be, as the default shows."""
    if isinstance(default, bool):
        return "True or False"
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
        if not math.isfinite(value) or value < 0:
            raise ValueError
