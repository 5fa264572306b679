"""Scripts, styles, images, fonts and counters: what pages of sites ask for beside their content."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from demo.features.site import Site
from demo.node import Behaviour, Node, Role

_SCRIPTS: Final = Path(__file__).resolve().parent.parent / "scripts"
JAVASCRIPT: Final = "text/javascript; charset=utf-8"

_SCRIPT: Final = "/static/site.js"
_STYLE: Final = "/static/site.css"
_LOGO: Final = "/static/logo.svg"
# Path → content type. The last two are where pages send something to.
_LEFT_OUT: Final = {
    _LOGO: "image/svg+xml",
    "/static/pixel.gif": "image/gif",
    "/static/font.woff2": "font/woff2",
    "/collect": "text/plain",
    "/live": "text/plain",
}
_PATHS: Final = (_SCRIPT, _STYLE, *_LEFT_OUT)
# What pages have at the beginning and at the end of their bodies.
TOP: Final = f'<link rel="stylesheet" href="{_STYLE}">\n<img src="{_LOGO}" alt="">\n'
BOTTOM: Final = (
    "<script>window.visits = window.visits || []; visits.push(Date.now());</script>\n"
    f'<script src="{_SCRIPT}" async></script>\n'
)


def source(name: str) -> bytes:
    """Return the text of a script or a style sheet."""
    return (_SCRIPTS / name).read_bytes()


def part(host: str, path: str, body: bytes, content_type: str, delay_s: float = 0.0) -> Node:
    """Return a part of pages, which nothing links to."""
    return Node(
        host,
        path,
        Behaviour.FILE,
        body=body,
        content_type=content_type,
        delay_s=delay_s,
        linked="",
        role=Role.PART,
    )


def static_files(site: Site) -> Iterator[Node]:
    """The files of a site whose pages have TOP and BOTTOM."""
    yield part(site.host, _SCRIPT, source("site.js"), JAVASCRIPT)
    yield part(site.host, _STYLE, source("site.css"), "text/css; charset=utf-8")
    for path, content_type in _LEFT_OUT.items():
        body = b'<svg xmlns="http://www.w3.org/2000/svg"/>' if path == _LOGO else b"."
        yield Node(
            site.host,
            path,
            Behaviour.FILE,
            body=body,
            content_type=content_type,
            linked="",
            role=Role.LEFT_OUT,
        )


def urls(host: str) -> tuple[str, ...]:
    """Return the URLs that every page with TOP and BOTTOM asks for."""
    return tuple(f"http://{host}{path}" for path in _PATHS)
