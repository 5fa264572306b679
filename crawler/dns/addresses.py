"""Decide which addresses a crawler may connect to, and parse addresses in settings. Pure."""

import re
from collections.abc import Iterable, Mapping
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from crawler.errors import ConfigurationError

Network = IPv4Network | IPv6Network

# Prefixes of IPv6 addresses that contain an IPv4 address: translated (RFC 6052), and two obsolete
# forms.
_TRANSLATED = tuple(map(IPv6Network, ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96")))
# Refused whatever the standard library says, which varies by version: Teredo, local translation,
# documentation, segment routing, site-local, 6to4 relays, protocol assignments; and 168.63.129.16,
# a public number that in Azure is the platform of the machine itself.
_REFUSED = tuple(
    map(
        ip_network,
        (
            *("2001::/32", "64:ff9b:1::/48", "3fff::/20", "5f00::/16", "fec0::/10"),
            *("192.88.99.0/24", "192.0.0.0/24", "168.63.129.16/32"),
        ),
    )
)


def networks(texts: Iterable[str]) -> list[Network]:
    """Parse networks; raises ValueError."""
    return [ip_network(text, strict=False) for text in texts]


def may_connect(host: str, allowed: Iterable[Network]) -> bool:
    """Return whether an address, with or without a scope (%eth0), may be connected to."""
    address = ip_address(host.partition("%")[0])
    if any(address in network for network in allowed):
        return True
    seen = _embedded(address)
    if any(address in network or seen in network for network in _REFUSED):
        return False
    return seen.is_global and not seen.is_multicast and not seen.is_reserved


def literal(host: str) -> str | None:
    """Return a URL's host without brackets if it is an address, or localhost; None for a name."""
    text = host.strip("[]").removesuffix(".")
    if text == "localhost" or text.endswith(".localhost"):
        return "127.0.0.1"
    return text if is_address(text.partition("%")[0]) else None


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, without brackets."""
    if ":" not in host and not host[-1:].isdigit():
        # Most are names: an address ends with a digit, or has colons.
        return False
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address inside an IPv6 address, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


# 10.0.0.1, 10.0.0.1:80, ::1, [::1], [::1]:80
_TARGET = re.compile(r"(?:\[([^]]+)\]|([^:]+|.*:.*:.*?))(?::(\d{1,5}))?", re.ASCII)
_MAX_PORT = 65_535


def target(setting: str, to: str, name: str | None = None) -> tuple[str, int]:
    """Parse the address and port (0: none) of a setting's value, or of its entry `name`."""
    found = _TARGET.fullmatch(str(to))
    try:
        if found is None:
            raise ValueError
        address, port = str(ip_address(found[1] or found[2])), int(found[3] or 0)
        if port > _MAX_PORT:
            raise ValueError
    except ValueError as error:
        said = f"has {to!r}" if name is None else f"{name!r} points to {to!r}"
        raise ConfigurationError(
            f"{setting}: {said}; write an IP address, or address:port."
        ) from error
    return address, port


def overrides(given: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Parse DNS_OVERRIDES: name or ".suffix" → address and port (0: that of the URL)."""
    return {name.lower(): target("DNS_OVERRIDES", to, name) for name, to in given.items()}


def override_of(overrides: Mapping[str, tuple[str, int]], host: str) -> tuple[str, int] | None:
    """Return the entry for a host: that of its name, or of the longest ".suffix"."""
    name = host
    while True:
        if name in overrides:
            return overrides[name]
        dot = name.find(".", 1)
        if dot < 0:
            return None
        name = name[dot:]


def servers(given: Iterable[str]) -> list[tuple[str, int]]:
    """Parse DNS_SERVERS: addresses and ports (0: the default one)."""
    return [target("DNS_SERVERS", to) for to in given]
