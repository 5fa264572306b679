"""A web whose pages all fail, and an account of when each of its hosts was contacted."""

import asyncio
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType

# What every eighth page asks for.
RETRY_AFTER_S = 1
# Links to two pages that fail and to the next such list: links are always on their way.
_LIST = (
    '<p>{}</p><a href="/page/{}">one</a> <a href="/page/{}">another</a> <a href="/list/{}">more</a>'
)


@dataclass(frozen=True, slots=True, order=True)
class Contact:
    """One request: when it began and ended, and from when on the next one may come."""

    start_s: float
    end_s: float
    path: str
    due_s: float


class FailingWeb:
    """A context manager: hosts of `pages` pages each, which answer 500, or 503 with Retry-After.

    Lists of links lead to them, two by each. `delay_s` is due after any answer, twice as much after
    an error.
    """

    def __init__(self, pages: int, delay_s: float) -> None:
        self.port = 0
        self.contacts: dict[str, list[Contact]] = {}
        self._delay_s = delay_s
        self._lists = (pages + 1) // 2
        self._loop = asyncio.new_event_loop()
        self._is_open = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def too_soon(self) -> list[str]:
        """Requests that came before their host's delay was over."""
        return [
            f"{host}{after.path} came {after.start_s - before.end_s:.3f} s after {before.path}, "
            f"{before.due_s} s is due"
            for host, contacts in self.contacts.items()
            for before, after in pairwise(sorted(contacts))
            # Both clocks are this process's, and the end is taken before the answer is sent.
            if after.start_s < before.end_s + before.due_s
        ]

    @property
    def attempts(self) -> dict[str, int]:
        """URLs of pages, and how often each was fetched."""
        found: dict[str, int] = {}
        for host, contacts in self.contacts.items():
            for contact in contacts:
                if contact.path.startswith("/page/"):
                    url = f"http://{host}{contact.path}"
                    found[url] = found.get(url, 0) + 1
        return found

    def _answer(self, host: str, path: str) -> tuple[bytes, float]:
        """The bytes of an answer, and the delay that is due after it."""
        kind, _, number = path[1:].partition("/")
        if kind in ("", "list") and int(number or 0) < self._lists:
            here = int(number or 0)
            # No page is a copy of another one.
            text = f"{host} {here}"
            body = _LIST.format(text, 2 * here, 2 * here + 1, here + 1).encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"
            return head % len(body) + body, self._delay_s
        if kind != "page":
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", self._delay_s
        if int(number) % 8 != 5:
            return b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", 2 * self._delay_s
        head = b"HTTP/1.1 503 Later\r\nRetry-After: %d\r\nContent-Length: 0\r\n\r\n"
        return head % RETRY_AFTER_S, float(RETRY_AFTER_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                start_s = time.monotonic()
                path = lines[0].split()[1]
                host = next(line[5:].strip() for line in lines if line.lower().startswith("host:"))
                data, due_s = self._answer(host, path)
                contact = Contact(start_s, time.monotonic(), path, due_s)
                self.contacts.setdefault(host, []).append(contact)
                writer.write(data)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._is_open.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
            self._loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        server.close()
        self._loop.run_until_complete(server.wait_closed())
        self._loop.close()

    def __enter__(self) -> "FailingWeb":
        self._thread.start()
        self._is_open.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
