"""State of each sink and of the spool, over all live processes of a crawl. No I/O.

A process reports its own (storage/storage.py) in its heartbeat. Over several processes, a sink is
away if any of them finds it away, its lag is the longest, and everything else is added up.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawler.monitoring.figures import by_word
from crawler.util.format import plural, size

OK, AWAY = "ok", "away"
# No live process writes to the sink: none runs, or SINKS names others now.
INACTIVE = "inactive"


@dataclass(frozen=True, slots=True)
class SinkState:
    """State of one sink."""

    name: str
    state: str
    # Written since the crawl began, by all its processes and runs.
    pages: int
    bytes: int
    # Over the last seconds.
    pages_per_s: float
    bytes_per_s: float
    # Pages in memory that the sink does not have yet, and seconds that the oldest has waited.
    waiting: int
    lag_s: float
    failed_writes: int


@dataclass(frozen=True, slots=True)
class SpoolState:
    """Pages on disk that their sinks do not have yet."""

    pages: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class SinksState:
    """All sinks of a crawl in the order of SINKS, and the spool."""

    sinks: Sequence[SinkState] = ()
    spool: SpoolState = SpoolState()

    @property
    def outage(self) -> str:
        """What is away or spooled, in a few words; empty if nothing is."""
        parts = [f"{sink.name} away" for sink in self.sinks if sink.state == AWAY]
        if self.spool.pages:
            parts.append(f"{plural(self.spool.pages, 'page')} spooled, {size(self.spool.bytes)}")
        return ", ".join(parts)


def sinks_state(processes: Iterable[Mapping[str, Any]], totals: Mapping[str, int]) -> SinksState:
    """Add up what live processes report; `totals` are the figures of the crawl or of a process.

    A process of another version may report less.
    """
    reports: dict[str, list[Mapping[str, Any]]] = {}
    spooled = {"spooled_pages": 0, "spooled_bytes": 0}
    for process in processes:
        for report in process.get("sinks", ()):
            reports.setdefault(report["name"], []).append(report)
        for name in spooled:
            spooled[name] += process.get(name, 0)
    for name in sorted(by_word(totals, "sink/pages")):
        reports.setdefault(name, [])
    return SinksState(
        [_sink_state(name, found, totals) for name, found in reports.items()],
        SpoolState(*spooled.values()),
    )


def _sink_state(
    name: str, reports: Sequence[Mapping[str, Any]], totals: Mapping[str, int]
) -> SinkState:
    states = {report.get("state", OK) for report in reports}
    return SinkState(
        name=name,
        state=AWAY if AWAY in states else OK if reports else INACTIVE,
        pages=totals.get(f"sink/pages/{name}", 0),
        bytes=totals.get(f"sink/bytes/{name}", 0),
        pages_per_s=round(sum(report.get("pages_per_s", 0.0) for report in reports), 2),
        bytes_per_s=round(sum(report.get("bytes_per_s", 0.0) for report in reports), 2),
        waiting=sum(report.get("waiting", 0) for report in reports),
        lag_s=max((report.get("lag_s", 0.0) for report in reports), default=0.0),
        failed_writes=totals.get(f"sink/failed_writes/{name}", 0),
    )
