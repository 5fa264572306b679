"""Share options among all processes of a crawl. They are stored in Redis, see CrawlControl.

Options are checked before they are written (`checked`). A reader ignores a value that is wrong all
the same, so that one mistake does not stop a fleet. Users' regular expressions are compiled here,
and refused if they could run forever. OptionsWatcher has the current options of this process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from time import thread_time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from scrapy.settings import SETTINGS_PRIORITIES

from crawler import settings as ours
from crawler.discovery.scope import SCOPES, SKIPPED_EXTENSIONS, Scope
from crawler.errors import ConfigurationError
from crawler.frontier import CrawlControl, Entry
from crawler.frontier.control import SharedOptions
from crawler.frontier.entry import PAGE_QUEUES
from crawler.frontier.tuning import TypeBudget, TypeBudgets
from crawler.parsing.language import LANGUAGES, base_of
from crawler.scheduling.recrawl_policy import OFF, policy_of
from crawler.servers.redis.errors import RedisAway
from crawler.urls import Rejected, canonical, host_of, icann_domain, registered_domain
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)


# Domains in one list, and domains of seeds that a crawl remembers.
MAX_DOMAINS = 10_000
# Turns in a round of the queues: each claim sends them.
MAX_TURNS = 1000
# Hosts with a delay of their own, which every process has in memory. Each is an option of its own,
# so that two users who set delays at the same time do not overwrite each other.
MAX_HOST_DELAYS = 1000
_HOST_DELAY = "host_delay:"
# Options that have a setting each.
_SETTINGS = {
    "weights": "FRONTIER_WEIGHTS",
    "load_weights": "FRONTIER_LOAD_WEIGHTS",
    "load_threshold": "FRONTIER_LOAD_THRESHOLD",
    "type_budgets": "TYPE_BUDGETS",
}
# Of documents and media together. Pages get the rest.
MAX_TYPE_SHARES = 0.8
_YES_AND_NO = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    """Options of a crawl: what it may follow, and how much of it. Numbers: 0 for no limit."""

    scope: str = "domain"
    allowed_domains: tuple[str, ...] = ()
    excluded_domains: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    # Languages of the pages to keep, by ISO 639-1; empty: all.
    languages: tuple[str, ...] = ()
    # False: only the seeds, and the pages of sitemaps that were given as sitemaps.
    follow: bool = True
    max_depth: int = 0
    # Characters of a URL that is followed. URL_LENGTH_LIMIT applies as well.
    max_url_length: int = 0
    max_pages: int = 0
    max_pages_per_host: int = 0
    # URLs that all processes together begin to fetch in a minute.
    max_pages_per_minute: int = 0
    # Turns of the five queues in a round, those under load, and how many waiting URLs are load.
    weights: tuple[int, ...] = tuple(ours.FRONTIER_WEIGHTS)
    load_weights: tuple[int, ...] = tuple(ours.FRONTIER_LOAD_WEIGHTS)
    load_threshold: int = ours.FRONTIER_LOAD_THRESHOLD
    # Shares and budgets of documents and media, see `budgets_of`.
    type_budgets: Mapping[str, Mapping[str, float]] = field(
        default_factory=lambda: _type_budgets("TYPE_BUDGETS", {})
    )
    # When pages are visited again: "off", "adaptive", "fixed:7d".
    recrawl: str = OFF
    # Seconds between two fetches of single hosts, as users set them; others as usual.
    host_delays: Mapping[str, float] = field(default_factory=dict)
    # How often a URL was forgotten on request.
    forgotten: int = 0
    # Not an option, but shared too: registered domains of the seeds.
    seed_domains: frozenset[str] = field(default=frozenset(), repr=False)
    # Not an option either: do private suffixes count for registered domains? Set at creation.
    private_suffixes: bool = True

    def url_filter(self, skipped_extensions: AbstractSet[str] = SKIPPED_EXTENSIONS) -> Scope:
        """Return the scope of these options, which decides on URLs."""
        return Scope(
            scope=self.scope,
            max_depth=self.max_depth,
            max_url_length=self.max_url_length,
            allowed_domains=frozenset(self.allowed_domains),
            excluded_domains=frozenset(self.excluded_domains),
            include=compiled(self.include),
            exclude=compiled(self.exclude),
            seed_domains=self.seed_domains,
            skipped_extensions=skipped_extensions,
            domain_of=self.domain_of,
        )

    @property
    def domain_of(self) -> Callable[[str], str]:
        """Function that gives the registered domain of a host in this crawl."""
        return registered_domain if self.private_suffixes else icann_domain

    def changed(self, values: Mapping[str, Any]) -> CrawlOptions:
        """Return these options with some values changed; ignore what is unknown or wrong."""
        good: dict[str, Any] = {}
        for name, value in values.items():
            if name in _CHECKS:
                try:
                    found = _CHECKS[name](name, value)
                except ConfigurationError as error:
                    logger.warning("The crawl's options: %s It is ignored.", error)
                    continue
                good[name] = tuple(found) if isinstance(found, list) else found
        delays = {
            name.removeprefix(_HOST_DELAY): float(value)
            for name, value in values.items()
            if name.startswith(_HOST_DELAY) and isinstance(value, int | float)
        }
        return replace(self, **good, host_delays={**self.host_delays, **delays})


def checked(
    values: Mapping[str, Any], called: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the values as they are stored (JSON); raise ConfigurationError for a wrong one.

    `called` has the names that error messages use for options the user set by another name.
    """
    for name in values:
        if name not in _CHECKS:
            raise ConfigurationError(f"There is no option {name!r}; there are {', '.join(NAMES)}.")
    return {name: _CHECKS[name](called.get(name, name), value) for name, value in values.items()}


def given_options(settings: BaseSettings, spider: Spider) -> dict[str, Any]:
    """Return the options that this process was given, by its own settings or by the spider's -a."""
    chosen = {
        option: settings[name]
        for option, name in _SETTINGS.items()
        if settings[name] != getattr(ours, name)
        or (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["project"]
    }
    return {**checked(chosen, _SETTINGS), **getattr(spider, "options", {})}


async def of_crawl(control: CrawlControl) -> CrawlOptions:
    """Read the current options of a crawl, without following their changes."""
    known = frozenset(await control.seed_domains())
    return replace(
        CrawlOptions().changed(await control.options()),
        seed_domains=known,
        private_suffixes=control.urls.rules.private_suffixes,
    )


async def set_host_delay(control: CrawlControl, host: str, delay_s: float | None) -> None:
    """Set the delay of a host for the whole fleet; None: the usual delay again."""
    name = f"{_HOST_DELAY}{host}"
    now = await control.options()
    if delay_s is not None and name not in now:
        there = sum(known.startswith(_HOST_DELAY) for known in now)
        if there >= MAX_HOST_DELAYS:
            raise ConfigurationError(
                f"{there:,} hosts have a delay of their own, which is the limit; remove one, or "
                "use HOST_RULES with a suffix."
            )
    await control.set_options({name: delay_s})


def new_seed_domains(current: CrawlOptions, urls: Iterable[str]) -> list[str]:
    """Return domains of seeds that the crawl does not know yet, as many as there is room for."""
    new = {current.domain_of(host_of(url)) for url in urls} - current.seed_domains
    room = max(0, MAX_DOMAINS - len(current.seed_domains))
    if len(new) > room > 0:
        logger.warning(
            "The seeds have more than %d domains: for scope=seeds the others do not count",
            MAX_DOMAINS,
        )
    return sorted(new)[:room]


# --- one value ------------------------------------------------------------------------------------


def _scope(name: str, value: Any) -> str:
    if value not in SCOPES:
        raise ConfigurationError(f"{name} is {value!r}; use one of {', '.join(SCOPES)}.")
    return str(value)


def _whole_number(name: str, value: Any) -> int:
    try:
        number = -1 if isinstance(value, float | bool) else int(value)
    except (ValueError, TypeError):
        number = -1
    if number < 0:
        raise ConfigurationError(f"{name} is {value!r}; give a whole number, 0 for no limit.")
    return number


def _weights(name: str, value: Any) -> list[int]:
    """Read five whole numbers, separated by commas or blanks."""
    parts = value.replace(",", " ").split() if isinstance(value, str) else value
    try:
        found = [int(part) for part in parts]
    except (ValueError, TypeError):
        found = []
    if len(found) != PAGE_QUEUES or min(found) < 0 or not 0 < sum(found) <= MAX_TURNS:
        raise ConfigurationError(
            f"{name} is {value!r}; give {PAGE_QUEUES} whole numbers of 0 or more, not all 0, and "
            f"{MAX_TURNS} together at the most."
        )
    return found


def _type_budgets(name: str, value: Any) -> dict[str, dict[str, float]]:
    """Read budgets by type, as a dict or as JSON. What is not given is as in our settings."""
    try:
        given = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{name} is {value!r}; give a JSON object.")
    defaults: Mapping[str, Mapping[str, float]] = ours.TYPE_BUDGETS
    for kind in given:
        if kind not in defaults:
            raise ConfigurationError(f"{name} has {kind!r}; use {', '.join(defaults)}.")
    found = {
        kind: {**budget, **_type_budget(f"{name}[{kind!r}]", given.get(kind, {}), budget)}
        for kind, budget in defaults.items()
    }
    if sum(budget["share"] for budget in found.values()) > MAX_TYPE_SHARES:
        raise ConfigurationError(
            f"{name} is {value!r}; give shares of {MAX_TYPE_SHARES} together at the most. The rest "
            "is for pages."
        )
    return found


def _type_budget(name: str, given: Any, known: Mapping[str, float]) -> dict[str, float]:
    """Check the budget of one type."""
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{name} is {given!r}; give an object with {', '.join(known)}.")
    found: dict[str, float] = {}
    for key, value in given.items():
        if key not in known:
            raise ConfigurationError(f"{name} has {key!r}; use {', '.join(known)}.")
        found[key] = (_share if key == "share" else _whole_number)(f"{name}[{key!r}]", value)
    return found


def _share(name: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_TYPE_SHARES:
        raise ConfigurationError(f"{name} is {value!r}; give a number from 0 to {MAX_TYPE_SHARES}.")
    return float(value)


def budgets_of(values: Mapping[str, Mapping[str, float]]) -> TypeBudgets:
    """Return the option `type_budgets` as the frontier takes it."""
    found = {
        kind: TypeBudget(budget["share"], int(budget["max_per_host"]), int(budget["max"]))
        for kind, budget in values.items()
    }
    return TypeBudgets(**found)


def _recrawl(name: str, value: Any) -> str:
    text = str(value).strip().lower()
    try:
        policy_of(text)
    except ValueError as error:
        raise ConfigurationError(f"{name} {error}.") from error
    return text


def _languages(name: str, value: Any) -> list[str]:
    """Read languages, separated by commas or blanks, as pages declare them: "en de-AT"."""
    parts = value.replace(",", " ").split() if isinstance(value, str) else _listed(name, value)
    found = sorted({base_of(str(part)) for part in parts})
    for language in found:
        if language not in LANGUAGES:
            raise ConfigurationError(
                f"{name} has {language!r}, which is no language that is detected; give codes of "
                f"ISO 639-1: {', '.join(sorted(LANGUAGES))}."
            )
    return found


def _yes_or_no(name: str, value: Any) -> bool:
    found = _YES_AND_NO.get(str(value).lower())
    if found is None:
        raise ConfigurationError(f"{name} is {value!r}; say yes or no.")
    return found


def _domains(name: str, value: Any) -> list[str]:
    """Read domains, separated by commas or blanks, and write them as canonical URLs do."""
    parts = value.replace(",", " ").split() if isinstance(value, str) else _listed(name, value)
    if len(parts) > MAX_DOMAINS:
        raise ConfigurationError(
            f"{name} has {len(parts)} domains; give {MAX_DOMAINS} at the most."
        )
    return sorted({_domain(name, str(part)) for part in parts})


def _domain(name: str, text: str) -> str:
    bare = text.removeprefix("*").removeprefix(".")
    url = canonical(f"http://{bare}/")
    has_port = ":" in bare and not bare.startswith("[")
    if isinstance(url, Rejected) or url.count("/") != 3 or has_port:
        raise ConfigurationError(
            f"{name} has {text!r}, which is no domain; write it as example.com, without a scheme, "
            "port or path."
        )
    return host_of(url)


def _listed(name: str, value: Any) -> list[Any]:
    if not isinstance(value, Collection):
        raise ConfigurationError(f"{name} is {value!r}; give a list, or a text with blanks.")
    return list(value)


def _patterns(name: str, value: Any) -> list[str]:
    """Read regular expressions, separated by blanks: URLs have none."""
    parts = (
        value.split() if isinstance(value, str) else [str(each) for each in _listed(name, value)]
    )
    try:
        compiled(parts)
    except BadPattern as error:
        raise ConfigurationError(f"{name}: {error}.") from error
    return parts


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "scope": _scope,
    "allowed_domains": _domains,
    "excluded_domains": _domains,
    "include": _patterns,
    "exclude": _patterns,
    "languages": _languages,
    "follow": _yes_or_no,
    "max_depth": _whole_number,
    "max_url_length": _whole_number,
    "max_pages": _whole_number,
    "max_pages_per_host": _whole_number,
    "max_pages_per_minute": _whole_number,
    "weights": _weights,
    "load_weights": _weights,
    "load_threshold": _whole_number,
    "type_budgets": _type_budgets,
    "recrawl": _recrawl,
    "forgotten": _whole_number,
}
# What each option that users set means.
MEANINGS = {
    "scope": "links that are followed: host, domain (of the page with the link), seeds or any",
    "allowed_domains": "only these domains, with their subdomains",
    "excluded_domains": "not these domains; their waiting URLs are dropped at their turn",
    "include": "only URLs with one of these regular expressions",
    "exclude": "no URLs with one of these regular expressions",
    "languages": "only pages in these languages, by ISO 639-1",
    "follow": "whether links are followed",
    "max_depth": "links from a seed; 0 for no limit",
    "max_url_length": "characters of a URL; 0 for no limit",
    "max_pages": "pages of the whole crawl; 0 for no limit",
    "max_pages_per_host": "pages of each host; 0 for no limit",
    "max_pages_per_minute": "URLs that all processes together begin to fetch in a minute; 0 for no "
    "limit",
    "weights": "turns of the front queues F1 to F5 in a round",
    "load_weights": "the same while more than load_threshold URLs wait",
    "load_threshold": "waiting URLs from which load_weights apply",
    "type_budgets": "shares and limits of documents and media, as JSON",
    "recrawl": "when pages are visited again: off, adaptive, fixed:7d or budget:1000000/d",
}
# Options that users set.
NAMES = tuple(name for name in _CHECKS if name != "forgotten")
# Those that are also arguments of the generic spider.
ARGUMENTS = tuple(name for name in NAMES if name not in _SETTINGS)
assert tuple(MEANINGS) == NAMES
assert {*_CHECKS, "host_delays", "seed_domains", "private_suffixes"} == {
    option.name for option in fields(CrawlOptions)
}

# A change applies in the whole fleet within 2 s. Reading is one small reply.
REFRESH_S = 1.0


class OptionsWatcher:
    """Current options of the crawl, and its scope, read from Redis every second."""

    def __init__(self, skipped_extensions: AbstractSet[str] = SKIPPED_EXTENSIONS) -> None:
        self.options = CrawlOptions()
        self._skipped_extensions = skipped_extensions
        self.scope: Scope = self.options.url_filter(skipped_extensions)
        self._subscribers: list[Callable[[CrawlOptions], None]] = []
        self._control: CrawlControl
        self._shared = SharedOptions()
        self._task: asyncio.Task[None] | None = None

    async def open(self, control: CrawlControl, given: Mapping[str, Any]) -> None:
        """Write the options that this process was given, and follow all changes from now on."""
        self._control = control
        before = await control.options()
        for name, value in given.items():
            if name in before and before[name] != value:
                logger.warning(
                    "%s is now %r for every process of this crawl (it was %r)",
                    *(name, value, before[name]),
                )
        await control.set_options(given)
        shared = await control.shared_options()
        self._use(await self._read(shared), shared)
        self._task = asyncio.get_running_loop().create_task(self._refresh_forever())

    async def close(self) -> None:
        """Follow no more changes."""
        if self._task is not None:
            await end(self._task)

    def subscribe(self, use: Callable[[CrawlOptions], None]) -> None:
        """Call `use` with the options now, and whenever they change."""
        self._subscribers.append(use)
        use(self.options)

    async def refresh(self) -> None:
        """Apply what other processes changed. Write again the options that Redis lost."""
        shared = await self._control.shared_options()
        if shared.version < self._shared.version:
            logger.warning("Redis lost options of the crawl; writing them again")
            await self._control.restore_options(self._shared)
            shared = self._shared
        now = await self._read(shared)
        for name in _CHECKS:
            if getattr(now, name) != getattr(self.options, name):
                logger.info("%s was changed to %r", name, getattr(now, name))
        self._use(now, shared)

    async def note_seeds(self, entries: Sequence[Entry]) -> None:
        """Share the domains of new seeds, for the scope "seeds"."""
        new = new_seed_domains(self.options, (entry.url for entry in entries))
        if new:
            domains = self.options.seed_domains.union(new)
            self._use(replace(self.options, seed_domains=domains), self._shared)
            # If Redis is away, the next refresh writes them.
            with suppress(*RedisAway):
                await self._control.add_seed_domains(new)

    async def _refresh_forever(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self.refresh()
            except RedisAway:
                # The heartbeat logs it.
                continue
            except Exception:
                # A process must not stop following its options.
                logger.exception("The crawl's options could not be read; trying again")

    async def _read(self, shared: SharedOptions) -> CrawlOptions:
        """Make options of the shared values, and of the domains of seeds if they count."""
        now, control = self.options, self._control
        if shared != self._shared:
            # Only then, so that a mistake in them is logged once.
            now = CrawlOptions().changed(shared.values)
        # Domains are only ever added, so their number says whether there are new ones.
        noted: frozenset[str] = frozenset()
        known = len(self.options.seed_domains)
        if now.scope == "seeds" and await control.count_seed_domains() != known:
            noted = frozenset(await control.seed_domains())
            if not self.options.seed_domains <= noted:
                # Redis was away when they were noted.
                await control.add_seed_domains(sorted(self.options.seed_domains - noted))
        private_suffixes = control.urls.rules.private_suffixes
        # Read last: `note_seeds` may have added some while Redis was asked.
        domains = self.options.seed_domains | noted
        return replace(now, seed_domains=domains, private_suffixes=private_suffixes)

    def _use(self, now: CrawlOptions, shared: SharedOptions) -> None:
        self._shared = shared
        if now != self.options:
            self.options = now
            self.scope = now.url_filter(self._skipped_extensions)
            for use in self._subscribers:
                use(now)


MAX_PATTERNS = 100
MAX_CHARS = 500
# CPU time of this thread for one URL. A harmless pattern takes microseconds.
_MATCH_MAX_S = 0.05
_LENGTHS = (8, 12, 14, 16, 18, 20, 22, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
_TRIED = ("a", "0", "/", "a/", "0-", "&a=0", "%20", ".")


class BadPattern(ValueError):
    """Pattern that cannot be used; the text says why."""


def compiled(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """Compile patterns that are searched for anywhere in a URL; BadPattern names a wrong one."""
    if len(patterns) > MAX_PATTERNS:
        raise BadPattern(f"{len(patterns)} patterns are too many; give {MAX_PATTERNS} at the most")
    return tuple(_compiled(text) for text in patterns)


@lru_cache(maxsize=2 * MAX_PATTERNS)
def _compiled(text: str) -> re.Pattern[str]:
    if len(text) > MAX_CHARS:
        start = f"{text[:40]}…"
        raise BadPattern(f"{start!r} has {len(text)} characters; use {MAX_CHARS} at the most")
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadPattern(f"{text!r} is no regular expression: {error}") from error
    for length in _LENGTHS:
        for part in _TRIED:
            # No URL has line breaks: with them the pattern does not match too early.
            tried = (part * length)[:length] + "\n\n"
            before = thread_time()
            pattern.search(tried)
            if thread_time() - before > _MATCH_MAX_S:
                raise BadPattern(
                    f"{text!r} takes too long on a URL of {length} characters; avoid a repetition "
                    "within a repetition, as in (a+)+, and several .* in a row"
                )
    return pattern
