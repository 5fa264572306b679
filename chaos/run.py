"""Run a storm from its plan to its report."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from chaos import evidence as gather
from chaos.audit import Evidence, Finding, Report, audit
from chaos.faults import Fault, kinds
from chaos.schedule import Happened, Planned
from chaos.storm import Plan, Storm, blow, describe
from demo.access_log import read_log
from demo.truth import truth
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import sizes
from tests.support.waiting import wait_until

_KEPT = "evidence.json"
_EVIDENCE = TypeAdapter(Evidence)


def usable(found: Mapping[str, Fault], plan: Plan) -> tuple[list[Fault], list[str]]:
    """Return the kinds that this storm can have, and lines about those that it cannot."""
    servers = {"", "redis", *plan.sinks, *(["browser"] if plan.renders else [])}
    left, missing = [], []
    for kind in found.values():
        if kind.is_of not in servers:
            continue
        if why := kind.missing():
            missing.append(f"{kind.name}: left out, {why}")
        else:
            left.append(kind)
    return left, missing


def run(
    plan: Plan,
    schedule: Sequence[Planned],
    folder: Path,
    *,
    length_s: float,
    said: Callable[[str], None] = print,
) -> Report:
    """Run a storm, and audit it. Logs and the fault log stay in the folder."""
    found = kinds()
    used = sorted({planned.kind for planned in schedule})
    if unknown := [name for name in used if name not in found]:
        raise ValueError(f"There is no kind of fault named {', '.join(unknown)}.")
    folder.mkdir(parents=True, exist_ok=True)
    said(describe(plan))
    said(f"{len(schedule)} faults in {length_s:.0f} s; logs in {folder}")
    with Storm(plan, folder) as storm, (folder / "faults.jsonl").open("w") as log:

        def note(line: str) -> None:
            log.write(line + "\n")
            log.flush()

        storm.prepare([found[name] for name in used])
        wait_until(lambda: storm.fetched() > 10, "the crawl has begun", deadline_s=300)
        began = time.monotonic()
        faults = blow(storm, schedule, found, length_s=length_s, said=note)
        took_s = time.monotonic() - began
        if storm.fleet.is_over.is_set():
            said(f"The crawl was over after {took_s:.0f} s; faults that were to come are left out")
        said(
            f"{len(faults)} faults in {took_s:.0f} s, {storm.fetched():,} requests; now it may end"
        )
        still_running = storm.end_crawl()
        said(f"{time.monotonic() - began:.0f} s, {storm.fetched():,} requests; auditing")
        # Its log is complete when it has ended.
        storm.web.stop()
        evidence = _evidence(storm, faults, still_running)
        keep(evidence, folder)
        report = audit(evidence, found)
    write(report, plan, folder)
    return report


def _evidence(
    storm: Storm,
    faults: Sequence[Happened],
    still_running: Sequence[str],
) -> Evidence:
    evidence = Evidence(
        truth=truth(storm.plan.web, read_sitemaps=True, renders=storm.plan.renders),
        entries=list(read_log(storm.folder / "access.log")),
        faults=faults,
        exits=storm.fleet.exits,
        logs={each.name: each.log.read_text(errors="replace") for each in storm.fleet.exits},
        still_running=still_running,
        min_delay_s=storm.plan.delay_s,
    )
    more: list[Finding] = []
    if "redis_url" in storm.own:
        more += gather.of_sizes(sizes(storm.own["redis_url"]))
    else:
        with storm.redis.client as client:
            more += gather.of_redis(client)
    servers = storm.servers
    if "mongo" in servers:
        gather.of_mongo(servers["mongo"].uri, evidence, more)
    if "postgresql" in servers:
        gather.of_postgres(servers["postgresql"].url(), evidence, more)
    if "s3" in servers:
        gather.of_objects(servers["s3"].endpoint, evidence, more)
    if storm.messages is not None:
        gather.of_kafka(storm.messages, evidence, more)
    if "warc" in storm.plan.sinks:
        archive = storm.folder / "archive"
        values = {**Crawls(storm.folder, storm.redis.url).settings(), "SINKS": f"warc:{archive}"}
        settings = [f"-s{name}={value}" for name, value in values.items()]
        gather.of_archive(archive, settings, evidence, more)
    evidence.found = more
    return evidence


def keep(evidence: Evidence, folder: Path) -> None:
    """Keep what the audit reads."""
    (folder / _KEPT).write_bytes(_EVIDENCE.dump_json(evidence))


def load(folder: Path) -> Evidence:
    """Load the evidence of an earlier storm."""
    return _EVIDENCE.validate_json((folder / _KEPT).read_bytes())


def write(report: Report, plan: Plan, folder: Path) -> None:
    """Write the report for programs, with all findings."""
    fields = {
        "ok": report.ok,
        "plan": asdict(plan),
        "figures": report.figures,
        "faults": dict(sorted(report.faults.items())),
        "findings": report.findings,
    }
    text = json.dumps(fields, indent=1, default=str) + "\n"
    (folder / "report.json").write_text(text, encoding="utf-8")


def error(line: str) -> None:
    """Print a mistake of whoever started the storm."""
    print(f"chaos: {line}", file=sys.stderr)
