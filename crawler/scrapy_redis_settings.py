"""Settings by which users of scrapy-redis say where Redis is, and where seeds are pushed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawler.errors import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def redis_url(settings: BaseSettings) -> str | None:
    """REDIS_URL, or one made of REDIS_HOST, REDIS_PORT and REDIS_DB; None: an embedded server."""
    if settings["REDIS_URL"] or not settings["REDIS_HOST"]:
        return settings["REDIS_URL"] or None
    host = str(settings["REDIS_HOST"])
    if ":" in host:
        host = f"[{host}]"
    return f"redis://{host}:{settings.getint('REDIS_PORT')}/{settings.getint('REDIS_DB')}"


def start_urls_key(settings: BaseSettings, spider: object) -> str:
    """The key to which seeds of this spider are pushed: its own `redis_key`, or the setting."""
    pattern = str(getattr(spider, "redis_key", None) or settings["REDIS_START_URLS_KEY"])
    try:
        key = pattern % {"name": getattr(spider, "name", "")}
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"REDIS_START_URLS_KEY is {pattern!r}; it may have %(name)s in it, and no other %."
        ) from error
    return key
