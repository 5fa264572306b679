"""The options that choose among stored pages: --domain, --since, --status, --reason. Pure."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta

from crawler.storage.stored_pages import Wanted

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_STATUS = re.compile(r"[1-5]xx|[1-5]\d\d|0")
_DOMAIN = re.compile(r"[^\s/@?#]+\.[^\s/@?#]+|localhost|\[[0-9a-f:]+\](:\d+)?", re.IGNORECASE)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--domain", type=domain, metavar="NAME", help="a domain, or one of its hosts"
    )
    parser.add_argument(
        "--since",
        type=since,
        metavar="WHEN",
        help="crawled within 45m, 2h, 3d or 1w, or since a date",
    )
    parser.add_argument(
        "--status", type=statuses, metavar="CODE", help="200, 4xx …; 0: there was no answer"
    )
    parser.add_argument(
        "--reason", help="why there is no content: robots, timeout, noindex, status_404 …"
    )


def wanted(arguments: argparse.Namespace, *, kept: bool = False) -> Wanted:
    """What the options ask for."""
    return Wanted(
        domain=arguments.domain,
        since=arguments.since,
        statuses=arguments.status,
        reason=arguments.reason,
        kept=kept,
    )


def domain(text: str) -> str:
    if not _DOMAIN.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no domain; write it as example.com")
    return text.lower()


def age(text: str) -> timedelta:
    """45m, 2h, 3d …"""
    match = _AGO.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 45m, 2h, 3d or 1w")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is longer than anything here lasts") from None


def since(text: str) -> datetime:
    """A time span before now, or a time; without a zone it is UTC, as all times here."""
    if _AGO.fullmatch(text.strip()):
        try:
            return datetime.now(UTC) - age(text)
        except OverflowError:
            raise argparse.ArgumentTypeError(f"{text!r} is before all times") from None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; write 45m, 2h, 3d, 1w, 2026-05-31 or 2026-05-31T12:00"
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def statuses(text: str) -> tuple[int, int]:
    """The first and the last of the codes that are meant."""
    if not _STATUS.fullmatch(text.lower()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no status; write 200, 4xx, or 0 for URLs without an answer"
        )
    if text.lower().endswith("xx"):
        return int(text[0]) * 100, int(text[0]) * 100 + 99
    return int(text), int(text)
