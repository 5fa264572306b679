"""`scrapy doctor`: check servers, limits and settings. Exit 0: a crawl can start; 1: it cannot."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from scrapy.commands import ScrapyCommand
from scrapy.settings import BaseSettings

from crawler.commands._doctor import FAILURE, Doctor, Finding, verdict
from crawler.commands._settings import completed
from crawler.errors import CrawlerError, ExitCode
from crawler.servers.connections import Servers


class Command(ScrapyCommand):
    """Needs no reactor: a plain event loop asks the servers."""

    requires_project = True
    requires_crawler_process = False

    def short_desc(self) -> str:
        return "Check that a crawl can start, and say what to change"

    def long_desc(self) -> str:
        return (
            "Check Redis (version, persistence, eviction, memory), MongoDB, DNS, file limits, "
            "disk, user agent and settings. Nothing is changed."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="one JSON object a check")
        parser.add_argument(
            "--name", default="example.com", help="the name that DNS is asked for (example.com)"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            settings = completed(self.settings).copy()
        except CrawlerError as error:
            print(f"scrapy doctor: {error}", file=sys.stderr)
            self.exitcode = ExitCode.FAILED
            return
        # It is a finding here, no reason to stop.
        settings.set("REQUIRE_PERSISTENCE", False, "cmdline")
        crawl_dir = Path(settings["CRAWL_DIR"])
        with tempfile.TemporaryDirectory(prefix="doctor-") as folder:
            if not crawl_dir.is_dir():
                # Embedded servers are tried, and leave nothing behind.
                settings.set("CRAWL_DIR", folder, "cmdline")
            try:
                findings = asyncio.run(_examine(settings, crawl_dir, opts))
            except BrokenPipeError:
                # `… | head` has seen enough; Python would complain once more when it flushes.
                sys.stdout = None
                return
        if not opts.json:
            print(f"\n{verdict(findings)}")
        if any(finding.level == FAILURE for finding in findings):
            self.exitcode = ExitCode.FAILED


async def _examine(
    settings: BaseSettings, crawl_dir: Path, opts: argparse.Namespace
) -> list[Finding]:
    servers = Servers.from_settings(settings)
    found = []
    try:
        doctor = Doctor(settings, servers, crawl_dir=crawl_dir, dns_name=opts.name)
        async for finding in doctor.findings():
            found.append(finding)
            lines = [json.dumps(finding.to_json())] if opts.json else finding.lines()
            print("\n".join(lines), flush=True)
    finally:
        await servers.close()
    return found
