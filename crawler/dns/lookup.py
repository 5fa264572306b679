"""Ask DNS for the addresses of a name: the hosts file first, then name servers, never blocking.

The first server is asked with as little ado as there can be. Where that gives no plain answer, a
whole DNS library goes on: over TCP, at the other servers, by the system's search list.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Iterable
from contextlib import closing, suppress
from copy import copy
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from time import monotonic

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.resolver

from crawler.dns import addresses, message
from crawler.dns.errors import DnsFailed, NoSuchHost
from crawler.util.file_limit import OutOfSockets, is_shortage

logger = logging.getLogger(__name__)

_HOSTS_FILE = Path("/etc/hosts")
_LOOPBACK = ("127.0.0.1", "::1")
_PORT = 53
# A server gets this long for one answer, and all of them together for a name.
_TRY_S = 2.0
_LIFETIME_S = 6.0
_ANSWER_MAX = 4096
# The last part of what is an address in some spelling, or nothing: never a name.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII | re.IGNORECASE)
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
        self._try_s, self._lifetime_s = min(try_s, lifetime_s), lifetime_s
        self._first = _first_server(self._resolver)
        # The first was asked when these are: it is the last to be asked again.
        self._others = copy(self._resolver)
        self._others.nameservers = [
            *self._resolver.nameservers[1:],
            *self._resolver.nameservers[:1],
        ]
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
        if _NUMBER.fullmatch(host.rpartition(".")[2]):
            raise NoSuchHost(f"{host} is a number, not a name")
        if len(self._kinds) == 1:
            return await self._ask(host, self._kinds[0])
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
        started = monotonic()
        found = await self._ask_first(host, kind)
        if found is None:
            lifetime_s = self._lifetime_s - (monotonic() - started)
            return await self._ask_all(host, kind, lifetime_s)
        if not found.addresses:
            raise NoSuchHost(f"{host} has no address")
        return Answer(found.addresses, float(found.ttl_s))

    async def _ask_first(self, host: str, kind: str) -> message.Found | None:
        """What the first server says at once and plainly, or None."""
        # The system's search list is for names of one word.
        if self._first is None or "." not in host:
            return None
        family, server = self._first
        try:
            asked = message.question(host, kind)
            # Each from a port of its own, so that answers are hard to forge.
            with closing(socket.socket(family, socket.SOCK_DGRAM)) as sock:
                sock.setblocking(False)
                sock.connect(server)
                sock.send(asked)
                async with asyncio.timeout(self._try_s):
                    found = None
                    while found is None:
                        answer = await asyncio.get_running_loop().sock_recv(sock, _ANSWER_MAX)
                        found = message.read(answer, asked)
                    return found
        except (OSError, message.NotPlain) as error:
            if is_shortage(error):
                raise OutOfSockets(f"No socket to ask DNS for {host}: {error}") from error
            return None

    async def _ask_all(self, host: str, kind: str, lifetime_s: float) -> Answer:
        is_word = "." not in host
        try:
            name = dns.name.from_text(host, None if is_word else dns.name.root)
        except (dns.exception.DNSException, ValueError) as error:
            raise NoSuchHost(f"{host!r} is no name for DNS: {error}") from error
        try:
            resolver = self._resolver if is_word else self._others
            answer = await resolver.resolve(name, kind, search=is_word, lifetime=lifetime_s)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer) as error:
            raise NoSuchHost(f"{host} has no address") from error
        except (dns.exception.DNSException, OSError, EOFError) as error:
            if any(map(is_shortage, _causes(error))):
                raise OutOfSockets(f"No socket to ask DNS for {host}: {error}") from error
            raise DnsFailed(f"No answer from DNS for {host}: {error}") from error
        addresses = tuple(record.address for record in answer)
        return Answer(addresses, float(answer.chaining_result.minimum_ttl))


def _causes(error: BaseException) -> list[BaseException]:
    """An error, and what the library met at each server that it asked."""
    met = getattr(error, "kwargs", {}).get("errors", ())
    return [error, *(each[3] for each in met if isinstance(each[3], BaseException))]


def _resolver(servers: list[str]) -> dns.asyncresolver.Resolver:
    if not servers:
        with suppress(dns.resolver.NoResolverConfiguration):
            return dns.asyncresolver.Resolver()
        logger.warning("This system names no DNS server, so 127.0.0.1 is asked; see DNS_SERVERS")
        servers = ["127.0.0.1"]
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = [
        dns.nameserver.Do53Nameserver(address, port or _PORT)
        for address, port in addresses.servers(servers)
    ]
    return resolver


def _first_server(
    resolver: dns.asyncresolver.Resolver,
) -> tuple[socket.AddressFamily, tuple[str, int]] | None:
    """The server to begin with, if the system asks for nothing special."""
    if resolver.rotate or resolver.edns >= 0 or not resolver.nameservers:
        return None
    first = resolver.nameservers[0]
    if isinstance(first, dns.nameserver.Do53Nameserver):
        address, port = first.address, first.port
    elif isinstance(first, str):
        address, port = first, resolver.nameserver_ports.get(first, resolver.port)
    else:
        return None
    try:
        family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    except ValueError:
        return None
    return family, (address, port)


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
