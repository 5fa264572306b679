"""Frontier of an earlier version, as it was left when its process was killed in mid-crawl.

frontier_8.json is of the last version before pages were rendered (data model 8). It was made by
that version's crawl of `WEB`, and by `dump` of this module:

    python -m tests.support.old_frontier dump REDIS_URL ACCESS_LOG > frontier_8.json
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from demo.access_log import read_log
from demo.web import WebOptions

FILE = Path(__file__).with_name("frontier_8.json")
WEB = WebOptions(hosts=6, pages=6, seed=6, zoo="none")
CRAWL = "web"


@dataclass(frozen=True)
class OldFrontier:
    """Keys of a crawl, and the URLs that were fetched until then."""

    keys: dict[str, Any]
    fetched: list[str]


def read() -> OldFrontier:
    """Read the stored frontier."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return OldFrontier(found["keys"], found["fetched"])


def load(redis_url: str, old: OldFrontier) -> None:
    """Write the frontier to a server."""
    with Redis.from_url(redis_url) as redis:
        for text, (kind, value) in old.keys.items():
            name = _bytes(text)
            if kind == "string":
                redis.set(name, _bytes(value))
            elif kind == "list":
                redis.rpush(name, *map(_bytes, value))
            elif kind == "set":
                redis.sadd(name, *map(_bytes, value))
            elif kind == "hash":
                redis.hset(name, mapping={_bytes(k): _bytes(v) for k, v in value})
            elif kind == "zset":
                redis.zadd(name, {_bytes(k): score for k, score in value})
            else:
                raise ValueError(f"{text} is a {kind}")


def dump(redis_url: str, access_log: Path) -> OldFrontier:
    """Read the keys of the crawl and of its caches from a server."""
    keys: dict[str, Any] = {}
    with Redis.from_url(redis_url) as redis:
        for name in sorted(redis.scan_iter(f"{{{CRAWL}*")):
            kind = redis.type(name).decode()
            read_all: dict[str, Any] = {
                "string": lambda name: _text(redis.get(name)),
                "list": lambda name: [_text(each) for each in redis.lrange(name, 0, -1)],
                "set": lambda name: sorted(map(_text, redis.smembers(name))),
                "hash": lambda name: [[_text(k), _text(v)] for k, v in redis.hgetall(name).items()],
                "zset": lambda name: [
                    [_text(k), score] for k, score in redis.zrange(name, 0, -1, withscores=True)
                ],
            }
            keys[_text(name)] = [kind, read_all[kind](name)]
    fetched = sorted({entry.url for entry in read_log(access_log)})
    return OldFrontier(keys, fetched)


def _text(data: bytes) -> str:
    # Entries are bytes.
    return data.decode("latin-1")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


if __name__ == "__main__":
    old = dump(sys.argv[2], Path(sys.argv[3]))
    print(json.dumps({"fetched": old.fetched, "keys": old.keys}, indent=0))
