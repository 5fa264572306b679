"""The web of the whole-crawl benchmark, and what is made of its measurements."""

import asyncio
import gzip
import re
import ssl
import statistics
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import brotli
import pytest
from crawlee import Request
from selectolax.lexbor import LexborHTMLParser

from benchmarks.crawl.__main__ import figures, in_turn, main
from benchmarks.crawl.certificate import server_context
from benchmarks.crawl.contenders import ALL, OURS, base
from benchmarks.crawl.crawlee_peer import LoopbackClient
from benchmarks.crawl.grounds import GROUNDS, USUAL, WEB, Ground, of_real_pages
from benchmarks.crawl.markup import web_shape
from benchmarks.crawl.meter import Handshakes
from benchmarks.crawl.pages import LINKS, Size, host_of_page, number_of, page, path_of, targets
from benchmarks.crawl.profile import sampled
from benchmarks.crawl.real_pages import RealPages
from benchmarks.crawl.rig import Disturbed, Run, check
from benchmarks.crawl.shape import measure
from benchmarks.crawl.web import Account, Host, Site, Web
from crawler.dedup.content import distance, simhashes
from crawler.errors import CrawlerError

SIZE = Size(seeds=20, hosts=10)
NUMBERS = [0, 7, 999]


def _made(ground: Ground, number: int) -> bytes:
    return ground.page(number, SIZE, 8000, ground.scheme)


# --- pages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", NUMBERS)
def test_a_small_page_has_sixty_different_links_and_26_kb(number: int) -> None:
    html = page(number, SIZE, 8000)
    assert len(set(targets(number, SIZE))) == LINKS == html.count(b"<a ")
    assert 26_000 < len(html) < 27_500


@pytest.mark.parametrize("number", NUMBERS)
def test_a_usual_page_has_the_markup_of_a_real_site(number: int) -> None:
    html = _made(USUAL, number)
    assert 26_000 < len(html) < 27_500
    assert html.count(b"<a ") == LINKS
    assert 330 <= measure(html)["tags"] <= 360
    tree = LexborHTMLParser(html)
    for selector in ("ul ul a", "figure img", "script", "style", "header nav", "footer", "aside"):
        assert tree.css(selector)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_page_of_the_web_has_what_its_shape_says(number: int) -> None:
    shape, html = web_shape(number), _made(WEB, number)
    assert len(html) == shape.page_bytes
    assert html.count(b"<a ") == shape.links
    found = measure(html)
    assert found["distinct_links"] == shape.distinct_links
    assert found["tags"] == pytest.approx(shape.tags, rel=0.05)
    assert found["scripts"] == shape.scripts
    assert found["text_kb"] * 1024 == pytest.approx(shape.text_bytes, rel=0.1)
    assert 9 < found["depth"] < 12
    assert 13 < found["deepest"] < 21


def test_pages_of_the_web_have_the_attributes_and_scripts_of_real_ones() -> None:
    numbers = [number for number in range(60) if 90 <= web_shape(number).page_bytes / 1024 < 130]
    pages = [measure(_made(WEB, number)) for number in numbers]
    # Means of real pages of these sizes.
    for name, real in (("attribute_kb", 49.6), ("script_kb", 31.6), ("attributes", 1157)):
        assert statistics.mean(found[name] for found in pages) == pytest.approx(real, rel=0.2)


def test_pages_of_the_web_have_the_sizes_of_real_ones() -> None:
    sizes_kb = [web_shape(number).page_bytes / 1024 for number in range(1000)]
    assert statistics.median(sizes_kb) == pytest.approx(110, rel=0.02)
    assert statistics.mean(sizes_kb) == pytest.approx(140, rel=0.02)
    assert max(sizes_kb) <= 250


@pytest.mark.parametrize("ground", GROUNDS.values(), ids=lambda ground: ground.name)
def test_a_number_always_makes_the_same_page_and_others_make_others(ground: Ground) -> None:
    assert _made(ground, 5) == _made(ground, 5)
    assert _made(ground, 5) != _made(ground, 6)


@pytest.mark.parametrize("ground", [USUAL, WEB], ids=lambda ground: ground.name)
def test_pages_of_a_host_share_its_frame_and_are_no_duplicates(ground: Ground) -> None:
    pages = [_made(ground, 3 + 10 * number) for number in range(100)]
    for selector in ("nav li", "footer li"):
        blocks = [_items(html, selector) for html in pages]
        least = min(map(len, blocks))
        assert least > 10
        # Footers repeat the menu at their end.
        shared = least if ground is USUAL else 10
        assert len({each[:shared] for each in map(tuple, blocks)}) == 1
        assert blocks[0][:shared] != _items(_made(ground, 4), selector)[:shared]
    texts = [LexborHTMLParser(html).body.text(separator=" ") for html in pages]  # type: ignore[union-attr]
    hashes = [found for found in simhashes(texts, 3) if found is not None]
    assert len(hashes) == 100
    assert min(distance(a, b) for a, b in combinations(hashes, 2)) > 3


def _items(html: bytes, selector: str) -> list[tuple[str, str | None]]:
    """Return text and target of each item of a list."""
    items = LexborHTMLParser(html).css(f"{selector} a")
    return [(node.text(), node.attributes["href"]) for node in items]


def test_most_links_stay_on_the_host() -> None:
    hosts = [host_of_page(target, SIZE) for target in targets(3, SIZE)]
    assert hosts.count(host_of_page(3, SIZE)) >= 40
    assert len(set(hosts)) > 1


@pytest.mark.parametrize("number", NUMBERS)
def test_a_page_is_found_by_its_path(number: int) -> None:
    assert number_of(path_of(number)) == number


@pytest.mark.parametrize(
    "path", ["/", "/robots.txt", "/news/other-7.html", "/a-.html", "/x--1.html"]
)
def test_other_paths_are_no_pages(path: str) -> None:
    assert number_of(path) is None


# --- real pages -----------------------------------------------------------------------------------

REAL = b"""<!DOCTYPE html><html><head><link rel="canonical" href="https://news.example/a">
<script>var a = "https://cdn.example/x.js", word = "unchanged";</script></head>
<body><p title="kept">Some words &amp; more</p><a href="https://news.example/b?c=1">Next</a>
<a href="//Other.example:8080/d">Other</a><a href="/e">Here</a></body></html>"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.html").write_bytes(REAL)
    (tmp_path / "two.html.gz").write_bytes(gzip.compress(REAL.replace(b"words", b"terms")))
    (tmp_path / "notes.txt").write_text("no page")
    return tmp_path


def test_real_pages_lead_nowhere_but_to_the_benchmarks_web(folder: Path) -> None:
    html = RealPages(folder)(2, SIZE, 8000, "https").decode()
    tree = LexborHTMLParser(html)
    own, other, path = (node.attributes["href"] or "" for node in tree.css("a"))
    assert own == "https://h2.test:8000/b?c=1"
    assert re.fullmatch(r"https://h\d\.test:8000/d", other)
    assert path == "/e"
    assert ".example" not in html
    assert "canonical" not in html


def test_broken_links_of_real_pages_lead_nowhere_else_either(tmp_path: Path) -> None:
    page = b'<a href="http://https://a.example/b">1</a><a href="http://single">2</a> //kept'
    (tmp_path / "page.html").write_bytes(page)
    html = RealPages(tmp_path)(0, SIZE, 8000, "https").decode()
    links = [node.attributes["href"] or "" for node in LexborHTMLParser(html).css("a")]
    assert all(re.fullmatch(r"https://h\d\.test:8000(/b)?", link) for link in links)
    assert html.endswith("//kept")


def test_copies_of_real_pages_have_other_words_and_the_same_markup(folder: Path) -> None:
    make = RealPages(folder)
    first, copies = make(0, SIZE, 8000, "https"), [make(n, SIZE, 8000, "https") for n in (10, 20)]
    assert b"Some words &amp; more" in first
    for copy in copies:
        assert b"words" not in copy
        assert b"&amp;" in copy
        assert b'title="kept"' in copy
        assert b'"unchanged"' in copy
        assert len(copy) == len(first)
    assert len({first, *copies}) == 3


def test_every_path_of_a_web_of_real_pages_has_a_page_of_its_host(folder: Path) -> None:
    account = Account(SIZE.seeds)
    site = Site(Web(of_real_pages(folder), SIZE, 8000), account)
    for path in (b"/b?c=1", b"/e"):
        wire, _ = site.answer(b"h2.test", path)
        assert b"https://h2.test:8000/b?c=1" in _body(wire)
    assert b"Disallow" in site.answer(b"h2.test", b"/robots.txt")[0]
    assert site.answer(b"elsewhere.test", b"/e")[0].startswith(b"HTTP/1.1 404")
    assert b'"seeds": 0, "pages": 2, "repeated": 0' in account.take()


def test_a_folder_without_pages_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CrawlerError, match=str(tmp_path)):
        RealPages(tmp_path)


def test_real_pages_above_250_kb_are_left_out(folder: Path) -> None:
    (folder / "large.html").write_bytes(REAL.ljust(250 * 1024 + 1))
    make = RealPages(folder)
    assert all(len(make(number, SIZE, 8000, "https")) < 1000 for number in range(6))
    for path in folder.glob("[ot]*.html*"):
        path.unlink()
    with pytest.raises(CrawlerError, match="more than 250 KB"):
        RealPages(folder)


def test_figures_of_real_pages_have_a_name_of_their_own(folder: Path) -> None:
    ground = of_real_pages(folder)
    found = {figure.name: figure for figure in figures(ground, _runs("ours"))}
    assert found["crawl.web_real.handshake_share"].target is None
    assert all(name.startswith("crawl.web_real.") for name in found)


# --- answers --------------------------------------------------------------------------------------


def _body(wire: bytes) -> bytes:
    """Return the page in an answer."""
    head, _, body = wire.partition(b"\r\n\r\n")
    if b"chunked" in head:
        parts = []
        while body:
            length, _, body = body.partition(b"\r\n")
            parts.append(body[: int(length, 16)])
            body = body[int(length, 16) + 2 :]
        body = b"".join(parts)
    if b"Content-Encoding: gzip" in head:
        return gzip.decompress(body)
    return brotli.decompress(body) if b"Content-Encoding: br" in head else body


def test_answers_of_the_web_are_encoded_in_several_ways_and_hold_the_page() -> None:
    web = Web(WEB, SIZE, 8000)
    wires = [web.make(number, ahead=True).wire for number in range(40)]
    heads = [wire.partition(b"\r\n\r\n")[0] for wire in wires]
    assert sum(b"Content-Encoding: gzip" in head for head in heads) > 20
    assert any(b"Content-Encoding: br" in head for head in heads)
    assert any(b"Content-Encoding" not in head for head in heads)
    assert [_body(wire) for wire in wires] == [_made_at(web, number) for number in range(40)]


def _made_at(web: Web, number: int) -> bytes:
    return web.ground.page(number, web.size, web.port, web.ground.scheme)


def test_some_hosts_are_slow_and_some_close_their_connections() -> None:
    hosts = [Host.of(WEB, f"h{number}.test") for number in range(1000)]
    latencies_s = [host.latency_s for host in hosts if host.latency_s]
    assert len(latencies_s) == pytest.approx(200, abs=50)
    assert min(latencies_s) >= 0.05
    assert max(latencies_s) <= 0.5
    assert sum(host.closes for host in hosts) == pytest.approx(100, abs=30)
    assert not any(Host.of(USUAL, f"h{number}.test").closes for number in range(100))


def test_the_account_tells_seeds_from_others_and_pages_that_were_fetched_again() -> None:
    account = Account(SIZE.seeds)
    site = Site(Web(USUAL, SIZE, 8000), account)
    for number in (3, 3, 25):
        wire, _ = site.answer(host_of_page(number, SIZE).encode(), path_of(number).encode())
        assert wire.startswith(b"HTTP/1.1 200 OK")
    assert site.answer(b"h3.test", b"/elsewhere")[0].startswith(b"HTTP/1.1 404")
    assert b'"seeds": 1, "pages": 2, "repeated": 1' in account.take()
    assert b'"pages": 0' in account.take()


# --- figures --------------------------------------------------------------------------------------

COSTS = {
    "scrapy": 10.0,
    "scrapy_redis": 20.0,
    "crawlee": 7.0,
    "ours": 1.0,
    "ours_no_store": 0.5,
    "bare": 0.75,
    "base": 2.0,
}


def _runs(*keys: str) -> dict[str, list[Run]]:
    def run(cost: float) -> Run:
        return Run(
            cost,
            redis_ms=0.1,
            mongo_ms=0.2,
            handshake_share=0.05,
            loop_lag_p99_ms=20,
            loop_own_lag_p99_ms=10,
            peak_mb=100,
        )

    return {key: [run(COSTS[key] * factor) for factor in (5, 1, 0.9)] for key in keys}


def test_ratios_are_of_pages_a_cpu_second_and_medians() -> None:
    found = {figure.name: figure for figure in figures(USUAL, _runs(*COSTS))}
    assert found["crawl.usual.cpu_ms_per_page"].value == pytest.approx(1)
    assert found["crawl.usual.ratio_to_scrapy"].value == pytest.approx(10)
    assert found["crawl.usual.ratio_to_scrapy_redis"].value == pytest.approx(20)
    assert found["crawl.usual.ratio_to_crawlee"].value == pytest.approx(7)
    assert found["crawl.usual.no_store_ratio_to_scrapy"].value == pytest.approx(20)
    assert found["crawl.usual.share_of_bare_client"].value == pytest.approx(0.75)
    assert found["crawl.usual.ratio_to_base"].value == pytest.approx(0.5)
    assert found["crawl.usual.redis_ms_per_page"].value == pytest.approx(0.1)
    assert found["crawl.usual.mongo_ms_per_page"].value == pytest.approx(0.2)
    assert found["crawl.usual.ours.peak_mb"].value == pytest.approx(100)
    for server, users in (
        ("redis", {"scrapy_redis", "ours", "ours_no_store", "base"}),
        ("mongo", {"ours", "base"}),
    ):
        names = {f"crawl.usual.{key}.{server}_ms_per_page" for key in COSTS}
        assert names & {*found} == {f"crawl.usual.{key}.{server}_ms_per_page" for key in users}
    assert all(figure.met is not False for figure in found.values())
    assert {*COSTS} == {*(contender.key for contender in ALL), "base"}


def test_only_tls_has_handshakes_and_only_who_ran_has_figures() -> None:
    usual = {figure.name for figure in figures(USUAL, _runs("ours"))}
    web = {figure.name for figure in figures(WEB, _runs("ours"))}
    assert "crawl.web.handshake_share" in web
    assert "crawl.usual.handshake_share" not in usual
    assert not any("ratio" in name for name in usual)
    assert not list(figures(WEB, {}))


def test_ours_and_the_other_checkout_are_neighbours_and_take_turns_in_being_first() -> None:
    contenders = [*ALL, base(Path("/elsewhere"))]
    rounds = [[each.key for each in in_turn(contenders, number)] for number in range(3)]
    assert [keys[-2:] for keys in rounds] == [["ours", "base"], ["base", "ours"], ["ours", "base"]]
    assert all(sorted(keys) == sorted(COSTS) for keys in rounds)


def test_the_other_checkout_runs_by_the_same_command_there() -> None:
    other = base(Path("/elsewhere"))
    assert (other.command, other.environment) == (OURS.command, OURS.environment)
    assert other.folder == Path("/elsewhere")


@pytest.mark.parametrize(
    "arguments",
    [
        ["usual", "--only=ours,nobody"],
        ["moon"],
        ["--base=/nowhere"],
        ["--pages=/nowhere"],
        ["--rounds=few"],
    ],
)
def test_a_bad_argument_is_told_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


# --- profile --------------------------------------------------------------------------------------


def test_samples_tell_functions_alone_and_with_all_that_they_call() -> None:
    root = Path(__file__).parents[3]
    parse, read = f"{root}/crawler/a.py:parse", f"{root}/crawler/b.py:read"
    stacks = [
        ([read, parse], 3),
        ([read, read, parse], 1),
        (["/x/site-packages/lib.py:f", parse], 6),
    ]
    alone, ours = sampled(stacks, 2.0, top=2)[1:3], sampled(stacks, 2.0, top=2)[4:]
    assert [each.split() for each in alone] == [
        ["60.0%", "1200", "µs", "lib.py:f"],
        ["40.0%", "800", "µs", "crawler/b.py:read"],
    ]
    assert [each.split() for each in ours] == [
        ["100.0%", "2000", "µs", "crawler/a.py:parse"],
        ["40.0%", "800", "µs", "crawler/b.py:read"],
    ]


# --- peers ----------------------------------------------------------------------------------------


async def test_crawlee_resolves_links_against_the_host_of_a_page() -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "0.0.0.0") as server:
        port = server.sockets[0].getsockname()[1]
        request = Request.from_url(f"http://h3.test:{port}/news/page.html")
        async with LoopbackClient() as client:
            found = await client.crawl(request)
    assert await found.http_response.read() == b"OK"
    assert f"host: h3.test:{port}\r\n".encode() in asked[0].lower()
    assert request.loaded_url == request.url


# --- rig ------------------------------------------------------------------------------------------

WHOLE = {"seeds": 980, "pages": 1150, "repeated": 0}


@pytest.mark.parametrize(
    ("account", "stored"),
    [
        ({}, None),
        ({}, 1150),
        ({}, 1116),
        ({"seeds": 900}, 1150),
        ({"pages": 1116}, 1116),
        ({"pages": 1400}, 1400),
    ],
    ids=str,
)
def test_a_whole_crawl_is_accepted(account: dict[str, int], stored: int | None) -> None:
    check("it", 1000, {**WHOLE, **account}, stored=stored, log="WARNING: something")


@pytest.mark.parametrize(
    "account",
    [{"seeds": 899}, {"repeated": 1}, {"pages": 1115}, {"pages": 1401}, {"seeds": 0, "pages": 0}],
    ids=str,
)
def test_a_crawl_that_was_not_whole_was_disturbed(account: dict[str, int]) -> None:
    with pytest.raises(Disturbed, match="would mean nothing"):
        check("it", 1000, {**WHOLE, **account}, stored=None, log="")


def test_a_crawl_whose_requests_timed_out_was_disturbed() -> None:
    log = "Traceback (most recent call last):\n  DownloadTimeoutError: 15 seconds"
    with pytest.raises(Disturbed, match="15 seconds"):
        check("it", 1000, WHOLE, stored=None, log=log)


@pytest.mark.parametrize(
    ("stored", "log", "said"),
    [
        (0, "", "0 are stored"),
        (1115, "", "1115 are stored"),
        (1151, "", "1151 are stored"),
        (1150, "ERROR: x\nTraceback (most recent call last):\n  KeyError", "KeyError"),
        (None, "Traceback (most recent call last):\n  KeyError", "KeyError"),
    ],
)
def test_a_crawl_that_failed_is_an_error(stored: int | None, log: str, said: str) -> None:
    with pytest.raises(CrawlerError, match=said) as raised:
        check("it", 1000, WHOLE, stored=stored, log=log)
    assert not isinstance(raised.value, Disturbed)


# --- meter ----------------------------------------------------------------------------------------


def test_handshakes_count_copying_the_session_that_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, name in (
        (ssl.SSLContext, "wrap_bio"),
        (ssl.SSLObject, "do_handshake"),
        (ssl.SSLObject, "session"),
    ):
        # Puts back what the meter replaces.
        monkeypatch.setattr(kind, name, getattr(kind, name))
    meter = Handshakes()
    server = server_context(tmp_path, "*.test")
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    first = _connected(client, server, None)
    before_s = meter.cpu_s
    assert before_s > 0
    session = first.session
    assert session is not None
    copied_s = meter.cpu_s
    assert copied_s > before_s
    assert _connected(client, server, session).session_reused
    assert meter.cpu_s > copied_s


def _connected(
    client: ssl.SSLContext, server: ssl.SSLContext, session: ssl.SSLSession | None
) -> ssl.SSLObject:
    """Return the client's side of a connection, with its ticket."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname="h0.test", session=session)
    theirs = server.wrap_bio(there, back, server_side=True)
    for side in (ours, theirs, ours, theirs):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    theirs.write(b"OK")
    assert ours.read(2) == b"OK"
    return ours
