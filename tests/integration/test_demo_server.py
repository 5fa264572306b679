"""The synthetic web over real sockets: every kind of answer, the access log, the process."""

import asyncio
import gzip
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo.access_log import Entry, read_log
from demo.clock import Clock
from demo.control import HOSTILE_STATUS, Turn, hostile_answer
from demo.process import DemoServer
from demo.server import serve
from demo.web import Web, WebOptions

OPTIONS = WebOptions(hosts=64, pages=6, seed=1, zoo="full")
WEB = Web(OPTIONS)
PATIENCE_S = 10.0


@dataclass
class Reply:
    status: int
    fields: dict[str, str]
    body: bytes


class Client:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, host: str, path: str, method: str = "GET", **fields: str) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {fields[name]}\r\n" for name in fields)
        self.writer.write(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n".encode())

    async def head(self) -> Reply:
        async with asyncio.timeout(PATIENCE_S):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines)
        return Reply(int(first.split(" ")[1]), fields, b"")

    async def receive(self) -> Reply:
        reply = await self.head()
        async with asyncio.timeout(PATIENCE_S):
            length = int(reply.fields.get("content-length", 0))
            reply.body = await self.reader.readexactly(length)
        return reply

    async def get(self, host: str, path: str, **fields: str) -> Reply:
        self.send(host, path, **fields)
        return await self.receive()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    async with serve(OPTIONS, log_path=tmp_path / "access.log") as bound:
        yield bound


@pytest.fixture
async def client(port: int) -> AsyncIterator[Client]:
    async with connected(port) as client:
        yield client


def host_with(feature: str) -> str:
    return next(WEB.hosts_with(feature)).host


async def test_a_page_is_served_with_keep_alive(client: Client) -> None:
    for _ in range(2):
        reply = await client.get("s0.test", "/")
        assert reply.status == 200
        assert reply.fields["content-type"] == "text/html; charset=utf-8"
        assert reply.body.endswith(b"</html>\n")


async def test_pipelined_requests_are_answered_in_order(client: Client) -> None:
    paths = [WEB.page(0, index).path for index in (0, 1, 2)]
    for path in [*paths, "/nothing"]:
        client.send("s0.test", path)
    replies = [await client.receive() for _ in range(4)]
    assert [reply.status for reply in replies] == [200, 200, 200, 404]
    assert len({reply.body for reply in replies}) == 4


async def test_host_port_case_and_tracking_do_not_matter(client: Client) -> None:
    plain = await client.get("s0.test", "/")
    assert await client.get("S0.TEST:80", "/?utm_source=x") == plain


async def test_head_has_no_body(client: Client) -> None:
    client.send("s0.test", "/", method="HEAD")
    reply = await client.head()
    assert int(reply.fields["content-length"]) > 1000
    assert (await client.get("s0.test", "/nothing")).status == 404


async def test_other_methods_are_refused_and_their_bodies_skipped(client: Client) -> None:
    client.send("s0.test", "/", method="POST", Content_Length="5")
    client.writer.write(b"hello")
    assert (await client.receive()).status == 405
    assert (await client.get("s0.test", "/")).status == 200


async def test_a_malformed_request_is_refused(client: Client) -> None:
    client.writer.write(b"HELLO\r\n\r\n")
    assert (await client.receive()).status == 400


async def test_current_copies_get_304(client: Client) -> None:
    page = await client.get("s0.test", "/")
    by_tag = await client.get("s0.test", "/", If_None_Match=page.fields["etag"])
    modified = page.fields["last-modified"].title().replace("Gmt", "GMT")
    by_date = await client.get("s0.test", "/", If_Modified_Since=modified)
    stale = await client.get("s0.test", "/", If_None_Match='"other"')
    assert [by_tag.status, by_date.status, stale.status] == [304, 304, 200]


async def test_changing_pages_follow_the_clock() -> None:
    host, path = host_with("changing"), "/live/every-86400s"
    replies = []
    for offset_s in (0.0, 0.0, 86_400.0):
        clock = Clock(offset_s, scale=0.0, started_s=1_700_000_000.0)
        async with serve(OPTIONS, clock=clock) as port, connected(port) as client:
            replies.append(await client.get(host, path))
    assert replies[0] == replies[1]
    assert replies[0].fields["etag"] != replies[2].fields["etag"]
    assert replies[0].fields["last-modified"] != replies[2].fields["last-modified"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects(client: Client, status: int) -> None:
    host = host_with("redirects")
    reply = await client.get(host, f"/go/{status}")
    assert reply.status == status
    assert reply.fields["location"].startswith(f"http://{host}/")


async def test_loops_and_chains_and_other_hosts(client: Client) -> None:
    loops, chains, away = map(host_with, ("redirect_loops", "redirect_chains", "cross_redirects"))
    assert (await client.get(loops, "/loop/b")).fields["location"] == f"http://{loops}/loop/a"
    assert (await client.get(chains, "/chain/3")).fields["location"].endswith("/chain/end")
    assert not (await client.get(away, "/away/301")).fields["location"].startswith(f"http://{away}")


@pytest.mark.parametrize(("path", "status"), [("/lost/404", 404), ("/lost/410", 410)])
async def test_missing_pages(client: Client, path: str, status: int) -> None:
    assert (await client.get(host_with("gone"), path)).status == status


@pytest.mark.parametrize("status", [503, 429])
async def test_flaky_pages_recover(client: Client, status: int) -> None:
    host = host_with("flaky")
    first = await client.get(host, f"/flaky/{status}")
    second = await client.get(host, f"/flaky/{status}")
    assert (first.status, first.fields["retry-after"]) == (status, "1")
    assert second.status == 200


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_lasting_errors_do_not_recover(client: Client, status: int) -> None:
    host = host_with("errors")
    replies = [await client.get(host, f"/error/{status}") for _ in range(4)]
    assert {reply.status for reply in replies} == {status}
    recovering = [(await client.get(host, f"/recovers/{status}")).status for _ in range(3)]
    assert recovering == [status, status, 200]


async def test_retry_after_as_a_date(client: Client) -> None:
    reply = await client.get(host_with("retry_dates"), "/patience/date")
    assert reply.fields["retry-after"].endswith("gmt")


async def test_a_reset_is_a_reset_and_recovers(port: int) -> None:
    host = host_with("resets")
    async with connected(port) as client:
        with pytest.raises(ConnectionResetError):
            await client.get(host, "/reset/once")
    async with connected(port) as client:
        assert (await client.get(host, "/reset/once")).status == 200


async def test_a_silent_page_never_answers(port: int, tmp_path: Path) -> None:
    host = host_with("timeouts")
    async with connected(port) as client:
        client.send(host, "/silent/always")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.reader.read(1)
    entry = await logged(tmp_path / "access.log", 1)
    assert (entry[0].status, entry[0].outcome) == (0, "silent")


async def test_a_truncated_body_ends_early(client: Client) -> None:
    with pytest.raises(asyncio.IncompleteReadError) as cut:
        await client.get(host_with("truncated"), "/cut/always")
    assert cut.value.partial


async def test_a_huge_body_is_streamed(client: Client) -> None:
    client.send(host_with("huge"), "/huge")
    reply = await client.head()
    assert int(reply.fields["content-length"]) > 15_000_000
    assert await client.reader.readexactly(1_000_000)


async def test_a_dripping_page_begins_at_once(client: Client) -> None:
    client.send(host_with("drip"), "/drip")
    assert (await client.head()).status == 200


async def test_packed_pages_and_charsets(client: Client) -> None:
    packed = await client.get(host_with("gzip"), "/packed/0")
    assert packed.fields["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body).startswith(b"<!DOCTYPE html>")
    host = host_with("charsets")
    wrong = await client.get(host, "/charset/wrong")
    assert wrong.fields["content-type"].endswith("iso-8859-1")
    assert "café" in wrong.body.decode("utf-8")
    latin = await client.get(host, "/charset/latin")
    assert "café" in latin.body.decode("iso-8859-1")
    assert "charset" not in (await client.get(host, "/charset/absent")).fields["content-type"]


async def test_meta_robots_canonical_and_nofollow(client: Client) -> None:
    page = await client.get(host_with("meta_robots"), "/meta/noindex-nofollow")
    assert b'<meta name="robots" content="noindex, nofollow">' in page.body
    canonical = host_with("canonicals")
    page = await client.get(canonical, "/article/0?view=print")
    assert f'rel="canonical" href="http://{canonical}/article/0"'.encode() in page.body
    assert b"rel=nofollow" in (await client.get(host_with("nofollow_links"), "/partners")).body


async def test_sitemaps_of_all_forms(client: Client) -> None:
    host = host_with("sitemaps")
    robots = await client.get(host, "/robots.txt")
    assert f"Sitemap: http://{host}/sitemap.xml".encode() in robots.body
    index = await client.get(host, "/sitemap.xml")
    assert index.body.count(b"<sitemap>") == 3
    plain = await client.get(host, "/maps/plain.xml")
    assert b"<lastmod>" in plain.body
    assert b"<priority>" in plain.body
    packed = await client.get(host, "/maps/packed.xml.gz")
    assert b"only-in-map/b" in gzip.decompress(packed.body)
    assert b"only-in-map/c\n" in (await client.get(host, "/maps/list.txt")).body


@pytest.mark.parametrize(
    ("feature", "path"),
    [
        ("calendar", "/calendar/2099/12"),
        ("deep_paths", "/deep/a/b/a/b/"),
        ("session_ids", "/session/cart?sid=12345678"),
        ("query_combinations", "/filter/list?brand=a&size=s"),
    ],
)
async def test_traps_lead_deeper(client: Client, feature: str, path: str) -> None:
    host = host_with(feature)
    reply = await client.get(host, path)
    assert reply.status == 200
    prefix = "/".join(path.split("/")[:2])
    assert reply.body.count(f'href="http://{host}{prefix}/'.encode()) >= 2


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("allow_all", 200),
        ("missing_404", 404),
        ("forbidden_403", 403),
        ("error_500", 500),
        ("error_503", 503),
        ("too_many_429", 429),
        ("redirect_same_host", 301),
        ("redirect_cross_host", 302),
        ("html", 200),
        ("empty", 200),
        ("very_long", 200),
    ],
)
async def test_robots_of_all_kinds(client: Client, kind: str, status: int) -> None:
    assert (await client.get(host_with(kind), "/robots.txt")).status == status


@pytest.mark.parametrize("kind", ["redirect_same_host", "redirect_cross_host"])
async def test_redirected_robots_lead_to_the_rules(client: Client, kind: str) -> None:
    reply = await client.get(host_with(kind), "/robots.txt")
    host, _, path = reply.fields["location"].removeprefix("http://").partition("/")
    assert b"Disallow: /private/" in (await client.get(host, "/" + path)).body


async def test_failing_robots_break_the_connection_or_recover(port: int) -> None:
    async with connected(port) as client:
        with pytest.raises(ConnectionResetError):
            await client.get(host_with("reset"), "/robots.txt")
    async with connected(port) as client:
        host = host_with("recovering_503")
        statuses = [(await client.get(host, "/robots.txt")).status for _ in range(2)]
    assert statuses == [503, 200]


async def logged(path: Path, count: int) -> list[Entry]:
    """Wait until the log on disk has `count` entries."""
    async with asyncio.timeout(PATIENCE_S):
        while len(entries := list(read_log(path))) < count:  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.02)
    return entries


async def test_the_log_is_flushed_while_serving(client: Client, tmp_path: Path) -> None:
    await client.get("s0.test", "/", User_Agent="crawler/1.0")
    await client.get(host_with("flaky"), "/flaky/503")
    page, failed = await logged(tmp_path / "access.log", 2)
    assert (page.url, page.status, page.outcome) == ("http://s0.test/", 200, "ok")
    assert page.agent == "crawler/1.0"
    assert page.client.startswith("127.0.0.1:")
    assert page.start_s <= page.end_s <= failed.start_s
    assert (failed.status, failed.retry_after_s) == (503, 1.0)


async def test_latency_makes_simultaneous_requests_overlap(tmp_path: Path) -> None:
    log = tmp_path / "slow.log"
    async with (
        serve(OPTIONS, log_path=log, latency_s=0.05) as port,
        connected(port) as one,
        connected(port) as two,
    ):
        await asyncio.gather(one.get("s0.test", "/"), two.get("s0.test", "/robots.txt"))
    first, second = read_log(log)
    assert second.start_s < first.end_s


def test_the_process_serves_logs_and_restarts_on_its_port(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    options = WebOptions(hosts=2, pages=2, seed=1, zoo="none")

    async def fetch(port: int) -> int:
        async with connected(port) as client:
            return (await client.get("s1.test", "/")).status

    with DemoServer(options, log_path=log) as server:
        port = server.port
        assert server.overrides == {".test": f"127.0.0.1:{port}"}
        assert asyncio.run(fetch(port)) == 200
    with DemoServer(options, log_path=log, port=port) as server:
        assert server.port == port
        assert asyncio.run(fetch(port)) == 200
    assert [entry.url for entry in read_log(log)] == ["http://s1.test/"] * 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_stops_on_signals_with_exit_0(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "demo", "serve", "--hosts=3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["options"]["hosts"] == 3
        assert ready["address"] == f"127.0.0.1:{ready['port']}"
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with DemoServer(WebOptions(hosts=1, pages=1, zoo="none")) as server:
        command = [sys.executable, "-m", "demo", "serve", f"--port={server.port}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("reset", ConnectionResetError),
        ("garbage", b"\x00\xff\xfeHTTP/9.9"),
        ("endless", b"HTTP/1.1 200 OK"),
        ("error", b"HTTP/1.1 500 "),
    ],
)
async def test_a_host_turns_hostile_and_back(
    tmp_path: Path, how: str, outcome: bytes | type[OSError]
) -> None:
    log = tmp_path / "access.log"

    async def begin_of(path: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: s0.test\r\n\r\n".encode())
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await reader.readexactly(10)
        finally:
            writer.close()

    with DemoServer(WebOptions(hosts=1, pages=2, zoo="none"), log) as web:
        web.turn("s0.test", how)
        if isinstance(outcome, bytes):
            assert outcome.startswith(await begin_of("/"))
        else:
            with pytest.raises(outcome):
                await begin_of("/")
        web.turn("s0.test", "")
        assert await begin_of("/") == b"HTTP/1.1 2"
        with pytest.raises(ValueError, match="'dance' is not a valid Turn"):
            web.turn("s0.test", "dance")
    assert [entry.status for entry in read_log(log)] == [HOSTILE_STATUS, 200]


async def test_rules_of_an_endless_host_are_an_error() -> None:
    # Whatever they said would hold long after the host is itself again.
    assert hostile_answer(Turn.ENDLESS, "/robots.txt").wire.startswith(b"HTTP/1.1 500 ")


def test_the_same_web_is_served_at_another_address_too() -> None:
    with DemoServer(WebOptions(hosts=1, pages=1, zoo="none")) as web:
        web.listen("127.0.0.2", 0)
        with pytest.raises(ValueError, match="does not listen"):
            web.listen("127.0.0.1", web.port)
