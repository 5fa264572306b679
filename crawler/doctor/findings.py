"""What the doctor found: one line a check, with what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

OK, WARNING, FAILURE = "ok", "warning", "failure"
_MARKS = {OK: "ok  ", WARNING: "warn", FAILURE: "FAIL"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One check."""

    subject: str
    level: str
    text: str
    # What to change; empty where all is well.
    advice: str = ""

    def lines(self) -> list[str]:
        """For people: the advice below the finding."""
        head = f"{_MARKS[self.level]}  {self.subject:12}  {self.text}"
        return [head, f"{'':20}→ {self.advice}"] if self.advice else [head]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def ok(subject: str, text: str) -> Finding:
    """All is well."""
    return Finding(subject, OK, text)


def warning(subject: str, text: str, advice: str) -> Finding:
    """A crawl works, but could do better or be in danger."""
    return Finding(subject, WARNING, text, advice)


def failure(subject: str, text: str, advice: str = "") -> Finding:
    """No crawl starts, or it would lose something."""
    return Finding(subject, FAILURE, text, advice)


def verdict(findings: Iterable[Finding]) -> str:
    """All of them in one line."""
    levels = [finding.level for finding in findings]
    failures, warnings = levels.count(FAILURE), levels.count(WARNING)
    if failures:
        return f"{failures} of {len(levels)} checks failed: a crawl would not start, or lose pages."
    if warnings:
        have = "has" if warnings == 1 else "have"
        return f"A crawl can start; {warnings} of {len(levels)} checks {have} a warning."
    return "All is well."
