"""Crawl the synthetic web and compare the crawl with the web's own account of itself.

In CRAWL_DIR/demo lie the access log and one line a run, both over all runs, so that a crawl that
was stopped and resumed is judged as one.
"""

import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from demo.account import differences
from demo.judge import EXAMPLES, judge
from demo.process import ROOT, DemoServer
from demo.truth import truth
from demo.web import Web, WebOptions

# Quick, as no real server is burdened; what is asked of a crawl stays the same.
SETTINGS: Final[dict[str, Any]] = {
    # A crawl of its own: it must not go on with URLs of the real web.
    "CRAWL": "demo",
    "USER_AGENT": "crawler/demo (+http://s0.test/)",
    "ALLOW_NETWORKS": "127.0.0.0/8",
    "DELAY_MIN": 0.05,
    "DELAY_FACTOR": 1,
    "RETRY_BASE": 1,
    "CRAWL_MAX_WAIT": 10,
}
# A busy machine notes the end of an answer late, so that the next request seems early.
_LATE_S = 0.015
# What `scrapy crawl` returns when Ctrl-C came before the crawl began.
_INTERRUPTED = 130
# Arguments after which a crawl need not fetch everything.
_LIMITS: Final = frozenset(
    "max_pages max_pages_per_host max_depth max_url_length max_time follow scope include exclude "
    "allowed_domains excluded_domains".split()
)


def given(arguments: Sequence[str], options: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the NAME=VALUE pairs that follow one of Scrapy's options, as in `-s NAME=VALUE`."""
    for index, argument in enumerate(arguments):
        for option in options:
            value = ""
            if argument == option:
                value = arguments[index + 1] if index + 1 < len(arguments) else ""
            elif argument.startswith(option):
                value = argument.removeprefix(option).removeprefix("=")
            name, equals, rest = value.partition("=")
            if equals:
                yield name, rest


def renders(arguments: Sequence[str]) -> bool:
    """Return whether a crawl with these arguments opens pages in a browser."""
    return dict(given(arguments, ("-a",))).get("render", "never") != "never"


def resume_command(folder: str, arguments: Sequence[str]) -> str:
    """Return what to type to go on, in the way that this run was started."""
    at = "" if folder == ".crawl" else f"CRAWL_DIR={shlex.quote(folder)}"
    if "MAKELEVEL" in os.environ:
        more = f"ARGS={shlex.quote(shlex.join(arguments))}" if arguments else ""
        return " ".join(part for part in ("make crawl", at, more) if part)
    command = shlex.join(["python", "-m", "demo", "crawl", *arguments])
    return f"{at} {command}".strip()


def _shown(violations: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for rule, found in violations.items():
        yield from (f"{rule}: {text}" for text in found[:EXAMPLES])
        if len(found) > EXAMPLES:
            yield f"{rule}: {len(found) - EXAMPLES:,} more"


class DemoCrawl:
    """One run of the crawler on the synthetic web."""

    def __init__(
        self, options: WebOptions, scrapy_arguments: Sequence[str], typed: Sequence[str]
    ) -> None:
        self._options = options
        self._arguments = list(scrapy_arguments)
        self._settings = dict(given(scrapy_arguments, ("-s", "--set")))
        self._limits = [name for name, _ in given(scrapy_arguments, ("-a",)) if name in _LIMITS]
        self._folder = self._settings.get("CRAWL_DIR") or os.environ.get("CRAWL_DIR") or ".crawl"
        self._resume = resume_command(self._folder, typed)
        own = Path(self._folder, "demo").resolve()
        self._log, self._runs, self._web = own / "access.log", own / "runs.jsonl", own / "web.json"
        self._summary = own / "summary.json"

    def run(self) -> int:
        """Crawl, then judge a crawl that came to its end. Returns the exit code."""
        self._check_web()
        self._summary.unlink(missing_ok=True)
        self._note({"started": True})
        with DemoServer(self._options, self._log) as server:
            code = self._run_scrapy(server)
        if code == _INTERRUPTED:
            print(f"To go on: {self._resume}")
        if code or not self._summary.exists():
            return code or 1
        summary = json.loads(self._summary.read_text(encoding="utf-8"))
        self._note({"ended": summary["this_run"]})
        if summary["finished"] or summary["reason"] in {"max_pages", "waiting"}:
            return self._judge(summary)
        print(f"\nNot judged yet, as the crawl is not finished. To go on: {self._resume}")
        return 0

    # -------------------------------------------------------------------------------------------

    def _check_web(self) -> None:
        """Refuse a folder with the crawl of another web, and remember which one it is."""
        self._web.parent.mkdir(parents=True, exist_ok=True)
        options = dataclasses.asdict(self._options)
        if not self._web.exists():
            self._web.write_text(json.dumps(options) + "\n", encoding="utf-8")
        known = json.loads(self._web.read_text(encoding="utf-8"))
        if known != options:
            web = " ".join(f"--{name} {value}" for name, value in known.items())
            raise ValueError(
                f"{self._folder} holds the crawl of another synthetic web ({web}). Crawl that one, "
                "forget it with `make clean-data`, or set CRAWL_DIR to another folder."
            )

    def _command(self, server: DemoServer) -> list[str]:
        settings = SETTINGS | {
            "CRAWL_DIR": self._folder,
            "DNS_OVERRIDES": json.dumps(server.overrides),
            "SUMMARY_FILE": self._summary,
            "RESUME_COMMAND": self._resume,
        }
        command = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", "scope=any"]
        command += ["-a", f"seeds={' '.join(Web(self._options).seeds)}"]
        for name, value in settings.items():
            command += ["-s", f"{name}={value}"]
        # Last, so that they win.
        return command + self._arguments

    def _run_scrapy(self, server: DemoServer) -> int:
        """Run the crawler. Ctrl-C reaches it by itself; a SIGTERM is passed on to it."""
        process: subprocess.Popen[bytes] | None = None

        def stop(number: int, _frame: FrameType | None) -> None:
            if number == signal.SIGTERM and process is not None:
                process.terminate()

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            process = subprocess.Popen(self._command(server), cwd=ROOT)
            return process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, line: dict[str, Any]) -> None:
        with self._runs.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _judge(self, summary: dict[str, Any]) -> int:
        """Say whether the crawl did what the web's truth and the judge's rules expect."""
        reads = self._settings.get("FOLLOW_SITEMAPS", "True").lower() in ("true", "1")
        rendered = renders(self._arguments)
        known = truth(self._options, read_sitemaps=reads, renders=rendered)
        delay_s = float(self._settings.get("DELAY_MIN", SETTINGS["DELAY_MIN"]))
        runs = [json.loads(line) for line in self._runs.read_text("utf-8").splitlines()]
        started = sum("started" in run for run in runs)
        killed = started - sum("ended" in run for run in runs)
        verdict = judge(
            self._log,
            known,
            min_delay_s=max(0.0, delay_s - _LATE_S),
            server_runs=started,
            faults=killed,
        )
        violations = dict(verdict.violations)
        whole = summary["finished"] and not self._limits
        print()
        if killed:
            print(f"{killed} of {started} runs did not end by themselves: repeats are forgiven.")
        if not whole:
            reason = ", ".join(self._limits) or "URLs still wait"
            print(f"Not everything was to be crawled ({reason}): missing pages are not counted.")
            del violations["missing"]
        wrong = list(_shown(violations))
        if whole:
            # Of pages that lead elsewhere or break a browser, a record may be kept.
            exact = self._options.zoo != "full" and not rendered
            wrong += differences(known, runs, summary["whole_crawl"], exact=exact)
        requests = f"{verdict.requests:,} requests on {verdict.hosts:,} hosts"
        if wrong:
            print(f"differs from the synthetic web's own account ({requests}):")
            print("\n".join(f"  {text}" for text in wrong))
            return 1
        stored = f"all {len(known.must_store):,} pages stored or duplicates, " if whole else ""
        print(
            f"agrees with the synthetic web's own account: {stored}{requests}, each allowed by "
            "robots.txt, none too soon, none without need"
        )
        return 0
