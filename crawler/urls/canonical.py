"""The canonical form of a URL: a browser's parser, and rules for what it leaves open. Pure, total.

The rules are UrlRules; dropped_parameters.txt lists parameters that are dropped. `Base` makes the
links of a page absolute, as browsers do. `fingerprint` identifies requests in URL-seen.

A URL is fetched, and checked against robots.txt, as it is written: with all parameters in their
order. Scheme, host and port are those of the canonical form, and there are no dot segments. How a
URL is written is found on the way, and kept in few characters:

    (empty)       as the canonical form
    ?b=1&a=2      another query
    %             no query, and all escapes in lower case, as most sites in other scripts have them
    /p;sid=1?b    another path, with its query
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, lru_cache
from importlib.resources import files
from typing import Self
from urllib.parse import urlsplit

import can_ada
import xxhash
from publicsuffixlist import PublicSuffixList

# A canonical URL, and how it was written.
Spelling = tuple[str, str]

# Longer texts are not parsed: no real address has a fragment or blanks of this size.
_MAX_READ = 65_536
_NAMES_KEPT = 4096
_AUTHORITIES_KEPT = 20_000
_HOSTNAMES_KEPT = 5000
# The longest name in DNS.
_MAX_HOST = 253
# Not after half an escape, which decoding would complete: "%%34%31" is not "%41".
_ESCAPE = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])%[0-9A-Fa-f]{2}")
# Escapes that change: with small letters, or of characters that need none. A URL without them is
# left alone. The base of a page may have hundreds of escapes and precedes each of its links.
_CHANGING = re.compile(
    r"%(?:[0-9A-Fa-f][a-f]|[a-f][0-9A-Fa-f]|2[DE]|3[0-9]|[46][1-9A-F]|5[0-9AF]|7[0-9AE])"
)
_UNRESERVED = {
    f"%{ord(char):02X}": char
    for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
}
# Browsers leave these as they are, but Scrapy escapes them in requests.
_OPEN = re.compile(r"[\[\]^`{|}\\]")
_DOTS = re.compile(r"/(?:\.|%2[eE]){1,2}(?=/|$)")
# Paths with more path parameters are left as they are.
_PATH_PARAMETERS_READ = 20
_PATH_PARAMETER = re.compile(r";([^/;]+)")
# Paths, and queries after them, that are canonical as they are, unless a segment starts with a dot.
# Their escapes are those that `_CHANGING` does not match.
_KEPT_ESCAPE = r"%(?:[01][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF]|[89A-F][0-9A-F])"
_PATH = rf"/?[A-Za-z0-9](?:[A-Za-z0-9/_.~!$&'()*+,=@-]++|{_KEPT_ESCAPE})*+"
_PLAIN_PATH = re.compile(_PATH).fullmatch
_PLAIN = re.compile(rf"({_PATH})\?([A-Za-z0-9_.=&+,:-]*)").fullmatch
# For the plainest links, many at once: the characters and beginnings of such paths, and what
# remains of absolute links without these characters. A second colon is for a port or in a path.
_WORD_CHARS = f"{string.ascii_letters}{string.digits}_-"
_PLAIN_CHARS = f"{_WORD_CHARS}/.".encode()
_PLAIN_STARTS = frozenset(["/", *(f"/{char}" for char in _WORD_CHARS)])
_IN_ABSOLUTE = frozenset([b":", b"::"])


@dataclass(frozen=True, slots=True)
class Rejected:
    """Reason why a text is not a URL to crawl."""

    reason: str


class Urls:
    """URL rules of one crawl: canonical form, identity and politeness groups."""

    def __init__(self, rules: UrlRules | None = None) -> None:
        self.rules = rules or UrlRules()
        self._max_length = self.rules.max_length
        # The names of parameters on the web are few.
        self._kind = lru_cache(maxsize=_NAMES_KEPT)(self.rules.dropped.kind)
        self._sorts = self.rules.sort_query
        self._folds = self.rules.fold
        self._by_domain = self.rules.group_by == "domain"
        self.registered_domain = registered_domain if self.rules.private_suffixes else icann_domain
        # Scheme and host ("http://www.example.com") of URLs that are canonical as they are.
        self._authorities: set[str] = set()

    def canonical(self, url: str) -> str | Rejected:
        """Return the canonical form of an absolute URL, which is its own canonical form."""
        found = self.spelling(url)
        return found if isinstance(found, Rejected) else found[0]

    def spelling(self, url: str) -> Spelling | Rejected:
        """Return the canonical form of an absolute URL, and how it is written."""
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
            # Remember the authority, which is canonical as written: most are met again.
            if len(known) >= _AUTHORITIES_KEPT:
                known.clear()
            known.add(authority)
        return found

    def base(self, url: str) -> Base | Rejected:
        """Make the base for the links of a page: its URL as it is written."""
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
            # TypeError: a lone surrogate.
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
        # One search for each is faster than a regular expression for all.
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
        """Do the same as `spelling(base.join(link))`, but faster."""
        if link.startswith(("http://", "https://")):
            return self.spelling(link)
        found = None
        if link[:1] == "/":
            found = self._plain(base.authority, link, 0)
        elif base.is_canonical:
            found = self._plain(base.folder, link, 0)
        return self.spelling(base.join(link)) if found is None else found

    def _plain(self, before: str, link: str, path_at: int) -> Spelling | Rejected | None:
        """Append a path to a canonical beginning; None if the path needs a parser."""
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
        """Do the same as `resolve` for all links of a page, but faster.

        Returns the canonical URL of each link, None for links to no other page; and how URLs are
        written that are not written in canonical form, of several spellings the first.
        """
        # One call finds the unusual characters of all links.
        unusual = (
            "\n".join(links).encode(errors="replace").translate(None, _PLAIN_CHARS).split(b"\n")
        )
        longest = max(map(len, links), default=0)
        if len(unusual) != len(links) or len(base.authority) + longest > self._max_length:
            # A link has a line break or may be too long, or there is no link.
            unusual = [b"?"] * len(links)
        found: list[str | None] = []
        others: dict[str, str | None] = {}
        # Position, canonical URL, and how it is written.
        written: list[tuple[int, str, str]] = []
        add, authority, authorities = found.append, base.authority, self._authorities
        for link, others_of in zip(links, unusual, strict=True):
            if not others_of and link[:2] in _PLAIN_STARTS and "/." not in link:
                add(authority + link)
                continue
            if others_of in _IN_ABSOLUTE and "/." not in link:
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
        """Normalise the path and query of a parsed URL."""
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
                # "/..;jsessionid=1/" has become a dot segment. Servers may see it as one, so it is
                # resolved for robots.txt too.
                if isinstance(found, Rejected) or _DOTS.search(shorter) is not None:
                    return found
                return found[0], part_of(location, found[0][path_at:])
        query = self._query(query) if query else ""
        spelled = f"{path}?{query}" if query else path
        return start + spelled, part_of(location, spelled)

    def fingerprint(self, url: str, method: str = "GET", body: bytes = b"") -> int:
        """Compute 64 bits that identify a request in URL-seen; folded URLs share theirs."""
        return fingerprint(folded(url, self._folds) if self._folds else url, method, body)

    def fingerprints(self, urls: Iterable[str]) -> list[int]:
        """Compute the fingerprints of GET requests for many URLs."""
        if self._folds:
            return [fingerprint(folded(url, self._folds)) for url in urls]
        digest = xxhash.xxh3_64_intdigest
        return [digest(b"GET %b\n" % url.encode()) for url in urls]

    def group_skip(self, url: str) -> int:
        """Count the leading characters of a URL's host that are not in its politeness group."""
        return group_skip(url, self.registered_domain) if self._by_domain else 0

    def with_private_suffixes(self, private: bool) -> Urls:
        """Return the same rules with or without private suffixes."""
        if private == self.rules.private_suffixes:
            return self
        return Urls(replace(self.rules, private_suffixes=private))

    def _query(self, query: str) -> str:
        """Keep the parameters that matter, sorted by name; equal names keep their order."""
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
                # Stable: parameters of the same name stay in order.
                kept = [kept[i] for i in sorted(range(len(kept)), key=names.__getitem__)]
        return "&".join(kept)

    def _drops(self, name: str, value: str) -> bool:
        kind = self._kind(name)
        return kind != "kept" and (kind == "dropped" or is_session_id(value))

    def _kept_path_parameter(self, match: re.Match[str]) -> str:
        name, _, value = match[1].partition("=")
        return "" if self._drops(name, value) else match[0]


def _plain_host(name: str) -> str | None:
    """Remove the final dot of a host; None if it is too long or a label is empty."""
    name = name.removesuffix(".")
    return name if len(name) <= _MAX_HOST and "" not in name.split(".") else None


def undotted(url: str, path_at: int) -> str:
    """Resolve dot segments; the parser leaves those after a segment such as ".well-known"."""
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
# Differences that URL-seen may ignore; URLs are still fetched as they were found.
FOLDS = ("scheme", "www", "slash", "index", "case")
# What has one politeness clock: a host, or all hosts of a registered domain.
GROUPS = ("host", "domain")

# Session ids of servers: PHP's have 26 letters and digits, others 32.
_SESSION_ID = re.compile(r"(?=.*[0-9])[0-9A-Za-z,-]{24,}")
_NOTATION = re.compile(r"[^\s=&*;]+(?:\*|=id)?")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Names of dropped query parameters, in lower case.

    `sessions` are dropped only if their values look like session ids.
    """

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
        """Classify a name: "dropped", "session" (dropped if its value is an id) or "kept"."""
        name = name.lower()
        if name in self.names or name.startswith(self.prefixes):
            return "dropped"
        return "session" if name in self.sessions else "kept"


def is_session_id(value: str) -> bool:
    """Whether a value looks like a session id."""
    return _SESSION_ID.fullmatch(value) is not None


@cache
def dropped_parameters(more: tuple[str, ...] = ()) -> Parameters:
    """Read the bundled list, and more lines in its notation."""
    bundled = files(__package__).joinpath("dropped_parameters.txt").read_text(encoding="utf-8")
    return Parameters.parse([*bundled.splitlines(), *more])


@dataclass(frozen=True, slots=True)
class UrlRules:
    """Options of Urls. Every process of a crawl must have the same."""

    max_length: int = MAX_LENGTH
    sort_query: bool = True
    dropped: Parameters = field(default_factory=dropped_parameters)
    fold: frozenset[str] = frozenset()
    group_by: str = "host"
    # Whether private suffixes such as github.io count. Not a setting: crawls that began with a
    # version without them go on without.
    private_suffixes: bool = True


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
# Characters that browsers remove around a link, and inside it.
_BLANKS = "".join(map(chr, range(0x21)))
_LINE_BREAKS = re.compile(r"[\t\r\n]")


class Base:
    """Base URL of relative links. Its scheme and host are canonical.

    `is_canonical` says whether its path is canonical too.
    """

    __slots__ = ("_page", "_path", "_scheme", "authority", "folder", "is_canonical")

    def __init__(self, url: str, *, is_canonical: bool = True) -> None:
        self._page = url.partition("#")[0]
        self._path = self._page.partition("?")[0]
        self.folder = self._path[: self._path.rindex("/") + 1]
        self.authority = url[: url.index("/", url.index("//") + 2)]
        self._scheme = url[: url.index(":")]
        self.is_canonical = is_canonical

    def join(self, link: str) -> str:
        """Make a link of the page absolute."""
        if link.startswith(("http://", "https://")):
            return link
        first = link[:1]
        # Most links begin with a letter or digit and need no further checks.
        if first == "/" and link[1:2].isalnum():
            return self.authority + link
        if first.isalnum() and ":" not in link:
            return self.folder + link
        return self._join_any(link)

    def _join_any(self, link: str) -> str:
        link = _LINE_BREAKS.sub("", link.strip(_BLANKS))
        scheme = _SCHEME.match(link)
        if scheme is not None:
            rest = link[scheme.end() :]
            if rest.startswith("//") or scheme[1].lower() != self._scheme:
                return link
            link = rest  # "http:page" on an http page is a relative link
        first, second = link[:1], link[1:2]
        if first in ("", "#"):
            return self._page
        if first == "?":
            return self._path + link
        if first not in ("/", "\\"):
            return self.folder + link
        if second in ("/", "\\"):
            return f"{self._scheme}:{link}"
        return self.authority + link


# Longer than any name with a user and a port. Parsing a longer one takes seconds.
_AUTHORITY_MAX = 1000
_AUTHORITY = re.compile(rb"\s*(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?[/\\]{2}([^/\\?#]*)")


def leads_nowhere(location: bytes) -> bool:
    """Whether the host of a Location header is longer than any name."""
    found = _AUTHORITY.match(location)
    return found is not None and len(found[1]) > _AUTHORITY_MAX


LOWER_ESCAPES = "%"
_ANY_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UPPER_ESCAPE = re.compile(r"%(?:[A-F]|[0-9a-f][A-F])")


def part_of(location: str, canonical: str) -> str:
    """Return what must be kept of a path with query, in addition to its canonical form."""
    if location == canonical:
        return ""
    path, mark, query = location.partition("?")
    if path == canonical.partition("?")[0]:
        return mark + query
    if not mark and location.lower() == canonical.lower() and not _UPPER_ESCAPE.search(location):
        return LOWER_ESCAPES
    return location


def written_url(canonical: str, part: str) -> str:
    """Restore the URL as written from its canonical form and the kept part."""
    if not part:
        return canonical
    if part[0] == "?":
        return canonical.partition("?")[0] + part
    if part == LOWER_ESCAPES:
        return _ANY_ESCAPE.sub(_lower, canonical)
    return canonical[: canonical.index("/", 8)] + part


def with_fragment(canonical: str, part: str, fragment: str) -> str:
    """Add a fragment, which spiders want, to the kept part; not if nothing else is kept."""
    if not part or not fragment:
        return part
    if part == LOWER_ESCAPES:
        part = written_url(canonical, part)[canonical.index("/", 8) :]
    return f"{part}#{fragment}"


def _lower(escape: re.Match[str]) -> str:
    return escape[0].lower()


# Used as a method, so that a sitemap is read even if its URL was fetched as a page.
SITEMAP = "SITEMAP"
_INDEX = re.compile(r"/(?:index|default)\.(?:html?|xhtml|php|aspx?|jsp|cgi)$", re.IGNORECASE)


def fingerprint(url: str, method: str = "GET", body: bytes = b"") -> int:
    """Compute 64 bits that identify a request: its method, canonical URL and body."""
    if method == "GET" and not body:
        return xxhash.xxh3_64_intdigest(b"GET %b\n" % url.encode())
    return xxhash.xxh3_64_intdigest(f"{method} {url}\n".encode() + body)


def folded(url: str, folds: AbstractSet[str]) -> str:
    """Make similar canonical URLs equal; the result is for fingerprints only.

    scheme: http and https.  www: with or without www.  slash: with or without one at the end.
    index: /index.html and its like, and their folder.  case: of the path and query.
    """
    location, mark, query = url.partition("?")
    scheme, _, rest = location.partition("://")
    host, _, path = rest.partition("/")
    if "scheme" in folds:
        scheme = "http"
    if "www" in folds:
        host = host.removeprefix("www.")
    path = "/" + path
    if "index" in folds:
        path = _INDEX.sub("/", path)
    if "slash" in folds:
        path = path.rstrip("/")
    if "case" in folds:
        path, query = path.lower(), query.lower()
    return f"{scheme}://{host}{path}{mark}{query}"


# Hosts whose domain is cached: computing it takes 3 µs.
_DOMAINS_KEPT = 20_000
_LIST_DATE = re.compile(r"^// VERSION: (\d{4}-\d\d-\d\d)", re.MULTILINE)
# The beginning of the list, which has its date.
_HEAD_CHARS = 2000


def host_of(url: str) -> str:
    """Return the host of a canonical URL, with its port unless that is the scheme's default."""
    start = url.index("//") + 2
    return url[start : url.index("/", start)]


def hostname_of(url: str) -> str:
    """Return the host of any URL as `urlsplit` does: in lower case, without port and brackets."""
    path_at = url.find("/", 8)
    if 0 < path_at <= _MAX_HOST:
        return _hostname(url[:path_at])
    return urlsplit(url).hostname or ""


@lru_cache(maxsize=_HOSTNAMES_KEPT)
def _hostname(authority: str) -> str:
    return urlsplit(authority).hostname or ""


def authority_of(url: str) -> str:
    """Return scheme and host of a canonical URL, for which one robots.txt holds."""
    return url[: url.index("/", url.index("//") + 2)]


@lru_cache(maxsize=_DOMAINS_KEPT)
def registered_domain(host: str) -> str:
    """Return the registered domain (example.co.uk of www.example.co.uk), or the host itself.

    With the private suffixes of the list: alice.github.io and bob.github.io are two domains.
    """
    return _domain(host, _suffixes())


@lru_cache(maxsize=_DOMAINS_KEPT)
def icann_domain(host: str) -> str:
    """Return the registered domain without private suffixes: github.io of alice.github.io."""
    return _domain(host, _suffixes(only_icann=True))


def group_skip(url: str, domain_of: Callable[[str], str] = registered_domain) -> int:
    """Count the characters of a URL's host before its registered domain."""
    host = host_of(url)
    return len(_without_port(host)) - len(domain_of(host))


def suffix_list_date() -> date | None:
    """Read the date of the list of public suffixes; None if it has none."""
    with (
        files("publicsuffixlist").joinpath("public_suffix_list.dat").open(encoding="utf-8") as file
    ):
        found = _LIST_DATE.search(file.read(_HEAD_CHARS))
    return date.fromisoformat(found[1]) if found is not None else None


@cache
def _suffixes(*, only_icann: bool = False) -> PublicSuffixList:
    """Read the list of the installed package, without the network. Takes 40 ms."""
    return PublicSuffixList(only_icann=only_icann)


def _domain(host: str, suffixes: PublicSuffixList) -> str:
    name = _without_port(host)
    if name.endswith("]") or name.rpartition(".")[2].isdigit():
        # An IP address.
        return name
    return suffixes.privatesuffix(name) or name


def _without_port(host: str) -> str:
    return host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
