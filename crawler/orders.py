"""The options of a crawl as this process follows them now, and what they mean for URLs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any

from crawler import options
from crawler.frontier import Entry, Kind, RedisAway, Steering
from crawler.frontier.steering import SharedOptions
from crawler.policy.url_filter import SKIPPED_EXTENSIONS, Scope
from crawler.recrawls import Recrawls
from crawler.tasks import end

logger = logging.getLogger(__name__)

# An order holds in the whole fleet within 2 s; a look is one small reply.
LOOK_S = 1.0


class Orders:
    """`use` is called with the options whenever somebody looked at them."""

    def __init__(
        self,
        skipped_extensions: AbstractSet[str] = SKIPPED_EXTENSIONS,
        use: Callable[[options.Options], None] = lambda _: None,
        recrawls: Recrawls | None = None,
    ) -> None:
        self.options = options.Options()
        self._skipped_extensions = skipped_extensions
        self.scope: Scope = self.options.url_filter(skipped_extensions)
        self._followers = [use]
        self._recrawls = recrawls or Recrawls()
        self._steering: Steering
        self._shared = SharedOptions()
        self._task: asyncio.Task[None] | None = None

    async def open(self, steering: Steering, given: Mapping[str, Any]) -> None:
        """Tell the fleet what this process was given, and follow what holds from now on."""
        self._steering = steering
        self._follow(await options.share(steering, given))
        await self.look()
        self._task = asyncio.get_running_loop().create_task(self._look_forever())

    async def close(self) -> None:
        """Follow no more."""
        if self._task is not None:
            await end(self._task)

    def tell(self, use: Callable[[options.Options], None]) -> None:
        """Call this, too, with the options from now on."""
        self._followers.append(use)
        use(self.options)

    async def look(self) -> None:
        """Follow what others changed; write again what Redis lost of it."""
        shared = await self._steering.shared_options()
        if shared.version < self._shared.version:
            logger.warning("Redis lost options of the crawl; writing them again")
            await self._steering.restore_options(self._shared)
            shared = self._shared
        self._shared = shared
        self._follow(await options.follow(self._steering, self.options, shared.values))

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except RedisAway:
                # The heartbeat tells of it.
                continue
            except Exception:
                # A process that follows no orders any more must not be the end of it.
                logger.exception("The crawl's options could not be read; trying again")

    async def note_seeds(self, entries: Sequence[Entry]) -> None:
        """Let the fleet know the domains of new seeds, for the scope "seeds"."""
        new = options.new_seed_domains(self.options, (entry.url for entry in entries))
        if not new:
            return
        known = self.options.seed_domains.union(new)
        self._follow(replace(self.options, seed_domains=known))
        # If Redis is away, it is told with the next look.
        with suppress(*RedisAway):
            await self._steering.add_seed_domains(new)

    def refuses_redirect(self, target: Entry, source: Entry) -> str | None:
        """The reason not to follow a redirect, or None."""
        depth = 0 if target.kind is Kind.SITEMAP else source.depth
        return self.scope.refuses_redirect(target.url, source_url=source.url, depth=depth)

    def drops(self, entry: Entry) -> str:
        """The reason to drop a URL that was added before the options changed; empty for none."""
        if self.scope.excludes(entry.url):
            return "scope/excluded"
        return "recrawl/unwanted" if self._recrawls.is_unwanted(entry) else ""

    def _follow(self, now: options.Options) -> None:
        if now is not self.options:
            self.options = now
            self.scope = now.url_filter(self._skipped_extensions)
        self._recrawls.use(now.recrawl)
        for use in self._followers:
            use(now)
