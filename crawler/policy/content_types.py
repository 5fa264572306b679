"""Which media types are worth downloading. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class AcceptedTypes:
    """Types such as "text/html", or "text/*" for all of a kind. None given: every type."""

    def __init__(self, types: Iterable[str]) -> None:
        wanted = {name.strip().lower() for name in types}
        self._all = not wanted or "*/*" in wanted
        self._kinds = tuple(name[:-1] for name in wanted if name.endswith("/*"))
        self._types = frozenset(wanted)

    def __contains__(self, header: str) -> bool:
        """Whether a Content-Type is one of them. A page without one may be anything: yes."""
        if self._all:
            return True
        found = header.partition(";")[0].strip().lower()
        # What is no type at all says nothing either.
        return "/" not in found or found in self._types or found.startswith(self._kinds)
