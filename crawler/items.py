"""Pages, the items of a crawl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from itemadapter import ItemAdapter

from crawler.urls import fingerprint

if TYPE_CHECKING:
    from crawler.frontier import Entry, Lease
    from crawler.parsing.document import Link

NOT_MODIFIED = "not_modified"


def parent_hash(entry: Entry) -> str:
    """Return the url_hash of the page that a URL was found on; empty for seeds."""
    return f"{entry.parent:016x}" if entry.parent else ""


def plain_item(item: Any) -> dict[str, Any]:
    """Return an item of any kind as a dict of values that every sink can store."""
    found: dict[str, Any] = plain(ItemAdapter(item).asdict())
    return found


def plain(value: Any) -> Any:
    """Return a value as one that every sink can store; what is of an unknown type as text."""
    match value:
        case None | bool() | float() | str() | bytes():
            return value
        case int():
            # Larger ones fit into no database.
            return value if -(2**63) <= value < 2**63 else str(value)
        case datetime():
            return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        case Mapping():
            return {str(key): plain(part) for key, part in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(part) for part in value]
    return str(value)


def _text(body: bytes) -> str:
    """Decode a body for feeds; the store keeps its bytes."""
    return body.decode("utf-8", "replace")


class Exchange(NamedTuple):
    """Request and response as they went over the wire, for sinks that archive them."""

    # Head and body of the request.
    request: bytes
    # Head of the response with the empty line at its end, as it came.
    head: bytes
    # Body without chunking, before Content-Encoding is undone.
    body: bytes
    # When the fetch began; Unix time.
    began_s: float
    # IP address of the server, or of the proxy.
    address: str
    # As in WARC-Protocol: "http/1.1", "tls/1.3".
    protocols: tuple[str, ...]
    # Why the body is not whole, as in WARC-Truncated: "length", "disconnect", "unspecified".
    truncated: str
    # URL of the request. A page that is rendered may have another one, by the history API.
    url: str = ""


@dataclass(frozen=True, slots=True)
class Rendering:
    """How a browser rendered a page; in the meta of its response as "rendering"."""

    ms: int
    # False: the page was still busy when its time was over.
    settled: bool
    # Requests of the page: sent, answered from memory, and left out by reason.
    parts: int
    parts_cached: int
    parts_left_out: Mapping[str, int]
    console_errors: int
    # URLs of the history API and of shadow trees, which are in no link of the HTML.
    routes: Sequence[str]
    # WebP.
    screenshot: bytes = b""

    def record(self) -> dict[str, Any]:
        """Return what a page's record has of it."""
        return {
            "ms": self.ms,
            "settled": self.settled,
            "parts": self.parts,
            "parts_cached": self.parts_cached,
            "parts_left_out": dict(self.parts_left_out),
            "console_errors": self.console_errors,
        }


class _Transient:
    """Attributes of a page between spider and pipelines; no fields, so no feed writes them."""

    # Pieces of text by which pages are compared; None for all text, or if none are compared.
    blocks: list[str] | None = None
    # Paragraphs of its main text, by which similar pages are found; None: these pieces.
    article: list[str] | None = None
    # Sketch of this text by MinHash, with a label, if pages are compared by it and the text is not
    # too short.
    sketch: bytes | None = None
    # Content hash and SimHash of the last visit, if they are known and have changed.
    earlier: tuple[str, str] | None = None
    # Links as the page writes them, where that is not the canonical form.
    written: Mapping[str, str] = MappingProxyType({})
    # Links with their texts, in page order, if they were asked for.
    anchors: Sequence[Link] = ()
    # Points for the scores of its links: of all, and more of single ones.
    link_points: int = 0
    points_by_link: Mapping[str, int] = MappingProxyType({})
    # When pages that it links to changed, in unix seconds, as feeds say.
    link_times: Mapping[str, float] = MappingProxyType({})
    # Lease by which the page was fetched.
    lease: Lease | None = None
    # False if the place that keeps contents has no room for its own: no page is its duplicate.
    is_kept: bool = True
    # Items of a spider whose items are no pages, as dicts.
    items: Sequence[dict[str, Any]] = ()
    # Where each sink of bodies keeps this page, by the name of the sink.
    places: Mapping[str, Mapping[str, str | int]] = MappingProxyType({})
    # Its bytes on the wire, if a sink archives them and our own client fetched the page.
    exchange: Exchange | None = None


@dataclass(slots=True, repr=False)
class Page(_Transient):
    """Page: one URL and the result of its visit. `links` are canonical and in order.

    `crawl` and `url_hash` identify it wherever it is stored.
    """

    url: str
    final_url: str
    status: int
    crawled_at: datetime
    # Name of its crawl; set when it is stored.
    crawl: str = ""
    # 64 bits of the canonical URL, in hex; those of a POST depend on its body too.
    url_hash: str = ""
    fetch_ms: int = 0
    depth: int = 0
    # Number of its front queue: 1 (first) to 5, 6 for documents, 7 for media.
    priority: int = 0
    # The page that it was found on: its url_hash, empty for seeds, and its URL where that is known.
    parent: str = ""
    parent_url: str | None = None
    # When the frontier first got the URL; None for URLs of crawls that earlier versions began.
    discovered_at: datetime | None = None
    # Name of the instance that fetched it.
    worker: str = ""
    redirects: list[str] = field(default_factory=list)
    # Status of each redirect; after a 301 or 308 only the final URL is worth a visit.
    redirect_statuses: list[int] = field(default_factory=list)
    # Special cases: "truncated" (and why: "truncated:length", ":chunks", ":reset"),
    # "not_modified", "redirect_loop", "too_many_redirects", "unread:encrypted" (the reason why a
    # document could not be read), "cut:pages" (what of it was left out at a limit) …
    flags: list[str] = field(default_factory=list)
    content_type: str = ""
    # Type by which the body was read; differs from `content_type` where that is missing or wrong.
    media_type: str = ""
    charset: str = ""
    # Language that the page declares, and that of its text as it was detected (ISO 639-1).
    language: str = ""
    text_language: str = ""
    title: str = ""
    description: str = ""
    author: str = ""
    # When it was published and last changed, as the page says.
    published_at: datetime | None = None
    updated_at: datetime | None = None
    # Each as a line of Markdown: "## Title".
    headings: list[str] = field(default_factory=list)
    canonical: str = ""
    # Feeds that the page offers, and the page in other languages (hreflang): language to URL.
    feeds: list[str] = field(default_factory=list)
    languages: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    # Statements about the use of the page, such as "noai", word for word, by where they were made.
    rights: dict[str, list[str]] = field(default_factory=dict)
    # Whether a browser rendered it: the body is what it shows, not what its server sent.
    rendered: bool = False
    # How well it fits the topic of the crawl, from 0 to 1.
    relevance: float | None = None
    size_bytes: int = 0
    content_hash: str = ""
    simhash: str = ""
    duplicate_of: str = ""
    # Of a near-duplicate: the bits in which the SimHashes differ, or the similarity by MinHash.
    duplicate_distance: int | None = None
    duplicate_similarity: float | None = None
    # False for pages that forbid it (noindex) and responses that are no page (404 …); why is in
    # `reason`.
    stored: bool = True
    reason: str = ""
    # Failed attempts in a row, and the last failure.
    error_count: int = 0
    last_error: str = ""
    robots_allowed: bool = True
    etag: str = ""
    last_modified: str = ""
    # Number of fetches, number of changes among them, and when it is due again.
    visits: int = 1
    changes: int = 0
    next_crawl: datetime | None = None
    # Seconds between this visit and the next one.
    recrawl_interval_s: float | None = None
    links: list[str] = field(default_factory=list)
    text: str = ""
    # Text without menus and the like, and the same as Markdown; only if PAGE_FIELDS has them.
    main_text: str = ""
    markdown: str = ""
    body: bytes = field(default=b"", metadata={"serializer": _text})
    # Fields that `extract` of a subclass of the web spider adds; "rendering" and "screenshot" of
    # pages that were rendered.
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.url_hash:
            self.url_hash = f"{fingerprint(self.url):016x}"

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_near_duplicate(self) -> bool:
        """Whether it has nearly the text of its original, and not the same bytes."""
        return self.duplicate_distance is not None or self.duplicate_similarity is not None

    @property
    def is_active(self) -> bool:
        """Whether the page is there, or may come back: its crawl visits it again."""
        return self.is_success or NOT_MODIFIED in self.flags or self.next_crawl is not None

    def __repr__(self) -> str:
        # Short: Scrapy logs items that fail, and a page may have megabytes.
        return f"<Page {self.status} {self.url}>"
