"""Load the Lua scripts and run them on the shards of a crawl.

A script is made of files in lua/: the prelude shard.lua, the parts that its verb needs, and the
verb's own file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from crawler.frontier.shards import gather, tags
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import translated

PRELUDE = "shard"
# Parts between the prelude and a verb's own file; {seen} is the form of URL-seen.
PARTS = {
    "add": ("seen_{seen}",),
    "forget": ("leased", "seen_{seen}"),
    "status": ("leased", "seen_{seen}"),
    "claim": ("route",),
    "done": ("trust",),
    "retry": ("trust",),
    "host": ("host_view",),
    "hosts": ("host_view",),
}


@cache
def script(verb: str, seen: str = "intset") -> tuple[str, str]:
    """Return the text of a verb's script and its SHA-1, by which a server knows it."""
    parts = [part.format(seen=seen) for part in PARTS.get(verb, ())]
    text = "\n".join(read_part(name) for name in (PRELUDE, *parts, verb))
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def read_part(name: str) -> str:
    """Return the text of one file of lua/."""
    return files("crawler.frontier").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


class Scripts:
    """Verbs of one crawl, run on its shards. A server gets a script's text once, then its hash."""

    def __init__(self, redis: Client, crawl: str, shards: int, seen: str = "intset") -> None:
        self.tags = tags(crawl, shards)
        self._redis = redis
        self._seen = seen

    async def run(self, verb: str, shard: int, *args: Any) -> Any:
        """Run a verb on one shard."""
        text, sha = script(verb, self._seen)
        try:
            try:
                return await self._redis.evalsha(sha, 1, self.tags[shard], *args)
            except NoScriptError:
                # The server restarted or failed over. EVAL also stores the script.
                return await self._redis.eval(text, 1, self.tags[shard], *args)
        except ResponseError as error:
            raise translated(error) from error

    async def run_on(self, shards: Iterable[int] | None, verb: str, *args: Any) -> list[Any]:
        """Run a verb on several shards at the same time; None means all of them."""
        chosen = range(len(self.tags)) if shards is None else shards
        return await gather(self.run(verb, shard, *args) for shard in chosen)
