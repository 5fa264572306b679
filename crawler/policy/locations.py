"""Judge where a redirect leads before its URL is read. Pure."""

from __future__ import annotations

import re

# More than any name has, with a user and a port; to read one that is longer takes seconds.
_AUTHORITY_MAX = 1000
_AUTHORITY = re.compile(rb"\s*(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?[/\\]{2}([^/\\?#]*)")


def leads_nowhere(location: bytes) -> bool:
    """Is the host of a Location header longer than any name?"""
    found = _AUTHORITY.match(location)
    return found is not None and len(found[1]) > _AUTHORITY_MAX
