"""Read where a setting points to: an address, or an address and a port. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from crawler.errors import ConfigurationError

# 10.0.0.1, 10.0.0.1:80, ::1, [::1], [::1]:80
_TARGET = re.compile(r"(?:\[([^]]+)\]|([^:]+|.*:.*:.*?))(?::(\d{1,5}))?", re.ASCII)
_MAX_PORT = 65_535


def target(setting: str, to: str, name: str | None = None) -> tuple[str, int]:
    """Address and port (0: none given) of a setting's value, or of what `name` stands for in it."""
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
    """DNS_OVERRIDES, read: name or ".suffix" → address and port (0: the URL's own)."""
    return {name.lower(): target("DNS_OVERRIDES", to, name) for name, to in given.items()}


def servers(given: Iterable[str]) -> list[tuple[str, int]]:
    """DNS_SERVERS, read: addresses and ports (0: the usual one)."""
    return [target("DNS_SERVERS", to) for to in given]
