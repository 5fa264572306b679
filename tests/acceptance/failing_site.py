"""A site whose URLs end in every way: pages, errors, nothing at all, a redirect, a robots.txt."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.threaded_server import running

PAGES = ("/", "/a", "/b", "/unindexed")
MISSING = ("/no1", "/no2", "/no3")
ROBOTS = "User-agent: *\nDisallow: /secret\n"
FAILED = {"status_404": 3, "status_410": 1, "status_500": 1, "connection": 1}


class Site(ThreadingHTTPServer):
    """Pages, pages that are gone, one that always fails, one that hangs up, and a redirect."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/hangs-up":
            self.close_connection = True
            return
        status, headers, body = self._answer()
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self) -> tuple[int, dict[str, str], bytes]:
        if self.path == "/robots.txt":
            return 200, {"Content-Type": "text/plain"}, ROBOTS.encode()
        if self.path == "/moved":
            return 301, {"Location": "/b"}, b""
        if self.path == "/broken":
            return 500, {}, b"<p>broken</p>"
        if self.path == "/gone":
            return 410, {}, b""
        if self.path == "/":
            links = (*PAGES, *MISSING, "/moved", "/broken", "/gone", "/hangs-up")
            links += ("/secret/1", "/secret/2")
            anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
            return 200, {}, f"<p>home</p>{anchors}".encode()
        if self.path in PAGES:
            text = " ".join(f"{self.path[1:]}{number}" for number in range(200))
            robots = {"X-Robots-Tag": "noindex"} if self.path == "/unindexed" else {}
            return 200, robots, f"<p>{text}</p>".encode()
        return 404, {}, b"<p>not here</p>"

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Site]:
    """A site on loopback, inside the block."""
    with running(Site()) as server:
        yield server
