"""Host, authority, registered domain and politeness group of a canonical URL. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import cache, lru_cache
from importlib.resources import files

from publicsuffixlist import PublicSuffixList

# Hosts whose domain is cached: computing it takes 3 µs.
_DOMAINS_KEPT = 20_000
_LIST_DATE = re.compile(r"^// VERSION: (\d{4}-\d\d-\d\d)", re.MULTILINE)
# The beginning of the list, which has its date.
_HEAD_CHARS = 2000


def host_of(url: str) -> str:
    """Return the host of a canonical URL, with its port unless that is the scheme's default."""
    start = url.index("//") + 2
    return url[start : url.index("/", start)]


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
