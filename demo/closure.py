"""Find every URL that following links from the seeds leads to. Pure.

The walk obeys the hand-written robots expectations of each host and the nofollow marks. It is
breadth first, so that depths are shortest; it takes about 40 µs a page.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from demo.node import Behaviour, Link, Node
from demo.web import Web


@dataclass(slots=True)
class Closure:
    """What the walk found: nodes to fetch, forbidden URLs, and URLs that may be fetched or not."""

    nodes: dict[str, Node] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    may: set[str] = field(default_factory=set)
    may_prefixes: set[str] = field(default_factory=set)


def split_url(url: str) -> tuple[str, str]:
    """Return the host and the path with query of a canonical URL."""
    parts = urlsplit(url)
    return parts.netloc, parts.path + (f"?{parts.query}" if parts.query else "")


def _outgoing(web: Web, node: Node, follow_nofollow: bool) -> Iterator[Link]:
    if node.behaviour is Behaviour.REDIRECT:
        yield Link(node.location)
    elif node.behaviour in {Behaviour.PAGE, Behaviour.DRIP, Behaviour.TRUNCATED} or node.recovers:
        closed = node.nofollow and not follow_nofollow
        for link in web.links(node):
            yield Link(link.url, closed or (link.nofollow and not follow_nofollow))


def _sitemap_urls(web: Web) -> Iterator[str]:
    for profile in web.hosts_with("sitemaps"):
        yield from (node.url for node in web.extras(profile.number).values() if node.in_sitemap)


def close_over(
    web: Web, agent: str, follow_nofollow: bool, read_sitemaps: bool, max_depth: int | None
) -> Closure:
    """Walk from the seeds and return what there is to fetch."""
    found = Closure()
    skipped: set[str] = set()
    start = web.seeds + (list(_sitemap_urls(web)) if read_sitemaps else [])
    waiting = deque((url, 0) for url in start)
    known = set(start)
    while waiting:
        url, depth = waiting.popleft()
        node = _admit(web, url, agent, found)
        if node is None:
            continue
        step = 0 if node.behaviour is Behaviour.REDIRECT else 1
        if max_depth is not None and depth + step > max_depth:
            continue
        for link in _outgoing(web, node, follow_nofollow):
            if link.nofollow:
                skipped.add(link.url)
            elif link.url not in known:
                known.add(link.url)
                # A redirect's target keeps its depth, so it goes before what is deeper.
                (waiting.append if step else waiting.appendleft)((link.url, depth + step))
    # A crawl that goes to such hosts may also find links to them there.
    open_prefixes = tuple(found.may_prefixes)
    hidden = skipped - found.nodes.keys() - found.may
    found.forbidden |= {url for url in hidden if not url.startswith(open_prefixes)}
    return found


def _admit(web: Web, url: str, agent: str, found: Closure) -> Node | None:
    host, path = split_url(url)
    number = web.host_number(host)
    node = web.find(host, path)
    assert number is not None, url
    assert node is not None, url
    access = web.profile(number).robots.decide(path, agent)
    if access == "deny":
        found.forbidden.add(url)
        return None
    if access == "may":
        found.may_prefixes.add(f"http://{host}/")
        return None
    if node.trap:
        found.may_prefixes.add(f"http://{host}{node.trap}")
        return None
    found.nodes[url] = node
    return node
