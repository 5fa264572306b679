"""Make the links of a page absolute, as browsers do. Pure.

Also the check of a redirect's target before its URL is parsed.
"""

from __future__ import annotations

import re

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
