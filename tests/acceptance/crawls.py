"""Run whole crawls as a user does: `scrapy crawl web` in a process of its own.

crawl = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
with DemoServer(options, log_path) as web:
    run = crawl.run("http://s0.test/", web=web)
assert run.code == 0 and run.summary["finished"]
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from demo.process import DemoServer
from tests.support.warm_starts import WarmProcess

ROOT = Path(__file__).resolve().parents[2]
# Far more than a crawl takes: a busy machine must fail no test.
TIMEOUT_S = 240.0
# Quick, since no real host is burdened.
QUICK: dict[str, Any] = {
    "ALLOW_NETWORKS": "127.0.0.0/8",
    "DELAY_MIN": 0.02,
    "DELAY_FACTOR": 0,
    "RETRY_BASE": 0.2,
    "CRAWL_MAX_WAIT": 3,
    "PROGRESS": "off",
    # Half a second of each process; its own tests switch it on.
    "ADMIN_ENABLED": False,
}
# Servers come from the test, never from the environment of whoever runs it.
_OWN_VARIABLES = ("REDIS_URL", "MONGO_URI", "CRAWL_DIR", "SCRAPY_PROJECT", "SCRAPY_SETTINGS_MODULE")


@dataclass(frozen=True)
class Run:
    """How a crawl ended. `summary` is empty if it never got so far."""

    code: int
    stdout: str
    stderr: str
    summary: dict[str, Any] = field(default_factory=dict)


def environment() -> dict[str, str]:
    """The environment for a crawl that knows its servers from settings only."""
    kept = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
    own = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default", "PYTHONFAULTHANDLER": "1"}
    return {**kept, **own, "COLUMNS": "200"}


def scrapy(*arguments: str, cwd: Path = ROOT, timeout_s: float = TIMEOUT_S) -> Run:
    """Run a scrapy command."""
    with TemporaryFile("w+") as stdout, TemporaryFile("w+") as stderr:
        process = WarmProcess(arguments, cwd=cwd, env=environment(), stdout=stdout, stderr=stderr)
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        stdout.seek(0)
        stderr.seek(0)
        return Run(code, stdout.read(), stderr.read())


@dataclass(frozen=True)
class Crawls:
    """Crawls on the given servers, with their files in a folder of the test's own."""

    folder: Path
    redis_url: str
    mongo_uri: str | None = None
    mongo_database: str = "crawler"

    def settings(self, web: DemoServer | None = None) -> dict[str, Any]:
        """Those of a quick crawl of the given web on these servers."""
        values: dict[str, Any] = {
            **QUICK,
            "REDIS_URL": self.redis_url,
            "CRAWL_DIR": self.folder / "crawl",
            "SUMMARY_FILE": self.folder / "summary.json",
            "MONGO_DATABASE": self.mongo_database,
        }
        if self.mongo_uri is None:
            values["SINKS"] = "none"
        else:
            values["MONGO_URI"] = self.mongo_uri
        if web is not None:
            values["DNS_OVERRIDES"] = json.dumps(web.overrides)
        return values

    def command(
        self,
        seeds: str | None,
        *,
        web: DemoServer | None = None,
        arguments: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        options: tuple[str, ...] = (),
    ) -> list[str]:
        """The arguments of `scrapy`: `arguments` become -a, `settings` -s."""
        values = self.settings(web) | dict(settings or {})
        given = dict(arguments or {})
        if seeds is not None:
            given["seeds"] = seeds
        command = ["crawl", "web"]
        for name, value in given.items():
            command += ["-a", f"{name}={value}"]
        for name, value in values.items():
            command += ["-s", f"{name}={value}"]
        return [*command, *options]

    def run(self, seeds: str | None = None, *, timeout_s: float = TIMEOUT_S, **rest: Any) -> Run:
        """Crawl to the end. For the other arguments see `command`."""
        summary = self.folder / "summary.json"
        summary.unlink(missing_ok=True)
        run = scrapy(*self.command(seeds, **rest), timeout_s=timeout_s)
        found = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else {}
        return Run(run.code, run.stdout, run.stderr, found)
