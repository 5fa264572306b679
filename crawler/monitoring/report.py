"""The fleet's figures as one JSON object, and the last minute of a process as one line. No I/O."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from crawler.frontier import Sizes
from crawler.monitoring.figures import by_word, success_rate
from crawler.monitoring.histogram import FLEET_BOUNDS_S, Histogram
from crawler.monitoring.ledger import Fleet
from crawler.monitoring.sinks import SinksState, sinks_state
from crawler.util.format import by_reason, plural, rate, share, size

_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
# Field of the JSON -> figure, or family of figures (figures.py).
_COUNTS = {
    "items": "items",
    "stored": "store/pages",
    "bytes": "bytes",
    "requests": "requests",
    "links_found": "links/found",
    "links_new": "links/new",
    "rendered": "render/pages",
    "rendering_put_off": "render/put_off",
}
_FAMILIES = {
    "links_refused": "links/refused",
    "robots": "robots",
    "dns": "dns",
    "waits": "waits",
    "store": "store",
}
_OF_A_MINUTE = ("pages", "failed", "not_modified", "retries", "bytes", "links_new")


def report(fleet: Fleet) -> dict[str, Any]:
    """Return totals, the last hour, all minutes, workers with their rates, and sinks."""
    sinks = sinks_state(fleet.live, fleet.totals)
    workers = [{"name": name, **about} for name, about in sorted(fleet.instances.items())]
    hour = fleet.sum(60)
    minutes = [(minute, _report_figures(minute.figures)) for minute in fleet.minutes]
    return {
        "totals": _report_figures(fleet.totals),
        "hour": _report_figures(hour) | _latencies_ms(hour),
        "minutes": [
            {"at": minute.at_s, "seconds": minute.length_s}
            | {name: found[name] for name in _OF_A_MINUTE}
            | _latencies_ms(minute.figures)
            for minute, found in minutes
        ],
        "workers": workers,
        "rates": {
            name: round(sum(worker.get(name) or 0.0 for worker in workers), 2)
            for name in ("pages_per_s", "bytes_per_s")
        },
        "sinks": [asdict(sink) for sink in sinks.sinks],
        "spool": asdict(sinks.spool),
    }


def _report_figures(found: Mapping[str, int]) -> dict[str, Any]:
    failed, retries = by_word(found, "failed"), by_word(found, "retries")
    return {
        **_visits(found, failed),
        **{field: found.get(figure, 0) for field, figure in _COUNTS.items()},
        "failed": sum(failed.values()),
        "retries": sum(retries.values()),
        "errors": _errors(retries, failed, found.get("robots/denied", 0)),
        "statuses": dict(sorted(by_word(found, "status").items())),
        "duplicates": {"exact": 0, "near": 0} | by_word(found, "duplicates"),
        **{field: by_word(found, family) for field, family in _FAMILIES.items()},
    }


def _visits(found: Mapping[str, int], failed: Mapping[str, int]) -> dict[str, Any]:
    pages, not_modified = found.get("pages", 0), found.get("not_modified", 0)
    rate_ = success_rate(pages, not_modified, sum(failed.values()))
    return {"pages": pages, "not_modified": not_modified, "success_rate": rate_}


def _errors(
    retries: Mapping[str, int], failed: Mapping[str, int], denied: int
) -> list[dict[str, Any]]:
    """Return how often each cause prevented a page: retried, failed, or denied by robots.txt."""
    blocked = {"robots": denied} if denied else {}
    kinds = {"retried": retries, "failed": failed, "blocked": blocked}
    count = {
        cause: {kind: counts.get(cause, 0) for kind, counts in kinds.items()}
        for cause in {*retries, *failed, *blocked}
    }
    causes = sorted(count, key=lambda cause: (-sum(count[cause].values()), cause))
    return [{"cause": cause, **count[cause]} for cause in causes]


def _latencies_ms(found: Mapping[str, int]) -> dict[str, dict[str, float | None]]:
    """Return quantiles of fetch and parse times in milliseconds; None where there were none."""
    latencies: dict[str, dict[str, float | None]] = {}
    for kind, bounds_s in FLEET_BOUNDS_S.items():
        values = Histogram.from_figures(found, kind, bounds_s).quantiles(_SHARES.values())
        latencies[f"{kind}_ms"] = {
            name: None if value is None else round(value * 1000, 1)
            for name, value in zip(_SHARES, values, strict=True)
        }
    return latencies


def minute_figures(
    counted: Mapping[str, int],
    seconds: float,
    *,
    held: int,
    store: str,
    sinks: SinksState,
    sizes: Sizes | None,
) -> dict[str, Any]:
    """Return the figures of a process's last minute, for a structured log."""
    failed = by_word(counted, "failed")
    figures: dict[str, Any] = {
        "seconds": round(seconds, 1),
        **_visits(counted, failed),
        "pages_per_s": round(counted.get("pages", 0) / seconds, 2) if seconds > 0 else 0.0,
        "items": counted.get("items", 0),
        "bytes": counted.get("bytes", 0),
        "failed": failed,
        "retries": by_word(counted, "retries"),
        "links_new": counted.get("links/new", 0),
        "robots_denied": counted.get("robots/denied", 0),
        "duplicates": sum(by_word(counted, "duplicates").values()),
        **_latencies_ms(counted),
        "held": held,
        "store": store,
    }
    if sinks.outage:
        figures["outage"] = sinks.outage
    if sizes is not None:
        names = ("pages", "waiting", "retries", "dead", "hosts")
        figures["crawl"] = {name: getattr(sizes, name) for name in names}
    return figures


def minute_line(figures: Mapping[str, Any]) -> str:
    """Return the figures of a minute as a line for people."""
    fetch = figures["fetch_ms"]
    parts = [
        f"{plural(figures['pages'], 'page')} ({rate(figures['pages_per_s'])}/s)",
        f"success {share(figures['success_rate'])}",
        f"failed {by_reason(figures['failed'])}",
        plural(figures["items"], "item"),
        size(figures["bytes"]),
        plural(figures["links_new"], "new link"),
        f"{figures['duplicates']:,} duplicates",
        f"{figures['robots_denied']:,} denied by robots.txt",
        f"retries {by_reason(figures['retries'])}",
    ]
    if fetch["p50"] is not None:
        parts.append(f"fetches p50 {fetch['p50']:,.0f} ms, p95 {fetch['p95']:,.0f} ms")
    outage = figures.get("outage", "")
    if outage or figures["store"] not in ("ok", "off"):
        parts.append(f"store {figures['store']}" + (f" ({outage})" if outage else ""))
    line = f"last {figures['seconds']:.0f} s: " + ", ".join(parts)
    crawl = figures.get("crawl")
    if crawl is None:
        return line
    return (
        f"{line}; whole crawl: {crawl['pages']:,} pages crawled, {crawl['waiting']:,} waiting, "
        f"{crawl['retries']:,} to retry, {crawl['dead']:,} dead"
    )
