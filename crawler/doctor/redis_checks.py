"""Judge what a Redis says of itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from crawler.doctor.findings import Finding, failure, ok, warning
from crawler.frontier.persistence import NEEDED, Needed, compresses_well, damages_lists
from crawler.frontier.server_facts import ServerFacts
from crawler.progress.text import size

# Where a server of our own is.
EMBEDDED = "embedded"
_MEMORY_FULL = 0.8
_ROUND_TRIP_MS = 20.0
_CLOCK_S = 5.0


def redis_findings(nodes: list[ServerFacts], where: str) -> Iterator[Finding]:
    """A line for each question; of several nodes the first that has a problem is named."""
    first = nodes[0]
    what = f"cluster of {len(nodes)}" if len(nodes) > 1 else first.mode
    yield ok("Redis", f"{first.product} ({what}) at {where}")
    for needed in NEEDED:
        yield _kept(nodes, needed)
    yield _memory(nodes, may_be_unlimited=where == EMBEDDED)
    if any(damages_lists(node) for node in nodes):
        yield failure(
            "Redis lists",
            "are compressed by a version that damages them",
            "Set list-compress-depth to 0 in redis.conf and restart it, or use Redis 7 or later.",
        )
    elif any(node.compress_depth == 0 and compresses_well(node.version) for node in nodes):
        yield warning(
            "Redis lists",
            "are not compressed",
            "`redis-cli config set list-compress-depth 1` halves the memory of waiting URLs.",
        )
    slowest = max(node.round_trip_ms for node in nodes)
    text = f"{slowest:.1f} ms a round trip"
    if slowest > _ROUND_TRIP_MS:
        yield warning("Redis speed", text, "Run the crawler nearer to Redis.")
    else:
        yield ok("Redis speed", text)
    ahead = max((node.ahead_s for node in nodes), key=abs)
    if abs(ahead) > _CLOCK_S:
        yield warning(
            "clocks",
            f"Redis' clock differs from this machine's by {abs(ahead):.0f} s",
            "Run an NTP client on both.",
        )


def _kept(nodes: list[ServerFacts], setting: Needed) -> Finding:
    name, fact, needed, risk = setting
    values = {getattr(node, fact) for node in nodes}
    wrong = sorted(value for value in values if value not in (None, needed))
    subject = "Redis keeps" if name == "appendonly" else "Redis evicts"
    if wrong:
        return failure(
            subject,
            f"{name} is {wrong[0]}: {risk}",
            f"`redis-cli config set {name} {needed}`, and put it into redis.conf.",
        )
    if None in values:
        return warning(
            subject, f"it does not tell its {name}", f"Make sure that it is {needed}, or {risk}."
        )
    return ok(subject, f"{name} is {needed}")


def _memory(nodes: list[ServerFacts], *, may_be_unlimited: bool) -> Finding:
    unlimited = max((node.used_bytes for node in nodes if not node.max_bytes), default=None)
    if unlimited is not None and may_be_unlimited:
        return ok("Redis memory", f"{size(unlimited)} used")
    if unlimited is not None:
        return warning(
            "Redis memory",
            f"{size(unlimited)} used, no maxmemory",
            "Set maxmemory below the machine's memory, so that the crawl spills to MongoDB instead "
            "of swapping.",
        )
    fullest = max(nodes, key=lambda node: node.used_bytes / node.max_bytes)
    text = f"{size(fullest.used_bytes)} of {size(fullest.max_bytes)} used"
    if fullest.used_bytes >= _MEMORY_FULL * fullest.max_bytes:
        advice = "Raise maxmemory, or add masters; meanwhile links of low priority wait in MongoDB."
        return warning("Redis memory", text, advice)
    return ok("Redis memory", text)
