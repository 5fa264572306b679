"""Difficult bodies: encodings, wrong charsets, too long, too short, too slow."""

from collections.abc import Iterator

from demo.features.site import Site
from demo.node import Behaviour, Node

HUGE_BYTES = 20 * 1024 * 1024


def gzip(site: Site) -> Iterator[Node]:
    """Pages that are sent gzip-encoded, whatever the client accepts."""
    for number in range(3):
        yield site.page(f"/packed/{number}", encoding="gzip")


def charsets(site: Site) -> Iterator[Node]:
    """Pages whose declared charset is wrong, unknown, absent, or right but not UTF-8."""
    declared = {
        "wrong": "text/html; charset=iso-8859-1",
        "unknown": "text/html; charset=x-no-such",
        "absent": "text/html",
    }
    for name, content_type in declared.items():
        yield site.page(f"/charset/{name}", content_type=content_type)
    latin = "iso-8859-1"
    yield site.page("/charset/latin", content_type=f"text/html; charset={latin}", charset=latin)


def truncated(site: Site) -> Iterator[Node]:
    """A body that ends before its Content-Length, always; and one that is whole the next time."""
    yield site.page("/cut/always", behaviour=Behaviour.TRUNCATED)
    yield site.page("/cut/once", behaviour=Behaviour.TRUNCATED, fails=1)


def huge(site: Site) -> Iterator[Node]:
    """A page of 20 MB, streamed."""
    yield Node(site.host, "/huge", Behaviour.HUGE)


def drip(site: Site) -> Iterator[Node]:
    """A page that arrives in small pieces over five seconds."""
    yield site.page("/drip", behaviour=Behaviour.DRIP, delay_s=5.0)
