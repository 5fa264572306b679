"""Checks of this machine and of the settings: files, disk, user agent, list of public suffixes.

Pure but for the disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from datetime import date, timedelta
from pathlib import Path

from crawler.doctor.findings import Finding, failure, ok, warning
from crawler.file_limit import Connections, advice
from crawler.policy.user_agent import has_contact, tells_apart
from crawler.progress.text import size

_DISK_FAILURE_BYTES = 1 << 30
_DISK_WARNING_BYTES = 10 << 30
# Some ten suffixes are added a month.
_SUFFIXES_OLD = timedelta(days=270)


def file_limit(limit: int, most: int, connections: Connections) -> Finding:
    """Each fetch and each connection that is kept takes a file descriptor.

    `most` is what a process may raise its `limit` to, which a crawl does.
    """
    needed = connections.files
    text = f"{limit} open files allowed, {needed} needed"
    if limit >= needed:
        return ok("file limit", text)
    if most >= needed:
        return ok("file limit", f"{text}: a crawl raises its limit")
    return failure("file limit", f"{most} open files allowed, {needed} needed", advice(needed))


def user_agent(
    value: str, robots_name: str, defaults: Collection[str], *, is_required: bool = False
) -> Finding:
    """Site owners must find out who crawls them; `defaults` are ours and Scrapy's.

    `is_required`: a crawl would not start without (REQUIRE_CONTACT).
    """
    unnamed = failure if is_required else warning
    if value in defaults:
        return unnamed(
            "user agent",
            f"{value!r} is the default",
            "Set USER_AGENT to your crawler's name and a URL or e-mail address, such as "
            "'name/1.0 (+https://your.site/crawler)'.",
        )
    if not has_contact(value):
        return unnamed(
            "user agent",
            f"{value!r} names nobody to write to",
            "Add a URL or e-mail address to USER_AGENT.",
        )
    if not tells_apart(robots_name):
        return warning(
            "user agent",
            f"robots.txt files cannot speak to {robots_name!r}, which is no crawler's name",
            "Set ROBOTSTXT_USER_AGENT to a name of its own.",
        )
    return ok("user agent", f"{value!r}, {robots_name!r} for robots.txt files")


def disk(folder: Path) -> Finding:
    """Room for the data of embedded servers. Blocking."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    free_bytes = shutil.disk_usage(place).free
    text = f"{size(free_bytes)} free for {folder}"
    if free_bytes >= _DISK_WARNING_BYTES:
        return ok("disk", text)
    advice = "Free some, or set CRAWL_DIR to a folder on a larger disk; 1 million pages take 13 GB."
    if free_bytes < _DISK_FAILURE_BYTES:
        return failure("disk", text, advice)
    return warning("disk", text, advice)


def suffix_list(listed: date | None, *, today: date) -> Finding:
    """By an old list sites of new platforms count as one domain."""
    text = "the list has no date" if listed is None else f"the list is of {listed}"
    if listed is not None and today - listed <= _SUFFIXES_OLD:
        return ok("suffixes", text)
    return warning(
        "suffixes",
        f"{text}: sites of newer platforms would count as one domain",
        "Run `pip install --upgrade publicsuffixlist`, on all machines of a fleet between crawls.",
    )
