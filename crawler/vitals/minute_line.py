"""The last minute of a process in one line, for the log. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawler.frontier import Sizes
from crawler.progress.text import by_reason, plural, rate, share, size
from crawler.vitals.names import part, success_rate
from crawler.vitals.report import latency_ms


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
