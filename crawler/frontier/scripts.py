"""Load the Lua scripts and run them. A script is its parts from lua/, one after the other."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import translated

PRELUDE = "shard"
# Parts that stand between the prelude and a verb's own file; {seen} is the form of URL-seen.
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
VERBS = (
    "add",
    "beat",
    "bury",
    "claim",
    "done",
    "forget",
    "hand_back",
    "host",
    "hosts",
    "leave",
    "pause",
    "promote",
    "reassert",
    "reclaim",
    "release",
    "requeue",
    "retry",
    "sizes",
    "status",
    "tally",
    "undelay",
    "upcoming",
)


@cache
def source(verb: str, seen: str = "intset") -> str:
    """The whole text of a verb's script."""
    parts = [part.format(seen=seen) for part in PARTS.get(verb, ())]
    return "\n".join(read_part(name) for name in (PRELUDE, *parts, verb))


class Scripts:
    """Run verbs on a server or a cluster; each sends its text once and its hash from then on."""

    def __init__(self, redis: Client, seen: str) -> None:
        self._redis = redis
        self._texts = {verb: source(verb, seen) for verb in VERBS}
        self._hashes = {
            verb: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            for verb, text in self._texts.items()
        }

    async def run(self, verb: str, tag: str, *args: Any) -> Any:
        """Run a verb on the shard of this tag."""
        try:
            try:
                return await self._redis.evalsha(self._hashes[verb], 1, tag, *args)
            except NoScriptError:
                # A server that restarted or failed over; EVAL also stores the script.
                return await self._redis.eval(self._texts[verb], 1, tag, *args)
        except ResponseError as error:
            raise translated(error) from error


def read_part(name: str) -> str:
    """The text of one file of lua/."""
    return files("crawler.frontier").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
