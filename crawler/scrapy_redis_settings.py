"""Settings by which users of scrapy-redis say where Redis is, and where seeds are pushed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crawler.errors import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_PORT = 6379


def redis_url(settings: BaseSettings) -> str | None:
    """REDIS_URL, or one made of REDIS_HOST, REDIS_PORT and REDIS_DB; None: an embedded server.

    REDIS_PARAMS may say the same by the names `host`, `port` and `db`.
    """
    if settings["REDIS_URL"]:
        return str(settings["REDIS_URL"])
    params = settings.getdict("REDIS_PARAMS")
    host = settings["REDIS_HOST"] or params.get("host")
    if not host:
        return None
    port = _number("REDIS_PORT", settings["REDIS_PORT"], params.get("port", _PORT))
    database = _number("REDIS_DB", settings["REDIS_DB"], params.get("db", 0))
    return f"redis://{f'[{host}]' if ':' in host else host}:{port}/{database}"


def start_urls_key(settings: BaseSettings, spider: object) -> str:
    """The key to which seeds of this spider are pushed: its own `redis_key`, or the setting."""
    own = getattr(spider, "redis_key", None)
    pattern = str(own or settings["REDIS_START_URLS_KEY"])
    try:
        key = pattern % {"name": getattr(spider, "name", "")}
    except (KeyError, TypeError, ValueError) as error:
        whose = "redis_key of the spider" if own else "REDIS_START_URLS_KEY"
        raise ConfigurationError(
            f"{whose} is {pattern!r}; it may have %(name)s in it, and no other %."
        ) from error
    return key


def _number(name: str, given: Any, otherwise: Any) -> int:
    value = otherwise if given is None else given
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} is {value!r}; give a whole number.") from error
