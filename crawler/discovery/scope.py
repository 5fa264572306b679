"""Decide whether a discovered URL belongs to the crawl. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawler import config
from crawler.frontier.entry import DOCUMENTS as DOCUMENT_QUEUE
from crawler.frontier.entry import MEDIA as MEDIUM_QUEUE
from crawler.parsing.documents import HEAVY
from crawler.urls import host_of, registered_domain

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# host, domain: of the page that has the link. seeds: the registered domains of all seeds.
SCOPES = ("host", "domain", "seeds", "any")
# Kinds of URLs by the endings of their paths. Any other ending is that of a page, as is none.
PAGE, DOCUMENT, MEDIUM, FILE = "page", "document", "medium", "file"
MEDIA = frozenset(
    """avi bmp flac flv gif ico jpeg jpg m4a m4v mkv mov mp3 mp4 mpeg mpg ogg ogv png svg swf tif
    tiff wav webm webp wma wmv""".split()
)
# Those that crawler/parsing reads, and those of formats that it does not read.
DOCUMENTS = frozenset("docm docx epub odp ods odt pdf pptm pptx xlsm xlsx".split())
OLD_DOCUMENTS = frozenset("doc ppt rtf xls".split())
_FILES = frozenset(
    """7z bin bz2 css dmg eot exe gz iso jar js msi otf pkg rar tar tgz ttf woff woff2 xz
    zip""".split()
)
KIND_OF_ENDING: Mapping[str, str] = {
    **dict.fromkeys(MEDIA, MEDIUM),
    **dict.fromkeys(DOCUMENTS | OLD_DOCUMENTS, DOCUMENT),
    **dict.fromkeys(_FILES, FILE),
}
# Front queue of each kind that has one of its own.
_QUEUE_OF_KIND = {DOCUMENT: DOCUMENT_QUEUE, MEDIUM: MEDIUM_QUEUE, FILE: MEDIUM_QUEUE}
QUEUE_OF_ENDING: Mapping[str, int] = {
    ending: _QUEUE_OF_KIND[kind] for ending, kind in KIND_OF_ENDING.items()
}
# Files that are no pages. Those with another extension are still stopped by their content type.
SKIPPED_EXTENSIONS = frozenset(KIND_OF_ENDING)
_MEDIA_TYPES = ("image/", "audio/", "video/")
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Scope:
    """Rules for the URLs that a crawl may follow."""

    scope: str = "domain"
    max_depth: int = 0
    # Characters of a URL.
    max_url_length: int = 0
    # Domains, including their subdomains, in lower case.
    allowed_domains: AbstractSet[str] = _NONE
    excluded_domains: AbstractSet[str] = _NONE
    # Searched in the whole URL: at least one of `include` must match, and none of `exclude`.
    include: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[re.Pattern[str], ...] = ()
    # For the scope "seeds".
    seed_domains: AbstractSet[str] = _NONE
    skipped_extensions: AbstractSet[str] = SKIPPED_EXTENSIONS
    # The registered domain of a host.
    domain_of: Callable[[str], str] = registered_domain

    def refuses(self, url: str, *, page_url: str, depth: int) -> str | None:
        """Return the reason not to follow a canonical URL found on a page, or None."""
        if self.is_too_deep(depth):
            return "depth"
        return (
            self.refuses_form(url, extension(url))
            or self.refuses_host(host_of(url), host_of(page_url))
            or self.refuses_text(url)
        )

    # Parts of it, for callers that check many links of one page.

    def is_too_deep(self, depth: int) -> bool:
        """Return whether this depth is beyond the limit."""
        return 0 < self.max_depth < depth

    def refuses_form(self, url: str, ending: str) -> str | None:
        """Return the reason if a URL is too long, or no page by its extension."""
        if self.is_too_long(url):
            return "too_long"
        return "extension" if ending in self.skipped_extensions else None

    def takes_any_host(self) -> bool:
        """Return whether refuses_host accepts every host."""
        return self.scope == "any" and not self.excluded_domains and not self.allowed_domains

    def refuses_host(self, host: str, page_host: str) -> str | None:
        """Return the reason not to follow links from one host to another, or None."""
        if self.excluded_domains and is_within(host, self.excluded_domains):
            return "excluded"
        if self.allowed_domains and not is_within(host, self.allowed_domains):
            return "scope"
        return None if host == page_host or self._spans(host, page_host) else "scope"

    def refuses_text(self, url: str) -> str | None:
        """Return the reason if the patterns of `include` and `exclude` refuse a URL."""
        if self.include and not any(pattern.search(url) for pattern in self.include):
            return "include"
        if self.exclude and any(pattern.search(url) for pattern in self.exclude):
            return "exclude"
        return None

    def excludes(self, url: str) -> bool:
        """Is a URL in an excluded domain? It may have been excluded after the URL was found."""
        return bool(self.excluded_domains) and is_within(host_of(url), self.excluded_domains)

    def is_too_long(self, url: str) -> bool:
        """Return whether a URL is longer than the crawl allows."""
        return 0 < self.max_url_length < len(url)

    def refuses_sitemap(self, url: str, *, site: str) -> str | None:
        """Return the reason not to read a sitemap; one anywhere in the site's domain is fine."""
        host, home = host_of(url), host_of(site)
        if self.excludes(url):
            return "excluded"
        if self.domain_of(host) != self.domain_of(home) and not self._spans(host, home):
            return "scope"
        return None

    def refuses_redirect(self, url: str, *, source_url: str, depth: int) -> str | None:
        """Return the reason not to follow a redirect, or None.

        A seed may redirect anywhere, since the user asked for it; the scope of its links is then
        measured from the target.
        """
        if depth == 0:
            return "excluded" if self.excludes(url) else None
        # A redirect is no step deeper.
        return self.refuses(url, page_url=source_url, depth=0)

    def _spans(self, host: str, page_host: str) -> bool:
        """Return whether the scope allows links from one host to another."""
        if self.scope in ("any", "host"):
            return self.scope == "any"
        domain = self.domain_of(host)
        if domain == self.domain_of(page_host):
            return True
        return self.scope == "seeds" and domain in self.seed_domains


def skipped_extensions(settings: BaseSettings) -> AbstractSet[str]:
    """Return the extensions of files that are not followed."""
    given = config.value(settings, "SKIPPED_EXTENSIONS")
    if given is not None:
        names = given.split(",") if isinstance(given, str) else given
        # None of an empty text: every URL without an extension would have it.
        return frozenset(name.strip().lower().removeprefix(".") for name in names) - {""}
    followed = MEDIA if config.value(settings, "FOLLOW_MEDIA") else _NONE
    if config.value(settings, "FOLLOW_DOCUMENTS"):
        followed |= DOCUMENTS
    return SKIPPED_EXTENSIONS - followed


def extension(url: str) -> str:
    """Return the file extension of a URL's path in lower case, or an empty string."""
    return extension_of(url.partition("?")[0].rpartition("/")[2])


def extension_of(segment: str) -> str:
    """Return the file extension of the last segment of a path."""
    return segment.rpartition(".")[2].lower() if "." in segment else ""


def kind_of(url: str) -> str:
    """Return what a URL leads to, by its ending: PAGE, DOCUMENT, MEDIUM or FILE."""
    return KIND_OF_ENDING.get(extension(url), PAGE)


def queue_of_type(media_type: str) -> int:
    """Return the front queue of a type that has one of its own; 0 for that of a page."""
    if media_type in HEAVY:
        return DOCUMENT_QUEUE
    return MEDIUM_QUEUE if media_type.startswith(_MEDIA_TYPES) else 0


def is_within(host: str, domains: AbstractSet[str]) -> bool:
    """Is the host, its port aside, one of the domains or below one of them?"""
    return domain_within(host, domains) is not None


def domain_within(host: str, domains: Container[str]) -> str | None:
    """Return which of the domains the host is, its port aside, or is below; None if of none."""
    if host.startswith("["):
        name = host[: host.index("]") + 1]
        return name if name in domains else None
    name = host.partition(":")[0]
    while name:
        if name in domains:
            return name
        name = name.partition(".")[2]
    return None
