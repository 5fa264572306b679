"""Read settings in the words of scrapy-redis: where Redis is, and where seeds are pushed.

It also checks spiders for what scrapy-redis and older versions of Scrapy allowed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crawler import config
from crawler.errors import ConfigurationError
from crawler.util.secrets import without_secrets

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# Names of the address in REDIS_PARAMS, and as settings.
ADDRESS = ("host", "port", "db")
_ADDRESS = ("REDIS_HOST", "REDIS_PORT", "REDIS_DB")
_PORT = 6379
_NAME = "%(name)s"


def redis_url(settings: BaseSettings) -> str | None:
    """Return REDIS_URL, or a URL made of REDIS_HOST, REDIS_PORT and REDIS_DB.

    REDIS_PARAMS may have the same values by the names in ADDRESS. None means an embedded server.
    """
    if config.value(settings, "REDIS_URL"):
        return str(config.value(settings, "REDIS_URL"))
    params = config.value(settings, "REDIS_PARAMS")
    given = [settings[name] for name in _ADDRESS] + [params.get(name) for name in ADDRESS]
    if all(value in (None, "") for value in given):
        return None
    host = str(config.value(settings, "REDIS_HOST") or params.get("host") or "localhost")
    if "/" in host or host.count(":") == 1:
        raise ConfigurationError(
            f"REDIS_HOST is {without_secrets(host)!r}; give the name of a host. Its port goes to "
            "REDIS_PORT, a URL to REDIS_URL."
        )
    port = _number("REDIS_PORT", config.value(settings, "REDIS_PORT"), params.get("port", _PORT))
    database = _number("REDIS_DB", config.value(settings, "REDIS_DB"), params.get("db", 0))
    return f"redis://{f'[{host}]' if ':' in host else host}:{port}/{database}"


def start_urls_key(settings: BaseSettings, spider: object) -> str:
    """Return the key to which seeds of this spider are pushed: its `redis_key`, or the setting."""
    own = getattr(spider, "redis_key", None)
    pattern = str(own or config.value(settings, "REDIS_START_URLS_KEY"))
    if "%" in pattern.replace(_NAME, ""):
        whose = "redis_key of the spider" if own else "REDIS_START_URLS_KEY"
        raise ConfigurationError(
            f"{whose} is {pattern!r}; it may have {_NAME} in it, and no other %."
        )
    return pattern.replace(_NAME, getattr(spider, "name", ""))


def warn_of_redis_spider(spider: object) -> None:
    """Warn if a spider is derived from one of scrapy-redis."""
    if any(cls.__module__.startswith("scrapy_redis.") for cls in type(spider).__mro__):
        logger.warning(
            "%s is a spider of scrapy-redis: it pops seeds itself, loses them with its process and "
            "never ends. Make it a scrapy.Spider; its redis_key is read by the frontier",
            type(spider).__name__,
        )


def keep_allowed_domains(spider: Spider) -> None:
    """Make a list of `allowed_domains` that can be read only once, as the result of filter(…).

    Scrapy reads them several times, and would find none the second time.
    """
    domains = getattr(spider, "allowed_domains", None)
    if isinstance(domains, Iterator):
        spider.allowed_domains = list(domains)  # type: ignore[attr-defined]


def warn_of_start_requests(spider: Spider) -> None:
    """Log an error if a spider has start_requests() and no start(): Scrapy does not call it."""
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
