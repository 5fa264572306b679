"""Read one setting, or all settings of a package, and check the values.

A setting has the type of its default in crawler/settings.py; numbers are 0 or more. `_RULES` has
the settings that need another rule. A wrong value is a ConfigurationError: "NAME is VALUE; give …."

    config.value(settings, "LEASE_TTL")    one checked value
    config.fill(TrapRules, settings)       a dataclass whose fields are declared with `setting`

A package declares its settings as the fields of one frozen dataclass:

    @dataclass(frozen=True, slots=True)
    class TrapRules:
        path_depth: int = config.setting("TRAP_PATH_DEPTH")

`TrapRules()` then has the defaults of crawler/settings.py. Settings that only Scrapy declares are
read with Scrapy's own getters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from crawler import settings as ours
from crawler.errors import ConfigurationError
from crawler.urls import FOLDS, GROUPS, UrlRules, dropped_parameters
from crawler.util.secrets import without_secrets

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

T = TypeVar("T")

NAMES = tuple(name for name in dir(ours) if name.isupper())
_SETTING = "setting"
# Object stores; crawler/servers/objects.py reads the rest of their URLs.
_STORE = re.compile(r"(s3|gs|az|file)://")
# A cluster of Kafka and its topics; crawler/servers/kafka.py reads the rest.
_TOPIC_URL = re.compile(r"kafka://[^/\s]+/\S+")
# Folders' names have up to 255 bytes, and each of these may be quoted.
_CRAWL_NAME_BYTES = 80
# Characters of a header's name (RFC 9110: token).
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def value(settings: BaseSettings, name: str) -> Any:
    """Return the checked value of a setting of this project, or raise ConfigurationError."""
    default = getattr(ours, name)
    is_right, advice = _RULES.get(name) or (None, _advice(default))
    try:
        found = _typed(settings, name, default)
        if is_right is not None and not is_right(found):
            raise ValueError
        if isinstance(found, int | float) and not 0 <= found < math.inf:
            raise ValueError
    except (ValueError, TypeError) as error:
        given = without_secrets(repr(settings[name]))
        raise ConfigurationError(f"{name} is {given}; {advice}.") from error
    return found


def setting(name: str) -> Any:
    """Declare a dataclass field that `fill` reads from a setting."""
    default = getattr(ours, name)
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata={_SETTING: name})
    return field(default=default, metadata={_SETTING: name})


def fill(kind: type[T], settings: BaseSettings, **others: Any) -> T:
    """Make a dataclass from settings; `others` are the fields that are no settings."""
    found = {
        each.name: value(settings, each.metadata[_SETTING])
        for each in fields(kind)  # type: ignore[arg-type]
        if _SETTING in each.metadata and each.name not in others
    }
    return kind(**found, **others)


def crawl_name(settings: BaseSettings, spider: str, given: str | None = None) -> str:
    """Return the name under which processes share a crawl: as given, else CRAWL, else the spider's.

    Only processes of one spider may share it.
    """
    name = str(given or value(settings, "CRAWL") or spider)
    # It is part of keys and of folders' names, and people read and type it.
    is_plain = name.isprintable() and not set(name) & set("{}: ")
    if not is_plain or len(name.encode()) > _CRAWL_NAME_BYTES:
        raise ConfigurationError(
            f"The name of the crawl (CRAWL) is {name[:_CRAWL_NAME_BYTES]!r}; use up to "
            f"{_CRAWL_NAME_BYTES} letters, without braces, colons, blanks and control characters."
        )
    return name


def header_names(given: str | Iterable[str] | None) -> frozenset[str] | None:
    """Return the names of a list, or of a text with commas; None stays None."""
    if given is None:
        return None
    names = given.split(",") if isinstance(given, str) else given
    return frozenset(name.strip() for name in names) - {""}


def url_rules(settings: BaseSettings) -> UrlRules:
    """Return how URLs are spelled, compared and grouped."""
    try:
        dropped = dropped_parameters(tuple(value(settings, "URL_DROP_PARAMETERS")))
    except ValueError as error:
        raise ConfigurationError(f"URL_DROP_PARAMETERS: {error}.") from error
    return UrlRules(
        max_length=value(settings, "URL_LENGTH_LIMIT"),
        sort_query=value(settings, "URL_SORT_QUERY"),
        dropped=dropped,
        fold=frozenset(value(settings, "URL_FOLD")),
        group_by=value(settings, "GROUP_BY"),
    )


# --- rules --------------------------------------------------------------------------------------


def _typed(settings: BaseSettings, name: str, default: object) -> Any:
    """Read a setting as the type of its default; one whose default is None may be anything."""
    match default:
        case bool():
            return settings.getbool(name)
        case int():
            return settings.getint(name)
        case float():
            return settings.getfloat(name)
        case dict():
            return settings.getdict(name)
        case [int(), *_]:
            return [int(each) for each in settings.getlist(name)]
        case list():
            return settings.getlist(name)
    return settings[name]


def _advice(default: object) -> str:
    match default:
        case bool():
            return "give True or False"
        case int():
            return "give a whole number, 0 or more"
        case float():
            return "give a number, 0 or more"
        case dict():
            return "give a JSON object"
        case [int(), *_]:
            return "give whole numbers"
    return "give a list"


class _Rule(NamedTuple):
    is_right: Callable[[Any], bool]
    advice: str


def _one_of(*choices: str) -> _Rule:
    return _Rule(choices.__contains__, f"use one of {', '.join(choices)}")


def _any_of(*choices: str) -> _Rule:
    return _Rule(lambda found: {*found} <= {*choices}, f"use any of {', '.join(choices)}")


def _numbers(count: int) -> _Rule:
    return _Rule(lambda found: len(found) == count, f"give {count} whole numbers")


def _are_elements(names: Iterable[object]) -> bool:
    texts = [str(name).strip() for name in names]
    return all(text.isascii() and text.replace("-", "").isalnum() for text in texts)


def _are_headers(given: str | Iterable[str] | None) -> bool:
    if not isinstance(given, str | None) and not all(isinstance(name, str) for name in given):
        return False
    return all(_HEADER.fullmatch(name) for name in header_names(given) or ())


def _may_be_topic(given: object) -> bool:
    return not given or (isinstance(given, str) and _TOPIC_URL.fullmatch(given) is not None)


def _may_be_store(given: object) -> bool:
    return not given or (isinstance(given, str) and _STORE.match(given) is not None)


_ONE_OR_MORE = _Rule(lambda found: found >= 1, "give a whole number, 1 or more")
_ABOVE_ZERO = _Rule(lambda found: found > 0, "give seconds, more than 0")

_RULES: dict[str, _Rule] = {
    "BLOOM_CAPACITY": _ONE_OR_MORE,
    "BLOOM_ERROR": _Rule(lambda found: 0 < found < 1, "give a number between 0 and 1"),
    # With 0 a crawl would wait for ever.
    "CONCURRENT_ITEMS": _ONE_OR_MORE,
    "CONCURRENT_REQUESTS": _ONE_OR_MORE,
    "CONCURRENT_REQUESTS_PER_DOMAIN": _ONE_OR_MORE,
    "CRAWL_IDLE": _one_of("close", "wait"),
    # Python and the libraries of the readers take half of this.
    "DOCUMENT_MEMORY": _Rule(lambda found: found >= 64_000_000, "give bytes, 64000000 or more"),
    "DOCUMENT_NICE": _Rule(lambda found: 0 <= found <= 19, "give a whole number from 0 to 19"),
    "DOCUMENT_PAGES": _ONE_OR_MORE,
    "DOCUMENT_TIMEOUT": _ABOVE_ZERO,
    "DOCUMENT_WAITING_BYTES": _ONE_OR_MORE,
    "DOCUMENT_WORKERS": _ONE_OR_MORE,
    "FLEET_STRATEGY": _one_of("sticky", "hash", "balanced", "round_robin"),
    # Each costs every process a few calls a second.
    "FRONTIER_SHARDS": _Rule(lambda found: 0 <= found <= 1024, "give a whole number up to 1024"),
    "FRONTIER_THRESHOLDS": _numbers(4),
    "GROUP_BY": _one_of(*GROUPS),
    # Below that, most URLs would share their counters. Redis takes strings of up to 512 MB.
    "INBOUND_SKETCH_BYTES": _Rule(
        lambda found: found == 0 or 100_000 <= found <= 1_000_000_000,
        "give bytes, 100000 to 1000000000, or 0 for none",
    ),
    "KAFKA_GROUP": _Rule(
        lambda found: found is None or (isinstance(found, str) and 0 < len(found) < 250),
        "give the name of a consumer group",
    ),
    # Less has no room for the fields that are never left out.
    "KAFKA_MAX_MESSAGE_BYTES": _Rule(lambda found: found >= 100_000, "give bytes, 100000 or more"),
    "KAFKA_PARTITION_BY": _one_of("domain", "url_hash"),
    "KAFKA_SEEDS": _Rule(_may_be_topic, "use kafka://host:9092/topic"),
    # With less a broker has no time to answer.
    "KAFKA_TIMEOUT": _Rule(lambda found: found >= 1, "give seconds, 1 or more"),
    # With less a process would be declared dead between two of its heartbeats.
    "LEASE_TTL": _Rule(lambda found: found >= 0.5, "give 0.5 seconds or more"),
    "MONGO_TIMEOUT": _ABOVE_ZERO,
    "NEAR_BY": _one_of("minhash", "simhash"),
    # The index of texts has tables for no more.
    "NEAR_DISTANCE": _Rule(lambda found: 0 <= found <= 3, "give a whole number from 0 to 3"),
    "NEAR_PAGES": _ONE_OR_MORE,
    # Of less similar texts too many would not be found.
    "NEAR_SIMILARITY": _Rule(lambda found: 0.8 <= found <= 1, "give a number from 0.8 to 1"),
    "OFF_TOPIC": _one_of("store", "follow", "leave"),
    "OTHER_LANGUAGES": _one_of("follow", "store", "leave"),
    "PAGE_FIELDS": _any_of("text_language", "main_text", "markdown", "screenshot"),
    "PAGES_CODEC": _one_of("zstd", "zlib", "none"),
    "PAGES_HEADERS": _Rule(_are_headers, "give names of headers, such as Server"),
    "PAGES_TIER_URL": _Rule(
        _may_be_store, "use s3://bucket/prefix, gs://…, az://… or file:///folder"
    ),
    "POSTGRES_TIMEOUT": _ABOVE_ZERO,
    "PROGRESS": _one_of("auto", "live", "plain", "off"),
    "PROGRESS_INTERVAL": _ABOVE_ZERO,
    "REDIS_TIMEOUT": _ABOVE_ZERO,
    "RENDER": _one_of("never", "auto", "always"),
    "RENDER_BROWSERS": _ONE_OR_MORE,
    "RENDER_KINDS": _any_of(
        *("script", "stylesheet", "xhr", "fetch", "image", "font", "media", "manifest")
    ),
    # An empty page takes half of this.
    "RENDER_MEMORY": _Rule(lambda found: found >= 256_000_000, "give bytes, 256000000 or more"),
    "RENDER_NICE": _Rule(lambda found: 0 <= found <= 19, "give a whole number from 0 to 19"),
    "RENDER_SCROLL": _Rule(lambda found: 0 <= found <= 100, "give a whole number from 0 to 100"),
    "RENDER_TIMEOUT": _Rule(lambda found: 1 <= found <= 120, "give seconds from 1 to 120"),
    "RETRY_HTTP_CODES": _Rule(lambda _: True, "give numbers such as 503"),
    "ROBOTS_FORBIDDEN_IS": _one_of("allow", "deny"),
    # The least that the index's writer takes.
    "SEARCH_HEAP_BYTES": _Rule(lambda found: found >= 15_000_000, "give 15000000 bytes or more"),
    "SEARCH_TEXT_MAX": _ONE_OR_MORE,
    "TEXT_WITHOUT": _Rule(_are_elements, "give names of elements, such as nav"),
    "TOPIC_THRESHOLD": _Rule(lambda found: 0 < found <= 1, "give a number above 0, 1 at the most"),
    "TRAP_CALENDAR_YEARS": _numbers(2),
    "URL_FOLD": _any_of(*FOLDS),
    "URL_SEEN": _one_of("intset", "bloom"),
    "WARC_CODEC": _one_of("gzip", "zstd", "none"),
    "WARC_LEVEL": _ONE_OR_MORE,
    "WARC_MAX_AGE": _ABOVE_ZERO,
    "WARC_MAX_BYTES": _ONE_OR_MORE,
    "WARC_OPERATOR": _Rule(lambda found: str(found or "").isprintable(), "give one line of text"),
    "USER_AGENT": _Rule(lambda found: str(found or "").isprintable(), "give one line of text"),
}
