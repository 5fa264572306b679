"""Scripts that are called wrongly, or meet keys of another type: an error, and nothing has changed.

Redis undoes nothing when a script fails, so a script must find out before its first write. Every
verb is called rightly on a frontier that has URLs in every state; then once more with arguments
that are missing or no numbers, and with keys of other types.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from redis.exceptions import NoScriptError, ResponseError

from crawler.frontier import CrawlControl, Frontier
from crawler.frontier.entry import encode
from crawler.frontier.frontier import script
from crawler.servers.redis.connection import Client
from tests.integration.frontier.fleet import CRAWL, T0, beat, claim, entries, entry, hosts
from tests.unit.test_shape import LUA, VERBS, header_of

HEADERS = {path.stem: header_of(path) for path in LUA}
NOW = str(T0 + 5000)


# All keys and their values, without the note of the time, which every verb may make.
DUMP = """
redis.pcall('HDEL', KEYS[1] .. ':stats', 'now_ms', 'is_given', 'seen_ms')
local names, found = redis.call('KEYS', KEYS[1] .. ':*'), {}
table.sort(names)
for i, name in ipairs(names) do found[i * 2 - 1], found[i * 2] = name, redis.call('DUMP', name) end
return found
"""


@dataclass
class Filled:
    """A frontier of one shard with URLs in every state, and valid arguments of every verb."""

    redis: Client
    tag: str
    calls: dict[str, tuple[Any, ...]]
    keys: list[bytes]

    async def run(self, verb: str, *args: Any) -> Any:
        text, sha = script(verb)
        try:
            return await self.redis.evalsha(sha, 1, self.tag, *args)
        except NoScriptError:
            return await self.redis.eval(text, 1, self.tag, *args)

    async def dump(self) -> list[bytes]:
        found: list[bytes] = await self.redis.eval(DUMP, 1, self.tag)
        return found

    async def restore(self) -> None:
        """Put every key back as it was."""
        pipeline = self.redis.pipeline(transaction=False)
        pipeline.flushall()
        for name, value in batched(self.keys):
            pipeline.restore(name, 0, value)
        await pipeline.execute()

    async def changed_by(self, verb: str, *args: Any) -> set[str] | None:
        """Run a verb; return the keys that it changed although it failed, None if it did not."""
        before = dict(batched(await self.dump()))
        try:
            await self.run(verb, *args)
        except ResponseError:
            after = dict(batched(await self.dump()))
            names = {name for name in {*before, *after} if before.get(name) != after.get(name)}
            return {name.decode().removeprefix(f"{self.tag}:") for name in names}
        return None

    async def urls(self) -> set[bytes]:
        """The URLs of all entries, in whatever state they are."""
        found: set[bytes] = set()
        for name in await self.redis.keys(f"{self.tag}:*"):
            kind = await self.redis.type(name)
            if kind == b"list":
                found |= set(await self.redis.lrange(name, 0, -1))
            elif kind == b"hash" and b":leases:" in name:
                found |= set(await self.redis.hvals(name))
            elif kind == b"stream":
                found |= {fields[b"entry"] for _, fields in await self.redis.xrange(name)}
        return {URL.findall(each)[-1] for each in found}


# The end of an entry, in a lease and in a delayed record too.
URL = re.compile(rb"[a-z0-9]+\.test/[0-9]*")


def batched(keys: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(keys[::2], keys[1::2], strict=True)


@pytest.fixture
async def filled(redis_client: Client) -> Filled:
    frontier = Frontier(redis_client, CRAWL, shards=1)
    await frontier.open()
    await beat(frontier, now_ms=T0)
    await frontier.add([*entries(8), *hosts(6), *entries(3, "d.test", 6)])
    leases = await claim(frontier, 6, now_ms=T0)
    control = await CrawlControl.open(redis_client, CRAWL)
    await control.host("a.test", budget=50)
    await frontier.retry([(leases[0], 500, leases[0].entry)], now_ms=T0)
    await frontier.bury([(leases[1], "status_404")], now_ms=T0)
    visit = await frontier.visit("v.test", now_ms=T0)
    tag = frontier.scripts.tags[0]
    one, two = leases[2], leases[3]
    token, other = one.token, two.token
    data = encode(entry("http://new.test/"))
    id_ = struct.pack(">Q", one.entry.id)
    owner, seen = frontier.owner, "512"
    calls: dict[str, tuple[Any, ...]] = {
        "add": (data, struct.pack(">I", len(data)), "new", 0, "0 0 0 0", "p", "a", 0, seen),
        "beat": (owner, NOW, "0", "{}", 30_000, f"{token} {other}?", "5", ""),
        "bury": (owner, NOW, 1000, token, "timeout", other, "timeout"),
        "claim": (
            owner,
            "r",
            3,
            NOW,
            "1213141512",
            "12345",
            1000,
            "1671",
            1,
            0,
            0,
            30_000,
            1000,
            1000,
            0,
            tag,
            0,
        ),
        "conclude": (owner, NOW, 30_000, 0),
        "count_links": (id_, b"\1", 49_152),
        "done": (owner, "", token, "1", other, "0"),
        "forget": (struct.pack(">Q", entry("http://h5.test/").id), seen),
        "forward": ("", 0, 100, 10, NOW),
        "hand_back": (owner, NOW, token, 5, other, 7),
        "host": ("a.test", NOW, "block", T0 + 90_000, "budget", "7", "queue", "2"),
        "hosts": ("a.test", "b.test"),
        "learn": ("a.test", 1, 0.5, 0.1, "b.test", 2, 0.5, 0.1),
        "leave": ("nobody",),
        "lift_back": (5, 0, 100, 100, 10, "a.test"),
        "lift_front": (1, "", "", 100, 10),
        "pause": ("1",),
        "promote": (NOW, 10, 1000, 0, 0, tag, "", 0, 0),
        "reassert": (NOW, 1, owner, 1, "a.test", token, "c.test", 500),
        "reclaim": (str(T0 + 10**6), 30_000, 10, 1000, 1000),
        "reject": (NOW, 1000, "no_url", b"letter", b"other"),
        "release": (NOW, "1", one.host, token, 500, two.host, other, 700),
        "requeue": ("-", 10, "", ""),
        "restore": (NOW, data, "1", 500, encode(entry("http://old.test/")), "0", "", seen),
        "retry": (
            owner,
            NOW,
            "r",
            "",
            token,
            500,
            encode(one.entry),
            other,
            900,
            encode(two.entry),
        ),
        "sizes": (),
        "status": (id_, one.host, 100, seen),
        "sweep": ("0",),
        "tally": ("a.test", 3, 2, "b.test", 1, 1),
        "undelay": (id_, "", 0, 100),
        "unseen": (id_, seen),
        "upcoming": (NOW, 5000, 10),
        "visit": (owner, "w.test", NOW, 1, 1000, 30_000),
        "visited": (owner, NOW, "1", "v.test", visit.token, 500, "x.test", 5, 500),
        "waiting": ("a.test", 5),
        "wish": (100, 1, 2, "a.test", 2, 0, 5),
    }
    found = Filled(redis_client, tag, calls, [])
    found.keys = await found.dump()
    return found


def numbers_of(verb: str) -> int:
    """How many arguments the header of a verb names, but those that repeat."""
    return max(map(int, re.findall(r"^-- ARGV\[(\d+)\]", HEADERS[verb], re.MULTILINE)), default=0)


def malformed(args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for end in range(len(args)):
        yield args[:end]
    for place in range(len(args)):
        for value in ("", "x", "nan"):
            yield (*args[:place], value, *args[place + 1 :])


async def test_the_table_of_calls_is_that_of_the_contracts(filled: Filled) -> None:
    parts = {verb for verb in VERBS if HEADERS[verb].startswith("-- Part of ")}
    assert filled.calls.keys() == set(VERBS) - parts
    for verb, args in filled.calls.items():
        # The header names the first of several that repeat, and may leave the last one to a part.
        assert numbers_of(verb) <= len(args), verb
        await filled.run(verb, *args)
        await filled.restore()


@pytest.mark.timeout(60)
async def test_wrong_arguments_are_an_error_and_change_nothing(filled: Filled) -> None:
    failed = 0
    for verb, args in filled.calls.items():
        for wrong in malformed(args):
            changed = await filled.changed_by(verb, *wrong)
            assert not changed, (verb, wrong, changed)
            if changed is None:
                # Not wrong for this verb, such as another name or a text that may be empty.
                await filled.restore()
            else:
                failed += 1
    assert failed > 500


# Keys of one host, owner or time. Of a batch that meets one of another type only the first part is
# done. All other keys are checked before the first write.
OF_ONE = re.compile(r"(?:host|leases|visits|back|delayed):.+")


@pytest.mark.timeout(60)
async def test_a_key_of_another_type_is_an_error_and_loses_no_url(filled: Filled) -> None:
    failed = 0
    names = [name.decode().removeprefix(f"{filled.tag}:") for name, _ in batched(filled.keys)]
    for verb, args in filled.calls.items():
        for name in names:
            await filled.redis.set(f"{filled.tag}:{name}", "foreign")
            changed = await filled.changed_by(verb, *args)
            failed += changed is not None
            if changed:
                assert OF_ONE.fullmatch(name), (verb, name, changed)
                there = await filled.urls()
                await filled.restore()
                await filled.redis.set(f"{filled.tag}:{name}", "foreign")
                assert await filled.urls() == there, (verb, name, changed)
            if changed is None or changed:
                await filled.restore()
            else:
                value = dict(batched(filled.keys))[f"{filled.tag}:{name}".encode()]
                await filled.redis.restore(f"{filled.tag}:{name}", 0, value, replace=True)
    assert failed > 100
