"""Settings by which users of scrapy-redis say where Redis is, and where seeds are pushed.

And what their spiders have that this version of Scrapy does not take any more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crawler.errors import ConfigurationError
from crawler.util.secrets import without_secrets

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# In REDIS_PARAMS, and as settings.
ADDRESS = ("host", "port", "db")
_ADDRESS = ("REDIS_HOST", "REDIS_PORT", "REDIS_DB")
_PORT = 6379
_NAME = "%(name)s"


def redis_url(settings: BaseSettings) -> str | None:
    """REDIS_URL, or one made of REDIS_HOST, REDIS_PORT and REDIS_DB; None: an embedded server.

    REDIS_PARAMS may say the same by the names in ADDRESS.
    """
    if settings["REDIS_URL"]:
        return str(settings["REDIS_URL"])
    params = settings.getdict("REDIS_PARAMS")
    given = [settings[name] for name in _ADDRESS] + [params.get(name) for name in ADDRESS]
    if all(value in (None, "") for value in given):
        return None
    host = str(settings["REDIS_HOST"] or params.get("host") or "localhost")
    if "/" in host or host.count(":") == 1:
        raise ConfigurationError(
            f"REDIS_HOST is {without_secrets(host)!r}; give the name of a host. Its port goes to "
            "REDIS_PORT, a URL to REDIS_URL."
        )
    port = _number("REDIS_PORT", settings["REDIS_PORT"], params.get("port", _PORT))
    database = _number("REDIS_DB", settings["REDIS_DB"], params.get("db", 0))
    return f"redis://{f'[{host}]' if ':' in host else host}:{port}/{database}"


def start_urls_key(settings: BaseSettings, spider: object) -> str:
    """The key to which seeds of this spider are pushed: its own `redis_key`, or the setting."""
    own = getattr(spider, "redis_key", None)
    pattern = str(own or settings["REDIS_START_URLS_KEY"])
    if "%" in pattern.replace(_NAME, ""):
        whose = "redis_key of the spider" if own else "REDIS_START_URLS_KEY"
        raise ConfigurationError(
            f"{whose} is {pattern!r}; it may have {_NAME} in it, and no other %."
        )
    return pattern.replace(_NAME, getattr(spider, "name", ""))


def tell_of_redis_spider(spider: object) -> None:
    """Warn of a spider that descends from one of scrapy-redis."""
    if any(cls.__module__.startswith("scrapy_redis.") for cls in type(spider).__mro__):
        logger.warning(
            "%s is a spider of scrapy-redis: it pops seeds itself, loses them with its process and "
            "never ends. Make it a scrapy.Spider; its redis_key is read by the frontier",
            type(spider).__name__,
        )


def keep_allowed_domains(spider: Spider) -> None:
    """Make a list of `allowed_domains` that can be read only once, as filter(…) gives them.

    Scrapy reads them again and again, and would find none the second time.
    """
    domains = getattr(spider, "allowed_domains", None)
    if isinstance(domains, Iterator):
        spider.allowed_domains = list(domains)  # type: ignore[attr-defined]


def tell_of_start_requests(spider: Spider) -> None:
    """Log that a spider's start_requests() is not called, unless its start() takes the place."""
    for cls in type(spider).__mro__:
        if "start" in vars(cls) or cls.__module__.startswith("scrapy_redis."):
            return
        if "start_requests" in vars(cls):
            logger.error(
                "start_requests() of the spider %r is not called: Scrapy 2.19 has start() in its "
                "place. Make it `async def start(self):` and yield the same requests",
                spider.name,
            )
            return


def _number(name: str, given: Any, otherwise: Any) -> int:
    value = otherwise if given is None else given
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} is {value!r}; give a whole number.") from error
