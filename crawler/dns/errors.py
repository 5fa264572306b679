"""Failures of a lookup; each is one of Scrapy's own errors too."""

from __future__ import annotations

from scrapy.exceptions import (
    CannotResolveHostError,
)


class NoSuchHost(CannotResolveHostError):
    """DNS says that there is no such name, or that it has no address."""


class DnsFailed(CannotResolveHostError):
    """DNS gave no answer: the name may exist."""
