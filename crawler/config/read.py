"""Read settings into checked objects, one for each part of the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.settings import SETTINGS_PRIORITIES

from crawler import settings as ours
from crawler.discovery.priority import Scorer
from crawler.discovery.scope import MEDIA, SKIPPED_EXTENSIONS
from crawler.discovery.traps import TrapRules
from crawler.errors import ConfigurationError
from crawler.frontier import Tuning
from crawler.frontier.entry import MAX_ATTEMPTS
from crawler.frontier.tuning import Bloom, Intset, UrlSeen
from crawler.robots.rules import product_token
from crawler.scheduling import options, recrawl_policy
from crawler.scheduling.completion import CompletionLimits
from crawler.scheduling.heartbeat import STRATEGIES, Pulse
from crawler.scheduling.retry_policy import RetryPolicy
from crawler.urls import FOLDS, GROUPS, Rejected, UrlRules, canonical, dropped_parameters, host_of

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings


# A frontier is full from this share of its limits on; the rest is for what may not be refused.
_FULL = 0.8

_BEAT_MAX_S = 2.0
# After a restart of Redis every process has the time of so many beats to tell what it holds.
_GRACE_BEATS = 5
# Pipelines that ask for no blocks of text, unless a page was compared before.
_BLIND = frozenset(
    f"crawler.pipelines.{name}"
    for name in ("links.Links", "recrawl.Recrawl", "store.Store", "feeds.Feeds")
)
# Options of the whole fleet that have a setting each.
_FLEET_SETTINGS = {
    "weights": "FRONTIER_WEIGHTS",
    "load_weights": "FRONTIER_LOAD_WEIGHTS",
    "load_threshold": "FRONTIER_LOAD_THRESHOLD",
}


def crawl_name(settings: BaseSettings, spider: str, given: str | None = None) -> str:
    """Name under which processes share a crawl: the one given, else the setting, else the spider's.

    Only processes of one spider may share it.
    """
    name = str(given or settings["CRAWL"] or spider)
    if any(character in name for character in "{}: \n"):
        raise ConfigurationError(
            f"CRAWL is {name!r}; use a name without braces, colons and blanks."
        )
    return name


def robots_name(settings: BaseSettings) -> str:
    """Name that robots.txt files, meta tags and headers know the crawler by."""
    return product_token(settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"] or "")


def limits(settings: BaseSettings) -> CompletionLimits:
    """When this process stops."""
    idle = _one_of(settings, "CRAWL_IDLE", ("close", "wait"))
    max_wait_s = settings.getfloat("CRAWL_MAX_WAIT")
    return CompletionLimits(close_when_done=idle == "close", max_wait_s=max_wait_s)


def pulse(settings: BaseSettings) -> Pulse:
    """How this process takes part in the fleet."""
    return Pulse(
        lease_ttl_s=settings.getfloat("LEASE_TTL"),
        beat_s=_beat_s(settings),
        reclaim_rest_s=settings.getfloat("DELAY_MIN"),
        strategy=_one_of(settings, "FLEET_STRATEGY", STRATEGIES),
        memory_full=_FULL,
    )


def tuning(settings: BaseSettings) -> Tuning:
    """How the frontier serves its queues."""
    return Tuning(
        parallelism=settings.getint("HOST_PARALLELISM"),
        spacing_ms=round(settings.getfloat("DELAY_MIN") * 1000),
        dead_max=settings.getint("DEAD_MAX"),
        full_at=round(settings.getint("FRONTIER_MAX_WAITING") * _FULL),
        grace_ms=round(_GRACE_BEATS * _beat_s(settings) * 1000),
        url_seen=_url_seen(settings),
    )


def given_options(settings: BaseSettings, spider: Spider) -> dict[str, Any]:
    """Options of the whole fleet that this process was given: by settings on purpose, or by -a."""
    chosen = {
        option: settings[name]
        for option, name in _FLEET_SETTINGS.items()
        if settings[name] != getattr(ours, name)
        or (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["project"]
    }
    return {**options.checked(chosen, _FLEET_SETTINGS), **getattr(spider, "options", {})}


def url_rules(settings: BaseSettings) -> UrlRules:
    """How URLs are spelled, told apart and grouped."""
    fold = settings.getlist("URL_FOLD")
    if not set(fold) <= set(FOLDS):
        raise ConfigurationError(f"URL_FOLD is {fold!r}; use any of {', '.join(FOLDS)}.")
    try:
        dropped = dropped_parameters(tuple(settings.getlist("URL_DROP_PARAMETERS")))
    except ValueError as error:
        raise ConfigurationError(f"URL_DROP_PARAMETERS: {error}.") from error
    return UrlRules(
        max_length=settings.getint("URL_LENGTH_LIMIT"),
        sort_query=settings.getbool("URL_SORT_QUERY"),
        dropped=dropped,
        fold=frozenset(fold),
        group_by=_one_of(settings, "GROUP_BY", GROUPS),
    )


def skipped_extensions(settings: BaseSettings) -> frozenset[str]:
    """Endings of files that are not followed."""
    if settings["SKIPPED_EXTENSIONS"] is not None:
        return frozenset(
            name.strip().lower().removeprefix(".")
            for name in settings.getlist("SKIPPED_EXTENSIONS")
        )
    return SKIPPED_EXTENSIONS - (MEDIA if settings.getbool("FOLLOW_MEDIA") else set())


def text_without(settings: BaseSettings) -> list[str]:
    """Elements whose text is not wanted."""
    names = [str(name).strip().lower() for name in settings.getlist("TEXT_WITHOUT")]
    for name in names:
        if not name.isascii() or not name.replace("-", "").isalnum():
            raise ConfigurationError(f"TEXT_WITHOUT has {name!r}; give elements such as nav.")
    return names


def compares_blocks(settings: BaseSettings) -> bool:
    """May a pipeline ask for the blocks of a page's text? Of those of others nothing is known."""
    pipelines = settings.getwithbase("ITEM_PIPELINES")
    return not {name for name, order in pipelines.items() if order is not None} <= _BLIND


def trap_rules(settings: BaseSettings) -> TrapRules:
    """Which shapes of URLs are traps."""
    back, ahead = numbers(settings, "TRAP_CALENDAR_YEARS", 2)
    return TrapRules(
        segment_repeats=settings.getint("TRAP_SEGMENT_REPEATS"),
        path_depth=settings.getint("TRAP_PATH_DEPTH"),
        growth_length=settings.getint("TRAP_GROWTH_LENGTH"),
        calendar_max=settings.getint("TRAP_CALENDAR_MAX"),
        calendar_years_back=back,
        calendar_years_ahead=ahead,
        template_max=settings.getint("TRAP_TEMPLATE_MAX"),
        combinations_max=settings.getint("TRAP_COMBINATIONS_MAX"),
        filters_max=settings.getint("TRAP_FILTERS_MAX"),
        sessions_max=settings.getint("TRAP_SESSIONS_MAX"),
        duplicates_after=settings.getint("TRAP_DUPLICATES_AFTER"),
    )


def scorer(settings: BaseSettings) -> Scorer:
    """How URLs are scored. Reads the file of trusted domains, if one is named."""
    weights = settings.getdict("PRIORITY_WEIGHTS")
    if not all(type(points) is int for points in weights.values()):
        raise ConfigurationError(f"PRIORITY_WEIGHTS is {weights!r}; give whole numbers.")
    try:
        return Scorer(weights, trusted=read_trusted_domains(settings["TRUSTED_DOMAINS"]))
    except ValueError as error:
        raise ConfigurationError(f"PRIORITY_WEIGHTS {error}.") from error


def recrawl_tuning(settings: BaseSettings) -> recrawl_policy.RecrawlTuning:
    """How pages are visited again."""
    try:
        return recrawl_policy.RecrawlTuning.of(settings.getdict("RECRAWL"))
    except ValueError as error:
        raise ConfigurationError(f"RECRAWL {error}.") from error


def retry_policy(settings: BaseSettings) -> RetryPolicy:
    """How failed fetches are repeated."""
    times = settings.getint("RETRY_TIMES") if settings.getbool("RETRY_ENABLED") else 0
    return RetryPolicy(
        # An entry counts no further: with more a URL that fails would never end.
        times=min(times, MAX_ATTEMPTS),
        base_s=settings.getfloat("RETRY_BASE"),
        max_s=settings.getfloat("RETRY_MAX"),
    )


def retried_statuses(settings: BaseSettings) -> frozenset[int]:
    """Statuses of answers that are worth another attempt."""
    codes = settings.getlist("RETRY_HTTP_CODES")
    try:
        return frozenset(map(int, codes))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"RETRY_HTTP_CODES is {codes!r}; give numbers such as 503."
        ) from error


def numbers(settings: BaseSettings, name: str, count: int = 4) -> list[int]:
    """A setting that is a list of so many whole numbers."""
    values = settings.getlist(name)
    try:
        found = [int(value) for value in values]
    except (TypeError, ValueError):
        found = []
    if len(found) != count:
        raise ConfigurationError(f"{name} is {values!r}; give {count} whole numbers.")
    return found


def _beat_s(settings: BaseSettings) -> float:
    return min(_BEAT_MAX_S, settings.getfloat("LEASE_TTL") / 5)


def _url_seen(settings: BaseSettings) -> UrlSeen:
    if _one_of(settings, "URL_SEEN", ("intset", "bloom")) == "intset":
        return Intset()
    capacity, chance = settings.getint("BLOOM_CAPACITY"), settings.getfloat("BLOOM_ERROR")
    if capacity < 1 or not 0 < chance < 1:
        raise ConfigurationError(
            f"BLOOM_CAPACITY is {capacity} and BLOOM_ERROR {chance}; give 1 or more, and a number "
            "between 0 and 1."
        )
    return Bloom(capacity, chance)


def _one_of(settings: BaseSettings, name: str, choices: Sequence[str]) -> str:
    value = settings[name]
    if value not in choices:
        raise ConfigurationError(f"{name} is {value!r}; use one of {', '.join(choices)}.")
    return str(value)


# The first of a file; about 100 bytes each.
MAX_DOMAINS = 100_000


def read_trusted_domains(given: str | Iterable[str] | None) -> frozenset[str]:
    """The domains of a list, of a text with commas or blanks, or of a file.

    A line of a file is a domain, or a rank, a comma and a domain.
    """
    if not given:
        return frozenset()
    if not isinstance(given, str):
        return frozenset(_domain(text) for text in given)
    if "/" in given or _is_file(given):
        return _of_file(Path(given))
    return frozenset(_domain(text) for text in given.replace(",", " ").split())


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def _of_file(path: Path) -> frozenset[str]:
    found = set()
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as lines:
            for line in islice(lines, MAX_DOMAINS):
                text = line.rpartition(",")[2].strip()
                if text and not text.startswith("#"):
                    found.add(_domain(text))
    except OSError as error:
        raise ConfigurationError(
            f"TRUSTED_DOMAINS: {path} cannot be read: {error.strerror}."
        ) from error
    return frozenset(found)


def _domain(text: str) -> str:
    url = canonical(f"http://{text.strip()}/")
    if isinstance(url, Rejected) or url.count("/") != 3:
        raise ConfigurationError(
            f"TRUSTED_DOMAINS has {text!r}, which is neither a domain such as example.com nor a "
            "file with one a line."
        )
    return host_of(url)
