"""Ask DNS for the addresses of a name: the hosts file first, then name servers, never blocking."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.resolver

from crawler import targets
from crawler.fetch_errors import DnsFailed, NoSuchHost

logger = logging.getLogger(__name__)

_HOSTS_FILE = Path("/etc/hosts")
_LOOPBACK = ("127.0.0.1", "::1")
_PORT = 53
# A server gets this long for one answer, and all of them together for a name.
_TRY_S = 2.0
_LIFETIME_S = 6.0
# Documentation's address: connecting a UDP socket sends nothing, but needs a route.
_SOMEWHERE = ("2001:db8::1", 9)


@dataclass(frozen=True, slots=True)
class Answer:
    """The addresses of a name and how long they may be used."""

    addresses: tuple[str, ...]
    ttl_s: float


class Lookup:
    """`servers` are addresses, "address:port" possible; none of them: the system's."""

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
        # Without a route, addresses of IPv6 would be asked for in vain.
        ipv6 = _routes_ipv6() if ipv6 is None else ipv6
        self._kinds = ("A", "AAAA") if ipv6 else ("A",)
        self._hosts_file = hosts_file
        self._hosts: dict[str, tuple[str, ...]] = {}
        self._hosts_read_at: float | None = None

    def local(self, host: str) -> tuple[str, ...] | None:
        """What is known without asking: the names of this machine."""
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

    async def ask(self, host: str) -> Answer:
        """The addresses of a name, or NoSuchHost, or DnsFailed."""
        asked = [self._ask(host, kind) for kind in self._kinds]
        found = await asyncio.gather(*asked, return_exceptions=True)
        answers = [answer for answer in found if isinstance(answer, Answer)]
        if answers:
            addresses = tuple(address for answer in answers for address in answer.addresses)
            return Answer(addresses, min(answer.ttl_s for answer in answers))
        errors = [error for error in found if isinstance(error, BaseException)]
        # One kind of address is not there, the other was not told: perhaps there is one.
        raise next((error for error in errors if not isinstance(error, NoSuchHost)), errors[0])

    async def _ask(self, host: str, kind: str) -> Answer:
        # The system's search list is for names of one word.
        is_word = "." not in host
        try:
            name = dns.name.from_text(host, None if is_word else dns.name.root)
        except (dns.exception.DNSException, ValueError) as error:
            raise NoSuchHost(f"{host!r} is no name for DNS: {error}") from error
        try:
            answer = await self._resolver.resolve(name, kind, search=is_word)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer) as error:
            raise NoSuchHost(f"{host} has no address") from error
        except (dns.exception.DNSException, OSError, EOFError) as error:
            raise DnsFailed(f"No answer from DNS for {host}: {error}") from error
        addresses = tuple(record.address for record in answer)
        return Answer(addresses, float(answer.chaining_result.minimum_ttl))


def _resolver(servers: list[str]) -> dns.asyncresolver.Resolver:
    if not servers:
        with suppress(dns.resolver.NoResolverConfiguration):
            return dns.asyncresolver.Resolver()
        logger.warning("This system names no DNS server, so 127.0.0.1 is asked; see DNS_SERVERS")
        servers = ["127.0.0.1"]
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = [
        dns.nameserver.Do53Nameserver(address, port or _PORT)
        for address, port in targets.servers(servers)
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
    hosts: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            key = name.lower().removesuffix(".")
            hosts[key] = (*hosts.get(key, ()), address.partition("%")[0])
    return hosts
