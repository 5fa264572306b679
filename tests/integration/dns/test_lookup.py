"""Questions to a real DNS server on loopback, and the hosts file before it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import dns.message
import dns.rrset
import pytest
from scrapy.exceptions import CannotResolveHostError

from crawler.dns.lookup import DnsFailed, Lookup, NoSuchHost
from crawler.errors import ConfigurationError
from tests.support.dns_server import DnsServer


@pytest.fixture
async def server() -> AsyncIterator[DnsServer]:
    async with DnsServer() as server:
        yield server


def lookup_at(*servers: DnsServer | str, **arguments: Any) -> Lookup:
    names = [server if isinstance(server, str) else server.address for server in servers]
    return Lookup(names, **{"ipv6": True, "try_s": 0.1, "lifetime_s": 0.3, **arguments})


async def test_addresses_of_both_kinds_are_found(server: DnsServer) -> None:
    server.set("a.test", "192.0.2.1", "192.0.2.2", "2001:db8::1")
    answer = await lookup_at(server).ask("a.test")
    assert sorted(answer.addresses) == ["192.0.2.1", "192.0.2.2", "2001:db8::1"]
    assert answer.ttl_s == 300


async def test_without_ipv6_nobody_asks_for_it(server: DnsServer) -> None:
    server.set("a.test", "192.0.2.1", "2001:db8::1")
    assert (await lookup_at(server, ipv6=False).ask("a.test")).addresses == ("192.0.2.1",)
    assert server.asked["a.test", "AAAA"] == 0


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1"])
async def test_a_name_may_have_one_kind_of_address_only(server: DnsServer, address: str) -> None:
    server.set("a.test", address)
    assert (await lookup_at(server).ask("a.test")).addresses == (address,)


async def test_the_shortest_time_of_an_alias_and_its_address_counts(server: DnsServer) -> None:
    server.alias("www.test", "a.test", ttl=7)
    server.set("a.test", "192.0.2.1", ttl=500)
    assert await lookup_at(server, ipv6=False).ask("www.test") is not None
    assert (await lookup_at(server, ipv6=False).ask("www.test")).ttl_s == 7


async def test_a_cut_answer_is_asked_for_again_over_tcp(server: DnsServer) -> None:
    server.set("a.test", "192.0.2.1")
    server.truncated.add("a.test")
    answer = await lookup_at(server, ipv6=False).ask("a.test")
    assert answer.addresses == ("192.0.2.1",)
    assert server.asked_by_tcp == 1


@pytest.mark.parametrize("name", ["nowhere.test", "a..test", "x" * 64 + ".test", "a." * 130 + "b"])
async def test_a_name_that_cannot_be_is_none(server: DnsServer, name: str) -> None:
    with pytest.raises(NoSuchHost):
        await lookup_at(server).ask(name)


@pytest.mark.parametrize("number", ["4294967296", "127.0.0.256", "0x7f.1", "a.test.0xF", "a.0x"])
async def test_what_ends_in_a_number_is_never_asked_for(server: DnsServer, number: str) -> None:
    server.set(number, "192.0.2.1")
    with pytest.raises(NoSuchHost, match="is a number, not a name"):
        await lookup_at(server).ask(number)
    assert server.questions() == 0


async def test_a_name_without_addresses_is_none(server: DnsServer) -> None:
    server.set("a.test")
    with pytest.raises(NoSuchHost, match=r"a\.test has no address"):
        await lookup_at(server).ask("a.test")


@pytest.mark.parametrize("mood", ["servfail", "silent", "truncated", "garbage"])
async def test_no_answer_is_not_the_same_as_no_such_name(server: DnsServer, mood: str) -> None:
    server.mood = mood
    with pytest.raises(DnsFailed, match=r"No answer from DNS for a\.test"):
        await lookup_at(server).ask("a.test")


async def test_a_server_that_is_not_there_gives_no_answer(server: DnsServer) -> None:
    await server.stop()
    with pytest.raises(DnsFailed):
        await lookup_at(server).ask("a.test")


async def test_no_try_lasts_longer_than_all_of_them_may(server: DnsServer) -> None:
    server.mood = "silent"
    async with asyncio.timeout(60):
        with pytest.raises(DnsFailed):
            await lookup_at(server, try_s=600).ask("a.test")


async def test_the_next_server_is_asked_when_one_is_silent(server: DnsServer) -> None:
    server.set("a.test", "192.0.2.1")
    async with DnsServer() as silent:
        silent.mood = "silent"
        answer = await lookup_at(silent, server, ipv6=False, lifetime_s=10).ask("a.test")
    assert answer.addresses == ("192.0.2.1",)


async def test_names_of_this_machine_are_known_without_asking(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("192.0.2.5 Inside.test inside # comment\n#192.0.2.6 not.test\n::1 inside\n")
    lookup = Lookup(["127.0.0.1:9"], hosts_file=hosts)
    assert lookup.local("inside.test") == ("192.0.2.5",)
    assert lookup.local("inside") == ("192.0.2.5", "::1")
    assert lookup.local("not.test") is None
    assert lookup.local("localhost") == lookup.local("a.localhost") == ("127.0.0.1", "::1")


async def test_a_changed_hosts_file_is_read_again(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    lookup = Lookup(["127.0.0.1:9"], hosts_file=hosts)
    assert lookup.local("a.test") is None
    hosts.write_text("192.0.2.5 a.test\n")
    assert lookup.local("a.test") == ("192.0.2.5",)


@pytest.mark.parametrize("server", ["", "dns.test", "192.0.2.1:99999", "192.0.2.1:x"])
def test_a_server_that_is_no_address_is_named(server: str) -> None:
    with pytest.raises(ConfigurationError, match=r"DNS_SERVERS: has .*; write an IP address"):
        Lookup([server])


class Replies(asyncio.DatagramProtocol):
    """A server that sends several replies to each question, as `make` builds them."""

    def __init__(self, make: Callable[[bytes], list[bytes]]) -> None:
        self._make = make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        for reply in self._make(data):
            self._transport.sendto(reply, addr)


@asynccontextmanager
async def replying(make: Callable[[bytes], list[bytes]]) -> AsyncIterator[str]:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Replies(make), local_addr=("127.0.0.1", 0)
    )
    try:
        yield f"127.0.0.1:{transport.get_extra_info('sockname')[1]}"
    finally:
        transport.close()


def reply_to(question: bytes, address: str = "192.0.2.1") -> dns.message.Message:
    reply = dns.message.make_response(dns.message.from_wire(question))
    reply.answer.append(dns.rrset.from_text(reply.question[0].name, 300, "IN", "A", address))
    return reply


async def test_what_answers_another_question_is_not_listened_to() -> None:
    def forged_first(question: bytes) -> list[bytes]:
        other_id = reply_to(question, "192.0.2.66")
        other_id.id ^= 1
        other = dns.message.make_query("other.test", "A", id=int.from_bytes(question[:2]))
        other_name = reply_to(other.to_wire(), "192.0.2.66").to_wire()
        damaged = reply_to(question, "192.0.2.66").to_wire()[:-5]
        forged = [b"", other_id.to_wire(), other_name, question, damaged]
        return [*forged, reply_to(question).to_wire()]

    async with replying(forged_first) as server:
        answer = await lookup_at(server, ipv6=False).ask("a.test")
    assert answer.addresses == ("192.0.2.1",)


async def test_a_damaged_answer_is_none(server: DnsServer) -> None:
    server.set("a.test", "192.0.2.1")
    async with replying(lambda question: [reply_to(question).to_wire()[:-5]]) as damaging:
        with pytest.raises(DnsFailed):
            await lookup_at(damaging, ipv6=False).ask("a.test")
        # Another server may do better.
        answer = await lookup_at(damaging, server, ipv6=False, lifetime_s=10).ask("a.test")
    assert answer.addresses == ("192.0.2.1",)


async def test_aliases_that_lead_in_a_circle_give_no_address() -> None:
    def circle(question: bytes) -> list[bytes]:
        reply = dns.message.make_response(dns.message.from_wire(question))
        for name, to in (("a.test.", "b.test."), ("b.test.", "a.test.")):
            reply.answer.append(dns.rrset.from_text(name, 4, "IN", "CNAME", to))
        return [reply.to_wire()]

    async with replying(circle) as server:
        with pytest.raises(CannotResolveHostError):
            await lookup_at(server, ipv6=False).ask("a.test")
