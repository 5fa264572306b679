"""How a URL is written, if that is not its canonical form, in few characters. Pure.

A URL is fetched, and checked against robots.txt, as it is written: with all parameters in their
order. Scheme, host and port are those of the canonical form, and there are no dot segments.

    (empty)       as the canonical form
    ?b=1&a=2      another query
    %             no query, and all escapes in lower case, as most sites in other scripts have them
    /p;sid=1?b    another path, with its query
"""

from __future__ import annotations

import re

LOWER_ESCAPES = "%"
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UPPER_ESCAPE = re.compile(r"%(?:[A-F]|[0-9a-f][A-F])")


def part_of(location: str, canonical: str) -> str:
    """Return what must be kept of a path with query, in addition to its canonical form."""
    if location == canonical:
        return ""
    path, mark, query = location.partition("?")
    if path == canonical.partition("?")[0]:
        return mark + query
    if not mark and location.lower() == canonical.lower() and not _UPPER_ESCAPE.search(location):
        return LOWER_ESCAPES
    return location


def written_url(canonical: str, part: str) -> str:
    """Restore the URL as written from its canonical form and the kept part."""
    if not part:
        return canonical
    if part[0] == "?":
        return canonical.partition("?")[0] + part
    if part == LOWER_ESCAPES:
        return _ESCAPE.sub(_lower, canonical)
    return canonical[: canonical.index("/", 8)] + part


def with_fragment(canonical: str, part: str, fragment: str) -> str:
    """Add a fragment, which spiders want, to the kept part; not if nothing else is kept."""
    if not part or not fragment:
        return part
    if part == LOWER_ESCAPES:
        part = written_url(canonical, part)[canonical.index("/", 8) :]
    return f"{part}#{fragment}"


def _lower(escape: re.Match[str]) -> str:
    return escape[0].lower()
