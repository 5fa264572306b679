"""Keys of URLs in CDXJ indexes (SURT), as replay tools make them. Pure.

    https://www.Example.com:443/A/?b=2&a=1  →  com,example)/a?a=1&b=2

The host is reversed, everything is in lower case, parameters are sorted, and what leads to the same
page is left out: www, the usual port, a slash at the end, the fragment, session identifiers.
"""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import quote_from_bytes, unquote_to_bytes

_PARTS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/?#@]*@)?(?P<host>\[[^\]/?#]*\]|[^/?#:]*)"
    r"(?::(?P<port>[0-9]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?",
    re.IGNORECASE | re.DOTALL,
)
# What needs neither unescaping nor escaping.
_PLAIN = re.compile(r"[\w.~!$&'()*+,;=:@/-]*", re.ASCII)
# Dots and empty segments.
_UNCLEAN = re.compile(r"//|/\.\.?(?:/|$)")
_ESCAPED = re.compile(rb"%[0-9a-fA-F]{2}")
_KEPT = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_WWW = re.compile(r"\Awww[0-9]*\.")
_PORTS = {"http": "80", "https": "443"}
_IN_PATH = (
    re.compile(r"(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/(?=[^?]+\.aspx)"),
    re.compile(r"(.*/)\([0-9a-z]{24}\)/(?=[^?]+\.aspx)"),
)
# Of several, the last one.
_IN_QUERY = (
    re.compile(r"(.*)(?:jsessionid|phpsessid)=[0-9a-z]{32}(?:&|$)"),
    re.compile(r"(.*)sid=[0-9a-z]{32}(?:&|$)"),
    re.compile(r"(.*)aspsessionid[a-z]{8}=[a-z]{24}(?:&|$)"),
    re.compile(r"(.*)cfid=[^&]{1,99}&cftoken=[^&]{1,99}(?:&|$)"),
)


def surt(url: str) -> str:
    """Return the key of a URL."""
    found = _PARTS.fullmatch(url.strip())
    if found is None:
        return _escaped(url).lower()
    scheme, host, port, path, query = (part or "" for part in found.groups())
    name = _reversed(_WWW.sub("", host.lower().strip("."), count=1)).replace(" ", "%20")
    if port and port != _PORTS.get(scheme.lower()):
        name += f":{port}"
    path = path if _PLAIN.fullmatch(path) else _escaped(path)
    if _UNCLEAN.search(path):
        path = _cleaned(path)
    path = path.lower()
    if "(" in path:
        path = _without(path, _IN_PATH)
    key = f"{name}){path.rstrip('/') or '/'}"
    if query:
        query = (query if _PLAIN.fullmatch(query) else _escaped(query)).lower()
        if "id=" in query or "sessionid" in query:
            query = _without(query, _IN_QUERY)
        values = sorted(query.split("&"), key=lambda value: value.split("=", 1))
        query = "&".join(values)
    return f"{key}?{query}" if query else key


def _reversed(host: str) -> str:
    if host.startswith("["):
        return host.strip("[]")
    if not host.isascii():
        with suppress(UnicodeError):
            host = host.encode("idna").decode("ascii")
    return ",".join(reversed(host.split(".")))


def _escaped(text: str) -> str:
    """Undo all escapes, and escape again what must be."""
    data = text.encode("utf-8", "surrogatepass")
    while _ESCAPED.search(data):
        undone = unquote_to_bytes(data)
        if undone == data:
            break
        data = undone
    return quote_from_bytes(data, safe=_KEPT)


def _cleaned(path: str) -> str:
    """Resolve "." and "..", as far as there is something above, and leave empty segments out."""
    found: list[str] = []
    for segment in path.removeprefix("/").split("/"):
        if segment == ".." and found:
            found.pop()
        elif segment != ".":
            found.append(segment)
    return "/" + "/".join(filter(None, found))


def _without(text: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    for pattern in patterns:
        if found := pattern.match(text):
            text = found[1] + text[found.end() :]
    return text
