"""The fleet's figures as one JSON object, and the last minute of a process as one line. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawler.frontier import Sizes
from crawler.monitoring.histogram import FETCH_S, PARSE_S, Histogram
from crawler.monitoring.ledger import Fleet
from crawler.util.format import by_reason, plural, rate, share, size
from crawler.util.stat_names import part, success_rate

_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_BOUNDS = {"fetch": FETCH_S, "parse": PARSE_S}


def report(fleet: Fleet) -> dict[str, Any]:
    """Totals, the last hour, each minute of it, and the workers with their rates added up."""
    workers = [{"name": name, **about} for name, about in sorted(fleet.instances.items())]
    return {
        "totals": figures(fleet.totals),
        "hour": {
            **figures(fleet.sum(60)),
            "fetch_ms": latency_ms(fleet.sum(60), "fetch"),
            "parse_ms": latency_ms(fleet.sum(60), "parse"),
        },
        "minutes": [
            {
                "at": minute.at_s,
                "pages": minute.figures.get("pages", 0),
                "failed": sum(part(minute.figures, "failed").values()),
                "not_modified": minute.figures.get("not_modified", 0),
                "retries": sum(part(minute.figures, "retries").values()),
                "bytes": minute.figures.get("bytes", 0),
                "links_new": minute.figures.get("links/new", 0),
                "fetch_ms": latency_ms(minute.figures, "fetch"),
                "parse_ms": latency_ms(minute.figures, "parse"),
            }
            for minute in fleet.minutes
        ],
        "workers": workers,
        "rates": {
            name: round(sum(worker.get(name) or 0.0 for worker in workers), 2)
            for name in ("pages_per_s", "bytes_per_s")
        },
    }


def figures(found: Mapping[str, int]) -> dict[str, Any]:
    """Figures by what they are about."""
    get = found.get
    failed, retries = part(found, "failed"), part(found, "retries")
    pages, not_modified = get("pages", 0), get("not_modified", 0)
    return {
        "pages": pages,
        "not_modified": not_modified,
        "success_rate": success_rate(pages, not_modified, sum(failed.values())),
        "items": get("items", 0),
        "stored": get("store/pages", 0),
        "bytes": get("bytes", 0),
        "requests": get("requests", 0),
        "links_found": get("links/found", 0),
        "links_new": get("links/new", 0),
        "failed": sum(failed.values()),
        "retries": sum(retries.values()),
        "errors": _errors(retries, failed, get("robots/denied", 0)),
        "statuses": dict(sorted(part(found, "status").items())),
        "links_refused": part(found, "links/refused"),
        "duplicates": {kind: get(f"duplicates/{kind}", 0) for kind in ("exact", "near")},
        "robots": part(found, "robots"),
        "dns": part(found, "dns"),
        "waits": part(found, "waits"),
        "store": part(found, "store"),
    }


def _errors(
    retries: Mapping[str, int], failed: Mapping[str, int], denied: int
) -> list[dict[str, Any]]:
    """What kept pages away and how often: tried again, final, or forbidden by robots.txt."""
    blocked = {"robots": denied} if denied else {}
    kinds = {"retried": retries, "failed": failed, "blocked": blocked}
    count = {
        cause: {kind: counts.get(cause, 0) for kind, counts in kinds.items()}
        for cause in {*retries, *failed, *blocked}
    }
    causes = sorted(count, key=lambda cause: (-sum(count[cause].values()), cause))
    return [{"cause": cause, **count[cause]} for cause in causes]


def latency_ms(found: Mapping[str, int], kind: str) -> dict[str, float | None]:
    """Quantiles of a kind of duration, in milliseconds; None where there was none."""
    values = Histogram.of(found, kind, _BOUNDS[kind]).quantiles(_SHARES.values())
    return {
        name: None if value is None else round(value * 1000, 1)
        for name, value in zip(_SHARES, values, strict=True)
    }


def grown(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """What was counted between two readings."""
    return {name: by for name, count in now.items() if (by := count - before.get(name, 0))}


def minute_figures(
    counted: Mapping[str, int], seconds: float, about: Mapping[str, Any], sizes: Sizes | None
) -> dict[str, Any]:
    """The vital figures, as a structured log has them."""
    pages, not_modified = counted.get("pages", 0), counted.get("not_modified", 0)
    failed = part(counted, "failed")
    figures: dict[str, Any] = {
        "seconds": round(seconds, 1),
        "pages": pages,
        "pages_per_s": round(pages / seconds, 2) if seconds > 0 else 0.0,
        "not_modified": not_modified,
        "success_rate": success_rate(pages, not_modified, sum(failed.values())),
        "items": counted.get("items", 0),
        "bytes": counted.get("bytes", 0),
        "failed": failed,
        "retries": part(counted, "retries"),
        "links_new": counted.get("links/new", 0),
        "robots_denied": counted.get("robots/denied", 0),
        "duplicates": sum(part(counted, "duplicates").values()),
        "fetch_ms": latency_ms(counted, "fetch"),
        "parse_ms": latency_ms(counted, "parse"),
        "held": about.get("held", 0),
        "store": about.get("store", "off"),
    }
    if sizes is not None:
        figures["crawl"] = {
            "pages": sizes.pages,
            "waiting": sizes.waiting,
            "retries": sizes.retries,
            "dead": sizes.dead,
            "hosts": sizes.hosts,
        }
    return figures


def minute_line(figures: Mapping[str, Any]) -> str:
    """The same for people."""
    fetch = figures["fetch_ms"]
    parts = [
        f"{plural(figures['pages'], 'page')} ({rate(figures['pages_per_s'])}/s)",
        f"success {share(figures['success_rate'])}",
        f"failed {by_reason(figures['failed'])}",
        plural(figures["items"], "item"),
        size(figures["bytes"]),
        f"{plural(figures['links_new'], 'new link')}",
        f"{figures['duplicates']:,} duplicates",
        f"{figures['robots_denied']:,} denied by robots.txt",
        f"retries {by_reason(figures['retries'])}",
    ]
    if fetch["p50"] is not None:
        parts.append(f"fetches p50 {fetch['p50']:,.0f} ms, p95 {fetch['p95']:,.0f} ms")
    if figures["store"] not in ("ok", "off"):
        parts.append(f"store {figures['store']}")
    line = f"last {figures['seconds']:.0f} s: " + ", ".join(parts)
    crawl = figures.get("crawl")
    if crawl is None:
        return line
    return (
        f"{line}; whole crawl: {crawl['pages']:,} pages crawled, {crawl['waiting']:,} waiting, "
        f"{crawl['retries']:,} to retry, {crawl['dead']:,} dead"
    )
