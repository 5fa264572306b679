"""Judge which addresses a crawler has business with. Pure: no I/O.

Public ones, and those of networks that the user opened. Everything else (loopback, private,
link-local, carrier-grade NAT, multicast, reserved, documentation) is refused, also when it hides
in an IPv6 address.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Network = IPv4Network | IPv6Network

# Prefixes under which an IPv4 address hides in an IPv6 one: translated (RFC 6052), and two older
# forms that nobody should use.
_TRANSLATED = tuple(map(IPv6Network, ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96")))
# Not for the public, whatever the standard library's version says of them: Teredo, local
# translation, documentation, segment routing, site-local, relays of 6to4, protocol assignments; and
# 168.63.129.16, which is public by its number and every machine's own platform in Azure.
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
    """The networks that these texts name, or ValueError."""
    return [ip_network(text, strict=False) for text in texts]


def may_connect(host: str, allowed: Iterable[Network]) -> bool:
    """Whether an address, with or without a scope (%eth0), may be connected to."""
    address = ip_address(host.partition("%")[0])
    if any(address in network for network in allowed):
        return True
    seen = _embedded(address)
    if any(address in network or seen in network for network in _REFUSED):
        return False
    return seen.is_global and not seen.is_multicast and not seen.is_reserved


def literal(host: str) -> str | None:
    """The address that a URL's host is by itself, without brackets; None for a name."""
    text = host.strip("[]").removesuffix(".")
    if text == "localhost" or text.endswith(".localhost"):
        return "127.0.0.1"
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return text


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
