"""Judge a crawl by the server's access log and the truth."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from demo.access_log import Entry, read_log
from demo.rules import RULES, Crawl
from demo.truth import Truth

EXAMPLES: Final = 10


@dataclass(frozen=True, slots=True)
class Verdict:
    """All violations by rule (an empty list: the rule is kept), and figures about the crawl."""

    violations: dict[str, list[str]]
    requests: int
    urls: int
    hosts: int
    duration_s: float

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not any(self.violations.values())

    def lines(self) -> list[str]:
        """Return the verdict for people: one line per rule, then its first examples."""
        figures = f"{self.requests} requests for {self.urls} URLs on {self.hosts} hosts"
        lines = [f"{figures} in {self.duration_s:.1f} s"]
        for rule, found in self.violations.items():
            lines.append(f"{rule}: {len(found)}")
            lines += [f"  {example}" for example in found[:EXAMPLES]]
        return lines

    def summary(self) -> dict[str, Any]:
        """Return the verdict for programs."""
        return {
            "ok": self.ok,
            "requests": self.requests,
            "urls": self.urls,
            "hosts": self.hosts,
            "duration_s": round(self.duration_s, 6),
            "violations": {rule: len(found) for rule, found in self.violations.items()},
            "examples": {
                rule: found[:EXAMPLES] for rule, found in self.violations.items() if found
            },
        }


def judge_entries(
    entries: Iterable[Entry],
    truth: Truth,
    *,
    min_delay_s: float,
    allow_repeats: int = 0,
    server_runs: int = 1,
    faults: int = 0,
    delay_factor: float = 0.0,
    delay_max_s: float = 60.0,
) -> Verdict:
    """Judge a crawl by its requests, given in any order; see Crawl for what is expected of it."""
    by_host: dict[str, list[Entry]] = {}
    by_url: dict[str, list[Entry]] = {}
    ordered = sorted(entries)
    for entry in ordered:
        by_host.setdefault(entry.host, []).append(entry)
        by_url.setdefault(entry.url, []).append(entry)
    crawl = Crawl(
        truth,
        by_host,
        by_url,
        min_delay_s,
        allow_repeats,
        server_runs,
        faults,
        delay_factor,
        delay_max_s,
    )
    last_s = max((entry.end_s for entry in ordered), default=0.0)
    return Verdict(
        violations={name: list(rule(crawl)) for name, rule in RULES.items()},
        requests=len(ordered),
        urls=len(by_url),
        hosts=len(by_host),
        duration_s=last_s - ordered[0].start_s if ordered else 0.0,
    )


def judge(
    log_path: str | Path,
    truth: Truth,
    *,
    min_delay_s: float,
    allow_repeats: int = 0,
    server_runs: int = 1,
    faults: int = 0,
    delay_factor: float = 0.0,
    delay_max_s: float = 60.0,
) -> Verdict:
    """Judge a crawl by an access log. The whole log is held in memory, about 1 KB a request."""
    return judge_entries(
        read_log(log_path),
        truth,
        min_delay_s=min_delay_s,
        allow_repeats=allow_repeats,
        server_runs=server_runs,
        faults=faults,
        delay_factor=delay_factor,
        delay_max_s=delay_max_s,
    )
