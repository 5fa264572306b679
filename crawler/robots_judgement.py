"""Judge URLs by the rules of a robots.txt, however many rules it has, without holding others up."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from crawler.policy.robots import Rules

# The rules of a file of 500 KB take up to 200 ms a URL.
_INLINE_BYTES = 32 * 1024


async def allows(rules: Rules, spellings: Collection[str]) -> bool:
    """May a URL be fetched? By all its spellings: what one hides, a server may see in another."""
    if rules.size_bytes <= _INLINE_BYTES:
        return all(map(rules.allows, spellings))
    return await asyncio.to_thread(lambda: all(map(rules.allows, spellings)))
