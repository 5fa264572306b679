"""Decide whether a discovered URL belongs to the crawl. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawler.config.values import value
from crawler.urls import host_of, registered_domain

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# host, domain: of the page that has the link. seeds: the registered domains of all seeds.
SCOPES = ("host", "domain", "seeds", "any")
# Pictures, sound and films.
MEDIA = frozenset(
    """avi bmp flac flv gif ico jpeg jpg m4a m4v mkv mov mp3 mp4 mpeg mpg ogg ogv png svg swf tif
    tiff wav webm webp wma wmv""".split()
)
# Files that are no pages. Served under another name they are still stopped by their type.
SKIPPED_EXTENSIONS = MEDIA | frozenset(
    """7z bin bz2 css dmg doc docx eot exe gz iso jar js msi otf pdf pkg ppt pptx rar tar tgz ttf
    woff woff2 xls xlsx xz zip""".split()
)
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Scope:
    """What the crawl may follow, as the user asked for it."""

    scope: str = "domain"
    max_depth: int = 0
    # Characters of a URL.
    max_url_length: int = 0
    # Domains with all that is below them, in lower case.
    allowed_domains: AbstractSet[str] = _NONE
    excluded_domains: AbstractSet[str] = _NONE
    # Searched for in the whole URL: one of `include` must be there, none of `exclude` may be.
    include: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[re.Pattern[str], ...] = ()
    # For the scope "seeds".
    seed_domains: AbstractSet[str] = _NONE
    skipped_extensions: AbstractSet[str] = SKIPPED_EXTENSIONS
    # The registered domain of a host.
    domain_of: Callable[[str], str] = registered_domain

    def refuses(self, url: str, *, page_url: str, depth: int) -> str | None:
        """The reason not to follow a canonical URL found on a page, or None to follow it."""
        if self.is_too_deep(depth):
            return "depth"
        return (
            self.refuses_form(url, extension(url))
            or self.refuses_host(host_of(url), host_of(page_url))
            or self.refuses_text(url)
        )

    # Its parts, for whoever judges many links of one page.

    def is_too_deep(self, depth: int) -> bool:
        """Are links at this depth beyond the crawl?"""
        return 0 < self.max_depth < depth

    def refuses_form(self, url: str, ending: str) -> str | None:
        """Is it too long, or no page by its ending?"""
        if 0 < self.max_url_length < len(url):
            return "too_long"
        return "extension" if ending in self.skipped_extensions else None

    def takes_any_host(self) -> bool:
        """Does refuses_host refuse none?"""
        return self.scope == "any" and not self.excluded_domains and not self.allowed_domains

    def refuses_host(self, host: str, page_host: str) -> str | None:
        """May a page of one host lead to another?"""
        if self.excluded_domains and is_within(host, self.excluded_domains):
            return "excluded"
        if self.allowed_domains and not is_within(host, self.allowed_domains):
            return "scope"
        return None if host == page_host or self._spans(host, page_host) else "scope"

    def refuses_text(self, url: str) -> str | None:
        """Does it lack what one of all must be in it, or has it what none may have?"""
        if self.include and not any(pattern.search(url) for pattern in self.include):
            return "include"
        if self.exclude and any(pattern.search(url) for pattern in self.exclude):
            return "exclude"
        return None

    def excludes(self, url: str) -> bool:
        """Is it of a domain that was excluded, perhaps after the URL was found?"""
        return bool(self.excluded_domains) and is_within(host_of(url), self.excluded_domains)

    def is_too_long(self, url: str) -> bool:
        """Has it more characters than the crawl wants?"""
        return 0 < self.max_url_length < len(url)

    def refuses_sitemap(self, url: str, *, site: str) -> str | None:
        """The same for a sitemap that a site names: it may be anywhere in the site's own domain."""
        host, home = host_of(url), host_of(site)
        if self.excludes(url):
            return "excluded"
        if self.domain_of(host) != self.domain_of(home) and not self._spans(host, home):
            return "scope"
        return None

    def refuses_redirect(self, url: str, *, source_url: str, depth: int) -> str | None:
        """The same for the target of a redirect. A seed may lead anywhere: the user asked for it.

        What it leads to is the page that the scope of its links is measured from.
        """
        if depth == 0:
            return "excluded" if self.excludes(url) else None
        # A redirect is no step deeper.
        return self.refuses(url, page_url=source_url, depth=0)

    def _spans(self, host: str, page_host: str) -> bool:
        """May a page's links lead to another host?"""
        if self.scope in ("any", "host"):
            return self.scope == "any"
        domain = self.domain_of(host)
        if domain == self.domain_of(page_host):
            return True
        return self.scope == "seeds" and domain in self.seed_domains


def skipped_extensions(settings: BaseSettings) -> AbstractSet[str]:
    """Return the extensions of files that are not followed."""
    if value(settings, "SKIPPED_EXTENSIONS") is not None:
        names = settings.getlist("SKIPPED_EXTENSIONS")
        return frozenset(name.strip().lower().removeprefix(".") for name in names)
    return SKIPPED_EXTENSIONS - (MEDIA if value(settings, "FOLLOW_MEDIA") else _NONE)


def extension(url: str) -> str:
    """File extension of the URL's path in lower case, or an empty string."""
    return extension_of(url.partition("?")[0].rpartition("/")[2])


def extension_of(segment: str) -> str:
    """The same of the last segment of a path."""
    return segment.rpartition(".")[2].lower() if "." in segment else ""


def is_within(host: str, domains: AbstractSet[str]) -> bool:
    """Is the host, its port aside, one of the domains or below one of them?"""
    if host.startswith("["):
        return host[: host.index("]") + 1] in domains
    name = host.partition(":")[0]
    while name:
        if name in domains:
            return True
        name = name.partition(".")[2]
    return False
