"""Load the Lua scripts. Each is sent as lua/shard.lua followed by its own file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

PRELUDE = "shard"
VERBS = (
    "add",
    "beat",
    "bury",
    "claim",
    "done",
    "hand_back",
    "leave",
    "promote",
    "reclaim",
    "release",
    "retry",
    "sizes",
)


@cache
def source(verb: str) -> str:
    """The whole text of a verb's script."""
    return _read(PRELUDE) + _read(verb)


def _read(name: str) -> str:
    return files("crawler.frontier").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
