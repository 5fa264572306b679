"""Host, authority, registered domain and politeness group of a canonical URL. Pure."""

from __future__ import annotations

from functools import lru_cache

import tldextract

# The bundled list of public suffixes: no network, and the same on every instance.
_extract = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
# Hosts whose domain is remembered: looking one up takes 10 µs or more.
_DOMAINS_KEPT = 20_000


def host_of(url: str) -> str:
    """Host of a canonical URL, with its port where that is not the scheme's own."""
    start = url.index("//") + 2
    return url[start : url.index("/", start)]


def authority_of(url: str) -> str:
    """Scheme and host of a canonical URL: what one robots.txt speaks for."""
    return url[: url.index("/", url.index("//") + 2)]


@lru_cache(maxsize=_DOMAINS_KEPT)
def registered_domain(host: str) -> str:
    """The domain that was registered (example.co.uk of www.example.co.uk), or the host itself."""
    name = _without_port(host)
    found = _extract(name)
    if found.top_domain_under_public_suffix:
        return found.top_domain_under_public_suffix
    if found.suffix or found.ipv4 or name.startswith("["):
        return name
    # A suffix that is not listed, as inside a company: the list's own rule is its last label.
    return ".".join(name.rstrip(".").split(".")[-2:])


def group_skip(url: str) -> int:
    """How much of a URL's host is before its registered domain. A port stays in the group."""
    host = host_of(url)
    return len(_without_port(host)) - len(registered_domain(host))


def _without_port(host: str) -> str:
    return host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
