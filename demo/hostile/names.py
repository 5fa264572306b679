"""A DNS server of the zoo: it changes its mind between two questions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

Addresses = tuple[tuple[str, ...], ...]


class DnsServer:
    """Server of names, by UDP and TCP; each has the addresses of its next answer, for a second."""

    def __init__(self, answers: Mapping[str, Addresses]) -> None:
        self.port = 0
        self._answers = answers
        self._asked = dict.fromkeys(answers, 0)
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Datagrams(self), local_addr=("127.0.0.1", self.port)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._transport is not None
        assert self._server is not None
        self._transport.close()
        self._server.close()

    def reply(self, question: bytes, most: int = 65_535) -> bytes:
        """Answer a question in so many bytes, or say that there is more."""
        asked = dns.message.from_wire(question)
        reply = dns.message.make_response(asked)
        name, kind = asked.question[0].name, asked.question[0].rdtype
        host = name.to_text(omit_final_dot=True).lower()
        addresses = self._next(host) if kind == dns.rdatatype.A else ()
        if not addresses:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        else:
            reply.answer.append(dns.rrset.from_text(name, 1, "IN", "A", *addresses))
        found = reply.to_wire(max_size=65_535)
        if len(found) <= most:
            return found
        reply.answer.clear()
        reply.flags |= dns.flags.TC
        # It is asked again by TCP.
        self._asked[host] -= 1
        return reply.to_wire()

    def _next(self, host: str) -> tuple[str, ...]:
        answers = self._answers.get(host)
        if not answers:
            return ()
        at = self._asked[host]
        self._asked[host] += 1
        return answers[min(at, len(answers) - 1)]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(2))
        found = self.reply(await reader.readexactly(size))
        writer.write(len(found).to_bytes(2) + found)
        await writer.drain()
        writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._transport.sendto(self._server.reply(data, 512), addr)
