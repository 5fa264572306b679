"""The synthetic web as one object: every URL's node and every page's links. Pure and lazy."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from demo import graph
from demo.features import catalogue, static_files
from demo.node import Link, Node, Shown
from demo.profile import BROWSER, HOSTILE, Profile, profile
from demo.tracking import without_tracking

ZOOS: Final = ("none", "demo", "full", "documents", BROWSER, HOSTILE)
# Pages for browsers are made in advance, those of a host all at once.
_BROWSER_PAGES_MAX: Final = 2 * catalogue.SITE_PAGES
_HOST: Final = re.compile(r"s(0|[1-9]\d{0,8})\.test", re.ASCII)
_PROFILES_KEPT: Final = 20_000
_EXTRAS_KEPT: Final = 2_000


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Which web it is. Equal options give equal bytes, on every machine."""

    hosts: int = 64
    pages: int = 42
    seed: int = 1
    zoo: str = "demo"

    def __post_init__(self) -> None:
        for name, least, most in (
            ("hosts", 1, 10_000_000),
            ("pages", 1, 1_000_000),
            ("seed", 0, 2**63 - 1),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} is {value}; give a number from {least} to {most}.")
        if self.zoo not in ZOOS:
            raise ValueError(f"zoo is {self.zoo!r}; give one of {', '.join(ZOOS)}.")
        if self.zoo == BROWSER and self.pages > _BROWSER_PAGES_MAX:
            raise ValueError(
                f"pages is {self.pages}; the zoo {BROWSER} has at most {_BROWSER_PAGES_MAX}."
            )


class Web:
    """Answers what exists at a URL and what a page links to."""

    def __init__(self, options: WebOptions) -> None:
        self.options = options
        self._profiles: dict[int, Profile] = {}
        self._extras: dict[int, dict[str, Node]] = {}

    @property
    def seeds(self) -> list[str]:
        """The URLs from which the whole web can be reached."""
        return ["http://s0.test/"]

    def profile(self, number: int) -> Profile:
        """Return what host `number` is."""
        known = self._profiles.get(number)
        if known is None:
            if len(self._profiles) >= _PROFILES_KEPT:
                self._profiles.clear()
            options = self.options
            known = profile(options.seed, number, options.pages, options.zoo)
            self._profiles[number] = known
        return known

    def host_number(self, host: str) -> int | None:
        """Return the number of a host name, or None if no such host exists."""
        found = _HOST.fullmatch(host)
        if found is None or int(found[1]) >= self.options.hosts:
            return None
        return int(found[1])

    def hosts_with(self, feature: str) -> Iterator[Profile]:
        """Yield the hosts that have a feature or a kind of robots.txt of this name."""
        for number in range(self.options.hosts):
            found = self.profile(number)
            if feature in found.features or feature == found.robots.name:
                yield found

    def extras(self, number: int) -> dict[str, Node]:
        """Return the special nodes of a host by path: features and robots probes."""
        known = self._extras.get(number)
        if known is None:
            if len(self._extras) >= _EXTRAS_KEPT:
                self._extras.clear()
            known = {node.path: node for node in catalogue.nodes(self, number)}
            self._extras[number] = known
        return known

    def find(self, host: str, target: str) -> Node | None:
        """Return the node at a path with query, or None. Tracking parameters do not matter."""
        number = self.host_number(host)
        if number is None:
            return None
        path = without_tracking(target)
        index = graph.page_index(number, path)
        if index is not None and index < self.profile(number).size:
            return self.page(number, index)
        return self.extras(number).get(path) or catalogue.trap_node(self, number, path)

    def page(self, number: int, index: int) -> Node:
        """Return the node of an ordinary page, or of the page that a feature has in its place."""
        known = self.profile(number)
        path = graph.page_path(number, index)
        if known.has_own_pages:
            return self.extras(number)[path]
        meta = self._page_meta_robots(number, index)
        shown = None
        if "scripts" in known.features:
            shown = Shown(parts=static_files.urls(known.host))
        return Node(known.host, path, index=index, meta_robots=meta, shown=shown)

    def page_url(self, number: int, index: int) -> str:
        """Return the URL of an ordinary page."""
        return f"http://s{number}.test{graph.page_path(number, index)}"

    def _page_meta_robots(self, number: int, index: int) -> str:
        # Only leaves are nofollow, so that the tree of pages stays whole.
        if self.options.zoo == "none" or index == 0:
            return ""
        if index % 29 == 17 and graph.CHILDREN * index + 1 >= self.profile(number).size:
            return "nofollow"
        return "noindex" if index % 23 == 11 else ""

    def page_targets(self, number: int, index: int, values: tuple[int, ...]) -> list[graph.Target]:
        """Return the ordinary pages that an ordinary page links to, with repetitions."""
        options, size = self.options, self.profile(number).size
        targets = [(number, child) for child in graph.children(index, size)]
        if index == 0:
            below = graph.tree_children(number, options.hosts)
            targets += [(host, 0) for host in below]
        drawn = graph.drawn_targets(values, number, size, options.hosts, options.pages)
        return targets + drawn

    def navigation(self, number: int) -> list[graph.Target]:
        """Return the pages in the navigation of every ordinary page of a host."""
        return [
            (number, index) for index in range(min(self.profile(number).size, graph.NAVIGATION))
        ]

    def home_links(self, number: int) -> list[Link]:
        """Return the links that only the home page of a host has: those to its special nodes."""
        nodes = self.extras(number).values()
        return [Link(node.url, node.linked == "nofollow") for node in nodes if node.linked]

    def links(self, node: Node) -> list[Link]:
        """Return every link on a node's page."""
        if node.index is None:
            return list(node.links)
        number = self.host_number(node.host)
        assert number is not None
        values = graph.page_draws(self.options.seed, number, node.index)
        targets = self.navigation(number) + self.page_targets(number, node.index, values)
        links = [Link(self.page_url(*target)) for target in dict.fromkeys(targets)]
        return links + (self.home_links(number) if node.index == 0 else [])
