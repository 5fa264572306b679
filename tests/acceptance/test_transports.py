"""Other ways to a server: Scrapy's HTTP/2 handler, and proxies. Whole crawls by both."""

import asyncio
import json
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived

from tests.acceptance.crawls import ROOT, Crawls, environment
from tests.support.certificates import server_context
from tests.support.http_server import ok, serving

H2 = "scrapy.core.downloader.handlers.http2.H2DownloadHandler"
PAGES = {
    "/robots.txt": b"User-agent: *\nDisallow: /private\n",
    "/": b"<title>Home</title><a href=/a>a</a> <a href=/private>no</a>",
    "/a": b"<title>A</title><a href=/>home</a>",
}


async def crawl(
    folder: Path, redis_url: str, seed: str, variables: dict[str, str], **settings: Any
) -> tuple[dict[str, dict[str, Any]], str]:
    """Crawl while this process serves; returns the pages by URL, and the log."""
    feed = folder / "pages.jsonl"
    command = Crawls(folder, redis_url).command(seed, settings=settings, options=("-O", str(feed)))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "scrapy",
        *command,
        cwd=ROOT,
        env={**environment(), **variables},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, output = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    stderr = output.decode()
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr, stderr
    pages = map(json.loads, feed.read_text(encoding="utf-8").splitlines())
    return {page["url"]: page for page in pages}, stderr


class H2Server:
    """Serves PAGES over HTTP/2, and nothing over anything else."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: Counter[str] = Counter()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
        if tls.selected_alpn_protocol() != "h2":
            writer.close()
            return
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        try:
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, RequestReceived):
                        self._answer(connection, event)
                writer.write(connection.data_to_send())
        except OSError:
            pass
        finally:
            writer.close()

    def _answer(self, connection: H2Connection, event: RequestReceived) -> None:
        path = dict(event.headers)[":path"]
        self.asked[path] += 1
        status = "200" if path in PAGES else "404"
        connection.send_headers(
            event.stream_id, [(":status", status), ("content-type", "text/html; charset=utf-8")]
        )
        connection.send_data(event.stream_id, PAGES.get(path, b""), end_stream=True)


@asynccontextmanager
async def serving_h2(folder: Path) -> AsyncIterator[H2Server]:
    tls = server_context(folder)
    tls.set_alpn_protocols(["h2"])
    server = H2Server()
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


@pytest.mark.slow
async def test_scrapys_http2_handler_crawls_politely(tmp_path: Path, redis_url: str) -> None:
    async with serving_h2(tmp_path) as server:
        home = f"https://127.0.0.1:{server.port}/"
        handlers = json.dumps({"https": H2})
        pages, log = await crawl(tmp_path, redis_url, home, {}, DOWNLOAD_HANDLERS=handlers)
    assert set(pages) == {home, f"{home}a"}
    # Its robots.txt was read first, by the same way, and is obeyed.
    assert server.asked == {"/robots.txt": 1, "/": 1, "/a": 1}
    assert log.count(f"https is fetched by {H2}: it does not keep out of private networks") == 1


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY"])
async def test_a_proxy_of_the_environment_fetches_everything(
    tmp_path: Path, redis_url: str, variable: str
) -> None:
    asked: list[bytes] = []

    async def answer(writer: asyncio.StreamWriter) -> None:
        # What a proxy is asked for has the whole URL.
        target = server.requests[-1].split(b" ", 2)[1]
        asked.append(target)
        writer.write(ok(PAGES[urlsplit(target.decode()).path], b"Content-Type: text/html"))

    async with serving(answer) as server:
        proxy = {variable: f"http://127.0.0.1:{server.port}", "no_proxy": ""}
        # No name of the crawl is known to DNS: the proxy looks them up.
        settings = {"DNS_SERVERS": "127.0.0.1:9", "ALLOW_NETWORKS": ""}
        home = "http://behind.example/"
        pages, _ = await crawl(tmp_path, redis_url, home, proxy, **settings)
    assert set(pages) == {home, f"{home}a"}
    assert sorted(asked) == [home.encode() + path for path in (b"", b"a", b"robots.txt")]
