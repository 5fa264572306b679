"""What a User-Agent says of the crawler: its product token, and whom to write to. Pure."""

from __future__ import annotations

import re

_CONTACT = re.compile(r"https?://[^\s)]+\.[^\s)]+|[^\s@(<+]+@[^\s@]+\.[^\s@)>]+")


def product_token(user_agent: str) -> str:
    """The name that robots.txt files know the crawler by: no version, no contact."""
    return user_agent.partition("/")[0].partition(" ")[0]


def has_contact(user_agent: str) -> bool:
    """Does it name a page or an address where site owners reach somebody?"""
    return _CONTACT.search(user_agent) is not None
