"""Host, authority, registered domain and politeness group of a canonical URL. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import cache, lru_cache
from importlib.resources import files

from publicsuffixlist import PublicSuffixList

# Hosts whose domain is remembered: looking one up takes 3 µs.
_DOMAINS_KEPT = 20_000
_LIST_DATE = re.compile(r"^// VERSION: (\d{4}-\d\d-\d\d)", re.MULTILINE)
# Of the list, in which its date is.
_HEAD_CHARS = 2000


def host_of(url: str) -> str:
    """Host of a canonical URL, with its port where that is not the scheme's own."""
    start = url.index("//") + 2
    return url[start : url.index("/", start)]


def authority_of(url: str) -> str:
    """Scheme and host of a canonical URL: what one robots.txt speaks for."""
    return url[: url.index("/", url.index("//") + 2)]


@lru_cache(maxsize=_DOMAINS_KEPT)
def registered_domain(host: str) -> str:
    """The domain that was registered (example.co.uk of www.example.co.uk), or the host itself.

    By the whole list of public suffixes: alice.github.io and bob.github.io are two domains.
    """
    return _domain(host, _suffixes())


@lru_cache(maxsize=_DOMAINS_KEPT)
def icann_domain(host: str) -> str:
    """The same without the list's private suffixes: github.io of alice.github.io."""
    return _domain(host, _suffixes(only_icann=True))


def group_skip(url: str, domain_of: Callable[[str], str] = registered_domain) -> int:
    """How much of a URL's host is before its registered domain. A port stays in the group."""
    host = host_of(url)
    return len(_without_port(host)) - len(domain_of(host))


def suffix_list_date() -> date | None:
    """The date of the list of public suffixes; None if it does not tell."""
    with (
        files("publicsuffixlist").joinpath("public_suffix_list.dat").open(encoding="utf-8") as file
    ):
        found = _LIST_DATE.search(file.read(_HEAD_CHARS))
    return date.fromisoformat(found[1]) if found is not None else None


@cache
def _suffixes(*, only_icann: bool = False) -> PublicSuffixList:
    """The list of the installed package: no network. Reading it takes 40 ms."""
    return PublicSuffixList(only_icann=only_icann)


def _domain(host: str, suffixes: PublicSuffixList) -> str:
    name = _without_port(host)
    if name.endswith("]") or name.rpartition(".")[2].isdigit():
        # An address.
        return name
    return suffixes.privatesuffix(name) or name


def _without_port(host: str) -> str:
    return host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
