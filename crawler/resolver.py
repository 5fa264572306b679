"""Find the address of a host, and refuse addresses that a crawler has no business with.

`DNS_OVERRIDES` come first, then the system's resolver in a thread. The guard judges the address
that is actually connected to, so a name that points into a private network does not get through.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from crawler.errors import ConfigurationError

# Prefixes under which an IPv4 address hides in an IPv6 one: translated (RFC 6052), and two older
# forms that nobody should use.
_TRANSLATED = tuple(map(IPv6Network, ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96")))
# Not for the public, whatever the standard library's version says of them: local translation,
# documentation, segment routing, site-local.
_REFUSED = tuple(map(IPv6Network, ("64:ff9b:1::/48", "3fff::/20", "5f00::/16", "fec0::/10")))
# 10.0.0.1, 10.0.0.1:80, ::1, [::1], [::1]:80
_TARGET = re.compile(r"(?:\[([^]]+)\]|([^:]+|.*:.*:.*?))(?::(\d{1,5}))?", re.ASCII)
_MAX_PORT = 65_535


class RefusedAddress(OSError):
    """An address in a network that is not crawled."""


class Guard:
    """Judge addresses: public ones pass, and those of allowed networks."""

    def __init__(self, allowed: Iterable[str]) -> None:
        try:
            self._allowed = [ip_network(network, strict=False) for network in allowed]
        except ValueError as error:
            raise ConfigurationError(
                f"ALLOW_NETWORKS: {error}. Write networks such as 127.0.0.0/8."
            ) from error

    def check(self, host: str) -> None:
        """Raise RefusedAddress unless this address may be connected to."""
        address = ip_address(host.partition("%")[0])
        if any(address in network for network in self._allowed):
            return
        seen = _embedded(address)
        refused = any(address in network for network in _REFUSED)
        if refused or not seen.is_global or seen.is_multicast:
            # The same text for every address: a host that has only such ones gives one error.
            raise RefusedAddress(
                "its address is in a private or reserved network; ALLOW_NETWORKS can open it"
            )


class Resolver(AbstractResolver):
    """aiohttp's source of addresses."""

    def __init__(self, overrides: Mapping[str, str]) -> None:
        self._overrides = targets(overrides)
        self._system = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        override = self._override(host.lower().removesuffix("."))
        if override is None:
            return await self._system.resolve(host, port, family)
        address, other_port = override
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=other_port or port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        await self._system.close()

    def _override(self, host: str) -> tuple[str, int] | None:
        name = host
        while True:
            if name in self._overrides:
                return self._overrides[name]
            dot = name.find(".", 1)
            if dot < 0:
                return None
            name = name[dot:]


def targets(overrides: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Address and port of each name in DNS_OVERRIDES, or ConfigurationError."""
    return {name.lower(): _target(name, to) for name, to in overrides.items()}


def _target(name: str, to: str) -> tuple[str, int]:
    """Address and port (0: the URL's own) of an override."""
    found = _TARGET.fullmatch(str(to))
    try:
        if found is None:
            raise ValueError
        address, port = str(ip_address(found[1] or found[2])), int(found[3] or 0)
        if port > _MAX_PORT:
            raise ValueError
    except ValueError as error:
        raise ConfigurationError(
            f"DNS_OVERRIDES: {name!r} points to {to!r}; write an IP address, or address:port."
        ) from error
    return address, port


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside an IPv6 one, where there is one; else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
