"""Say why a run brought no page at all, and what to look at. Pure.

Most often it is a first run: a host that is misspelt, a machine without a network, a robots.txt.
"""

from __future__ import annotations

from collections import Counter

from crawler.progress.figures import Process

_NO_NAME = (
    "DNS has no address for the host; is it spelt right, and is this machine on the network? "
    "`scrapy doctor` looks"
)
_NO_ANSWER = "the host does not answer; does a browser on this machine reach it?"
_ADVICE = {
    "dns_nxdomain": _NO_NAME,
    "dns": "no DNS server answered; `scrapy doctor` looks, DNS_SERVERS names others",
    "refused": _NO_ANSWER,
    "timeout": _NO_ANSWER,
    "connection": _NO_ANSWER,
    "malformed": "what the host answers is no HTTP; are the scheme and the port right?",
    "private_address": "the host is in a private network; ALLOW_NETWORKS lets a crawl into it",
}


def why_no_page(process: Process) -> str:
    """The most frequent cause, with advice; empty if there was one, or nothing failed."""
    if process.pages or process.items or process.not_modified:
        return ""
    causes = Counter(process.retries)
    causes.update(process.failed)
    if causes:
        cause, _ = causes.most_common(1)[0]
        return f"{cause}: {_ADVICE[cause]}" if cause in _ADVICE else cause
    if process.robots_denied:
        return "robots.txt denies it to USER_AGENT, or could not be read"
    return ""
