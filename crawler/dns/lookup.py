"""Look up the addresses of a name: in the hosts file, then at name servers, without blocking.

dnspython does the work: several servers, retries, truncated answers over TCP, aliases, the search
list of the system. A lookup of one kind of address costs about 0.4 ms of CPU. Its errors are also
Scrapy's own.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import dns.asyncbackend
import dns.asyncresolver
import dns.exception
import dns.flags
import dns.name
import dns.nameserver
import dns.resolver
from scrapy.exceptions import CannotResolveHostError

from crawler.dns import addresses
from crawler.util.file_limit import OutOfSockets, is_shortage

logger = logging.getLogger(__name__)


class NoSuchHost(CannotResolveHostError):
    """Answer of DNS that a name does not exist, or has no address."""


class DnsFailed(CannotResolveHostError):
    """Failure of DNS to answer: the name may exist."""


_HOSTS_FILE = Path("/etc/hosts")
_LOOPBACK = ("127.0.0.1", "::1")
_PORT = 53
# Seconds for one answer of one server, and for all servers together.
_TRY_S = 2.0
_LIFETIME_S = 6.0
# A host whose last part is a number is an address in some spelling, or invalid: never a name.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII | re.IGNORECASE)
# An address for documentation: connecting a UDP socket sends nothing, but needs a route.
_SOMEWHERE = ("2001:db8::1", 9)


class DnsAnswer(NamedTuple):
    """Addresses of a name, and for how many seconds they may be used."""

    addresses: tuple[str, ...]
    ttl_s: float


class Lookup:
    """Lookups at `servers` ("address" or "address:port"), or at those of the system."""

    def __init__(
        self,
        servers: Iterable[str] = (),
        *,
        ipv6: bool | None = None,
        hosts_file: Path = _HOSTS_FILE,
        try_s: float = _TRY_S,
        lifetime_s: float = _LIFETIME_S,
    ) -> None:
        self._resolver = _resolver(list(servers))
        self._resolver.timeout, self._resolver.lifetime = try_s, lifetime_s
        self._backend = dns.asyncbackend.get_backend("asyncio")
        # Without a route to IPv6, its addresses are of no use.
        ipv6 = _routes_ipv6() if ipv6 is None else ipv6
        self._kinds = ("A", "AAAA") if ipv6 else ("A",)
        self._hosts_file = hosts_file
        self._hosts: dict[str, tuple[str, ...]] = {}
        self._hosts_read_at: float | None = None

    def local(self, host: str) -> tuple[str, ...] | None:
        """Return the addresses of a name of this machine; None for other names."""
        if host == "localhost" or host.endswith(".localhost"):
            return _LOOPBACK
        try:
            changed_at = self._hosts_file.stat().st_mtime
            if changed_at != self._hosts_read_at:
                self._hosts = _read_hosts(self._hosts_file.read_text(errors="replace"))
                self._hosts_read_at = changed_at
        except OSError:
            return None
        return self._hosts.get(host)

    async def ask(self, host: str) -> DnsAnswer:
        """Ask DNS for the addresses of a name; raises NoSuchHost or DnsFailed."""
        if _NUMBER.fullmatch(host.rpartition(".")[2]):
            raise NoSuchHost(f"{host} is a number, not a name")
        if len(self._kinds) == 1:
            return await self._ask(host, self._kinds[0])
        asked = [self._ask(host, kind) for kind in self._kinds]
        found = await asyncio.gather(*asked, return_exceptions=True)
        answers = [answer for answer in found if isinstance(answer, DnsAnswer)]
        if answers:
            addresses = tuple(address for answer in answers for address in answer.addresses)
            return DnsAnswer(addresses, min(answer.ttl_s for answer in answers))
        errors = [error for error in found if isinstance(error, BaseException)]
        # If one kind does not exist and the other failed, the name may still have addresses.
        raise next((error for error in errors if not isinstance(error, NoSuchHost)), errors[0])

    async def _ask(self, host: str, kind: str) -> DnsAnswer:
        # The search list of the system is for names of one word.
        is_word = "." not in host
        try:
            name = dns.name.from_text(host, None if is_word else dns.name.root)
        except (dns.exception.DNSException, ValueError) as error:
            raise NoSuchHost(f"{host!r} is not a valid name: {error}") from error
        try:
            answer = await self._resolver.resolve(name, kind, search=is_word, backend=self._backend)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer) as error:
            if _is_cut(error):
                raise DnsFailed(f"No answer from DNS for {host}: it is cut over TCP too") from error
            raise NoSuchHost(f"{host} has no address") from error
        except (dns.exception.DNSException, OSError, EOFError) as error:
            if any(map(is_shortage, _causes(error))):
                raise OutOfSockets(f"No socket to ask DNS for {host}: {error}") from error
            raise DnsFailed(f"No answer from DNS for {host}: {error}") from error
        addresses = tuple(record.address for record in answer)
        return DnsAnswer(addresses, float(answer.chaining_result.minimum_ttl))


def _is_cut(error: Exception) -> bool:
    """Tell whether an answer without addresses lacks a part, in which there may be some."""
    response = getattr(error, "kwargs", {}).get("response")
    return response is not None and bool(response.flags & dns.flags.TC)


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error of dnspython and those of each server that it asked."""
    met = getattr(error, "kwargs", {}).get("errors", ())
    return [error, *(each[3] for each in met if isinstance(each[3], BaseException))]


def _resolver(servers: list[str]) -> dns.asyncresolver.Resolver:
    if not servers:
        with suppress(dns.resolver.NoResolverConfiguration):
            return dns.asyncresolver.Resolver()
        logger.warning("This system has no DNS server, so 127.0.0.1 is asked; see DNS_SERVERS")
        servers = ["127.0.0.1"]
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = [
        dns.nameserver.Do53Nameserver(address, port or _PORT)
        for address, port in addresses.servers(servers)
    ]
    return resolver


def _routes_ipv6() -> bool:
    if not socket.has_ipv6:
        return False
    try:
        with closing(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as sock:
            sock.connect(_SOMEWHERE)
    except OSError:
        return False
    return True


def _read_hosts(text: str) -> dict[str, tuple[str, ...]]:
    hosts: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            key = name.lower().removesuffix(".")
            hosts.setdefault(key, []).append(address.partition("%")[0])
    return {name: tuple(found) for name, found in hosts.items()}
