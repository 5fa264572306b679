"""Decide whether a discovered URL belongs to the crawl. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import tldextract

from crawler.urls import host_of

SCOPES = ("host", "domain", "any")
# Files that are no pages. Served under another name they are still stopped by their type.
SKIPPED_EXTENSIONS = frozenset(
    """7z avi bin bmp bz2 css dmg doc docx eot exe flac flv gif gz ico iso jar jpeg jpg js m4a m4v
    mkv mov mp3 mp4 mpeg mpg msi ogg ogv otf pdf pkg png ppt pptx rar svg swf tar tgz tif tiff ttf
    wav webm webp wma wmv woff woff2 xls xlsx xz zip""".split()
)
# The bundled list of public suffixes: no network, and the same on every instance.
_extract = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)


@dataclass(frozen=True, slots=True)
class Scope:
    """What the crawl may follow, as the user asked for it."""

    scope: str = "domain"
    max_depth: int = 0

    def refuses(self, url: str, *, page_url: str, depth: int) -> str | None:
        """The reason not to follow a canonical URL found on a page, or None to follow it."""
        if self.max_depth and depth > self.max_depth:
            return "depth"
        if extension(url) in SKIPPED_EXTENSIONS:
            return "extension"
        if self.scope == "any":
            return None
        host, page_host = host_of(url), host_of(page_url)
        if host == page_host:
            return None
        if self.scope == "domain" and registered_domain(host) == registered_domain(page_host):
            return None
        return "scope"


def extension(url: str) -> str:
    """File extension of the URL's path in lower case, or an empty string."""
    name = url.partition("?")[0].rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def registered_domain(host: str) -> str:
    """The domain that was registered (example.co.uk of www.example.co.uk), or the host itself."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    found = _extract(name)
    if found.top_domain_under_public_suffix:
        return found.top_domain_under_public_suffix
    if found.suffix or found.ipv4 or name.startswith("["):
        return name
    # A suffix that is not listed, as inside a company: the list's own rule is its last label.
    return ".".join(name.rstrip(".").split(".")[-2:])
