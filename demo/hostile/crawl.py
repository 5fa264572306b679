"""How the zoo is crawled, and how each of its URLs ended. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from demo.hostile.behaviour import STORED, WAITS, Behaviour
from demo.hostile.discovery import ALLOWED

# Links of the zoo are read, and not followed: only what a behaviour consists of is.
_INCLUDED: Final = (
    r"//[^/]*\.hostile\.(?:test|example)(:\d+)?/(1/|there|sitemap|x{99}|a{99})",
    r"//[^/]*\.hostile\.(?:test|example)(:\d+)?/$",
    r"//127\.66\.",
    # Ordinary hosts beside them.
    r"//s\d+\.test/",
)
# Flags of pages that are stored and would take too much to read.
_READ_IN_PART: Final = frozenset(
    {"cut:text", "unread:memory", "unread:timeout", "unread:too_large"}
)


def settings(served: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Return the settings of a crawl of the zoo: no delays, and limits that are reached soon."""
    return {
        "ALLOW_NETWORKS": f"{ALLOWED}/32",
        "DNS_OVERRIDES": json.dumps(served["overrides"]),
        "DNS_SERVERS": served["hostile"]["dns"],
        "DOWNLOAD_VERIFY_CERTIFICATES": True,
        "DOWNLOAD_MAXSIZE": size,
        "DOWNLOAD_TIMEOUT": 3,
        "DNS_TIMEOUT": 30,
        "RETRY_TIMES": 0,
        "CRAWL_MAX_WAIT": 2,
        "DELAY_MIN": 0,
        "DELAY_FACTOR": 0,
    }


def environment(served: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a crawl that trusts the zoo's authority."""
    return {"SSL_CERT_FILE": served["hostile"]["authority"]}


def arguments() -> dict[str, str]:
    """Return the arguments of the spider, but the seeds."""
    return {"scope": "any", "include": " ".join(_INCLUDED)}


def outcome_of(record: Mapping[str, Any] | None) -> str:
    """Return how a URL ended, by its stored page; None: there is none."""
    if record is None:
        return WAITS
    how = record.get("reason") or STORED
    return ", ".join((how, *sorted(record.get("flags") or ())))


def outcomes(
    behaviour: Behaviour, urls: Iterable[str], records: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Return how each URL of a behaviour ended; `records` are the stored pages by their URLs."""
    return {url: outcome_of(records.get(behaviour.ends_at or url)) for url in urls}


def is_meant(behaviour: Behaviour, outcome: str) -> bool:
    """Whether a URL ended as it must. A page may be read in part, or its text not at all."""
    how, *flags = outcome.split(", ")
    if behaviour.outcome == STORED:
        flags = [flag for flag in flags if flag not in _READ_IN_PART]
    return ", ".join((how, *flags)) == behaviour.outcome


def wrong(
    behaviours: Iterable[Behaviour],
    urls: Mapping[str, list[str]],
    records: Mapping[str, Mapping[str, Any]],
    counted: Mapping[str, int],
) -> list[str]:
    """Name what did not end as it must: a line each. `counted` are the figures of the crawl."""
    lines = []
    for each in behaviours:
        for url, found in outcomes(each, urls[each.name], records).items():
            if not is_meant(each, found):
                lines.append(f"{each.name}: {url:.100} ended as {found!r}, not {each.outcome!r}")
        if each.counted and not counted.get(each.counted):
            lines.append(f"{each.name}: nothing is counted as {each.counted}")
    return lines
