"""What the gate lets through, whatever application is behind it."""

import hmac
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from crawler.admin.security import MAX_BODY_BYTES, SecurityMiddleware
from crawler.admin.tokens import Role, Token, Tokens

TOKEN = "a-token-of-sixteen-or-more"
READER = "a-token-that-only-reads"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    body = await request.body()
    await PlainTextResponse(f"{scope['path']} {len(body)}")(scope, receive, send)


def client(**headers: str) -> httpx.AsyncClient:
    tokens = Tokens(Token(TOKEN, name="ops"), Token(READER, Role.READ, "grafana"))
    gate = SecurityMiddleware(application, tokens=tokens, names=["crawler.example.com"])
    transport = httpx.ASGITransport(app=gate)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)


def allowed() -> httpx.AsyncClient:
    return client(Authorization=f"Bearer {TOKEN}")


async def ask(method: str, path: str, **headers: str) -> httpx.Response:
    async with client(**headers) as http:
        return await http.request(method, path)


@pytest.mark.parametrize("path", ["/healthz", "/", "/static/app.js"])
async def test_health_and_the_page_itself_need_no_token(path: str) -> None:
    assert (await ask("GET", path)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/status"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/nothing"),
        ("GET", "/static/x%2F..%2Fstatus"),
        ("GET", "/static/..%2Fstatus"),
        ("GET", "/healthz/"),
        ("POST", "/"),
        ("POST", "/static/app.js"),
        ("DELETE", "/static/app.js"),
        ("OPTIONS", "/status"),
    ],
)
async def test_everything_else_needs_the_token(method: str, path: str) -> None:
    answer = await ask(method, path)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["Content-Type"] == "application/problem+json"
    async with allowed() as http:
        assert (await http.request(method, path)).status_code == 200


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"],
)
async def test_only_the_whole_token_as_a_bearer_counts(value: str) -> None:
    assert (await ask("GET", "/status", Authorization=value)).status_code == 401


async def test_a_token_in_the_url_does_not_count() -> None:
    assert (await ask("GET", f"/status?token={TOKEN}&access_token={TOKEN}")).status_code == 401


async def test_a_token_that_reads_may_look_at_everything_and_change_nothing() -> None:
    async with client(Authorization=f"Bearer {READER}") as http:
        for method in ("GET", "HEAD"):
            assert (await http.request(method, "/status")).status_code == 200
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post"):
            answer = await http.request(method, "/status")
            assert answer.status_code == 403
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert "The token 'grafana' has the role read" in answer.json()["detail"]
            assert "use one with the role operate" in answer.json()["detail"]


async def test_after_ten_wrong_tokens_no_more_are_read(caplog: pytest.LogCaptureFixture) -> None:
    async with client() as http:

        async def status(token: str) -> int:
            answer = await http.get("/status", headers={"Authorization": f"Bearer {token}"})
            if answer.status_code == 429:
                assert 0 < int(answer.headers["Retry-After"]) <= 6
                assert "too many wrong tokens" in answer.json()["detail"]
            return answer.status_code

        assert await status(READER) == 200
        assert {await status(f"guess {number}") for number in range(10)} == {401}
        # Whether it is right or not; requests without one are no guesses.
        assert await status("another guess") == 429
        assert await status(TOKEN) == 429
        assert (await http.get("/status")).status_code == 401
        assert (await http.get("/healthz")).status_code == 200
        # Whoever was signed in stays so.
        assert await status(READER) == 200
    assert caplog.messages == ["127.0.0.1 sent too many wrong tokens; no more are read"]


async def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Any] = []

    def compare(given: bytes, known: bytes) -> bool:
        compared.append((given, known))
        return given == known

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert (await ask("GET", "/status", Authorization="Bearer guess")).status_code == 401
    assert compared == [(b"guess", TOKEN.encode()), (b"guess", READER.encode())]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8800",
        "localhost",
        "LOCALHOST:1",
        "[::1]:8800",
        "192.0.2.1",
        "crawler.example.com",
    ],
)
async def test_addresses_and_known_names_are_ours(host: str) -> None:
    assert (await ask("GET", "/healthz", Host=host)).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "[", "a b"]
)
async def test_a_name_that_points_here_is_refused_even_with_the_token(host: str) -> None:
    answer = await ask("GET", "/healthz", Host=host, Authorization=f"Bearer {TOKEN}")
    assert answer.status_code == 421


async def test_a_large_body_is_refused_by_its_length_before_it_is_read() -> None:
    async with allowed() as http:
        answer = await http.post("/seed/urls", content=b"x" * (MAX_BODY_BYTES + 1))
        assert answer.status_code == 413
        answer = await http.post("/seed/urls", content=b"x" * MAX_BODY_BYTES)
        assert answer.text == f"/seed/urls {MAX_BODY_BYTES}"


async def test_a_large_body_in_chunks_is_cut_off() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 1000 + 2):
            yield b"x" * 1000

    async with allowed() as http:
        with pytest.raises(Exception, match="413"):
            await http.post("/seed/urls", content=chunks())


async def test_a_length_that_is_no_number_is_refused() -> None:
    async with allowed() as http:
        answer = await http.post("/seed/urls", headers={"Content-Length": "-1"})
    assert answer.status_code == 413


async def test_every_answer_has_a_strict_policy_and_no_other_origin_is_let_in() -> None:
    for answer in (
        await ask("GET", "/", Origin="http://evil.example"),
        await ask("GET", "/status", Origin="http://evil.example"),
    ):
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_each_write_is_in_the_audit_log_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "crawler.admin.audit"):
        async with allowed() as http:
            await http.get("/status")
            await http.delete("/urls?url=http://user:password@a.test/%0Aforged")
            await http.delete("/urls?url=http%3A%2F%2Fuser%3Apass%40word%40a.test%2F")
        await ask("POST", "/crawl/pause")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert lines[0].startswith(
        r"127.0.0.1 ops DELETE /urls?url=http://user:***@a.test/\nforged: 200"
    )
    assert lines[1].startswith("127.0.0.1 ops DELETE /urls?url=http://user:***@a.test/: 200")
    assert lines[2].startswith("127.0.0.1 POST /crawl/pause: 401")
    assert TOKEN not in caplog.text


async def test_a_write_that_fails_is_in_the_audit_log_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError("broken")

    gate = SecurityMiddleware(broken, tokens=Tokens(Token(TOKEN)), names=[])
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with caplog.at_level(logging.INFO, "crawler.admin.audit"):
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=gate), base_url="http://127.0.0.1", headers=headers
        ) as http:
            with pytest.raises(RuntimeError):
                await http.post("/crawl/pause")
    assert [record.getMessage() for record in caplog.records] == [
        "127.0.0.1 admin POST /crawl/pause: 0 "
    ]
