"""Limit the rate of wrong tokens, for each address. Pure: the time is an argument.

An address may send ten wrong tokens at once, and one more every six seconds. Beyond that no token
is looked at, so that a guess that would be right is not noticed. Tokens that were right from this
address before stay right: nobody is locked out by others behind the same proxy.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from crawler.util.recent import RecentDict

WRONG_MAX = 10
INTERVAL_S = 6.0
# An address takes about 500 bytes: some thousands are remembered, then the oldest are forgotten.
_MAX_BYTES = 2 * 1024 * 1024
_RECORD_BYTES = 500
# A network of IPv6 belongs to one user, with all its addresses.
_IPV6_PREFIX = 64


@dataclass(slots=True)
class _Record:
    """Address: when its wrong tokens are forgotten, and names of tokens that were right."""

    forgotten_at_s: float = 0.0
    right: set[str] = field(default_factory=set)


class SignIns:
    """Wrong and right tokens by address, in bounded memory."""

    def __init__(self) -> None:
        self._records: RecentDict[str, _Record] = RecentDict(
            _MAX_BYTES, lambda _address, _record: _RECORD_BYTES
        )

    def wait_s(self, address: str, name: str | None, now_s: float) -> float:
        """Return the seconds until this address may send a token; 0 for now.

        `name` is that of the token that it sent, or None if that is wrong.
        """
        record = self._records.get(_network(address))
        if record is None or name in record.right:
            return 0.0
        return max(0.0, record.forgotten_at_s - now_s - (WRONG_MAX - 1) * INTERVAL_S)

    def failed(self, address: str, now_s: float) -> None:
        """Count a wrong token."""
        record = self._record(address)
        record.forgotten_at_s = max(record.forgotten_at_s, now_s) + INTERVAL_S

    def passed(self, address: str, name: str) -> None:
        """Note that the token of this name was right."""
        self._record(address).right.add(name)

    def _record(self, address: str) -> _Record:
        network = _network(address)
        record = self._records.get(network)
        if record is None:
            record = self._records[network] = _Record()
        return record


def _network(address: str) -> str:
    """Return whom an address belongs to: itself, or its network of IPv6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))
    return str(found)
