"""Interpret robots.txt answers after RFC 9309. Pure: parses bytes, fetches nothing.

Also reads the product token of a User-Agent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from protego import Protego

from crawler.parsing.rights import MAX_CHARS, MAX_STATEMENTS

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# RFC 9309 section 2.5: parse at least 500 KiB.
MAX_BYTES = 512 * 1024
# Section 2.3.1.2: follow at least five redirects; after more the file counts as missing.
MAX_REDIRECTS = 5
# Sitemaps that are read from one file.
_MAX_SITEMAPS = 1000
# Memory of a parsed file, of each of its rules, and of the patterns in them.
_FILE_BYTES, _RULE_BYTES, _STAR_BYTES, _DOLLAR_BYTES = 1300, 300, 300, 600
# Files are not fetched more often than that, whatever Cache-Control says.
_TTL_MIN_S = 3600.0
# Rules that a forbidden file stands for, by the value of ROBOTS_FORBIDDEN_IS. The standard: none.
FORBIDDEN_FILE_RULES = {"allow": b"", "deny": b"User-agent: *\nDisallow: /\n"}
# Matches all that the parser takes for a user-agent line: also without a colon, with any blanks.
_USER_AGENT = re.compile(
    r"^[^\S\n]*user(?:-|[^\S\n]+)?agent(?:[^\S\n]*:|[^\S\n])[^\S\n]*([^\n#]*)",
    re.IGNORECASE | re.MULTILINE,
)
# Matches all that the parser takes for a line of a group: names and rules, also misspelt ones.
_GROUP_LINE = re.compile(
    r"\s*(?:(user(?:-|\s+)?agent)|allow|disallow|dissallow|dissalow|disalow|diasllow|disallaw)"
    r"(?=\s*+(?:[:#]|$)|\s++(?!.*:(?:\s|$)))",
    re.IGNORECASE,
)
# Byte order marks, also incomplete ones.
_BYTE_ORDER_MARKS = re.compile(rb"(?:\0*(?:\xef\xbb?\xbf?|\xbb\xbf?|\xbf|\xff\xfe?|\xfe\xff?))+")
# A file without a user-agent line has no rules, so this word tells UTF-16 from UTF-8.
_AGENT_IN_UTF_16 = re.compile(rb"a\0g\0e\0n\0t", re.IGNORECASE)
_TOKEN = re.compile(r"\*(?!\S)|[A-Za-z_-]+")
# Names of groups as the parser sees them.
_OURS, _EVERYBODYS, _NOBODYS = "ours", "*", "nobody"
_MAX_AGE = re.compile(
    r"(?:^|,)\s*(?:max-age\s*=\s*\"?(\d{1,9})|(no-cache|no-store))", re.IGNORECASE
)
# The standard has two line ends, the parser more. Escaped, these match the same URLs as before.
_OTHER_LINE_ENDS = {ord(c): f"%{ord(c):02X}" for c in "\x0b\x0c\x1c\x1d\x1e"} | {
    0x85: "%C2%85",
    0x2028: "%E2%80%A8",
    0x2029: "%E2%80%A9",
}
_OTHER_LINE_END = re.compile(f"[{''.join(map(chr, _OTHER_LINE_ENDS))}]")


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Server error or network error: everything is disallowed (RFC 9309 section 2.3.1.4)."""

    reason: str


# Longer delays, a year, cannot be counted with: files may ask for 10^308 seconds.
_MOST_DELAY_S = 31_536_000.0


@dataclass(frozen=True, slots=True)
class ForbiddenFile:
    """Answer 401 or 403. Each crawl chooses its meaning, so it is stored as it is."""


class RobotsRules:
    """Rules of one authority for one user agent, given by its product token."""

    def __init__(self, body: bytes, user_agent: str) -> None:
        self.size_bytes = len(body)
        # What the parsed rules take, about.
        self.memory_bytes = _FILE_BYTES
        self._name = user_agent.lower()
        # Seconds between two fetches that the file asks for, 0 for none.
        self.crawl_delay_s = 0.0
        # Sitemap URLs as they are in the file (section 2.2.4): for all agents, unchecked.
        self.sitemaps: list[str] = []
        self._usage: list[_Usage] = []
        self._parser: Protego | None = None
        text = _USER_AGENT.sub(self._group, text_of(body))
        if not text.strip():
            return
        self._parser = Protego.parse(text)
        self.memory_bytes += _RULE_BYTES * text.lower().count("allow")
        self.memory_bytes += _STAR_BYTES * text.count("*") + _DOLLAR_BYTES * text.count("$")
        delay_s = float(self._parser.crawl_delay(_OURS) or 0.0)
        # Not a number is no delay.
        self.crawl_delay_s = min(delay_s, _MOST_DELAY_S) if delay_s > 0 else 0.0
        self.sitemaps = list(dict.fromkeys(self._parser.sitemaps))[:_MAX_SITEMAPS]
        self.memory_bytes += sum(map(len, self.sitemaps))
        if _USAGE.search(text):
            self._usage = _usage_lines(text)
            self.memory_bytes += _RULE_BYTES * len(self._usage)
        lines = _group_lines(text)
        if lines is not None:
            self._parser = Protego.parse("\n".join(lines))

    def _group(self, line: re.Match[str]) -> str:
        """Rewrite a user-agent line so that its group is ours, everybody's or nobody's.

        The standard compares whole product tokens, without what follows them (section 2.2.1); the
        parser would take "craw" for "crawler", and would not know "crawler/2.0". The tokens of the
        standard have letters, "-" and "_" only; those of crawlers have digits and dots too.
        """
        return f"User-agent: {_group_name(line[1], self._name)}"

    def allows(self, url: str) -> bool:
        """Tell whether the rules allow this URL."""
        return self._parser is None or bool(self._parser.can_fetch(url, _OURS))

    def usage(self, url: str) -> Sequence[str]:
        """List the lines Content-Signal and Content-Usage for this URL, word for word.

        Of each kind those with the longest path that matches, as is with other rules.
        """
        if not self._usage:
            return ()
        path = f"/{url.split('/', 3)[-1]}" if url.count("/") > 2 else "/"
        longest: dict[str, int] = {}
        matching = [line for line in self._usage if _matches(line.path, path)]
        for line in matching:
            longest[line.kind] = max(longest.get(line.kind, 0), len(line.path))
        said = [line.text for line in matching if len(line.path) == longest[line.kind]]
        return said[:MAX_STATEMENTS]


def _group_name(given: str, name: str) -> str:
    """Return whether a group is ours, everybody's or nobody's, by what its user-agent line has."""
    token = _TOKEN.match(given)
    names = {product_token(given).lower(), token[0].lower() if token is not None else ""}
    if token is not None and token[0] == _EVERYBODYS:
        return _EVERYBODYS
    return _OURS if name in names - {""} else _NOBODYS


class RobotsLine(NamedTuple):
    """Line of a robots.txt, with its number from 1."""

    number: int
    text: str


def lines_for(body: bytes, user_agent: str) -> list[RobotsLine]:
    """Return the lines that apply to a product token: of its groups, else of everybody's."""
    by_name: dict[str, list[RobotsLine]] = {}
    names: set[str] = set()
    is_among_agents = False
    for number, text in enumerate(text_of(body).split("\n"), start=1):
        agent, group_line = _USER_AGENT.match(text), _GROUP_LINE.match(text)
        if agent is not None:
            name = _group_name(agent[1], user_agent.lower())
            names = {*names, name} if is_among_agents else {name}
        if agent is not None or group_line is not None:
            is_among_agents = agent is not None
        if text.strip() and not text.lstrip().startswith("#"):
            for name in names:
                by_name.setdefault(name, []).append(RobotsLine(number, text.strip()))
    return by_name.get(_OURS, by_name.get(_EVERYBODYS, []))


_RULE = re.compile(r"\s*(a|d)[a-z]*l{1,2}ow\s*:?\s*([^\s#]*)", re.IGNORECASE)


def deciding_line(lines: Sequence[RobotsLine], url: str) -> RobotsLine | None:
    """Return the rule that decides about a URL: the longest that matches, of equals that allows."""
    found: tuple[int, bool, RobotsLine] | None = None
    for line in lines:
        rule = _RULE.match(line.text)
        if rule is None or not rule[2]:
            continue
        # The parser itself compares, so that both agree on escapes and wildcards.
        alone = Protego.parse(f"User-agent: *\nDisallow: {rule[2]}\n")
        weight = (len(rule[2]), rule[1].lower() == "a", line)
        if not alone.can_fetch(url, _OURS) and (found is None or weight[:2] > found[:2]):
            found = weight
    return None if found is None else found[2]


def content_of(status: int, body: bytes) -> bytes | ForbiddenFile | Unreachable:
    """Interpret an answer: rules (none at all for most of 4xx), or no rules yet."""
    # A 407 comes from a proxy, and says nothing about the host.
    if status in (407, 429) or status >= 500:
        return Unreachable(f"status {status}")
    if 200 <= status < 300:
        return body
    return ForbiddenFile() if status in (401, 403) else b""


def rules_ttl_s(ttl_s: float, cache_control: bytes | None) -> float:
    """Return how long rules are valid: `ttl_s`, or less if Cache-Control says so."""
    found = _MAX_AGE.search((cache_control or b"").decode("latin-1"))
    if found is None:
        return ttl_s
    return min(ttl_s, max(_TTL_MIN_S, float(found[1] or 0)))


def text_of(body: bytes) -> str:
    """Return the text of a robots.txt: cut at the limit, normal line ends, no byte order mark."""
    text = _decoded(body[:MAX_BYTES]).replace("\0", "")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(body) > MAX_BYTES:
        text = text[: text.rfind("\n") + 1]
    # Hardly any file has one, and looking for them takes a tenth of the time.
    return text.translate(_OTHER_LINE_ENDS) if _OTHER_LINE_END.search(text) else text


def _decoded(body: bytes) -> str:
    """Decode UTF-8 or, though the standard does not allow it, UTF-16; drop byte order marks."""
    mark = _BYTE_ORDER_MARKS.match(body)
    if mark is not None:
        body = body[mark.end() :]
    found = _AGENT_IN_UTF_16.search(body) if b"\0" in body else None
    if found is None:
        return body.decode("utf-8", "replace")
    return body.decode("utf-16-be" if found.start() % 2 else "utf-16-le", "replace")


def _group_lines(text: str) -> list[str] | None:
    """Return the lines of groups, if other records stand between user-agent lines of one group.

    By the standard other records are not part of a group and do not close it (section 2.2.4). The
    parser closes a group at a user-agent line below any record. A Crawl-delay needs that, for it is
    meant for the names above it. So rules are parsed again without the other records.
    """
    lines: list[str] = []
    is_among_agents = is_interrupted = needed = False
    for line in text.split("\n"):
        found = _GROUP_LINE.match(line)
        if found is None:
            is_interrupted = is_interrupted or bool(line.partition("#")[0].strip())
            continue
        lines.append(line)
        is_agent = found[1] is not None
        needed = needed or (is_agent and is_among_agents and is_interrupted)
        is_among_agents, is_interrupted = is_agent, False
    return lines if needed else None


# Lines about use that are kept of a file, of which a page gets the first that apply to it, and the
# characters of their paths: it takes 5 ms at most to compare a URL with all of them.
_MAX_USAGE, _MAX_USAGE_PATH = 100, 1000
# Content-Signal and Content-Usage: the kind, the path to which the line applies, if it names one.
_USAGE = re.compile(
    r"^[^\S\n]*(content-(?:signal|usage))[^\S\n]*:[^\S\n]*(/\S*)?", re.IGNORECASE | re.MULTILINE
)


class _Usage(NamedTuple):
    """Line about the use of pages."""

    kind: str
    path: str
    text: str


def _usage_lines(text: str) -> list[_Usage]:
    """Return the lines of our groups, else those for everybody; those above all groups are both."""
    by_name: dict[str, list[_Usage]] = {"": []}
    # Groups to which the next line belongs.
    names: set[str] = {""}
    is_among_agents = False
    for line in text.split("\n"):
        group_line, usage = _GROUP_LINE.match(line), _USAGE.match(line)
        if usage is not None and len(usage[2] or "") <= _MAX_USAGE_PATH:
            said = line.partition("#")[0].strip()[:MAX_CHARS]
            for name in names:
                by_name[name].append(_Usage(usage[1].lower(), usage[2] or "", said))
        if group_line is not None and group_line[1] is not None:
            # As _group has rewritten it.
            name = line.rpartition(" ")[2]
            names = {*names, name} if is_among_agents else {name}
            by_name.setdefault(name, [])
        is_among_agents = group_line is not None and group_line[1] is not None
    found = by_name[""] + by_name.get(_OURS, by_name.get(_EVERYBODYS, []))
    return found[:_MAX_USAGE]


def _matches(pattern: str, path: str) -> bool:
    """Tell whether a path of a rule, with its "*" and "$", matches; takes linear time."""
    is_whole = pattern.endswith("$")
    first, *parts = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    for part in parts:
        found = path.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    if not is_whole:
        return True
    last = parts[-1] if parts else first
    return path.endswith(last) and (bool(parts) or path == first)


_NAME = re.compile(r"\s*([^\s/,;()]*)")
# User agent of a crawler that pretends to be a browser:
# Mozilla/5.0 (compatible; name/1.0; +https://…)
_COMPATIBLE = re.compile(
    r"\s*mozilla/.*\bcompatible;\s*(?!https?:)([^\W_][^\s/,;()]*)", re.IGNORECASE
)


def robots_name(settings: BaseSettings) -> str:
    """Return the name by which robots.txt files, meta tags and headers address the crawler."""
    return product_token(settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"] or "")


def product_token(user_agent: str) -> str:
    """Return the name by which robots.txt files address the crawler: no version, no contact."""
    found = _COMPATIBLE.match(user_agent) or _NAME.match(user_agent)
    return found[1] if found is not None else ""
