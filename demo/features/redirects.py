"""Redirects: every status, chains of three hops, loops, and to another host."""

from collections.abc import Iterator
from typing import Final

from demo.features.site import Site
from demo.node import Behaviour, Node

STATUSES: Final = (301, 302, 307, 308)


def _redirect(site: Site, path: str, status: int, location: str, linked: str = "follow") -> Node:
    return Node(
        site.host, path, Behaviour.REDIRECT, status=status, location=location, linked=linked
    )


def redirects(site: Site) -> Iterator[Node]:
    """One redirect per status, each to an ordinary page of the host."""
    for place, status in enumerate(STATUSES):
        yield _redirect(site, f"/go/{status}", status, site.pages[place % len(site.pages)])


def redirect_chains(site: Site) -> Iterator[Node]:
    """Three hops that end in a page which nothing else links to."""
    yield _redirect(site, "/chain/1", 301, site.url("/chain/2"))
    yield _redirect(site, "/chain/2", 302, site.url("/chain/3"), linked="")
    yield _redirect(site, "/chain/3", 307, site.url("/chain/end"), linked="")
    yield site.page("/chain/end", linked="")


def redirect_loops(site: Site) -> Iterator[Node]:
    """Two URLs that redirect to each other, and one that redirects to itself."""
    yield _redirect(site, "/loop/a", 302, site.url("/loop/b"))
    yield _redirect(site, "/loop/b", 302, site.url("/loop/a"), linked="")
    yield _redirect(site, "/loop/self", 301, site.url("/loop/self"))


def cross_redirects(site: Site) -> Iterator[Node]:
    """Redirects to another host."""
    for status in STATUSES:
        yield _redirect(site, f"/away/{status}", status, site.elsewhere)
