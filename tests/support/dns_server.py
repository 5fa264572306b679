"""A small DNS server on loopback that answers as it is told, over UDP and TCP.

async with DnsServer() as dns:
    dns.set("a.test", "192.0.2.1", ttl=300)
    dns.mood = "servfail"
"""

import asyncio
from collections import Counter
from contextlib import suppress
from ipaddress import ip_address
from types import TracebackType

from dnslib import AAAA, CNAME, QTYPE, RCODE, RR, A, DNSRecord

# What it does with every question: answer; say SERVFAIL, or that the name does not exist; say
# nothing; cut every answer, over TCP too; send what is no answer, or send addresses of nobody.
MOODS = ("answers", "servfail", "nxdomain", "silent", "truncated", "garbage", "wrong")
# Nothing listens there.
_NOBODY = "127.255.255.1"


class DnsServer:
    """Names that it was not told of do not exist."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.mood = "answers"
        # Names with a mood of their own.
        self.moods: dict[str, str] = {}
        # Seconds before each answer.
        self.delay_s = 0.0
        # Names whose answers are cut over UDP, so that the client asks again over TCP.
        self.truncated: set[str] = set()
        # Names that get SERVFAIL, whatever the mood.
        self.broken: set[str] = set()
        # (name, type) → questions, and those that came over TCP.
        self.asked: Counter[tuple[str, str]] = Counter()
        self.asked_by_tcp = 0
        self.most_at_once = 0
        self._at_once = 0
        self._records: dict[str, list[tuple[str, int]]] = {}
        self._aliases: dict[str, tuple[str, int]] = {}
        self._udp: asyncio.DatagramTransport | None = None
        self._tcp: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def set(self, name: str, *addresses: str, ttl: int = 300) -> None:
        """The addresses of a name from now on; "*" is for all names that are not set."""
        self._records[name] = [(address, ttl) for address in addresses]

    def alias(self, name: str, to: str, ttl: int = 300) -> None:
        self._aliases[name] = (to, ttl)

    def forget(self, name: str) -> None:
        self._records.pop(name, None)

    def questions(self, name: str | None = None) -> int:
        """How often it was asked, for one name or altogether."""
        return sum(n for (asked, _), n in self.asked.items() if name in (None, asked))

    # -------------------------------------------------------------------------------------------

    def reply(self, question: bytes, *, tcp: bool) -> bytes:
        asked = DNSRecord.parse(question)
        name, kind = str(asked.q.qname).rstrip(".").lower(), QTYPE[asked.q.qtype]
        self.asked[name, kind] += 1
        self.asked_by_tcp += tcp
        reply, mood = asked.reply(), self.moods.get(name, self.mood)
        if mood == "garbage":
            return question[:2] + bytes(range(255, 205, -1))
        if mood == "nxdomain":
            reply.header.rcode = RCODE.NXDOMAIN
            return bytes(reply.pack())
        if mood == "servfail" or name in self.broken:
            reply.header.rcode = RCODE.SERVFAIL
            return bytes(reply.pack())
        if mood == "truncated" or (not tcp and name in self.truncated):
            reply.header.tc = 1
            return bytes(reply.pack())
        if name in self._aliases:
            to, ttl = self._aliases[name]
            reply.add_answer(RR(name, QTYPE.CNAME, rdata=CNAME(to), ttl=ttl))
            name = to
        records = self._records.get(name, self._records.get("*"))
        if records is None:
            reply.header.rcode = RCODE.NXDOMAIN
            return bytes(reply.pack())
        if mood == "wrong":
            records = [(_NOBODY, ttl) for _, ttl in records]
        for address, ttl in records:
            is_six = ":" in address
            if is_six == (kind == "AAAA"):
                data = AAAA(tuple(ip_address(address).packed)) if is_six else A(address)
                reply.add_answer(RR(name, asked.q.qtype, rdata=data, ttl=ttl))
        return bytes(reply.pack())

    async def _answer(self, question: bytes, *, tcp: bool = False) -> bytes | None:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if self.mood == "silent":
                self.asked["", "silence"] += 1
                return None
            return self.reply(question, tcp=tcp)
        finally:
            self._at_once -= 1

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tcp = await asyncio.start_server(self._serve_tcp, "127.0.0.1", self.port)
        self.port = self._tcp.sockets[0].getsockname()[1]
        self._udp, _ = await loop.create_datagram_endpoint(
            lambda: _Udp(self), local_addr=("127.0.0.1", self.port)
        )

    async def stop(self) -> None:
        """Close the ports: questions are refused from now on."""
        for task in list(self._tasks):
            task.cancel()
        if self._udp is not None:
            self._udp.close()
        if self._tcp is not None:
            self._tcp.close()

    async def _serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            size = int.from_bytes(await reader.readexactly(2))
            answer = await self._answer(await reader.readexactly(size), tcp=True)
            if answer is not None:
                writer.write(len(answer).to_bytes(2) + answer)
                await writer.drain()
        writer.close()

    def serve_udp(self, question: bytes, client: tuple[str, int]) -> None:
        async def answer() -> None:
            found = await self._answer(question)
            if found is not None and self._udp is not None:
                self._udp.sendto(found, client)

        task = asyncio.get_running_loop().create_task(answer())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def __aenter__(self) -> "DnsServer":
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._server.serve_udp(data, addr)
