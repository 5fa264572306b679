"""Which special nodes a host has: those of its features and the probes of its robots.txt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from demo.features import (
    bodies,
    changing,
    client_side,
    directives,
    documents,
    duplicates,
    failures,
    redirects,
    sitemaps,
    static_files,
)
from demo.features.site import Site
from demo.features.traps import TRAPS
from demo.features.traps import trap_node as make_trap_node
from demo.node import Node

if TYPE_CHECKING:
    from demo.web import Web

_FEATURES: Final[dict[str, Callable[[Site], Iterator[Node]]]] = {
    "redirects": redirects.redirects,
    "redirect_chains": redirects.redirect_chains,
    "redirect_loops": redirects.redirect_loops,
    "cross_redirects": redirects.cross_redirects,
    "exact_duplicates": duplicates.exact_duplicates,
    "near_duplicates": duplicates.near_duplicates,
    "canonicals": duplicates.canonicals,
    "meta_robots": directives.meta_robots,
    "nofollow_links": directives.nofollow_links,
    "gone": failures.gone,
    "gzip": bodies.gzip,
    "charsets": bodies.charsets,
    "flaky": failures.flaky,
    "resets": failures.resets,
    "sitemaps": sitemaps.sitemaps,
    "changing": changing.changing,
    "errors": failures.errors,
    "timeouts": failures.timeouts,
    "truncated": bodies.truncated,
    "huge": bodies.huge,
    "drip": bodies.drip,
    "retry_dates": failures.retry_dates,
    "documents": documents.documents,
    "scripts": static_files.static_files,
    "spa": client_side.spa,
    "frame": client_side.frame,
    "ready": client_side.ready,
    "endless": client_side.endless,
    "slow": client_side.slow,
    "shared": client_side.shared,
    "heavy": client_side.heavy,
    "moves": client_side.moves,
}
SITE_PAGES: Final = 60


def site(web: Web, number: int) -> Site:
    """Return what features need to know about a host."""
    known = web.profile(number)
    pages = tuple(web.page_url(number, index) for index in range(min(known.size, SITE_PAGES)))
    # The host that carries this one in the tree is ordinary and open.
    elsewhere = web.page_url(number - number % 4, 0)
    return Site(number, known.host, web.options.seed, pages, elsewhere)


def nodes(web: Web, number: int) -> Iterator[Node]:
    """Yield the special nodes of a host, except the endless ones beyond a trap's entrance."""
    here = site(web, number)
    known = web.profile(number)
    for feature in known.features:
        if feature in _FEATURES:
            yield from _FEATURES[feature](here)
        else:
            entrance = make_trap_node(here, feature, TRAPS[feature][0], linked="follow")
            assert entrance is not None
            yield entrance
    for path in known.robots.probes:
        yield here.page(path)
    if number % 4 == 0:
        yield from _mirrors(web, number + 2, here.host)
        yield from _for_others(web, number, here.host)


def _mirrors(web: Web, neighbour: int, host: str) -> Iterator[Node]:
    if neighbour < web.options.hosts and "exact_duplicates" in web.profile(neighbour).features:
        yield from duplicates.mirrored(site(web, neighbour), host)


def _for_others(web: Web, number: int, host: str) -> Iterator[Node]:
    """Yield the parts of other hosts' pages that this one has."""
    client, api_client = number + client_side.SCRIPTS_BELOW, number + client_side.API_BELOW
    if client < web.options.hosts and "shared" in web.profile(client).features:
        yield from client_side.scripts_for_others(host)
    if api_client < web.options.hosts and "shared" in web.profile(api_client).features:
        yield from client_side.api_for_others(site(web, api_client), host)


def trap_node(web: Web, number: int, path: str) -> Node | None:
    """Return the node of a path inside one of the host's traps, or None."""
    for feature in web.profile(number).features:
        if feature in TRAPS:
            found = make_trap_node(site(web, number), feature, path)
            if found is not None:
                return found
    return None
