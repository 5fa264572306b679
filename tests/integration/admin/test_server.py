"""The server inside a loop of someone else: signals, ports, streams, a quick end."""

import asyncio
import re
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from crawler.admin import routes, tokens
from crawler.admin.routes import CrawlContext
from crawler.admin.server import AdminServer, Application, listen
from crawler.admin.tokens import Role
from crawler.errors import ConfigurationError
from tests.integration.admin.api import TOKEN, TOKENS, Api, client, entry

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def server(api: Api) -> Any:
    server = AdminServer(api.app, listen("127.0.0.1", 0))
    task = server.start()
    yield server
    await server.stop()
    assert task.done()


async def events(http: httpx.AsyncClient, wanted: int) -> list[str]:
    """The first so many events of a stream."""
    found: list[str] = []
    async with http.stream("GET", "/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                found.append(line.removeprefix("event: "))
            if len(found) >= wanted:
                break
    return found


async def test_it_touches_no_signal_handler(api: Api) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    server = AdminServer(api.app, listen("127.0.0.1", 0))
    server.start()
    async with httpx.AsyncClient(base_url=server.url) as http:
        assert (await http.get("/healthz")).status_code == 200
    assert [signal.getsignal(number) for number in numbers] == before
    await server.stop()
    assert [signal.getsignal(number) for number in numbers] == before


async def test_events_tell_how_the_crawl_moves(server: AdminServer, api: Api) -> None:
    async with httpx.AsyncClient(base_url=server.url, headers=HEADERS) as http:
        async with http.stream("GET", "/events") as stream:
            lines = stream.aiter_lines()
            async for line in lines:
                if line.startswith('data: {"crawl":"web"'):
                    assert '"found":0' in line
                    break
            await api.frontier.add([entry("http://a.test/")])
            async for line in lines:
                if '"found":1' in line:
                    break
        assert await events(http, 2)


async def test_readers_of_events_are_bounded_and_leave_their_place(
    server: AdminServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "MAX_LISTENERS", 1)
    async with httpx.AsyncClient(base_url=server.url, headers=HEADERS) as http:
        async with http.stream("GET", "/events") as stream:
            # Kept: an iterator that is thrown away closes its stream.
            lines = stream.aiter_lines()
            await anext(lines)
            answer = await http.get("/events")
            assert answer.status_code == 503
            assert answer.headers["content-type"] == "application/problem+json"
        async with asyncio.timeout(30):
            while answer := await http.send(http.build_request("GET", "/events"), stream=True):
                await answer.aclose()
                if answer.status_code == 200:
                    break


async def test_it_ends_soon_though_somebody_listens(api: Api) -> None:
    server = AdminServer(api.app, listen("127.0.0.1", 0))
    task = server.start()
    async with (
        httpx.AsyncClient(base_url=server.url, headers=HEADERS, timeout=60) as http,
        http.stream("GET", "/events") as stream,
    ):
        lines = stream.aiter_lines()
        await anext(lines)
        async with asyncio.timeout(30):
            await server.stop()
            # The stream is ended, not broken.
            async for _ in lines:
                pass
    assert task.done()
    with pytest.raises(httpx.ConnectError):
        await asyncio.to_thread(httpx.get, server.url)


async def test_a_connection_that_says_nothing_does_not_keep_it_open(api: Api) -> None:
    server = AdminServer(api.app, listen("127.0.0.1", 0))
    task = server.start()
    host, port = server.url.removeprefix("http://").rstrip("/").split(":")
    _reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /status HTTP/1.1\r\nHost: localhost\r\n")
    await writer.drain()
    async with asyncio.timeout(30):
        await server.stop()
    assert task.done()
    writer.close()


async def test_a_taken_port_is_told_or_passed_over(api: Api) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
            listen("127.0.0.1", port)
        listener = listen("127.0.0.1", port, ports=20)
        assert port < listener.getsockname()[1] < port + 20
        listener.close()


async def test_an_address_that_is_not_ours_is_told() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot listen on 203\.0\.113\.1:8800"):
        listen("203.0.113.1", 8800)


async def test_an_error_in_a_route_is_a_problem_and_the_next_request_works(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = CrawlContext("web", api.redis)
    app = Application(crawl, tokens=TOKENS)

    async def broken(_self: CrawlContext) -> Any:
        raise RuntimeError("a secret of our insides")

    server = AdminServer(app, listen("127.0.0.1", 0))
    server.start()
    async with httpx.AsyncClient(base_url=server.url, headers=HEADERS) as http:
        with monkeypatch.context() as patched:
            patched.setattr(CrawlContext, "control", broken)
            answer = await http.get("/status")
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert "secret" not in answer.text
        assert "Content-Security-Policy" in answer.headers
        assert (await http.get("/status")).status_code == 200
    await server.stop()


async def test_a_token_that_is_removed_ends_its_streams_and_others_go_on(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_LOOK_S", 0.0)
    file = tokens.token_file(None, tmp_path)
    ops, grafana = file.add("ops", Role.OPERATE), file.add("grafana", Role.READ)
    crawl: CrawlContext = api.app.api.state.crawl
    server = AdminServer(
        Application(crawl, tokens=tokens.Tokens(file=file)), listen("127.0.0.1", 0)
    )
    server.start()
    by_ops, by_grafana = (
        httpx.AsyncClient(
            base_url=server.url, headers={"Authorization": f"Bearer {each.text}"}, timeout=60
        )
        for each in (ops, grafana)
    )
    async with by_ops, by_grafana:
        assert (await by_grafana.get("/access")).json() == {"name": "grafana", "role": "read"}
        assert (await by_ops.get("/access")).json() == {"name": "ops", "role": "operate"}
        assert (await by_grafana.post("/crawl/pause")).status_code == 403
        assert (await by_ops.post("/crawl/pause")).status_code == 200
        async with by_grafana.stream("GET", "/events") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            file.remove("grafana")
            # It ends by itself.
            async for _ in lines:
                pass
        assert (await by_grafana.get("/status")).status_code == 401
        assert (await by_ops.get("/status")).status_code == 200
        # A token that is added is valid without a restart.
        by_grafana.headers["Authorization"] = f"Bearer {file.add('grafana', Role.READ).text}"
        assert (await by_grafana.get("/status")).status_code == 200
    await server.stop()


async def test_every_write_of_the_api_is_refused_to_a_token_that_reads(api: Api) -> None:
    reader = tokens.Token("a-token-that-only-reads", Role.READ, "grafana")
    app = Application(api.app.api.state.crawl, tokens=tokens.Tokens(reader))
    async with client(app, reader.text) as http:
        document = (await http.get("/openapi.json")).json()
        asked = [
            (method, re.sub(r"{\w+}", "x", path))
            for path, methods in document["paths"].items()
            for method in methods
            if method != "get"
        ]
        assert len(asked) >= 12
        for method, path in asked:
            answer = await http.request(method, path)
            assert answer.status_code == 403, (method, path)
            assert "has the role read" in answer.json()["detail"]
