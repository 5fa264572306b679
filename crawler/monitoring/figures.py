"""Figures of a crawl: the stat that counts each, its metric and its field in JSON.

FIGURES is the only list of them. A new figure is a stat that a component counts and a row here;
a test compares the rows with docs/metrics.md.

Every visit to a URL of the frontier that came to an end is in one of these figures at the most,
counted when its lease is settled. They mean the same wherever they are shown:

    pages           the response has a status 2xx
    not_modified    the response to a recrawl is 304: the page has not changed
    failed/<cause>  no page: any other final status, or no response after the last attempt
    robots/denied   not fetched, because robots.txt forbids it: no failure

Redirects (their target is counted), sitemaps, and URLs that people or HOST_RULES exclude are in
none of them. The success rate is the share of `pages` and `not_modified` among these and `failed`.

Some of Scrapy's stats have class names or texts of the web in their names. Such a part becomes one
of a few known words or "other", so that there are never more than some two hundred names.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from crawler.download.errors import KINDS

OTHER = "other"
_CODES = frozenset(
    "200 201 202 203 204 206 300 301 302 303 304 307 308 400 401 402 403 404 405 406 408 409 410 "
    "412 413 414 415 416 418 421 422 423 425 426 429 431 451 500 501 502 503 504 505 507 508 520 "
    "521 522 523 524 525 526 530 999".split()
)
_CAUSES = {kind.reason for kind in KINDS} | {f"status_{code}" for code in _CODES if code >= "400"}
_STATUS = "status_"
_SINK_NAME = re.compile(r"[\w.+-]{1,40}")


def known_code(text: str) -> str:
    """Return a status code, or the class of an unknown one."""
    if text in _CODES:
        return text
    return f"{text[0]}xx" if len(text) == 3 and text[0] in "12345" else OTHER


def known_cause(text: str) -> str:
    """Return why a fetch failed, without class names and the text after a colon."""
    text = text.partition(":")[0]
    for kind in ("callback_error", "item_error"):
        if text.startswith(kind):
            return kind
    if text.startswith(_STATUS):
        return _STATUS + known_code(text.removeprefix(_STATUS))
    return text if text in _CAUSES else OTHER


def _words(text: str, *, other: str = OTHER) -> Callable[[str], str]:
    """Return a function that replaces all but these words by `other`."""
    known = frozenset(text.split())
    return lambda word: word if word in known else other


@dataclass(frozen=True, slots=True)
class Label:
    """Label of a metric. Its value is `fixed`, or the last part of the figure's name."""

    name: str
    # Makes one of a few known words of what follows the stat's name. "" is not counted.
    known: Callable[[str], str] | None = None
    # Words that the metric has from the start: the first one of a kind would be in no rate.
    always: tuple[str, ...] = ()
    fixed: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure; if its label has `known`, a family: `<name>/<word>` counts `<stat>/<text>`."""

    # In Redis.
    name: str
    # Meaning of its metric; figures without one are in Redis only.
    help: str = ""
    label: Label | None = None
    # Scrapy's; by default it is named like the figure.
    stat: str = ""
    # Counter of Prometheus, without _total; by default "crawler_" and the figure's name.
    metric: str = ""
    # Units of the stat in a unit of the metric.
    scale: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "stat", self.stat or self.name)
        if self.help and not self.metric:
            object.__setattr__(self, "metric", f"crawler_{self.name.replace('/', '_')}")


_CAUSE = Label("cause", known_cause, (*sorted(_CAUSES), OTHER))
_CODE = Label("code", known_code, ("200",))
_known_refusal = _words(
    "depth too_long extension excluded scope include exclude trap_growing trap_repeated "
    "trap_duplicates trap_deep trap_calendar trap_template trap_combinations trap_filters "
    "trap_session budget_document budget_medium"
)
_known_redirect = _words("301 302 303 307 308 refused redirect_loop too_many_redirects")
_known_delay = _words("minimum host_rule rate adaptive crawl_delay breaker retry_after overload")
_known_rules = _words("denied fetched cached deferred unreachable crawl_delay_too_long", other="")
_known_lookup = _words("hits awaited misses stale errors nxdomain deferred prefetched", other="")
_REFUSAL = Label("reason", _known_refusal, ("scope",))
_REDIRECT = Label("kind", lambda text: _known_redirect(text.partition("/")[0]), ("301",))
_DELAY = Label("cause", _known_delay, ("minimum",))
_RULES = Label("result", _known_rules, ("denied",))
_LOOKUP = Label("result", _known_lookup, ("misses",))
_DUPLICATE = Label("kind", _words("exact near", other=""), ("exact",))
_TOPIC = Label("result", _words("on off unknown failed", other=""), ("on", "off"))
# As in SINKS.
SINK = Label("sink", lambda name: name if _SINK_NAME.fullmatch(name) else OTHER)
_RECRAWL = Label("kind", _words("changed unchanged failed", other=""))
_known_unread = _words(
    "busy crashed damaged encrypted failed memory missing_reader timeout too_deep too_large "
    "too_many_entries unsupported"
)
_UNREAD = Label("reason", _known_unread, ("crashed", "memory", "timeout"))
_RENDER_FAILED = Label(
    "reason", _words("crashed timeout memory start parts"), ("crashed", "timeout")
)
_PART_REFUSED = Label(
    "reason",
    _words(
        "budget eventsource excluded failed fetch font host_busy host_lost iframe image manifest "
        "media method navigation overload ping popup redirects robots robots_unknown stylesheet "
        "tracker url websocket xhr"
    ),
    ("budget", "host_busy", "robots", "tracker"),
)
_SHARD_NUMBER = re.compile(r"[0-9]{1,4}")
# A crawl has a fixed number of them.
_SHARD = Label("shard", lambda text: text if _SHARD_NUMBER.fullmatch(text) else OTHER, ("0",))
_ERROR, _WARNING = Label("level", fixed="error"), Label("level", fixed="warning")
_LOG = ("Log messages, by level", "crawler_log_messages")

FIGURES = (
    # --- visits -----------------------------------------------------------------------------------
    Figure(
        *("pages", "Pages: visits with a 2xx response"),
        stat="pages/crawled",
        metric="crawler_pages_crawled",
    ),
    Figure(
        *("not_modified", "Recrawls with a 304 response: neither a page nor a failure"),
        stat="pages/not_modified",
        metric="crawler_pages_not_modified",
    ),
    Figure(
        *("failed", "Visits that ended without a page, by cause"),
        label=_CAUSE,
        metric="crawler_pages_failed",
    ),
    Figure("shard_pages", "Pages by the shards of their hosts", _SHARD, "shard/pages"),
    Figure("retries", "Failed fetches that are retried later, by cause", _CAUSE, "retry"),
    Figure("recrawl", label=_RECRAWL),
    Figure("recrawls/begun", "Recrawls of pages and sitemaps that were begun, without retries"),
    # --- fetches ----------------------------------------------------------------------------------
    Figure(
        *("requests", "HTTP requests sent, including robots.txt and sitemaps"),
        stat="downloader/request_count",
    ),
    Figure("responses", stat="downloader/response_count"),
    Figure(
        *("status", "HTTP responses by status code", _CODE),
        stat="downloader/response_status_count",
        metric="crawler_responses",
    ),
    Figure(
        *("bytes", "Bytes of responses, as received"),
        stat="downloader/response_bytes",
        metric="crawler_response_bytes",
    ),
    Figure("redirects", "Redirects by status, or by reason why they ended", _REDIRECT),
    Figure("robots", "Fetches and checks of robots.txt, by result", _RULES),
    Figure("dns", "DNS lookups by result", _LOOKUP, metric="crawler_dns_lookups"),
    Figure("guard/refused", "Refused connections to private networks"),
    Figure(
        *("waits", "Delays of hosts, by what required the longest", _DELAY),
        stat="delay",
        metric="crawler_politeness_waits",
    ),
    Figure(
        *("waits_ms", "Sum of the delays of hosts"),
        stat="politeness/rest_ms",
        metric="crawler_politeness_wait_seconds",
        scale=1000,
    ),
    Figure(
        *("politeness/violations", "Fetches whose lease was lost before they ended"),
    ),
    Figure(
        *("breaker/opened", "Times that the breaker of a host opened"),
        metric="crawler_host_breaker_opened",
    ),
    Figure("breaker/half_open"),
    Figure("breaker/closed"),
    # --- links ------------------------------------------------------------------------------------
    Figure(
        *("links/found", "URLs offered to the frontier, including known ones"),
        stat="frontier/discovered",
        metric="crawler_links_discovered",
    ),
    Figure("links/new", "URLs that the frontier had not seen before", stat="frontier/added"),
    Figure("links/cached", stat="frontier/cached"),
    Figure("links/refused", "Links that were not followed, by reason", _REFUSAL),
    Figure(
        *("links/spilled", "URLs for which the frontier had no room; they wait outside Redis"),
        stat="frontier/refused",
    ),
    Figure("sitemaps/read", "Sitemaps that were read"),
    # --- pages and items --------------------------------------------------------------------------
    Figure("duplicates", "Duplicate pages, exact or near", _DUPLICATE),
    Figure(
        *("topic", "Pages of a focused crawl, by whether they are on its topic", _TOPIC),
        metric="crawler_topic_pages",
    ),
    Figure(
        *("items", "Items that went through all pipelines"),
        stat="item_scraped_count",
        metric="crawler_items_scraped",
    ),
    Figure(
        *("store/pages", "Pages whose content every sink has, or the spool"),
        metric="crawler_pages_stored",
    ),
    Figure("store/records", "Responses that every sink has, or the spool"),
    Figure("store/bytes", "Bytes of these responses"),
    Figure("sink/pages", "Pages and other records that a sink has written", SINK),
    Figure("sink/bytes", "Bytes that a sink has written", SINK),
    Figure("sink/batches", "Batches that a sink has written", SINK),
    Figure("sink/failed_writes", "Failed writes of a sink; they are repeated", SINK),
    Figure(
        *("sink/write_ms", "Time that a sink spent writing", SINK),
        metric="crawler_sink_write_seconds",
        scale=1000,
    ),
    # --- documents --------------------------------------------------------------------------------
    Figure("documents/read", "Documents that worker processes read"),
    Figure("documents/unread", "Documents that could not be read, by reason", _UNREAD),
    Figure(
        *("documents/read_ms", "Time that worker processes spent reading"),
        metric="crawler_documents_read_seconds",
        scale=1000,
    ),
    Figure("documents/postponed", "Documents not fetched yet, because too many waited to be read"),
    Figure("documents/workers_started", "Worker processes that were started"),
    Figure("large_pages/unread", "Large pages whose text could not be read, by reason", _UNREAD),
    # --- rendering --------------------------------------------------------------------------------
    Figure("render/pages", "Pages that browsers rendered"),
    Figure("render/gained", "Rendered pages that show more than their HTML, with RENDER=auto"),
    Figure("render/in_vain", "Rendered pages that do not, with RENDER=auto"),
    Figure("render/redirects", "Rendered pages that went to another document"),
    Figure("render/unsettled", "Rendered pages that were still busy at the end of their time"),
    Figure("render/failed", "Renderings that failed, by reason", _RENDER_FAILED),
    Figure("render/put_off", "Pages not rendered yet, because too many waited for a browser"),
    Figure(
        *("render/ms", "Time that pages took to render, waiting included"),
        metric="crawler_render_seconds",
        scale=1000,
    ),
    Figure("render/parts/fetched", "Requests for parts of rendered pages"),
    Figure("render/parts/cached", "Parts of rendered pages that were in memory"),
    Figure(
        *("render/parts/refused", "Parts of pages that were left out, by reason", _PART_REFUSED),
        metric="crawler_render_parts_left_out",
    ),
    # --- the spool --------------------------------------------------------------------------------
    Figure("spool/pages", "Pages that were spooled because a sink was away"),
    Figure("spool/refused", "Spooled pages that a sink refused; they are kept in files"),
    # --- the log ----------------------------------------------------------------------------------
    Figure("errors", _LOG[0], _ERROR, "log_count/ERROR", _LOG[1]),
    Figure("warnings", _LOG[0], _WARNING, "log_count/WARNING", _LOG[1]),
)
_NAMES = {figure.stat: figure.name for figure in FIGURES}
_FAMILIES = {
    f"{figure.stat}/": (f"{figure.name}/", figure.label.known)
    for figure in FIGURES
    if figure.label is not None and figure.label.known is not None
}


def count_figures(stats: Mapping[str, Any]) -> dict[str, int]:
    """Return the figures in Scrapy's stats; stats that belong to none are left out."""
    found: dict[str, int] = {}
    for stat, value in stats.items():
        name = _name(stat)
        if name and isinstance(value, (int, float)):
            found[name] = found.get(name, 0) + int(value)
    return found


def _name(stat: str) -> str:
    if stat in _NAMES:
        return _NAMES[stat]
    for prefix, (name, known) in _FAMILIES.items():
        if stat.startswith(prefix):
            word = known(stat[len(prefix) :])
            return name + word if word else ""
    return ""


def by_word(figures: Mapping[str, int], family: str) -> dict[str, int]:
    """Return the figures of a family by word, the largest first, without zeros."""
    prefix = f"{family}/"
    found = {name[len(prefix) :]: n for name, n in figures.items() if name.startswith(prefix) and n}
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def grown(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return what was counted between two readings."""
    return {name: by for name, count in now.items() if (by := count - before.get(name, 0))}


def success_rate(pages: int, not_modified: int, failed: int) -> float | None:
    """Return the share of visits that found their page; None before the first one ended."""
    found = pages + not_modified
    return found / (found + failed) if found + failed else None
