"""Links with parameters in any order are judged by robots.txt, and fetched, as they are written.

The access log is judged by a reader of robots.txt that is not the crawler's.
"""

import random
from collections.abc import Iterator
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.acceptance.crawls import Crawls
from tests.support.robots_reader import RobotsReader

QUERIES = """User-agent: *
Disallow: /*?sort=
Disallow: /search?q=
Disallow: /*utm_source=
Disallow: /*;jsessionid=
Disallow: /*?$
Disallow: /shop
Allow: /shop?view=all&page=
"""
# Only rules close a group of names.
OTHER_RECORDS = """User-agent: OtherBot
Disallow: /list
User-agent: FooBot
Crawl-delay: 0.001
Clean-param: ref /list
Content-Signal: search=yes
Anything: else
User-agent: *
Disallow: /*?sort=
Disallow: /search?q=
Disallow: /shop
Allow: /shop?view=all&page=
"""
FILES = {f"a{number}.test": QUERIES for number in range(5)} | {
    f"b{number}.test": OTHER_RECORDS for number in range(5)
}
LINKS = 1000
NAMES = {"sort": 2, "q": 4, "view": 0, "page": 9, "lang": 3, "utm_source": 2, "ref": 2}
SESSION = "0123456789abcdef0123456789abcdef"


def links_of_hosts() -> dict[str, list[str]]:
    """As the home page of each host writes them; some differ in their spelling only."""
    chance = random.Random(9)
    found: dict[str, list[str]] = {host: [] for host in FILES}
    for number in range(LINKS):
        names = chance.sample(list(NAMES), k=chance.randint(0, 4))
        values = [f"{chance.randint(0, NAMES[name])}" if NAMES[name] else "all" for name in names]
        path = chance.choice(["/list", "/search", "/shop"])
        session = f";jsessionid={SESSION}" if chance.random() < 0.1 else ""
        query = "&".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
        mark = "?" if query or chance.random() < 0.2 else ""
        found[list(FILES)[number % len(FILES)]].append(f"{path}{session}{mark}{query}")
    return found


def identity(link: str) -> str:
    """What a link is known by: without its session and tracking, its parameters in order."""
    path, _, query = link.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith("utm_")]
    return f"{path.partition(';')[0]}?{'&'.join(sorted(kept))}"


@pytest.fixture
def web() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server for all hosts: its address, and its access log of hosts and targets."""
    links, log = links_of_hosts(), list[tuple[str, str]]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host = self.headers["Host"]
            log.append((host, self.path))
            content_type, text = "text/html", f"<title>{escape(self.path)}</title>"
            if self.path == "/robots.txt":
                content_type, text = "text/plain", FILES[host]
            elif self.path == "/":
                text = "".join(f'<a href="{escape(link)}">it</a>' for link in links[host])
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", log
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_no_order_of_parameters_gets_round_robots_txt(
    tmp_path: Path, redis_url: str, web: tuple[str, list[tuple[str, str]]]
) -> None:
    address, log = web
    settings = {
        "DNS_OVERRIDES": f'{{".test": "{address}"}}',
        "USER_AGENT": "FooBot/1.0 (+http://foobot.test/)",
        "DELAY_MIN": 0,
        # What each page has so many of is no trap here.
        **dict.fromkeys(("TRAP_COMBINATIONS_MAX", "TRAP_FILTERS_MAX", "TRAP_SESSIONS_MAX"), 0),
        "TRAP_DUPLICATES_AFTER": 0,
    }
    seeds = " ".join(f"http://{host}/" for host in FILES)
    run = Crawls(tmp_path, redis_url).run(seeds, settings=settings)
    assert run.code == 0, run.stderr

    readers = {host: RobotsReader(text, "FooBot") for host, text in FILES.items()}
    # Of several spellings of one URL the first one counts.
    written: dict[tuple[str, str], str] = {(host, identity("/")): "/" for host in FILES}
    for host, links in links_of_hosts().items():
        for link in links:
            written.setdefault((host, identity(link)), link)
    fetched = [(host, target) for host, target in log if target != "/robots.txt"]
    as_written = [(host, written[host, identity(target)]) for host, target in fetched]
    assert [(host, link) for host, link in as_written if not readers[host].allows(link)] == []
    # All that the rules allow was fetched, as it is written.
    allowed = [(host, link) for (host, _), link in written.items() if readers[host].allows(link)]
    assert sorted(fetched) == sorted(allowed)
    assert 200 < len(allowed) < len(written) - 200
