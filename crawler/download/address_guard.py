"""Keep the crawler out of private networks: judge the address that is connected to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from crawler.dns import addresses
from crawler.errors import ConfigurationError

logger = logging.getLogger(__name__)

# Hosts that get a line in the log; the counter counts all of them.
_HOSTS_SAID = 1000
# The same text for every address: a host that has only such ones gives one error.
_REFUSED = "its address is in a private or reserved network; ALLOW_NETWORKS can open it"


class RefusedAddress(OSError):
    """An address in a network that is not crawled."""

    def __init__(self) -> None:
        super().__init__(_REFUSED)


class Guard:
    """Public addresses pass, and those of allowed networks."""

    def __init__(
        self, allowed: Iterable[str], count: Callable[[str], None] = lambda _: None
    ) -> None:
        try:
            self._allowed = addresses.networks(allowed)
        except ValueError as error:
            raise ConfigurationError(
                f"ALLOW_NETWORKS: {error}. Write networks such as 127.0.0.0/8."
            ) from error
        self._count = count
        self._said: set[str] = set()

    def check(self, address: str) -> None:
        """Raise RefusedAddress unless this address may be connected to."""
        if not addresses.may_connect(address, self._allowed):
            raise RefusedAddress

    def check_literal(self, host: str) -> None:
        """The same for a URL's host; what a name stands for is not asked."""
        address = addresses.literal(host)
        if address is not None:
            self.check(address)

    def refused(self, host: str) -> None:
        """A fetch failed for this reason: count it, and say so once a host."""
        self._count("guard/refused")
        if host not in self._said and len(self._said) < _HOSTS_SAID:
            self._said.add(host)
            logger.warning("%s is not connected to: %s", host, _REFUSED)
