"""A URL as a program spelled it, for those to whom the order of a query matters. Pure, total."""

from __future__ import annotations

import can_ada

from crawler.urls.canonical import undotted
from crawler.urls.hosts import authority_of


def given(url: str, canonical: str) -> str:
    """What a request for `url` fetches: all of its parameters, in its order, and its fragment.

    Its scheme, host and port are those of the canonical form, and it has no dot segments. No server
    sees a fragment: with it alone it is the canonical form.
    """
    if url == canonical:
        return url
    href, mark, fragment = str(can_ada.parse(url).href).partition("#")
    authority = authority_of(canonical)
    found = undotted(authority + href[href.index("/", 8) :], len(authority))
    return canonical if found == canonical else found + mark + fragment
