"""The auditor: each column of its report can be non-zero, and what faults allow is allowed."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos import audit, run
from chaos.audit import COLUMNS, Evidence, Exit, Finding
from chaos.faults import Cost, Fault
from chaos.schedule import Happened, Planned
from demo.access_log import Entry
from demo.truth import Truth, truth
from demo.web import WebOptions

WEB = WebOptions(hosts=2, pages=4, seed=1, zoo="none")
DELAY_S = 0.5
BEGAN_S = 1_795_000_000.0


def _inject(storm: object, chance: Random) -> str:
    return ""


KINDS = {
    kind.name: kind
    for kind in (
        Fault("kills", "crawlers", _inject, Cost(repeats=True)),
        Fault("ends", "crawlers", _inject, Cost(repeats_while_away=True, exits=frozenset({130}))),
        Fault("is away", "mongo", _inject, Cost(exits=frozenset({3}), says=("no such server",))),
        Fault("restarts", "redis", _inject, Cost(repeats=True, lost_s=1.0)),
        Fault("is slow", "line to redis", _inject),
    )
}


@cache
def _truth() -> Truth:
    return truth(WEB)


def _agent(name: str) -> str:
    return f"crawler/0.1 (+https://example.org/crawler; {name})"


def entry(url: str, at_s: float, who: str = "c0-1", status: int = 200) -> Entry:
    """A request that took a tenth of a second."""
    host, _, path = url.removeprefix("http://").partition("/")
    began_s = BEGAN_S + at_s
    return Entry(*(began_s, began_s + 0.1, host, f"/{path}", status), client="-", agent=_agent(who))


def whole_crawl() -> list[Entry]:
    """All pages once, and robots.txt before them, a second apart."""
    hosts = sorted({url.split("/")[2] for url in _truth().must_fetch})
    found = [entry(f"http://{host}/robots.txt", -10, status=404) for host in hosts]
    return found + [
        entry(url, 1.0 * number) for number, url in enumerate(sorted(_truth().must_fetch))
    ]


def evidence(**fields: Any) -> Evidence:
    """A crawl in which nothing is wrong, with some fields of its own."""
    values: dict[str, Any] = {
        "truth": _truth(),
        "entries": whole_crawl(),
        "exits": [ended("c0-1"), ended("c1-1")],
        "pages": {"mongo": dict.fromkeys(_truth().must_store, 1)},
        "failures": {"mongo": set()},
        "min_delay_s": DELAY_S,
    }
    return Evidence(**values | fields)


def ended(name: str, code: int = 0, *, at_s: float = 100, **fields: Any) -> Exit:
    exit_ = Exit(name, BEGAN_S, BEGAN_S + at_s, code, (), "finished", Path("unused"))
    return replace(exit_, **fields)


def fault(kind: str, began_s: float, took_s: float, target: str, error: str = "") -> Happened:
    planned = Planned(began_s, kind, 1)
    return Happened(planned, BEGAN_S + began_s, BEGAN_S + began_s + took_s, target, error)


def found(given: Evidence) -> dict[str, list[str]]:
    """The columns that are not zero."""
    return {name: texts for name, texts in audit.audit(given, KINDS).findings.items() if texts}


def log_line(at_s: float, text: str) -> str:
    stamp = audit.datetime.fromtimestamp(BEGAN_S + at_s).strftime("%Y-%m-%d %H:%M:%S")
    return f"{stamp} [crawler.x] WARNING: {text}\n"


TRACEBACK = "Oh\nTraceback (most recent call last):\n  File …\nOSError: no such server"


def test_a_good_crawl_has_no_findings() -> None:
    report = audit.audit(evidence(), KINDS)
    assert report.ok, report.lines()
    assert list(report.findings) == list(COLUMNS)
    assert report.figures["URLs"] == len(_truth().must_fetch) + 2


def _without_a_page() -> dict[str, Any]:
    return {"entries": whole_crawl()[:-1]}


def _twice(who: str = "c1-1", gap_s: float = 50) -> dict[str, Any]:
    crawl = whole_crawl()
    last = crawl[-1]
    return {"entries": [*crawl, entry(last.url, last.start_s - BEGAN_S + gap_s, who)]}


def _too_soon() -> dict[str, Any]:
    crawl = whole_crawl()
    last = crawl[-1]
    hurried = last._replace(start_s=crawl[-2].end_s + 0.1, end_s=crawl[-2].end_s + 0.2)
    return {"entries": [*crawl[:-1], hurried]}


BAD: dict[str, Mapping[str, Any]] = {
    audit.LOST: _without_a_page(),
    audit.AGAIN: _twice(),
    audit.VIOLATIONS: _too_soon(),
    audit.ORPHANS: {"found": [Finding(audit.ORPHANS, "a key")]},
    audit.LEAKS: {"found": [Finding(audit.LEAKS, "a lease")]},
    audit.EXITS: {"exits": [ended("c0-1", 1)]},
    audit.TRACEBACKS: {"logs": {"c0-1": log_line(5, TRACEBACK)}},
    audit.LACKING: {"pages": {"s3": dict.fromkeys(sorted(_truth().must_store)[1:], 1)}},
    audit.TWICE: {"pages": {"mongo": dict.fromkeys(_truth().must_store, 2)}},
    audit.FAILED: {"faults": [fault("kills", 1, 1, "", "OSError: it did not work")]},
    audit.OPEN: {"still_running": ["c1-1"]},
}


@pytest.mark.parametrize("column", COLUMNS)
def test_each_column_can_be_non_zero(column: str) -> None:
    assert list(found(evidence(**BAD[column]))) == [column]


# --- what faults allow ----------------------------------------------------------------------------


def test_a_page_of_a_killed_crawler_may_be_fetched_again_and_that_of_another_may_not() -> None:
    crawl = _twice(who="c1-1")
    last_s = len(_truth().must_fetch) - 1
    killed = fault("kills", last_s + 0.5, 0.1, "c0-1")
    assert found(evidence(**crawl, faults=[killed])) == {}
    other = replace(killed, target="c1-1")
    assert list(found(evidence(**crawl, faults=[other]))) == [audit.AGAIN]
    late = fault("kills", last_s + 49, 0.1, "c0-1")
    # By then it had been settled for long.
    assert list(found(evidence(**crawl, faults=[late]))) == [audit.AGAIN]


@pytest.mark.parametrize(("sink", "visits"), [("mongo", 1), ("warc", 2)])
def test_an_archive_has_each_visit_and_a_store_each_page_once(sink: str, visits: int) -> None:
    crawl = _twice()
    page = crawl["entries"][-1].url
    assert page in _truth().must_store
    killed = fault("kills", len(_truth().must_fetch) - 0.5, 0.1, "c0-1")
    for count in (visits, visits + 1):
        pages = {sink: {**dict.fromkeys(_truth().must_store, 1), page: count}}
        given = evidence(**crawl, faults=[killed], pages=pages)
        assert list(found(given)) == ([audit.TWICE] if count > visits else [])


def test_a_page_is_held_longer_while_its_crawler_misses_a_server() -> None:
    crawl = _twice(gap_s=100)
    last_s = len(_truth().must_fetch) - 1
    killed = fault("kills", last_s + 60, 0.1, "c0-1")
    assert list(found(evidence(**crawl, faults=[killed]))) == [audit.AGAIN]
    away = log_line(last_s + 40, "MongoDB is away (no answer within 30 s); pages wait")
    assert found(evidence(**crawl, faults=[killed], logs={"c0-1": away})) == {}
    back = log_line(last_s + 41, "MongoDB is back after 1.0 s")
    assert found(evidence(**crawl, faults=[killed], logs={"c0-1": away + back})) == {}
    soon = away.replace("MongoDB is away", "MongoDB was away")
    assert list(found(evidence(**crawl, faults=[killed], logs={"c0-1": soon}))) == [audit.AGAIN]


def test_a_restart_of_redis_allows_repeats_to_all_crawlers() -> None:
    crawl = _twice()
    last_s = len(_truth().must_fetch) - 1
    assert found(evidence(**crawl, faults=[fault("restarts", last_s + 1, 2, "redis")])) == {}


def test_a_crawler_that_is_told_to_end_repeats_nothing_unless_a_server_was_away() -> None:
    crawl = _twice()
    last_s = len(_truth().must_fetch) - 1
    told = fault("ends", last_s + 1, 2, "c0-1")
    assert list(found(evidence(**crawl, faults=[told]))) == [audit.AGAIN]
    away = fault("is away", last_s + 0.5, 1, "mongo")
    assert found(evidence(**crawl, faults=[told, away])) == {}


def test_a_crawler_that_lost_its_leases_needs_a_fault_of_redis_before() -> None:
    crawl = _twice()
    last_s = len(_truth().must_fetch) - 1
    logs = {"c0-1": log_line(last_s + 8, "… and it continues under a new name")}
    assert list(found(evidence(**crawl, logs=logs))) == [audit.AGAIN]
    slow = fault("is slow", last_s + 1, 5, "redis")
    assert found(evidence(**crawl, logs=logs, faults=[slow])) == {}
    # Or a machine that was too busy.
    starved = ended("c0-1", starved=tuple(BEGAN_S + last_s + each for each in (2, 3)))
    assert found(evidence(**crawl, logs=logs, exits=[starved])) == {}


def test_codes_of_exits_need_their_cause() -> None:
    away = fault("is away", 95, 4, "mongo")
    assert found(evidence(exits=[ended("c0-1", 3)], faults=[away])) == {}
    # It was over for long when the crawler started.
    later = ended("c0-1", 3, at_s=300, began_s=BEGAN_S + 200)
    assert list(found(evidence(exits=[later], faults=[away]))) == [audit.EXITS]
    assert list(found(evidence(exits=[ended("c0-1", 4)], faults=[away]))) == [audit.EXITS]
    # A signal that nobody sent.
    assert list(found(evidence(exits=[ended("c0-1", -9)]))) == [audit.EXITS]
    assert found(evidence(exits=[ended("c0-1", -9, told=(9,))])) == {}
    told = fault("ends", 98, 2, "c0-1")
    assert found(evidence(exits=[ended("c0-1", 130)], faults=[told])) == {}
    assert list(found(evidence(exits=[ended("c1-1", 130)], faults=[told]))) == [audit.EXITS]
    # It ended by itself, and not since the crawl was over.
    assert list(found(evidence(exits=[ended("c0-1", reason="waiting")]))) == [audit.EXITS]


def test_a_crawler_that_the_storm_ended_has_one_finding() -> None:
    logs = {"c1-1": log_line(50, "Fatal Python error: Aborted")}
    exits = [ended("c0-1"), ended("c1-1", -6, told=(6,), reason="")]
    assert found(evidence(logs=logs, exits=exits, still_running=["c1-1"])) == {audit.OPEN: ["c1-1"]}


def test_a_traceback_may_be_the_own_one_of_a_fault() -> None:
    logs = {"c0-1": log_line(50, TRACEBACK)}
    away = fault("is away", 49, 2, "mongo")
    assert found(evidence(logs=logs, faults=[away])) == {}
    early = fault("is away", 20, 2, "mongo")
    assert list(found(evidence(logs=logs, faults=[early]))) == [audit.TRACEBACKS]
    logs = {"c0-1": log_line(50, TRACEBACK.replace("no such server", "no such file"))}
    assert list(found(evidence(logs=logs, faults=[away]))) == [audit.TRACEBACKS]


def test_the_report_names_a_bounded_number_of_findings() -> None:
    many = [Finding(audit.ORPHANS, f"key {number}") for number in range(100)]
    given = evidence(found=many, faults=[fault("kills", 1, 1, "c0-1")])
    lines = audit.audit(given, KINDS).lines()
    assert sum(line.startswith("    key") for line in lines) == audit.SHOWN
    assert "    … and 80 more" in lines
    assert any(line.split() == ["kills", "1"] for line in lines)
    assert any(line.split() == ["orphans", "in", "Redis", "100"] for line in lines)


def test_a_storm_that_was_kept_is_audited_once_more(tmp_path: Path) -> None:
    killed = fault("kills", 1, 1, "c0-1")
    given = evidence(found=[audit.Finding(audit.LEAKS, "x")], faults=[killed], failures={})
    run.keep(given, tmp_path)
    assert audit.audit(run.load(tmp_path), KINDS) == audit.audit(given, KINDS)
