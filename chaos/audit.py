"""Audit a storm: what was lost, done twice, left over or said, that no fault explains. Pure.

`audit` takes what evidence.py has gathered. Each finding belongs to a column of the report; a
column without findings is 0. Faults allow what their kinds say (chaos/faults), and nothing else.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from chaos.faults import Cost, Fault
from chaos.schedule import Happened
from demo.access_log import Entry
from demo.control import HOSTILE_STATUS
from demo.judge import judge_entries
from demo.truth import Truth

LOST = "URLs lost"
AGAIN = "fetched again without cause"
VIOLATIONS = "politeness violations"
ORPHANS = "orphans in Redis"
LEAKS = "leaked leases and slots"
EXITS = "wrong exit codes"
TRACEBACKS = "foreign tracebacks"
LACKING = "pages that a sink lacks"
TWICE = "pages that a sink has twice"
FAILED = "faults that failed"
OPEN = "crawlers that did not end"
COLUMNS: Final = (
    *(LOST, AGAIN, VIOLATIONS, ORPHANS, LEAKS, EXITS, TRACEBACKS, LACKING, TWICE, FAILED, OPEN),
)
# Findings of a column that the report shows.
SHOWN: Final = 20
# Time in which a page that was fetched is settled, those not counted in which its crawler misses a
# server, or gets no CPU.
HELD_S: Final = 30.0
_REDIS: Final = ("redis", "line to redis")
_AGENT: Final = re.compile(r"; (c\d+-\d+)\)")
_CRAWLER: Final = re.compile(r"c\d+-\d+")
_RECORD: Final = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \[", re.MULTILINE)
# What no crawler should ever say.
_BAD: Final = re.compile(
    r"Traceback \(most recent call last\)|exception was never retrieved|was never awaited|"
    r"Fatal Python error|Unhandled [Ee]rror|Exception ignored in"
)
_LEASES_LOST: Final = "continues under a new name"
_AWAY: Final = re.compile(r"WARNING: (.*?) is (away|back)\b")
# A server that is silent is missed, at the latest, so long before its crawler says so.
_UNNOTICED_S: Final = 30.0


class Finding(NamedTuple):
    """Something that is not as it must be."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class Exit:
    """How a crawler ended, in epoch seconds; `told` has the signals that faults sent to it."""

    name: str
    began_s: float
    ended_s: float
    code: int
    told: tuple[int, ...]
    # Why its crawl ended, as its summary has it; "" without one.
    reason: str
    log: Path
    # When it hardly got a CPU.
    starved: tuple[float, ...] = ()


@dataclass
class Evidence:
    """All that is known of a storm after its end."""

    truth: Truth
    entries: Sequence[Entry]
    faults: Sequence[Happened] = ()
    exits: Sequence[Exit] = ()
    # By the names of crawlers.
    logs: Mapping[str, str] = field(default_factory=dict)
    # By the names of sinks: how often each has the page of a URL.
    pages: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # Of sinks that record them: URLs that ended without a page.
    failures: Mapping[str, set[str]] = field(default_factory=dict)
    # Found while Redis and the sinks were read.
    found: Sequence[Finding] = ()
    still_running: Sequence[str] = ()
    min_delay_s: float = 0.0


@dataclass
class Report:
    """Findings by column, and figures."""

    findings: dict[str, list[str]]
    figures: dict[str, int]
    faults: Counter[str]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not any(self.findings.values())

    def lines(self) -> list[str]:
        """Return the report for people."""
        width = max(map(len, (*self.faults, *COLUMNS, *self.figures)), default=0)
        lines = [f"{name:{width}} {count:8,}" for name, count in sorted(self.faults.items())]
        lines += ["", *(f"{name:{width}} {count:8,}" for name, count in self.figures.items()), ""]
        for column, texts in self.findings.items():
            lines.append(f"{column:{width}} {len(texts):8,}")
            lines += [f"    {text}" for text in texts[:SHOWN]]
            if len(texts) > SHOWN:
                lines.append(f"    … and {len(texts) - SHOWN:,} more")
        return lines


def audit(evidence: Evidence, kinds: Mapping[str, Fault]) -> Report:
    """Return what was found, and figures. `kinds` say what faults may cost."""
    findings: dict[str, list[str]] = {column: [] for column in COLUMNS}
    again, excess = _repeats(evidence, kinds)
    for column, text in (
        *_web(evidence),
        *again,
        *_exits(evidence, kinds),
        *_tracebacks(evidence, kinds),
        *_sinks(evidence),
        *evidence.found,
        *(Finding(FAILED, f"{each.planned.kind}: {each.error}") for each in _failed(evidence)),
        *(Finding(OPEN, name) for name in evidence.still_running),
    ):
        findings[column].append(text)
    urls = {entry.url for entry in evidence.entries}
    figures = {
        "faults": len(evidence.faults),
        "kinds of faults": len({each.planned.kind for each in evidence.faults}),
        "crawlers started": len(evidence.exits),
        "requests": len(evidence.entries),
        "URLs": len(urls),
        "crawlers that hardly got a CPU": sum(bool(each.starved) for each in evidence.exits),
        "fetched again, with cause": excess - len(again),
        **{f"pages in {name}": len(pages) for name, pages in evidence.pages.items()},
    }
    return Report(findings, figures, Counter(each.planned.kind for each in evidence.faults))


def _failed(evidence: Evidence) -> Iterator[Happened]:
    return (each for each in evidence.faults if each.error)


# --- the access log -------------------------------------------------------------------------------


def _web(evidence: Evidence) -> Iterator[Finding]:
    # Repeats are judged by their causes, see below.
    verdict = judge_entries(
        *(evidence.entries, evidence.truth),
        min_delay_s=evidence.min_delay_s,
        allow_repeats=len(evidence.entries),
    )
    for rule, texts in verdict.violations.items():
        column = LOST if rule == "missing" else VIOLATIONS
        yield from (Finding(column, f"{rule}: {text}") for text in texts)


def _repeats(evidence: Evidence, kinds: Mapping[str, Fault]) -> tuple[list[Finding], int]:
    """Return the repeats without a cause, and how many there are in all.

    Of a URL that is due n times, all fetches beyond n need a cause before them: a fault that let
    the page of the fetch before be unsettled, or forgotten.
    """
    causes = Causes(evidence, kinds)
    by_url: dict[str, list[Entry]] = {}
    for entry in sorted(evidence.entries):
        # What a hostile host answers is no page.
        if not entry.target.endswith("/robots.txt") and entry.status != HOSTILE_STATUS:
            by_url.setdefault(entry.url, []).append(entry)
    found, excess = [], 0
    for url, entries in by_url.items():
        # Each fetch of a document needs its parts again.
        if len(entries) < 2 or url in evidence.truth.parts or evidence.truth.may(url):
            continue
        more = len(entries) - 1 - evidence.truth.extra_fetches.get(url, 0)
        open_ = [pair for pair in pairwise(entries) if not causes.explain(*pair)]
        # As many of them are due.
        unexplained = more - (len(entries) - 1 - len(open_))
        excess += max(0, more)
        for first, second in open_[len(open_) - max(0, unexplained) :]:
            who = f"{_who(first)} {_clock(first.start_s)}, {_who(second)} {_clock(second.start_s)}"
            found.append(Finding(AGAIN, f"{url} ({first.status}, {second.status}): {who}"))
    return found, excess


def _who(entry: Entry) -> str:
    """Name the crawler of a request."""
    found = _AGENT.search(entry.agent)
    return found[1] if found else "?"


def _clock(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s).astimezone().strftime("%H:%M:%S.%f")[:-4]


class Causes:
    """Faults and other events after which a page may be fetched again."""

    def __init__(self, evidence: Evidence, kinds: Mapping[str, Fault]) -> None:
        self._costly = [each for each in evidence.faults if kinds[each.planned.kind].cost.repeats]
        self._stops = [
            each for each in evidence.faults if kinds[each.planned.kind].cost.repeats_while_away
        ]
        self._away = [each for each in evidence.faults if not _CRAWLER.fullmatch(each.target)]
        self._of_redis = [each for each in self._away if kinds[each.planned.kind].place in _REDIS]
        self._kinds = kinds
        self._starved = {each.name: each.starved for each in evidence.exits}
        # By crawler: times in which it could settle little or nothing.
        self._stuck = {
            name: _union([*_away(log), *((at - 1, at) for at in self._starved.get(name, ()))])
            for name, log in evidence.logs.items()
        }
        # By crawler: when it lost its leases.
        self._lost = {
            name: [at for at, text in _records(log) if _LEASES_LOST in text]
            for name, log in evidence.logs.items()
        }

    def explain(self, first: Entry, second: Entry) -> bool:
        """Say whether anything explains that the page of the first fetch was fetched again."""
        who = _who(first)
        for fault in self._costly:
            cost = self._kinds[fault.planned.kind].cost
            if _concerns(fault, who) and self._is_between(fault, first, second, cost):
                return True
        for fault in self._stops:
            cost = self._kinds[fault.planned.kind].cost
            if _concerns(fault, who) and self._is_between(fault, first, second, cost):
                ended_s = fault.ended_s
                if any(
                    each.began_s <= ended_s and each.ended_s >= first.start_s - HELD_S
                    for each in self._away
                ):
                    return True
        return any(
            first.start_s - HELD_S < at <= second.start_s + 1 and self._was_silenced(who, at)
            for at in self._lost.get(who, ())
        )

    def _is_between(self, fault: Happened, first: Entry, second: Entry, cost: Cost) -> bool:
        """Say whether a page may have been unsettled when a fault happened, or forgotten by it.

        Its fetch may also have begun when the crawler did not know of the fault yet.
        """
        if fault.began_s > second.start_s or fault.ended_s + cost.echo_s < first.start_s:
            return False
        stuck_s = sum(
            max(0.0, min(end_s, fault.began_s) - max(start_s, first.end_s))
            for start_s, end_s in self._stuck.get(_who(first), ())
        )
        return fault.began_s - first.end_s - stuck_s <= HELD_S + cost.lost_s

    def _was_silenced(self, who: str, at_s: float) -> bool:
        """Say whether anything kept the beats of a crawler from Redis before it lost its leases.

        Several faults after one another may; so may a machine that is too busy.
        """
        if any(each.began_s <= at_s and each.ended_s >= at_s - HELD_S for each in self._of_redis):
            return True
        return sum(at_s - HELD_S < each <= at_s for each in self._starved.get(who, ())) > 1


def _concerns(fault: Happened, who: str) -> bool:
    """Say whether a fault was done to a crawler, or to all of them."""
    return fault.target == who or not _CRAWLER.fullmatch(fault.target)


def _away(log: str) -> Iterator[tuple[float, float]]:
    """Yield the times in which a crawler missed a server."""
    since: dict[str, float] = {}
    for at_s, text in _records(log):
        found = _AWAY.search(text)
        if found is None:
            continue
        server, what = found.groups()
        if what == "away":
            since[server] = at_s - _UNNOTICED_S
        else:
            yield since.pop(server, at_s), at_s
    yield from ((at_s, math.inf) for at_s in since.values())


def _union(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge times that overlap."""
    merged: list[tuple[float, float]] = []
    for start_s, end_s in sorted(times):
        if merged and start_s <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end_s, merged[-1][1])
        else:
            merged.append((start_s, end_s))
    return merged


# --- processes ------------------------------------------------------------------------------------


def _exits(evidence: Evidence, kinds: Mapping[str, Fault]) -> Iterator[Finding]:
    for each in evidence.exits:
        if each.name in evidence.still_running:
            # The storm ended it.
            continue
        if each.code == 0:
            if each.told or each.reason == "finished":
                continue
        elif -each.code in each.told:
            continue
        if each.code and any(
            _allows(kinds[fault.planned.kind].cost, fault, each) for fault in evidence.faults
        ):
            continue
        yield Finding(EXITS, f"{each.name}: {each.code}, {each.reason or 'no summary'}")


def _allows(cost: Cost, fault: Happened, ended: Exit) -> bool:
    """Say whether a crawler may have ended with its code because of a fault."""
    if ended.code not in cost.exits or not _concerns(fault, ended.name):
        return False
    return fault.began_s <= ended.ended_s and ended.began_s <= fault.ended_s + cost.echo_s


def _records(log: str) -> Iterator[tuple[float, str]]:
    """Yield the records of a log with their times; what comes before the first has time 0."""
    starts = list(_RECORD.finditer(log))
    yield 0.0, log[: starts[0].start()] if starts else log
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(log)
        at = datetime.strptime(start[1], "%Y-%m-%d %H:%M:%S").astimezone()
        yield at.timestamp(), log[start.start() : end]


def _tracebacks(evidence: Evidence, kinds: Mapping[str, Fault]) -> Iterator[Finding]:
    costs = [(fault, kinds[fault.planned.kind].cost) for fault in evidence.faults]
    for name, log in evidence.logs.items():
        # Those that the storm ended say where they were.
        if name in evidence.still_running or not _BAD.search(log):
            continue
        for at, text in _records(log):
            if _BAD.search(text) and not _is_own(costs, name, at, text):
                lines = text.strip().splitlines()
                yield Finding(TRACEBACKS, f"{name}: {lines[0][:200]} … {lines[-1][:200]}")


def _is_own(costs: Sequence[tuple[Happened, Cost]], name: str, at_s: float, text: str) -> bool:
    for fault, cost in costs:
        if not cost.says or not _concerns(fault, name):
            continue
        is_near = not at_s or fault.began_s - 1 <= at_s <= fault.ended_s + cost.echo_s
        if is_near and any(re.search(pattern, text) for pattern in cost.says):
            return True
    return False


# --- sinks ----------------------------------------------------------------------------------------


def _sinks(evidence: Evidence) -> Iterator[Finding]:
    truth = evidence.truth
    # A redirect has no record of its own, a sitemap none at all.
    failing = {
        url
        for url, status in truth.statuses.items()
        if (status == 0 or status >= 400) and url not in truth.sitemaps
    }
    answered = (each for each in evidence.entries if each.status not in (0, HOSTILE_STATUS))
    fetches = Counter(each.url for each in answered)
    for name, pages in evidence.pages.items():
        lacking = truth.missing_from(pages)
        yield from (Finding(LACKING, f"{name}: {url}") for url in sorted(lacking))
        # Archives keep each visit; that there is no visit too many is another column.
        most = fetches if name == "warc" else dict.fromkeys(pages, 1)
        twice = sorted(url for url, count in pages.items() if count > max(1, most[url]))
        yield from (Finding(TWICE, f"{name}: {url}, {pages[url]} times") for url in twice)
    for name, failures in evidence.failures.items():
        yield from _unrecorded(name, failing - failures)


def _unrecorded(name: str, urls: Iterable[str]) -> Iterator[Finding]:
    for url in sorted(urls):
        yield Finding(LACKING, f"{name}: no record of {url}, which failed")
