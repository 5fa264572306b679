"""What a page asks of crawlers, by meta tags and X-Robots-Tag headers. Pure.

`unavailable_after` is read past: it is for those who show pages, not for those who fetch them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# A directive and the first word of its value, where "none" has another meaning. The rest of a date
# asks for nothing.
_WITH_VALUE = re.compile(
    r"\b(?:unavailable_after|max-snippet|max-image-preview|max-video-preview)\s*:\s*[^\s,]*"
)
# The name of a crawler, "*" for all; a colon before minutes is of a date.
_NAMED = re.compile(r"([^:]+):(?!\d\d)")


@dataclass(frozen=True, slots=True)
class Directives:
    """Whether a page wants not to be kept, and its links not to be followed."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: Directives) -> Directives:
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


def of_meta(content: str) -> Directives:
    """What the content of a meta robots tag asks for."""
    return _asked_by(_parts(content))


def of_headers(values: Iterable[str], crawler_name: str) -> Directives:
    """What X-Robots-Tag headers ask of all crawlers, and of the one with this name."""
    asked: set[str] = set()
    names = ("*", crawler_name.lower())
    for value in values:
        meant = True
        for part in _parts(value):
            named = _NAMED.match(part)
            if named is not None:
                # It holds for all that follow in this header.
                meant = named[1].strip() in names
            if meant:
                asked.update((part[named.end() :] if named is not None else part).split())
    return _asked_by(asked)


def _parts(text: str) -> list[str]:
    """What is between commas, without the directives that have values."""
    return _WITH_VALUE.sub(" ", text.lower()).split(",")


def _asked_by(parts: Iterable[str]) -> Directives:
    words = {word for part in parts for word in part.split()}
    everything = "none" in words
    return Directives(everything or "noindex" in words, everything or "nofollow" in words)
