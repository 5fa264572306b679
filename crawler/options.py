"""Options that a whole fleet follows. They live in Redis; a process that starts may change them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from crawler.frontier import Steering
from crawler.policy.url_filter import Scope

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """What a crawl may follow, and how much of it. Numbers: 0 for no limit."""

    scope: str = "domain"
    max_depth: int = 0
    max_pages: int = 0
    max_pages_per_host: int = 0

    @property
    def url_filter(self) -> Scope:
        return Scope(scope=self.scope, max_depth=self.max_depth)

    def changed(self, values: Mapping[str, Any]) -> Options:
        """These options with some values changed; names it does not have are passed over."""
        known = {field.name for field in fields(self)}
        return replace(self, **{name: value for name, value in values.items() if name in known})


async def share(steering: Steering, given: Mapping[str, Any]) -> Options:
    """Write the values a user gave for the whole fleet to follow; returns what holds now."""
    before = await steering.options()
    for name, value in given.items():
        if name in before and before[name] != value:
            logger.warning(
                "%s is now %r for every process of this crawl (it was %r)",
                name,
                value,
                before[name],
            )
    await steering.set_options(given)
    return Options().changed({**before, **given})


async def follow(steering: Steering, current: Options) -> Options:
    """The options as they are now; logs what others changed."""
    now = Options().changed(await steering.options())
    if now != current:
        for field in fields(now):
            value = getattr(now, field.name)
            if value != getattr(current, field.name):
                logger.info("%s was changed to %r", field.name, value)
    return now
