"""What a correct polite crawl of the synthetic web must do. No HTTP, no robots parser."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from demo.closure import Closure, close_over
from demo.node import Behaviour, Node, Shown
from demo.robots_answer import PATH, redirected_to
from demo.web import Web, WebOptions

# How often more than once a URL may be asked for that never gets better; retry policies differ.
RETRIES_ALLOWED: Final = 20
_LOOP_REPEATS: Final = 2
_STORABLE: Final = {Behaviour.PAGE, Behaviour.DRIP}


@dataclass(frozen=True, slots=True)
class Truth:
    """The sets of URLs, in canonical form.

    must_fetch: each is fetched until it shows its final status, which `statuses` gives.
    must_not_fetch: linked, but denied by robots.txt or linked by nofollow only. Of what rendered
    pages ask for: parts that robots.txt denies, and what no text depends on, such as images.
    may_fetch, may_prefixes: neither is an error; the prefixes stand for endless traps and for
    hosts on whose robots.txt good crawlers differ.
    must_store: the pages to store. Of each group in exact_groups and near_groups at least one;
    the others may be marked as duplicates instead.
    extra_fetches: how often more than once a URL may be fetched; absent means 0.
    sitemaps: those of must_fetch that are no pages but lists of them.
    parts: scripts, styles and data of pages, each with the documents that ask for it. They may be
    fetched to render one of these, and are never pages. Empty for a crawl that does not render.
    needs_browser: the hosts with text or links that are in no HTML.
    shown: for pages of such hosts what a browser shows beyond the HTML, if the crawl renders.
    """

    must_fetch: frozenset[str]
    must_not_fetch: frozenset[str]
    may_fetch: frozenset[str]
    may_prefixes: tuple[str, ...]
    must_store: frozenset[str]
    exact_groups: tuple[frozenset[str], ...]
    near_groups: tuple[frozenset[str], ...]
    statuses: Mapping[str, int]
    extra_fetches: Mapping[str, int]
    crawl_delays_s: Mapping[str, float]
    change_periods_s: Mapping[str, int]
    sitemaps: frozenset[str] = frozenset()
    parts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    needs_browser: frozenset[str] = frozenset()
    shown: Mapping[str, Shown] = field(default_factory=dict)

    def may(self, url: str) -> bool:
        """Say whether fetching `url` is neither required nor wrong."""
        return url in self.may_fetch or url.startswith(self.may_prefixes)

    def missing_from(self, stored: Iterable[str]) -> set[str]:
        """Return the pages that a store lacks; a group is complete with one of its members."""
        have = set(stored)
        missing = set(self.must_store - have)
        for group in self.exact_groups + self.near_groups:
            if group & have:
                missing -= group
        return missing


def final_status(node: Node) -> int:
    """Return the status a node shows in the end; 0 if it never answers."""
    if node.behaviour in {Behaviour.RESET, Behaviour.TIMEOUT} and not node.recovers:
        return 0
    if node.behaviour is Behaviour.REDIRECT:
        return node.status
    return node.status if node.behaviour is Behaviour.STATUS and not node.recovers else 200


def _extra_fetches(web: Web, node: Node, renders: bool) -> int:
    if renders and node.shown is not None and node.shown.is_fatal:
        return RETRIES_ALLOWED
    if node.fails is not None:
        return node.fails
    if node.behaviour is Behaviour.REDIRECT:
        return _LOOP_REPEATS if _returns(web, node) else 0
    lasting = node.behaviour in {Behaviour.RESET, Behaviour.TIMEOUT, Behaviour.TRUNCATED}
    return RETRIES_ALLOWED if lasting or node.status in {429, 500, 503} else 0


def _returns(web: Web, node: Node) -> bool:
    at: Node | None = node
    for _ in range(5):
        if at is None or not at.location:
            return False
        host, _, path = at.location.removeprefix("http://").partition("/")
        if at.location == node.url:
            return True
        at = web.find(host, "/" + path)
    return False


def _stored(node: Node, renders: bool) -> bool:
    if renders and node.shown is not None and (node.shown.leads_away or node.shown.is_fatal):
        return False
    is_page = node.behaviour in _STORABLE or node.recovers
    return is_page and not node.noindex and node.content_type.startswith("text/html")


def _groups(nodes: Iterable[Node], name: str, stored: frozenset[str]) -> tuple[frozenset[str], ...]:
    members: dict[str, set[str]] = {}
    for node in nodes:
        group = getattr(node, name)
        if group and node.url in stored:
            members.setdefault(group, set()).add(node.url)
    return tuple(frozenset(urls) for urls in members.values() if len(urls) > 1)


def _may_fetch(web: Web, found: Closure) -> frozenset[str]:
    urls = set(found.may)
    for number in range(web.options.hosts):
        profile = web.profile(number)
        urls.add(f"http://{profile.host}{PATH}")
        if profile.robots.redirect:
            urls.add(redirected_to(profile))
        if web.options.zoo != "none":
            urls |= {node.url for node in web.extras(number).values() if node.in_sitemap}
    return frozenset(urls - found.nodes.keys() - found.forbidden)


def truth(
    options: WebOptions,
    *,
    user_agent: str = "crawler",
    follow_nofollow: bool = False,
    read_sitemaps: bool = False,
    renders: bool = False,
    max_depth: int | None = None,
) -> Truth:
    """Compute the truth for a crawl from the web's seeds.

    `user_agent` is the product token that robots groups are chosen by. `follow_nofollow` is for
    crawlers that follow rel=nofollow links and the links of nofollow pages. `read_sitemaps` is for
    crawlers that read the Sitemap lines of robots.txt. `renders` is for those that open pages in a
    browser, all or those that need it. `max_depth` counts links from the seed by the shortest way;
    a redirect is no step.
    """
    web = Web(options)
    found = close_over(
        web,
        user_agent,
        follow_nofollow=follow_nofollow,
        read_sitemaps=read_sitemaps,
        renders=renders,
        max_depth=max_depth,
    )
    nodes = found.nodes
    stored = frozenset(url for url, node in nodes.items() if _stored(node, renders))
    shown = {url: node.shown for url, node in nodes.items() if renders and node.shown}
    # Copies of a shell differ when they are rendered.
    copies = [node for url, node in nodes.items() if url not in shown]
    profiles = [web.profile(number) for number in range(options.hosts)]
    needs_browser = frozenset(known.host for known in profiles if known.needs_browser)
    delays = {known.host: known.robots.crawl_delay_s(user_agent) for known in profiles}
    extra = {
        url: _extra_fetches(web, node, renders) for url, node in nodes.items() if node.index is None
    }
    return Truth(
        must_fetch=frozenset(nodes),
        must_not_fetch=frozenset(found.forbidden),
        may_fetch=_may_fetch(web, found),
        may_prefixes=tuple(sorted(found.may_prefixes)),
        must_store=stored,
        exact_groups=_groups(copies, "exact_group", stored),
        near_groups=_groups(copies, "near_group", stored),
        statuses={url: final_status(node) for url, node in nodes.items()},
        extra_fetches={url: times for url, times in extra.items() if times},
        crawl_delays_s={host: delay_s for host, delay_s in delays.items() if delay_s},
        change_periods_s={url: node.period_s for url, node in nodes.items() if node.period_s},
        sitemaps=frozenset(
            url
            for url, node in nodes.items()
            if node.in_sitemap and node.behaviour is Behaviour.FILE
        ),
        parts={url: frozenset(documents) for url, documents in found.parts.items()},
        needs_browser=needs_browser,
        shown={url: each for url, each in shown.items() if each.texts},
    )
