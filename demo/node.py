"""What the web knows about one URL: how it answers and where it links. Pure data."""

from dataclasses import dataclass
from enum import StrEnum


class Behaviour(StrEnum):
    """How the server answers a node."""

    PAGE = "page"
    REDIRECT = "redirect"
    STATUS = "status"
    RESET = "reset"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
    HUGE = "huge"
    DRIP = "drip"
    FILE = "file"


class Role(StrEnum):
    """What a node is for those who open pages in browsers."""

    PAGE = "page"
    # What pages are made of: scripts, style sheets, data.
    PART = "part"
    # What no text depends on: images, fonts, trackers.
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class Link:
    """A link in a page; `url` is in canonical form."""

    url: str
    nofollow: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """What a browser makes of a page, beyond its HTML."""

    # Of scripts: paragraphs, and links, also those that a script follows or gives to the history.
    texts: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    # Links that appear when the page is scrolled.
    scrolled: tuple[Link, ...] = ()
    # URLs of all that the page asks for, whether a polite browser fetches it or not.
    parts: tuple[str, ...] = ()
    # Whether the page does nothing but lead to its link.
    leads_away: bool = False
    # Whether the page takes all memory or time of its browser.
    is_fatal: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One URL. `index` is set for ordinary pages, whose links and text come from the site graph.

    `fails` is how often the behaviour is shown before the node answers as a page; `None` means
    always. Two nodes with the same `text`, `variant` and `links` have the same bytes, if they have
    no `body` of their own.
    """

    host: str
    path: str
    behaviour: Behaviour = Behaviour.PAGE
    index: int | None = None
    status: int = 200
    location: str = ""
    links: tuple[Link, ...] = ()
    text: str = ""
    variant: int = 0
    paragraphs: int = 8
    # What is around the article (demo/frames.py), and how many words of it are others.
    frame: str = ""
    changed: int = 0
    canonical: str = ""
    meta_robots: str = ""
    fails: int | None = None
    retry_after: str = ""
    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    encoding: str = ""
    charset: str = "utf-8"
    period_s: int = 0
    # Whether the page shows the time: its bytes change every second, its text does not.
    clock: bool = False
    delay_s: float = 0.0
    # How the host's home page refers to the node: "follow", "nofollow", or "" (not at all).
    linked: str = "follow"
    in_sitemap: bool = False
    exact_group: str = ""
    near_group: str = ""
    trap: str = ""
    role: Role = Role.PAGE
    # None: a browser shows what is in the HTML.
    shown: Shown | None = None

    @property
    def url(self) -> str:
        """The canonical URL."""
        return f"http://{self.host}{self.path}"

    @property
    def recovers(self) -> bool:
        """Whether the node answers as a page after `fails` bad answers."""
        return self.fails is not None

    @property
    def noindex(self) -> bool:
        """Whether the page asks not to be stored."""
        return "noindex" in self.meta_robots or self.meta_robots == "none"

    @property
    def nofollow(self) -> bool:
        """Whether the page asks that none of its links be followed."""
        return "nofollow" in self.meta_robots or self.meta_robots == "none"
