"""Keep the crawler out of private networks: check each address before it is connected to."""

import logging
from collections.abc import Callable, Iterable

from crawler.dns import addresses
from crawler.errors import ConfigurationError

logger = logging.getLogger(__name__)

# Hosts that get a line in the log. The counter counts all of them.
_HOSTS_LOGGED_MAX = 1000
# The same text for every address, so that a host with several of them gives one error.
_REFUSED = "its address is in a private or reserved network; ALLOW_NETWORKS can open it"


class RefusedAddress(OSError):
    """Error for an address in a network that is not crawled."""

    def __init__(self) -> None:
        super().__init__(_REFUSED)


class Guard:
    """Guard that accepts public addresses and those of allowed networks."""

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
        self._logged: set[str] = set()

    def check(self, address: str) -> None:
        """Raise RefusedAddress unless an address may be connected to."""
        if not addresses.may_connect(address, self._allowed):
            raise RefusedAddress

    def check_literal(self, host: str) -> None:
        """Check a URL's host if it is an address; names are not looked up."""
        address = addresses.literal(host)
        if address is not None:
            self.check(address)

    def refused(self, host: str) -> None:
        """Count a fetch that was refused, and log each host once."""
        self._count("guard/refused")
        if host not in self._logged and len(self._logged) < _HOSTS_LOGGED_MAX:
            self._logged.add(host)
            logger.warning("%s is not connected to: %s", host, _REFUSED)
