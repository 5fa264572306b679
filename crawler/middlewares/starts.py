"""Mark start requests, as Scrapy does. Spider middleware.

Scrapy's own passes on the output of each callback too, for nothing: through three generators.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from scrapy import Request


class Starts:
    """Sets `is_start_request` in the meta of the requests that start() gives."""

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in start:
            if isinstance(output, Request):
                output.meta.setdefault("is_start_request", True)
            yield output
