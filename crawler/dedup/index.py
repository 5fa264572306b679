"""Index of contents in Redis: find the page that has a content, remember the content of pages.

A record is written when its page is durable. So a page that was never stored is never an original;
of two equal pages that are fetched at the same time both may be stored. Lookups and changes are
sent in batches, one batch in flight at a time. Changes wait a little for more of them and are sent
before the lookups.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import combinations, islice
from math import log2
from typing import Any, NamedTuple, Self

import numpy as np
from redis.exceptions import NoScriptError, RedisClusterException, RedisError

from crawler.errors import CrawlerError

logger = logging.getLogger(__name__)

MAX_DISTANCE = 3
# A record with a fingerprint: 8 bytes of the content's hash, and the URL's fingerprint.
OWNED_BYTES = 16
HASH_BYTES = 8
# With fewer records, the names of buckets would take more room than the records.
_BUCKET_RECORDS = 64
# The oldest records of a fuller bucket are dropped. This is 16 times what a crawl was made for.
BUCKET_MAX = 1024
# Crawls of up to this many pages have four tables: 4 × 150 records to compare.
SMALL = 10_000_000
_EXACT = "x"

# Shift and number of bits of each block of a SimHash, lowest first.
_Block = tuple[int, int]
_QUARTERS: tuple[_Block, ...] = tuple((16 * number, 16) for number in range(4))
_FIFTHS: tuple[_Block, ...] = ((0, 13), (13, 13), (26, 13), (39, 13), (52, 12))


class Layout:
    """Tables of a crawl: four, or ten if it is large, each with two to the power of `bits` buckets.

    A table is a choice of blocks: the bits of these blocks select the bucket.
    """

    def __init__(self, tags: Sequence[str], *, bits: int, large: bool) -> None:
        choices = combinations(_FIFTHS, 2) if large else combinations(_QUARTERS, 1)
        self._tables = [(blocks, sum(size for _, size in blocks)) for blocks in choices]
        self.bits = min(bits, *(table_bits for _, table_bits in self._tables))
        self._tags = tags

    @classmethod
    def made_for(cls, tags: Sequence[str], pages: int) -> Self:
        """Make the tables for a crawl of this many pages."""
        bits = max(0, round(log2(max(1, pages) / _BUCKET_RECORDS)))
        return cls(tags, bits=bits, large=pages > SMALL)

    def exact(self, digest: bytes) -> str:
        """Name the bucket of a content's hash."""
        return self._name(_EXACT, int.from_bytes(digest[:4], "big") >> (32 - self.bits))

    def near(self, simhash: int) -> list[str]:
        """Name the buckets of a SimHash, that of the first table first."""
        return [
            self._name(str(number), _value(simhash, blocks) >> (table_bits - self.bits))
            for number, (blocks, table_bits) in enumerate(self._tables)
        ]

    def owned(self) -> Iterator[str]:
        """Name all buckets whose records have fingerprints."""
        for number in range(1 << self.bits):
            yield self._name(_EXACT, number)
            yield self._name("0", number)

    def _name(self, table: str, number: int) -> str:
        # The only place that builds these keys.
        return f"{self._tags[number % len(self._tags)]}:c{table}:{number:x}"


def _value(simhash: int, blocks: Sequence[_Block]) -> int:
    """Join the bits of the chosen blocks."""
    value = 0
    for shift, bits in blocks:
        value = value << bits | simhash >> shift & (1 << bits) - 1
    return value


def exact_record(digest: bytes, url_id: int) -> bytes:
    """Pack the record of a content's hash."""
    return digest[4 : 4 + HASH_BYTES] + packed(url_id)


def packed(number: int) -> bytes:
    """Pack a SimHash or a fingerprint."""
    return number.to_bytes(HASH_BYTES, "little")


def owners(bucket: bytes, hashed: bytes) -> list[int]:
    """List the fingerprints of the pages with this hash, oldest first."""
    found = []
    at = bucket.find(hashed)
    while at >= 0:
        if at % OWNED_BYTES == 0:
            owner = bucket[at + HASH_BYTES : at + OWNED_BYTES]
            found.append(int.from_bytes(owner, "little"))
        at = bucket.find(hashed, at + 1)
    return found


def owned_by(bucket: bytes, url_id: int) -> list[bytes]:
    """List the records of one page in a bucket with fingerprints."""
    owner = packed(url_id)
    # Zeros at the end are free room.
    used = len(bucket.rstrip(b"\0"))
    return [
        bucket[at : at + OWNED_BYTES]
        for at in range(0, used, OWNED_BYTES)
        if bucket[at + HASH_BYTES : at + OWNED_BYTES] == owner
    ]


def within(
    first: bytes, others: Iterable[bytes], simhash: int, max_distance: int
) -> dict[int, int]:
    """Find SimHashes within a distance, with their distances; the nearest first, then the oldest.

    `first` is the bucket of the first table, whose records have fingerprints; those of the other
    buckets have none. Zeros are free room.
    """
    hashes = np.frombuffer(first, "<u8")[::2]
    rest = b"".join(others)
    if rest:
        hashes = np.concatenate((hashes, np.frombuffer(rest, "<u8")))
    distances = np.bitwise_count(hashes ^ np.uint64(simhash))
    near = np.flatnonzero(distances <= max_distance)
    if simhash.bit_count() <= max_distance:
        near = near[hashes[near] != 0]
    if not len(near):
        return {}
    near = near[np.argsort(distances[near], kind="stable")]
    return {int(hashes[at]): int(distances[at]) for at in near}


# Pages in one batch: 500 names or so, and a few hundred KB of buckets.
_BATCH = 100
# Changes are sent when there are this many, or after this many seconds.
_ENOUGH = 16
_LINGER_S = 0.05
# Similar texts that are considered. In a bucket full of them any will do.
_NEAREST = 16
_ERRORS = (RedisError, RedisClusterException, OSError)


class NotCompared(CrawlerError):
    """Error of a lookup: Redis did not answer, so nothing is known of this content."""


class _Question(NamedTuple):
    url_id: int
    content: Content
    answer: asyncio.Future[Duplicate | None]


class _Change(NamedTuple):
    url_id: int
    before: Content | None
    now: Content | None


class ContentIndex:
    """Contents of the pages of one crawl. `redis` is the client of a server or of a cluster."""

    def __init__(self, redis: Any, layout: Layout, max_distance: int) -> None:
        self._buckets = Buckets(redis)
        self._layout = layout
        self._max_distance = max_distance
        self._questions: list[_Question] = []
        self._changes: list[_Change] = []
        self._task: asyncio.Task[None] | None = None
        # Whether changes are to be sent now; otherwise the timer will send them.
        self._due = False
        self._timer: asyncio.TimerHandle | None = None
        # Number of contents that could not be remembered.
        self.lost = 0

    @classmethod
    async def open(
        cls, redis: Any, crawl: str, tags: Sequence[str], *, pages: int, max_distance: int
    ) -> Self:
        """Open the index of a crawl; a new one is made for this many pages."""
        name = _meta(crawl)
        await redis.hsetnx(name, "pages", pages)
        made_for = int(await redis.hget(name, "pages"))
        if made_for != pages:
            logger.info("NEAR_PAGES stays %d, as this crawl was created with", made_for)
        return cls(redis, Layout.made_for(tags, made_for), max_distance)

    @classmethod
    async def open_existing(cls, redis: Any, crawl: str, tags: Sequence[str]) -> Self | None:
        """Open the index of a crawl to forget a page; None if the crawl has no index."""
        made_for = await redis.hget(_meta(crawl), "pages")
        return cls(redis, Layout.made_for(tags, int(made_for)), 0) if made_for else None

    async def find(self, url_id: int, content: Content) -> Duplicate | None:
        """Find an earlier page with this content; raises NotCompared if Redis does not answer.

        A page that has a record of its own with this content is no duplicate.
        """
        answer: asyncio.Future[Duplicate | None] = asyncio.get_running_loop().create_future()
        self._questions.append(_Question(url_id, content, answer))
        self._start()
        return await answer

    def remember(self, url_id: int, now: Content | None, before: Content | None = None) -> None:
        """Replace the content of a page that is durable now.

        With None for `now` the page is no original any more. Returns at once. A change that does
        not reach Redis is counted; its cost is that an equal page is stored again.
        """
        if before == now:
            before = None
        if now is not None or before is not None:
            self._changes.append(_Change(url_id, before, now))
            if len(self._changes) >= _ENOUGH:
                self._send()
            elif self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(_LINGER_S, self._send)

    async def flush(self) -> None:
        """Wait until Redis has all changes."""
        if self._changes:
            self._send()
        while self._task is not None:
            await asyncio.wait({self._task})

    async def forget(self, url_id: int) -> bool:
        """Remove all records of a page; returns whether there were any.

        Reads all buckets in batches, which takes a second or two for a million pages.
        """
        names = self._layout.owned()
        found = False
        while batch := list(islice(names, 2 * _BATCH)):
            for name, bucket in (await self._buckets.read(batch)).items():
                records = [(name, record) for record in owned_by(bucket, url_id)]
                if records:
                    found = True
                    await self._cut(records)
        return found

    # --- batches -------------------------------------------------------------------------------

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due = True
        self._start()

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._questions or self._due:
                if self._due:
                    changes = self._changes[:_BATCH]
                    del self._changes[:_BATCH]
                    self._due = bool(self._changes)
                    await self._change(changes)
                questions = self._questions[:_BATCH]
                del self._questions[:_BATCH]
                if questions:
                    await self._answer(questions)
        finally:
            self._task = None

    async def _answer(self, questions: list[_Question]) -> None:
        try:
            answers = await self._look_up(questions)
        except Exception as error:  # noqa: BLE001 - the pages must not wait, whatever it was
            for question in questions:
                if not question.answer.done():
                    question.answer.set_exception(NotCompared(f"{type(error).__name__}: {error}"))
            return
        for question, answer in zip(questions, answers, strict=True):
            if not question.answer.done():
                question.answer.set_result(answer)

    async def _look_up(self, questions: list[_Question]) -> list[Duplicate | None]:
        layout = self._layout
        names = [
            [
                layout.exact(content.digest),
                *(layout.near(content.simhash) if content.simhash is not None else ()),
            ]
            for _, content, _ in questions
        ]
        buckets = await self._buckets.read(name for of_page in names for name in of_page)
        answers: list[Duplicate | None] = [None] * len(questions)
        matches: dict[int, dict[int, int]] = {}
        for index, (url_id, content, _) in enumerate(questions):
            exact, *near = (buckets[name] for name in names[index])
            if same := owners(exact, exact_record(content.digest, 0)[:HASH_BYTES]):
                answers[index] = Duplicate(same[0], None) if same[0] != url_id else None
            elif content.simhash is not None:
                found = within(near[0], near[1:], content.simhash, self._max_distance)
                if found:
                    matches[index] = dict(islice(found.items(), _NEAREST))
        if matches:
            # Only the records of the first table have fingerprints.
            firsts = {
                hashed: layout.near(hashed)[0] for found in matches.values() for hashed in found
            }
            more = [name for name in firsts.values() if name not in buckets]
            if more:
                buckets |= await self._buckets.read(more)
            for index, found in matches.items():
                answers[index] = _nearest(questions[index].url_id, found, firsts, buckets)
        return answers

    async def _change(self, changes: list[_Change]) -> None:
        layout = self._layout
        cuts: list[Record] = []
        puts: list[Record] = []
        for url_id, before, now in changes:
            if before is not None:
                cuts.append((layout.exact(before.digest), exact_record(before.digest, url_id)))
                if before.simhash is not None:
                    record = packed(before.simhash) + packed(url_id)
                    cuts.append((layout.near(before.simhash)[0], record))
            if now is not None:
                record = exact_record(now.digest, url_id)
                puts.append((layout.exact(now.digest), PUT_FIRST + record))
                if now.simhash is not None:
                    hashed = PUT + packed(now.simhash)
                    first, *others = layout.near(now.simhash)
                    puts.append((first, hashed + packed(url_id)))
                    puts += [(name, hashed) for name in others]
        try:
            if cuts:
                await self._cut(cuts)
            if puts:
                await self._buckets.change(puts)
        except _ERRORS as error:
            self.lost += len(changes)
            logger.debug("%d contents are not remembered: %s", len(changes), error)
        except Exception:
            # Pages that are looked up next must not wait for ever, whatever it was.
            self.lost += len(changes)
            logger.exception("Contents of %d pages are not remembered", len(changes))

    async def _cut(self, records: list[Record]) -> None:
        """Remove records with fingerprints, and their SimHashes if no other page has them."""
        left = await self._buckets.change([(name, CUT + record) for name, record in records])
        for (name, record), others in zip(records, left, strict=True):
            hashed = record[:HASH_BYTES]
            near = self._layout.near(int.from_bytes(hashed, "little"))
            if name == near[0] and not others:
                await self._buckets.change([(other, CUT + hashed) for other in near[1:]])


def _meta(crawl: str) -> str:
    """Name the hash with the number of pages the tables are made for; deleted with the crawl."""
    return f"{{{crawl}}}:content"


def _nearest(
    url_id: int, found: dict[int, int], firsts: dict[int, str], buckets: dict[str, bytes]
) -> Duplicate | None:
    """Choose the nearest original, of several the oldest; None if it is the page itself."""
    best: Duplicate | None = None
    for hashed, distance in found.items():
        pages = owners(buckets[firsts[hashed]], packed(hashed))
        if url_id in pages:
            return None
        if pages and best is None:
            best = Duplicate(pages[0], distance)
    return best


# Records that one call of the script changes.
_CHANGES = 500

# What to do with a record: add it, add it if no other has its hash, remove it.
PUT, PUT_FIRST, CUT = b"+", b"1", b"-"

# A bucket's name, and a record.
Record = tuple[str, bytes]


class Buckets:
    """Buckets of records in Redis. The name of a bucket begins with the hash tag of its shard."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis
        # Only a cluster needs a command for each shard.
        self._is_cluster = hasattr(redis, "get_node_from_key")

    async def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Read buckets with one command, on a cluster with one for each shard."""
        distinct = dict.fromkeys(names)
        if not self._is_cluster:
            found = await self._redis.mget(distinct)
            return {name: bucket or b"" for name, bucket in zip(distinct, found, strict=True)}
        by_shard: dict[str, list[str]] = defaultdict(list)
        for name in distinct:
            by_shard[_shard(name)].append(name)
        parts = list(by_shard.values())
        found = await asyncio.gather(*(self._redis.mget(part) for part in parts))
        return {
            name: bucket or b""
            for part, buckets in zip(parts, found, strict=True)
            for name, bucket in zip(part, buckets, strict=True)
        }

    async def change(self, changes: Sequence[Record]) -> list[int]:
        """Add or remove records; PUT, PUT_FIRST or CUT is the first byte of each.

        Returns for each how many records of its bucket have its hash afterwards.
        """
        answers = [0] * len(changes)
        by_shard: dict[str, list[int]] = defaultdict(list)
        for index, (name, _) in enumerate(changes):
            by_shard[_shard(name) if self._is_cluster else ""].append(index)
        for indexes in by_shard.values():
            for at in range(0, len(indexes), _CHANGES):
                part = indexes[at : at + _CHANGES]
                found = await self._run([changes[index] for index in part])
                for index, same in zip(part, found, strict=True):
                    answers[index] = same
        return answers

    async def _run(self, changes: list[Record]) -> list[int]:
        text, hashed = _script()
        names = [name for name, _ in changes]
        arguments = (len(names), *names, BUCKET_MAX, *(change for _, change in changes))
        try:
            found: list[int] = await self._redis.evalsha(hashed, *arguments)
        except NoScriptError:
            # The server restarted or failed over. EVAL also caches the script.
            found = await self._redis.eval(text, *arguments)
        return found


def _shard(name: str) -> str:
    return name[: name.index("}")]


@cache
def _script() -> tuple[str, str]:
    text = files("crawler.dedup").joinpath("change.lua").read_text(encoding="utf-8")
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class Content(NamedTuple):
    """Hashes by which the content of a page is recognised."""

    # SHA-256 of the body.
    digest: bytes
    # None if the text is too short to be compared.
    simhash: int | None

    @classmethod
    def parse(cls, content_hash: str, simhash: str) -> Self | None:
        """Read the hashes from the fields of a page; None if it has none."""
        if not content_hash:
            return None
        return cls(bytes.fromhex(content_hash), int(simhash, 16) if simhash else None)


class Duplicate(NamedTuple):
    """Earlier page that has the same content, exactly or nearly."""

    original: int
    # Number of SimHash bits that differ; None if the bytes are the same.
    distance: int | None
