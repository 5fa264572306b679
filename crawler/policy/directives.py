"""What a page asks of crawlers, by meta tags and X-Robots-Tag headers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Directives whose colon belongs to a value and not to the name of a crawler.
_WITH_VALUE = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


@dataclass(frozen=True, slots=True)
class Directives:
    """Whether a page wants not to be kept, and its links not to be followed."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: Directives) -> Directives:
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


def of_meta(content: str) -> Directives:
    """What the content of a meta robots tag asks for."""
    words = content.lower().replace(",", " ").split()
    everything = "none" in words
    return Directives(everything or "noindex" in words, everything or "nofollow" in words)


def of_headers(values: Iterable[str], crawler_name: str) -> Directives:
    """What X-Robots-Tag headers ask of all crawlers, and of the one with this name."""
    found = Directives()
    for value in values:
        meant = True
        for part in value.lower().split(","):
            name, colon, rest = part.partition(":")
            words = part
            if colon and name.strip() not in _WITH_VALUE:
                # It holds for all that follow in this header.
                meant = name.strip() in ("*", crawler_name.lower())
                words = rest
            if meant:
                found |= of_meta(words if words is rest or not colon else "")
    return found
