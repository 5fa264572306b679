"""What a User-Agent says of the crawler: its product token, and whom to write to. Pure."""

from __future__ import annotations

import re

_CONTACT = re.compile(r"https?://[^\s)]+\.[^\s)]+|[^\s@(<+]+@[^\s@]+\.[^\s@)>]+")
_NAME = re.compile(r"\s*([^\s/,;()]*)")
# How crawlers name themselves that want to be taken for a browser:
# Mozilla/5.0 (compatible; name/1.0; +https://…)
_COMPATIBLE = re.compile(
    r"\s*mozilla/.*\bcompatible;\s*(?!https?:)([^\W_][^\s/,;()]*)", re.IGNORECASE
)
# Names of everybody: no site owner means one crawler by them.
_BROWSERS = frozenset({"mozilla", "msie", "opera"})


def product_token(user_agent: str) -> str:
    """The name that robots.txt files know the crawler by: no version, no contact."""
    found = _COMPATIBLE.match(user_agent) or _NAME.match(user_agent)
    return found[1] if found is not None else ""


def tells_apart(token: str) -> bool:
    """Can a robots.txt speak to one crawler by this name?"""
    return token.lower() not in _BROWSERS and any(map(str.isalpha, token))


def has_contact(user_agent: str) -> bool:
    """Does it name a page or an address where site owners reach somebody?"""
    return _CONTACT.search(user_agent) is not None
