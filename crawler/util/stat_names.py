"""The names of the fleet's figures: a closed list, whatever components count. Pure.

Every visit to a URL of the frontier that came to an end is in one of these figures at the most,
counted when its lease is settled. They mean the same wherever they are shown:

    pages           the answer has a status 2xx
    not_modified    a recrawl was answered with 304: the page is as it was
    failed/<cause>  no page: any other final status, or no answer after the last attempt
    robots/denied   not fetched, as robots.txt forbids it: no failure

Redirects (their target is counted), sitemaps, and URLs that orders or HOST_RULES leave out are in
none of them. The success rate is the share of `pages` and `not_modified` among these and `failed`.

Scrapy's stats are named by the components, some with texts of the web or of users' own classes in
them. Here each belongs to a figure of this list or to none, and a part that varies is one of a few
known words or "other": so there are at most some two hundred names, for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

OTHER = "other"
_CODES = frozenset(
    "200 201 202 203 204 206 300 301 302 303 304 307 308 400 401 402 403 404 405 406 408 409 410 "
    "412 413 414 415 416 418 421 422 423 425 426 429 431 451 500 501 502 503 504 505 507 508 520 "
    "521 522 523 524 525 526 530 999".split()
)
CAUSES = frozenset(
    "timeout refused connection malformed dns dns_nxdomain truncated private_address too_big "
    "cancelled scheme stood_still callback_error item_error unreadable damaged poison".split()
) | {f"status_{code}" for code in _CODES if code >= "400"}
# Scrapy's stats that count how visits ended, see above.
PAGES_CRAWLED = "pages/crawled"
PAGES_NOT_MODIFIED = "pages/not_modified"
_STATUS = "status_"
_LINK_REASONS = frozenset(
    "depth too_long extension excluded scope include exclude trap_growing trap_repeated "
    "trap_duplicates trap_deep trap_calendar trap_template trap_combinations trap_filters "
    "trap_session".split()
)
_RESTS = frozenset(
    "minimum host_rule rate adaptive crawl_delay breaker retry_after overload".split()
)
_REDIRECTS = frozenset("301 302 303 307 308 refused redirect_loop too_many_redirects".split())


def code_of(text: str) -> str:
    """A status code, or the class of one that nobody has heard of."""
    if text in _CODES:
        return text
    return f"{text[0]}xx" if len(text) == 3 and text[0] in "12345" else OTHER


def cause_of(text: str) -> str:
    """Why a fetch failed, without the names of classes and the texts that follow a colon."""
    text = text.partition(":")[0]
    for kind in ("callback_error", "item_error"):
        if text.startswith(kind):
            return kind
    if text.startswith(_STATUS):
        return _STATUS + code_of(text.removeprefix(_STATUS))
    return text if text in CAUSES else OTHER


def _one_of(known: frozenset[str]) -> Callable[[str], str]:
    return lambda text: text if text in known else OTHER


@dataclass(frozen=True, slots=True)
class Family:
    """Stats whose names have a part that varies."""

    figure: str
    stat: str
    label: Callable[[str], str]


FAMILIES = (
    Family("status", "downloader/response_status_count", code_of),
    Family("retries", "retry", cause_of),
    Family("failed", "failed", cause_of),
    Family("links/refused", "links/refused", _one_of(_LINK_REASONS)),
    Family("waits", "delay", _one_of(_RESTS)),
    Family("redirects", "redirects", lambda text: _one_of(_REDIRECTS)(text.partition("/")[0])),
)
_BY_STAT = {f"{family.stat}/": family for family in FAMILIES}

# Figure -> Scrapy's stat.
PLAIN = {
    "pages": PAGES_CRAWLED,
    "items": "item_scraped_count",
    "requests": "downloader/request_count",
    "responses": "downloader/response_count",
    "bytes": "downloader/response_bytes",
    "links/found": "frontier/discovered",
    "links/new": "frontier/added",
    "links/cached": "frontier/cached",
    "links/spilled": "frontier/refused",
    "duplicates/exact": "duplicates/exact",
    "duplicates/near": "duplicates/near",
    "robots/denied": "robots/denied",
    "robots/fetched": "robots/fetched",
    "robots/cached": "robots/cached",
    "robots/deferred": "robots/deferred",
    "robots/unreachable": "robots/unreachable",
    "robots/crawl_delay_too_long": "robots/crawl_delay_too_long",
    "dns/hits": "dns/hits",
    "dns/misses": "dns/misses",
    "dns/stale": "dns/stale",
    "dns/errors": "dns/errors",
    "dns/nxdomain": "dns/nxdomain",
    "dns/deferred": "dns/deferred",
    "dns/prefetched": "dns/prefetched",
    "waits_ms": "politeness/rest_ms",
    "breaker/opened": "breaker/opened",
    "breaker/half_open": "breaker/half_open",
    "breaker/closed": "breaker/closed",
    "sitemaps/read": "sitemaps/read",
    "guard/refused": "guard/refused",
    "not_modified": PAGES_NOT_MODIFIED,
    "recrawl/changed": "recrawl/changed",
    "recrawl/unchanged": "recrawl/unchanged",
    "recrawl/failed": "recrawl/failed",
    "store/batches": "store/batches",
    "store/pages": "store/pages",
    "store/records": "store/records",
    "store/bytes": "store/bytes",
    "store/compressed_bytes": "store/compressed_bytes",
    "store/flush_ms": "store/flush_ms",
    "store/failed_flushes": "store/failed_flushes",
    "errors": "log_count/ERROR",
    "warnings": "log_count/WARNING",
}
_FIGURES = {stat: figure for figure, stat in PLAIN.items()}


def failed_stat(cause: str) -> str:
    """The stat of URLs that failed for this cause."""
    return f"failed/{cause}"


def success_rate(pages: int, not_modified: int, failed: int) -> float | None:
    """The share of visits that found their page; None before the first one."""
    found = pages + not_modified
    return found / (found + failed) if found + failed else None


def figures_of(stats: Mapping[str, Any]) -> dict[str, int]:
    """The figures in Scrapy's stats; what belongs to none of them is left out."""
    found: dict[str, int] = {}
    for stat, value in stats.items():
        name = _figure_of(stat)
        if name is not None and isinstance(value, (int, float)):
            found[name] = found.get(name, 0) + int(value)
    return found


def part(figures: Mapping[str, int], family: str) -> dict[str, int]:
    """The figures of a family by their label, the largest first."""
    prefix = f"{family}/"
    found = {name[len(prefix) :]: n for name, n in figures.items() if name.startswith(prefix) and n}
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def _figure_of(stat: str) -> str | None:
    figure = _FIGURES.get(stat)
    if figure is not None:
        return figure
    for prefix, family in _BY_STAT.items():
        if stat.startswith(prefix):
            return f"{family.figure}/{family.label(stat[len(prefix) :])}"
    return None
