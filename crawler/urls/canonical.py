"""The one spelling of a URL: the browsers' parser, then what browsers leave open. Pure, total.

It is what a URL is known by. How the URL was written is found on the way, see written.py. The rules
are UrlRules; the list of dropped parameters is in a file beside.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Self

import can_ada

from crawler.urls.fingerprint import fingerprint, fingerprints, folded
from crawler.urls.hosts import group_skip, icann_domain, registered_domain
from crawler.urls.join import Base
from crawler.urls.written import part_of, written_url

# A canonical URL, and what is kept of how it was written.
Spelling = tuple[str, str]

# Longer texts are not even parsed: no address has a fragment or blanks of this size.
_MAX_READ = 65_536
_NAMES_KEPT = 4096
_AUTHORITIES_KEPT = 20_000
# As long as a name in DNS can be.
_MAX_HOST = 253
# Not preceded by half an escape, which decoding would make whole: "%%34%31" is no "%41".
_ESCAPE = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])%[0-9A-Fa-f]{2}")
# Those with small letters or for what needs no escape: where there is none, there is nothing to do.
# A page's base may have hundreds of escapes, and stands before each of its links.
_CHANGING = re.compile(
    r"%(?:[0-9A-Fa-f][a-f]|[a-f][0-9A-Fa-f]|2[DE]|3[0-9]|[46][1-9A-F]|5[0-9AF]|7[0-9AE])"
)
_UNRESERVED = {
    f"%{ord(char):02X}": char
    for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
}
# Browsers leave these as they are, Scrapy escapes them on the way out: one spelling is fetched.
_OPEN = re.compile(r"[\[\]^`{|}\\]")
_DOTS = re.compile(r"/(?:\.|%2[eE]){1,2}(?=/|$)")
# Paths with more parameters are left as they are.
_PATH_PARAMETERS_READ = 20
_PATH_PARAMETER = re.compile(r";([^/;]+)")
# Paths, and queries behind them, that are spelled in one way only, unless a segment starts with a
# dot. Their escapes are those that `_CHANGING` would leave.
_KEPT_ESCAPE = r"%(?:[01][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF]|[89A-F][0-9A-F])"
_PATH = rf"/?[A-Za-z0-9](?:[A-Za-z0-9/_.~!$&'()*+,=@-]++|{_KEPT_ESCAPE})*+"
_PLAIN_PATH = re.compile(_PATH).fullmatch
_PLAIN = re.compile(rf"({_PATH})\?([A-Za-z0-9_.=&+,:-]*)").fullmatch
# The plainest, many at once: characters and beginnings of such paths, and what is left of absolute
# links without these characters. A second colon is that of a port, or harmless in a path.
_WORD_CHARS = f"{string.ascii_letters}{string.digits}_-"
_PLAIN_CHARS = f"{_WORD_CHARS}/.".encode()
_PLAIN_STARTS = frozenset(["/", *(f"/{char}" for char in _WORD_CHARS)])
_IN_ABSOLUTE = frozenset([b":", b"::"])


@dataclass(frozen=True, slots=True)
class Rejected:
    """A string that is no URL to crawl, and why."""

    reason: str


class Urls:
    """How the URLs of one crawl are spelled, told apart and grouped."""

    def __init__(self, rules: UrlRules | None = None) -> None:
        self.rules = rules or UrlRules()
        self._max_length = self.rules.max_length
        # The web has few names for its parameters.
        self._kind = lru_cache(maxsize=_NAMES_KEPT)(self.rules.dropped.kind)
        self._sorts = self.rules.sort_query
        self._folds = self.rules.fold
        self._by_domain = self.rules.group_by == "domain"
        self.registered_domain = registered_domain if self.rules.private_suffixes else icann_domain
        # Beginnings of URLs ("http://www.example.com") that are canonical as they are.
        self._authorities: set[str] = set()

    def canonical(self, url: str) -> str | Rejected:
        """The one spelling of an absolute URL, or why it is not crawled. Final: it is its own."""
        found = self.spelling(url)
        return found if isinstance(found, Rejected) else found[0]

    def spelling(self, url: str) -> Spelling | Rejected:
        """The same with how it is written."""
        path_at = url.find("/", 8)
        authority, known = url[:path_at], self._authorities
        if authority in known:
            plain = self._plain(authority, url, path_at)
            if plain is not None:
                return plain
        found = self._parsed(url)
        if isinstance(found, Rejected):
            return found
        canonical = found[0]
        if canonical[:path_at] == authority and canonical[path_at] == "/":
            # As it is written it is canonical: most are met again.
            if len(known) >= _AUTHORITIES_KEPT:
                known.clear()
            known.add(authority)
        return found

    def base(self, url: str) -> Base | Rejected:
        """What the links of a page are relative to: its URL as it is written."""
        found = self.spelling(url)
        if isinstance(found, Rejected):
            return found
        canonical, part = found
        return Base(written_url(canonical, part), is_canonical=part[:1] in ("", "?"))

    def _parsed(self, url: str) -> Spelling | Rejected:
        if len(url) > _MAX_READ:
            return Rejected("too_long")
        try:
            parsed = can_ada.parse(url)
        except (ValueError, TypeError):
            # TypeError: a lone surrogate, which no encoding has.
            return Rejected("malformed" if "://" in url else "no_scheme")
        found = parsed.href
        if not found.startswith(("http://", "https://")):
            return Rejected("scheme")
        if "@" in found and parsed.has_credentials():
            return Rejected("credentials")
        if "#" in found:
            found = found[: found.index("#")]
        path_at = found.index("/", 8)
        if (
            found[path_at - 1] == "."
            or ".." in found
            or "//." in found
            or ".:" in found
            or path_at > _MAX_HOST
        ):
            host = _plain_host(parsed.hostname)
            if host is None:
                return Rejected("malformed")
            port = f":{parsed.port}" if parsed.port else ""
            start = f"{parsed.protocol}//{host}{port}"
            found, path_at = start + found[path_at:], len(start)
        if "/." in found or "/%2" in found:
            found = undotted(found, path_at)
        # A search for each is faster than one regular expression for all.
        if (
            "?" in found
            or "%" in found
            or ";" in found
            or "|" in found
            or "[" in found
            or "]" in found
            or "^" in found
        ):
            return self._respelled(found, path_at)
        return (found, "") if len(found) <= self._max_length else Rejected("too_long")

    def resolve(self, base: Base, link: str) -> Spelling | Rejected:
        """The spelling of a link on a page: `spelling(base.join(link))`, but faster."""
        if link.startswith(("http://", "https://")):
            return self.spelling(link)
        found = None
        if link[:1] == "/":
            found = self._plain(base.authority, link, 0)
        elif base.is_canonical:
            found = self._plain(base.folder, link, 0)
        return self.spelling(base.join(link)) if found is None else found

    def _plain(self, before: str, link: str, path_at: int) -> Spelling | Rejected | None:
        """What has one path only behind a beginning that is canonical; None if it may not."""
        if "?" in link:
            plain = _PLAIN(link, path_at)
            if plain is None or "/." in plain[1]:
                return None
            path, query = plain.groups()
            kept = self._query(query)
            found = f"{before}{path}?{kept}" if kept else before + path
            part = "" if query and query == kept else f"?{query}"
        elif _PLAIN_PATH(link, path_at) and "/." not in link:
            found, part = link if path_at else before + link, ""
        else:
            return None
        is_short = len(before) + len(link) - path_at <= self._max_length
        return (found, part) if is_short else Rejected("too_long")

    def resolve_all(
        self, base: Base, links: Sequence[str]
    ) -> tuple[list[str | None], dict[str, str]]:
        """The canonical URL of each link of a page, None for what leads to no other page.

        Then how those are written that are not written so, of several spellings the first. The same
        as by `resolve`, but faster.
        """
        # Which links have other characters than plain ones is found for all of them in one go.
        rests = "\n".join(links).encode(errors="replace").translate(None, _PLAIN_CHARS).split(b"\n")
        longest = max(map(len, links), default=0)
        if len(rests) != len(links) or len(base.authority) + longest > self._max_length:
            # There is one with a line break, or that may be too long, or none at all.
            rests = [b"?"] * len(links)
        found: list[str | None] = []
        others: dict[str, str | None] = {}
        # Place, URL and spelling.
        written: list[tuple[int, str, str]] = []
        add, authority, authorities = found.append, base.authority, self._authorities
        for link, rest in zip(links, rests, strict=True):
            if not rest and link[:2] in _PLAIN_STARTS and "/." not in link:
                add(authority + link)
                continue
            if rest in _IN_ABSOLUTE and "/." not in link:
                path_at = link.find("/", 8)
                if path_at > 0 and link[:path_at] in authorities:
                    add(link)
                    continue
            if link in others:
                add(others[link])
                continue
            spelling = self.resolve(base, link) if link and link[0] != "#" else None
            if spelling is None or isinstance(spelling, Rejected):
                others[link] = None
                add(None)
                continue
            others[link] = url = spelling[0]
            if spelling[1]:
                written.append((len(found), *spelling))
            add(url)
        if not written:
            return found, {}
        first = dict(zip(reversed(found), range(len(found) - 1, -1, -1), strict=True))
        return found, {url: part for place, url, part in written if first[url] == place}

    def _respelled(self, url: str, path_at: int) -> Spelling | Rejected:
        """A parsed URL whose path or query may have more than one spelling."""
        start, location = url[:path_at], url[path_at:]
        if (
            "[" in location
            or "]" in location
            or "|" in location
            or "^" in location
            or "{" in location
            or "}" in location
            or "`" in location
            or "\\" in location
        ):
            location = _OPEN.sub(_encoded, location)
        if path_at + len(location) > self._max_length:
            return Rejected("too_long")
        path, mark, query = location.partition("?")
        if "%" in location and _CHANGING.search(location) is not None:
            path, mark, query = _ESCAPE.sub(_decoded, location).partition("?")
        if ";" in path and path.count(";") <= _PATH_PARAMETERS_READ:
            shorter = _PATH_PARAMETER.sub(self._kept_path_parameter, path)
            if shorter != path:
                found = self.spelling(f"{start}{shorter}{mark}{query}")
                # "/..;jsessionid=1/" has become a dot segment, which servers may see in it: it is
                # resolved for robots.txt too.
                if isinstance(found, Rejected) or _DOTS.search(shorter) is not None:
                    return found
                return found[0], part_of(location, found[0][path_at:])
        query = self._query(query) if query else ""
        spelled = f"{path}?{query}" if query else path
        return start + spelled, part_of(location, spelled)

    def fingerprint(self, url: str, method: str = "GET", body: bytes = b"") -> int:
        """64 bits that stand for a request in URL-seen; folded URLs share theirs."""
        return fingerprint(folded(url, self._folds) if self._folds else url, method, body)

    def fingerprints(self, urls: Iterable[str]) -> list[int]:
        """The same of many URLs that are only got."""
        if self._folds:
            return [fingerprint(folded(url, self._folds)) for url in urls]
        return fingerprints(urls)

    def group_skip(self, url: str) -> int:
        """How many leading characters of a canonical URL's host its politeness group leaves out."""
        return group_skip(url, self.registered_domain) if self._by_domain else 0

    def with_private_suffixes(self, private: bool) -> Urls:
        """The same, with domains by this choice."""
        if private == self.rules.private_suffixes:
            return self
        return Urls(replace(self.rules, private_suffixes=private))

    def _query(self, query: str) -> str:
        """The parameters that make a difference, by name; equal names keep their order."""
        kind_of = self._kind
        if "&" not in query and kind_of(query.partition("=")[0]) == "kept":
            # One parameter, as most queries have.
            return query
        kept, names = [], []
        for part in query.split("&"):
            name, _, value = part.partition("=")
            kind = kind_of(name)
            if part and (kind == "kept" or not (kind == "dropped" or is_session_id(value))):
                kept.append(part)
                names.append(name)
        if self._sorts and len(kept) > 1:
            in_order = sorted(names)
            if in_order != names:
                # Stable: what has the same name stays as it was.
                kept = [kept[i] for i in sorted(range(len(kept)), key=names.__getitem__)]
        return "&".join(kept)

    def _drops(self, name: str, value: str) -> bool:
        kind = self._kind(name)
        return kind == "dropped" or (kind == "session" and is_session_id(value))

    def _kept_path_parameter(self, match: re.Match[str]) -> str:
        name, _, value = match[1].partition("=")
        return "" if self._drops(name, value) else match[0]


def _plain_host(name: str) -> str | None:
    """The host without the dot of a full name; None if it is too long or a part is empty."""
    name = name.removesuffix(".")
    return name if len(name) <= _MAX_HOST and "" not in name.split(".") else None


def undotted(url: str, path_at: int) -> str:
    """A URL without dot segments; the parser leaves them behind a segment such as ".well-known"."""
    path, mark, query = url[path_at:].partition("?")
    if _DOTS.search(path) is None:
        return url
    kept: list[str] = []
    *folders, last = path[1:].split("/")
    for segment in folders:
        if _is_dots(segment, 2):
            del kept[-1:]
        elif not _is_dots(segment, 1):
            kept.append(segment)
    if _is_dots(last, 2):
        del kept[-1:]
    kept.append("" if _is_dots(last, 1) or _is_dots(last, 2) else last)
    return f"{url[:path_at]}/{'/'.join(kept)}{mark}{query}"


def _is_dots(segment: str, number: int) -> bool:
    return segment.lower().replace("%2e", ".") == "." * number


def _decoded(escape: re.Match[str]) -> str:
    text = escape[0].upper()
    return _UNRESERVED.get(text, text)


def _encoded(char: re.Match[str]) -> str:
    return f"%{ord(char[0]):02X}"


MAX_LENGTH = 2048
# What may count as the same URL for URL-seen, though it is fetched as it was found.
FOLDS = ("scheme", "www", "slash", "index", "case")
# What shares one clock: a host, or all hosts of a registered domain.
GROUPS = ("host", "domain")

# As servers make session ids: 26 letters and digits of PHP, 32 of others.
_SESSION_ID = re.compile(r"(?=.*[0-9])[0-9A-Za-z,-]{24,}")
_NOTATION = re.compile(r"[^\s=&*;]+(?:\*|=id)?")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Names of query parameters, in lower case: whole, by their beginning, and if session ids."""

    names: frozenset[str]
    prefixes: tuple[str, ...]
    sessions: frozenset[str]

    @classmethod
    def parse(cls, lines: Iterable[str]) -> Self:
        """Read `name`, `prefix*` and `name=id`; ValueError names a line that is none of them."""
        names, prefixes, sessions = set(), set(), set()
        for line in lines:
            text = line.strip().lower()
            if not text or text.startswith("#"):
                continue
            if not _NOTATION.fullmatch(text):
                raise ValueError(
                    f"{line.strip()!r} is no parameter; write name, prefix* or name=id"
                )
            if text.endswith("*"):
                prefixes.add(text[:-1])
            elif text.endswith("=id"):
                sessions.add(text[:-3])
            else:
                names.add(text)
        return cls(frozenset(names), tuple(sorted(prefixes)), frozenset(sessions))

    def kind(self, name: str) -> str:
        """What a parameter of this name is: "dropped", "session" (if its value is one), "kept"."""
        name = name.lower()
        if name in self.names or name.startswith(self.prefixes):
            return "dropped"
        return "session" if name in self.sessions else "kept"


def is_session_id(value: str) -> bool:
    """Does it look like what servers make up?"""
    return _SESSION_ID.fullmatch(value) is not None


@cache
def dropped_parameters(more: tuple[str, ...] = ()) -> Parameters:
    """The bundled list, and more in its notation."""
    bundled = files(__package__).joinpath("dropped_parameters.txt").read_text(encoding="utf-8")
    return Parameters.parse([*bundled.splitlines(), *more])


@dataclass(frozen=True, slots=True)
class UrlRules:
    """How the URLs of a crawl are spelled, told apart and grouped. The same in every process."""

    max_length: int = MAX_LENGTH
    sort_query: bool = True
    dropped: Parameters = field(default_factory=dropped_parameters)
    fold: frozenset[str] = frozenset()
    group_by: str = "host"
    # Whether domains end below private suffixes too, as github.io. No setting: crawls that began
    # with a version that did not know these go on without.
    private_suffixes: bool = True
