"""What a page says of itself, and where it points to."""

from __future__ import annotations

from dataclasses import dataclass, field

# What is kept of each, since it is stored with the page: hostile pages have megabytes of it.
MAX_TITLE, MAX_DESCRIPTION, MAX_LANGUAGE = 2000, 10_000, 100
MAX_FEEDS, MAX_LANGUAGES = 100, 500


@dataclass(frozen=True, slots=True)
class Link:
    """A link as its page presents it."""

    url: str
    rel: str = ""
    text: str = ""


@dataclass(slots=True)
class Document:
    """A page that was read. All URLs are canonical; `written` has the links that are not so."""

    charset: str = ""
    title: str = ""
    description: str = ""
    language: str = ""
    canonical: str = ""
    noindex: bool = False
    nofollow: bool = False
    # What a visitor reads.
    text: str = ""
    # The pieces of it that the page is compared by, without its frame; None: all of it.
    blocks: list[str] | None = None
    # Outlinks to follow, each once: of the head, of anchors in page order, of frames. `anchors` has
    # more of the same, if wanted.
    links: list[str] = field(default_factory=list)
    anchors: list[Link] = field(default_factory=list)
    # How links are written, those that are not written as their canonical form.
    written: dict[str, str] = field(default_factory=dict)
    feeds: list[str] = field(default_factory=list)
    # The page in other languages: language to URL.
    languages: dict[str, str] = field(default_factory=dict)
