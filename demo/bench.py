"""Measure how many pages a second one server process serves to a pipelining client."""

import asyncio
import time
from typing import Final

from demo import event_loop
from demo.process import DemoServer
from demo.web import Web, WebOptions

CONNECTIONS: Final = 8
DEPTH: Final = 8
_LENGTH: Final = b"Content-Length: "


def _requests(options: WebOptions, count: int) -> list[bytes]:
    """Return requests for `count` different pages, or fewer if the web has fewer."""
    web = Web(options)
    made: list[bytes] = []
    for number in range(options.hosts):
        for index in range(web.profile(number).size):
            path = web.page(number, index).path
            made.append(f"GET {path} HTTP/1.1\r\nHost: s{number}.test\r\n\r\n".encode())
            if len(made) == count:
                return made
    return made


async def _fetch_all(port: int, requests: list[bytes]) -> int:
    """Send the requests over one connection, DEPTH at a time; return the bytes received."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    received = 0
    for at in range(0, len(requests), DEPTH):
        batch = requests[at : at + DEPTH]
        writer.write(b"".join(batch))
        for _ in batch:
            head = await reader.readuntil(b"\r\n\r\n")
            start = head.index(_LENGTH) + len(_LENGTH)
            length = int(head[start : head.index(b"\r", start)])
            received += len(head) + len(await reader.readexactly(length))
    writer.close()
    return received


async def _measure(port: int, requests: list[bytes]) -> tuple[float, int]:
    started_s = time.perf_counter()
    shares = (requests[place::CONNECTIONS] for place in range(CONNECTIONS))
    received = await asyncio.gather(*(_fetch_all(port, share) for share in shares))
    return time.perf_counter() - started_s, sum(received)


async def _run(port: int, fresh: list[bytes], count: int) -> int:
    few = fresh[:500]
    again = (few * (count // len(few) + 1))[:count]
    for name, requests in (("every page new", fresh), ("500 pages again and again", again)):
        took_s, received = await _measure(port, requests)
        print(
            f"{name}: {len(requests)} pages of {received / len(requests) / 1024:.1f} KiB "
            f"in {took_s:.2f} s: {len(requests) / took_s:.0f} pages/s"
        )
    return 0


def bench(count: int) -> int:
    """Serve `count` pages that were never rendered before, then `count` rendered ones."""
    options = WebOptions(hosts=max(1, count // 100), pages=110, seed=1, zoo="none")
    fresh = _requests(options, count)
    with DemoServer(options) as server:
        return event_loop.run(_run(server.port, fresh, count))
