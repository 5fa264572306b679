"""Errors of a lookup; each is also one of Scrapy's own errors."""

from __future__ import annotations

from scrapy.exceptions import CannotResolveHostError


class NoSuchHost(CannotResolveHostError):
    """Answer of DNS that a name does not exist, or has no address."""


class DnsFailed(CannotResolveHostError):
    """Failure of DNS to answer: the name may exist."""
