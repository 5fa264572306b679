"""The index of contents in Redis: find the page that has a content, remember those of stored pages.

A record is written when its page is durable. Until then it is pending, and known to the process
that has the page alone: of two equal pages fetched at the same time both may be stored, never
neither, and a page that was lost on its way is no original. What waits is sent together, one batch
in flight at a time: first what is to be remembered, which may wait for more of it, then what is
asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, NamedTuple, Self

from redis.exceptions import NoScriptError, RedisClusterException, RedisError

from crawler.dedup.layout import (
    BUCKET_MAX,
    HASH_BYTES,
    Layout,
    exact_record,
    owned_by,
    owners,
    packed,
    within,
)
from crawler.errors import CrawlerError

logger = logging.getLogger(__name__)


# Pages in one batch: 500 names or so, and a few hundred KB of buckets.
_BATCH = 100
# What is to be remembered is sent when there is so much of it, or after so many seconds.
_ENOUGH = 16
_LINGER_S = 0.05
# Near texts looked at; in a bucket full of them any will do.
_NEAREST = 16
_ERRORS = (RedisError, RedisClusterException, OSError)


class NotCompared(CrawlerError):
    """Redis did not answer: nothing is known of this content."""


class _Question(NamedTuple):
    url_id: int
    content: Content
    answer: asyncio.Future[Duplicate | None]


class _Change(NamedTuple):
    url_id: int
    before: Content | None
    now: Content | None


class ContentIndex:
    """The contents of one crawl. `redis` is a server's or a cluster's client."""

    def __init__(self, redis: Any, layout: Layout, max_distance: int) -> None:
        self._buckets = Buckets(redis)
        self._layout = layout
        self._max_distance = max_distance
        self._questions: list[_Question] = []
        self._changes: list[_Change] = []
        self._task: asyncio.Task[None] | None = None
        # Whether the changes are to be sent now, and else what will see to it.
        self._due = False
        self._timer: asyncio.TimerHandle | None = None
        # Contents that could not be remembered.
        self.lost = 0

    @classmethod
    async def open(
        cls, redis: Any, crawl: str, tags: Sequence[str], *, pages: int, max_distance: int
    ) -> Self:
        """The contents of a crawl, made for so many pages if nobody opened them before."""
        name = _meta(crawl)
        await redis.hsetnx(name, "pages", pages)
        made_for = int(await redis.hget(name, "pages"))
        if made_for != pages:
            logger.info("NEAR_PAGES stays %d, as this crawl was created with", made_for)
        return cls(redis, Layout.made_for(tags, made_for), max_distance)

    @classmethod
    async def open_existing(cls, redis: Any, crawl: str, tags: Sequence[str]) -> Self | None:
        """The contents of a crawl that has some, to forget one."""
        made_for = await redis.hget(_meta(crawl), "pages")
        return cls(redis, Layout.made_for(tags, int(made_for)), 0) if made_for else None

    async def find(self, url_id: int, content: Content) -> Duplicate | None:
        """An earlier page with this content, or NotCompared.

        A page that has a record of its own with this content is nobody's duplicate.
        """
        answer: asyncio.Future[Duplicate | None] = asyncio.get_running_loop().create_future()
        self._questions.append(_Question(url_id, content, answer))
        self._start()
        return await answer

    def remember(self, url_id: int, now: Content | None, before: Content | None = None) -> None:
        """A page is durable with this content, which takes the place of what it had before.

        With None for `now` the page is nobody's original any more. Returns at once; what could not
        be told to Redis is counted, and costs that an equal page is stored again.
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
        """Wait until Redis knows all that was remembered."""
        if self._changes:
            self._send()
        while self._task is not None:
            await asyncio.wait({self._task})

    async def forget(self, url_id: int) -> bool:
        """Forget what a page had, wherever it is; says whether there was something.

        Looks through all buckets, in batches: a second or two at a million pages.
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
        except Exception as error:  # noqa: BLE001 - whatever it was, the pages must not wait
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
            # The other tables have no fingerprints: those are in the first.
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
            # Whatever it was, the pages behind must not wait for ever.
            self.lost += len(changes)
            logger.exception("Contents of %d pages are not remembered", len(changes))

    async def _cut(self, records: list[Record]) -> None:
        """Take records with fingerprints out, and their SimHashes if nobody else has them."""
        left = await self._buckets.change([(name, CUT + record) for name, record in records])
        for (name, record), others in zip(records, left, strict=True):
            hashed = record[:HASH_BYTES]
            near = self._layout.near(int.from_bytes(hashed, "little"))
            if name == near[0] and not others:
                await self._buckets.change([(other, CUT + hashed) for other in near[1:]])


def _meta(crawl: str) -> str:
    """Hash: how many pages the tables were made for. Beside the crawl's own, so it ends with it."""
    return f"{{{crawl}}}:content"


def _nearest(
    url_id: int, found: dict[int, int], firsts: dict[int, str], buckets: dict[str, bytes]
) -> Duplicate | None:
    """The nearest original, of several the oldest; None if the page itself is one of them."""
    best: Duplicate | None = None
    for hashed, distance in found.items():
        of = owners(buckets[firsts[hashed]], packed(hashed))
        if url_id in of:
            return None
        if of and best is None:
            best = Duplicate(of[0], distance)
    return best


# Records in one script.
_CHANGES = 500

# What to do with a record: put it in, put it in if no other has its hash, take it out.
PUT, PUT_FIRST, CUT = b"+", b"1", b"-"

# A bucket's name, and a record.
Record = tuple[str, bytes]


class Buckets:
    """A bucket's name begins with the hash tag of its shard; what a shard is told goes together."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Buckets by name; one command a shard."""
        by_shard: dict[str, dict[str, None]] = defaultdict(dict)
        for name in names:
            by_shard[_shard(name)][name] = None
        parts = [list(part) for part in by_shard.values()]
        found = await asyncio.gather(*(self._redis.mget(part) for part in parts))
        return {
            name: bucket or b""
            for part, buckets in zip(parts, found, strict=True)
            for name, bucket in zip(part, buckets, strict=True)
        }

    async def change(self, changes: Sequence[Record]) -> list[int]:
        """Put records in or take them out, each with PUT, PUT_FIRST or CUT before it.

        Says for each how many records of its bucket have its hash then.
        """
        answers = [0] * len(changes)
        by_shard: dict[str, list[int]] = defaultdict(list)
        for index, (name, _) in enumerate(changes):
            by_shard[_shard(name)].append(index)
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
            # A server that restarted or failed over; EVAL also stores the script.
            found = await self._redis.eval(text, *arguments)
        return found


def _shard(name: str) -> str:
    return name[: name.index("}")]


@cache
def _script() -> tuple[str, str]:
    text = files("crawler.dedup").joinpath("change.lua").read_text(encoding="utf-8")
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class Content(NamedTuple):
    """What a page is recognised by."""

    # SHA-256 of the body.
    digest: bytes
    # None for texts that are too short to be compared.
    simhash: int | None

    @classmethod
    def parse(cls, content_hash: str, simhash: str) -> Self | None:
        """The content of a page from the fields of its record; None if it has none."""
        if not content_hash:
            return None
        return cls(bytes.fromhex(content_hash), int(simhash, 16) if simhash else None)


class Duplicate(NamedTuple):
    """The page that has this content already."""

    original: int
    # Bits that differ; None when the bytes are the same.
    distance: int | None
