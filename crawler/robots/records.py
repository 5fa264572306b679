"""Records of robots.txt files in Redis: how they are stored, read and forgotten.

robots:<authority>  string  body, whether it was a 401 or 403, status, reason and number of
                            failures, and how long it is valid; a dictionary in msgpack

A file that people forget leaves a mark in place of its record for a while: a text in msgpack, which
every version of this program takes for an unknown file. A fetch that began before the mark was set
does not replace it, as it may have got the old file. A process that finds the mark trusts its own
memory no more.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgpack
import zstandard

from crawler.robots.rules import MAX_BYTES
from crawler.servers.redis.batching import Command, CommandBatcher
from crawler.servers.redis.invalidation import invalidate
from crawler.util.packed import Damaged
from crawler.util.packed import unpacked as read_packed

if TYPE_CHECKING:
    from crawler.servers.redis.connection import Client

# Name of the cache in invalidations.
CACHE = "robots"
# Longer than a fetch with all its redirects.
_MARK_MS = 120_000
# First byte of a mark in msgpack: a text of 32 to 255 bytes.
_MARK = b"\xd9"
# Store a record: KEYS[1] its key, ARGV[1] the record, ARGV[2] the ms for which it is kept, ARGV[3]
# the mark that was there when the fetch began, or nothing. Returns 0 if the file was forgotten
# since then, and changes nothing; else 1.
_STORE = """
local now = redis.call('GETRANGE', KEYS[1], 0, 63)
if string.byte(now) == 0xd9 and now ~= ARGV[3] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
# Made once: that takes 25 times as long as packing a short file. Used by this thread alone.
_PACKER, _UNPACKER = zstandard.ZstdCompressor(), zstandard.ZstdDecompressor()


@dataclass(frozen=True, slots=True)
class RobotsRecord:
    """What is known of a robots.txt, or of the failures to fetch it."""

    # None unless the host answered with a file, or that there is none.
    body: bytes | None = None
    # The answer was 401 or 403.
    is_forbidden: bool = False
    # Why there was no answer; else empty. Failures in a row are counted.
    reason: str = ""
    failures: int = 0
    # Status of the answer; 0 if there was none, and in records of earlier versions.
    status: int = 0
    # For how long it is valid, what is left of that (negative: only the failures count still), and
    # what is left of the time for which the host asked to be left alone (Retry-After).
    ttl_ms: int = 0
    left_ms: int = 0
    asked_left_ms: int = 0


def read_commands(authority: str) -> tuple[Command, Command]:
    """Return the commands whose answers `unpacked` takes."""
    key = _key(authority)
    return ("GET", key), ("PTTL", key)


def store_command(
    authority: str, record: RobotsRecord, *, kept_ms: int, asked_ms: int, mark: bytes
) -> Command:
    """Return the command that stores a record; its answer is 0 if the file was forgotten meanwhile.

    `kept_ms` is how long the failures are known after the record has expired, `mark` what
    `mark_of` gave before the fetch.
    """
    packed = msgpack.packb(
        {
            "body": b"" if record.body is None else _PACKER.compress(record.body),
            "withheld": record.is_forbidden,
            "reason": record.reason,
            "failures": record.failures,
            "status": record.status,
            "ttl_ms": record.ttl_ms,
            "kept_ms": kept_ms,
            "asked_ms": asked_ms,
        }
    )
    return ("EVAL", _STORE, 1, _key(authority), packed, record.ttl_ms + kept_ms, mark)


def unpacked(packed: bytes | None, left_ms: int) -> RobotsRecord | None:
    """Return the record, given its bytes and the milliseconds until Redis deletes it.

    A record that is damaged, or not ours, is an unknown file, like none.
    """
    if packed is None or left_ms <= 0:
        return None
    try:
        return _read(read_packed(packed), left_ms)
    except (Damaged, KeyError, TypeError, zstandard.ZstdError):
        return None


def _read(found: Any, left_ms: int) -> RobotsRecord | None:
    if not isinstance(found, dict):
        return None
    reason, is_forbidden = found["reason"], bool(found.get("withheld"))
    numbers = [found[name] for name in ("failures", "ttl_ms", "kept_ms")]
    numbers += [found.get(name, 0) for name in ("status", "asked_ms")]
    if not isinstance(reason, str) or not all(isinstance(each, int) for each in numbers):
        return None
    body = found["body"]
    # The library allocates what a body declares, whatever the limit.
    if body and zstandard.frame_content_size(body) > 2 * MAX_BYTES:
        return None
    age_ms = found["ttl_ms"] + found["kept_ms"] - left_ms
    return RobotsRecord(
        body=None
        if reason or is_forbidden
        else _UNPACKER.decompress(body, max_output_size=2 * MAX_BYTES),
        is_forbidden=is_forbidden,
        reason=reason,
        failures=found["failures"],
        status=found.get("status", 0),
        ttl_ms=found["ttl_ms"],
        left_ms=left_ms - found["kept_ms"],
        asked_left_ms=max(0, found.get("asked_ms", 0) - age_ms),
    )


def mark_of(packed: bytes | None) -> bytes:
    """Return the mark of a forgotten file, or nothing."""
    return packed if packed is not None and packed.startswith(_MARK) else b""


async def read(redis: Client, authority: str) -> RobotsRecord | None:
    """Return what all processes know of a robots.txt; None if that is nothing."""
    return unpacked(*await CommandBatcher.for_client(redis).ask(*read_commands(authority)))


async def forget(redis: Client, authorities: Sequence[str]) -> None:
    """Forget files, in Redis and in the memory of every process: they are fetched anew."""
    for authority in authorities:
        mark = msgpack.packb(uuid.uuid4().hex)
        await CommandBatcher.for_client(redis).ask(("SET", _key(authority), mark, "PX", _MARK_MS))
    await invalidate(redis, CACHE, authorities)


def _key(authority: str) -> str:
    return f"robots:{authority}"
