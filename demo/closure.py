"""Find every URL that following links from the seeds leads to. Pure.

The walk obeys the hand-written robots expectations of each host and the nofollow marks. It is
breadth first, so that depths are shortest; it takes about 40 µs a page. If the crawl renders pages,
it also follows what only a browser shows, and notes the parts that pages ask for.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from demo.node import Behaviour, Link, Node, Role
from demo.robots_kinds import Access
from demo.web import Web


@dataclass(slots=True)
class Closure:
    """What the walk found: nodes to fetch, forbidden URLs, and URLs that may be fetched or not."""

    nodes: dict[str, Node] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    may: set[str] = field(default_factory=set)
    may_prefixes: set[str] = field(default_factory=set)
    # URL of a part → the documents that ask for it.
    parts: dict[str, set[str]] = field(default_factory=dict)


def split_url(url: str) -> tuple[str, str]:
    """Return the host and the path with query of a canonical URL."""
    parts = urlsplit(url)
    return parts.netloc, parts.path + (f"?{parts.query}" if parts.query else "")


def _outgoing(web: Web, node: Node, follow_nofollow: bool, renders: bool) -> Iterator[Link]:
    if node.behaviour is Behaviour.REDIRECT:
        yield Link(node.location)
    elif node.behaviour in {Behaviour.PAGE, Behaviour.DRIP, Behaviour.TRUNCATED} or node.recovers:
        closed = node.nofollow and not follow_nofollow
        shown = node.shown.links if renders and node.shown else ()
        for link in (*web.links(node), *shown):
            yield Link(link.url, closed or (link.nofollow and not follow_nofollow))


def _sitemap_urls(web: Web) -> Iterator[str]:
    for profile in web.hosts_with("sitemaps"):
        yield from (node.url for node in web.extras(profile.number).values() if node.in_sitemap)


def close_over(
    web: Web,
    agent: str,
    *,
    follow_nofollow: bool,
    read_sitemaps: bool,
    renders: bool,
    max_depth: int | None,
) -> Closure:
    """Walk from the seeds and return what there is to fetch."""
    found = Closure()
    skipped: set[str] = set()
    scrolled: set[str] = set()
    start = web.seeds + (list(_sitemap_urls(web)) if read_sitemaps else [])
    waiting = deque((url, 0) for url in start)
    known = set(start)
    while waiting:
        url, depth = waiting.popleft()
        node = _admit(web, url, agent, found)
        if node is None:
            continue
        leads_away = False
        if renders and node.shown is not None:
            _add_parts(web, node, agent, found)
            scrolled |= {link.url for link in node.shown.scrolled}
            leads_away = node.shown.leads_away
        step = 0 if leads_away or node.behaviour is Behaviour.REDIRECT else 1
        if max_depth is not None and depth + step > max_depth:
            continue
        for link in _outgoing(web, node, follow_nofollow, renders):
            if link.nofollow:
                skipped.add(link.url)
            elif link.url not in known:
                known.add(link.url)
                # A redirect's target keeps its depth, so it goes before what is deeper.
                (waiting.append if step else waiting.appendleft)((link.url, depth + step))
    found.may |= scrolled - found.nodes.keys()
    # A crawl that goes to such hosts may also find links to them there.
    open_prefixes = tuple(found.may_prefixes)
    hidden = skipped - found.nodes.keys() - found.may
    found.forbidden |= {url for url in hidden if not url.startswith(open_prefixes)}
    return found


def _look_up(web: Web, url: str, agent: str) -> tuple[Node, Access]:
    """Return the node of a URL, and what robots.txt says of it."""
    host, path = split_url(url)
    number = web.host_number(host)
    node = web.find(host, path)
    assert number is not None, url
    assert node is not None, url
    return node, web.profile(number).robots.decide(path, agent)


def _add_parts(web: Web, document: Node, agent: str, found: Closure) -> None:
    assert document.shown is not None
    for url in document.shown.parts:
        node, access = _look_up(web, url, agent)
        if node.role is Role.PART and access == "allow":
            found.parts.setdefault(url, set()).add(document.url)
        else:
            found.forbidden.add(url)


def _admit(web: Web, url: str, agent: str, found: Closure) -> Node | None:
    node, access = _look_up(web, url, agent)
    if access == "deny":
        found.forbidden.add(url)
        return None
    if access == "may":
        found.may_prefixes.add(f"http://{node.host}/")
        return None
    if node.trap:
        found.may_prefixes.add(f"http://{node.host}{node.trap}")
        return None
    found.nodes[url] = node
    return node
