"""The proxy in front of a server: what it lets through, when, and how lines end."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random

import pytest

from chaos.proxy import TO_CLIENT, TO_SERVER, Proxy

_TIMEOUT_S = 10.0


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A proxy in front of a server that answers each line by the same in capitals."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while line := await reader.readline():
                writer.write(line.upper())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    with Proxy(server.sockets[0].getsockname()[:2]) as found:
        yield found
    server.close()


class Line:
    """Connection of a client."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    async def __aenter__(self) -> "Line":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._proxy.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def send(self, text: str) -> None:
        self._writer.write(f"{text}\n".encode())

    async def answer(self, timeout_s: float = _TIMEOUT_S) -> str:
        line = await asyncio.wait_for(self._reader.readline(), timeout_s)
        return line.decode().strip()

    async def ask(self, text: str) -> str:
        self.send(text)
        return await self.answer()


async def test_lines_are_reset_and_new_ones_are_served(proxy: Proxy) -> None:
    async with Line(proxy) as first, Line(proxy) as second:
        assert (await first.ask("a"), await second.ask("b")) == ("A", "B")
        assert proxy.cut() == 2
        with pytest.raises(ConnectionResetError):
            await first.answer()
    async with Line(proxy) as third:
        assert await third.ask("c") == "C"


async def test_a_share_of_the_lines_is_drawn_from_a_seed(proxy: Proxy) -> None:
    counts = []
    for _ in range(2):
        lines = [Line(proxy) for _ in range(20)]
        for line in lines:
            await line.__aenter__()
            assert await line.ask("a") == "A"
        counts.append(proxy.cut(0.3, Random(7)))
        for line in lines:
            await line.__aexit__()
        proxy.cut()
    assert counts[0] == counts[1]
    assert 0 < counts[0] < 20


async def test_nobody_connects_while_it_refuses(proxy: Proxy) -> None:
    port = proxy.port
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await Line(proxy).__aenter__()
    proxy.accept()
    assert proxy.port == port
    async with Line(proxy) as line:
        assert await line.ask("a") == "A"


@pytest.mark.parametrize("way", [TO_SERVER, TO_CLIENT])
async def test_what_is_held_one_way_arrives_when_it_lets_go(proxy: Proxy, way: str) -> None:
    async with Line(proxy) as line:
        assert await line.ask("a") == "A"
        proxy.hold(way)
        line.send("b")
        with pytest.raises(TimeoutError):
            await line.answer(0.1)
        proxy.let_go()
        assert await line.ask("c") == "B"
        assert await line.answer() == "C"


async def test_what_is_delayed_arrives_in_its_order(proxy: Proxy) -> None:
    async with Line(proxy) as line:
        assert await line.ask("a") == "A"
        proxy.latency_s = 0.1
        began = time.monotonic()
        line.send("b")
        # The later part is not to overtake the earlier one.
        await asyncio.sleep(0.02)
        proxy.latency_s = 0.0
        line.send("c")
        assert [await line.answer(), await line.answer()] == ["B", "C"]
        assert time.monotonic() - began >= 0.1


async def test_replies_end_in_their_middle(proxy: Proxy) -> None:
    proxy.reset_replies(1, Random(1))
    text = "x" * 1000
    async with Line(proxy) as line:
        line.send(text)
        received = b""
        with suppress(ConnectionResetError):
            while part := await asyncio.wait_for(line._reader.read(10_000), _TIMEOUT_S):
                received += part
        assert len(received) < len(text)
        assert text.upper().startswith(received.decode())
    async with Line(proxy) as line:
        assert await line.ask(text) == text.upper()


async def test_silent_lines_stay_open(proxy: Proxy) -> None:
    async with Line(proxy) as line:
        assert await line.ask("a") == "A"
        proxy.silence()
        line.send("b")
        with pytest.raises(TimeoutError):
            await line.answer(0.1)
        async with Line(proxy) as other:
            assert await other.ask("c") == "C"


async def test_a_server_that_is_not_there_means_a_reset() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    with Proxy(address) as proxy:
        async with Line(proxy) as line:
            with pytest.raises(ConnectionResetError):
                await line.answer()
