"""Index of contents in Redis: find the page that has a content, remember the content of pages.

A record is written when its page is durable. So a page that was never stored is never an original;
of two equal pages that are fetched at the same time both may be stored. Lookups and changes are
sent in batches, one batch in flight at a time. Changes wait a little for more of them and are sent
before the lookups.

Equal bytes are found by their hash, here; similar texts by the method that the crawl was created
with (simhash_tables.py, minhash_tables.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

from redis.exceptions import RedisClusterException, RedisError

from crawler.dedup.buckets import (
    CUT,
    HASH_BYTES,
    PUT_FIRST,
    Buckets,
    Record,
    bucket_name,
    owned_by,
    owners,
    packed,
)
from crawler.dedup.minhash_tables import MinHashTables
from crawler.dedup.near import Change, Content, Duplicate, NearTables, Question
from crawler.dedup.simhash_tables import MAX_DISTANCE, SimHashTables
from crawler.errors import CrawlerError

logger = logging.getLogger(__name__)

SIMHASH, MINHASH = "simhash", "minhash"
SIMILARITY = 0.9
_EXACT = "x"
# Pages in one batch: 500 names or so, and a few hundred KB of buckets.
_BATCH = 100
# Changes are sent when there are this many, or after this many seconds.
_ENOUGH = 16
_LINGER_S = 0.05
_ERRORS = (RedisError, RedisClusterException, OSError)


class NotCompared(CrawlerError):
    """Error of a lookup: Redis did not answer, so nothing is known of this content."""


class _Asked(NamedTuple):
    question: Question
    answer: asyncio.Future[Duplicate | None]


class ContentIndex:
    """Contents of the pages of one crawl. `redis` is the client of a server or of a cluster."""

    def __init__(self, buckets: Buckets, tags: Sequence[str], near: NearTables) -> None:
        self._buckets = buckets
        self._tags = tags
        self._near = near
        self._questions: list[_Asked] = []
        self._changes: list[Change] = []
        self._task: asyncio.Task[None] | None = None
        # Whether changes are to be sent now; otherwise the timer will send them.
        self._due = False
        self._timer: asyncio.TimerHandle | None = None
        # Number of contents that could not be remembered.
        self.lost = 0

    @classmethod
    async def open(
        cls,
        redis: Any,
        crawl: str,
        tags: Sequence[str],
        *,
        pages: int,
        near_by: str = SIMHASH,
        max_distance: int = MAX_DISTANCE,
        similarity: float = SIMILARITY,
    ) -> Self:
        """Open the index of a crawl; a new one is made for this many pages, and this method.

        `max_distance` is for SimHash, `similarity` for MinHash.
        """
        made_for = _MadeFor(pages, near_by)
        # One field, so that two processes that start together agree.
        await redis.hsetnx(_meta(crawl), _PAGES, str(made_for))
        found = _MadeFor.parse(await redis.hget(_meta(crawl), _PAGES))
        if found.pages != pages:
            logger.info("NEAR_PAGES stays %d, as this crawl was created with", found.pages)
        if found.near_by != near_by:
            # By MinHash the main text is compared, which is found only if the setting asks for it.
            logger.warning(
                "NEAR_BY stays %s, as this crawl was created with; set it so", found.near_by
            )
        return cls._of(redis, tags, found, max_distance, similarity)

    @classmethod
    async def open_existing(cls, redis: Any, crawl: str, tags: Sequence[str]) -> Self | None:
        """Open the index of a crawl to forget a page; None if the crawl has no index."""
        found = await redis.hget(_meta(crawl), _PAGES)
        return cls._of(redis, tags, _MadeFor.parse(found)) if found else None

    @classmethod
    def _of(
        cls,
        redis: Any,
        tags: Sequence[str],
        made_for: _MadeFor,
        max_distance: int = MAX_DISTANCE,
        similarity: float = SIMILARITY,
    ) -> Self:
        buckets, pages = Buckets(redis), made_for.pages
        near: NearTables
        if made_for.near_by == MINHASH:
            near = MinHashTables.made_for(buckets, tags, pages, similarity)
        else:
            near = SimHashTables.made_for(buckets, tags, pages, max_distance)
        return cls(buckets, tags, near)

    @property
    def compares_sketches(self) -> bool:
        """Whether contents need a sketch: near-duplicates are found by MinHash."""
        return isinstance(self._near, MinHashTables)

    async def find(self, url_id: int, content: Content) -> Duplicate | None:
        """Find an earlier page with this content; raises NotCompared if Redis does not answer.

        A page that has a record of its own with this content is no duplicate.
        """
        answer: asyncio.Future[Duplicate | None] = asyncio.get_running_loop().create_future()
        self._questions.append(_Asked(Question(url_id, content), answer))
        self._start()
        return await answer

    def remember(self, url_id: int, now: Content | None, before: Content | None = None) -> None:
        """Replace the content of a page that is durable now.

        With None for `now` the page is no original any more. Returns at once. A change that does
        not reach Redis is counted; its cost is that an equal page is stored again.
        """
        if before == now:
            before = None
        # By MinHash records are found by the URL, also those of a visit that is not known.
        if now is not None or before is not None or self.compares_sketches:
            self._changes.append(Change(url_id, before, now))
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

        Reads all buckets of exact hashes, and of SimHashes, in batches: that takes a second or two
        for a million pages.
        """
        found = await self._near.forget(url_id)
        names = (bucket_name(self._tags, _EXACT, number) for number in range(1 << self._near.bits))
        while batch := list(islice(names, 2 * _BATCH)):
            buckets = await self._buckets.read(batch)
            cuts = [
                (name, CUT + record)
                for name, bucket in buckets.items()
                for record in owned_by(bucket, url_id)
            ]
            if cuts:
                found = True
                await self._buckets.change(cuts)
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

    async def _answer(self, asked: list[_Asked]) -> None:
        try:
            answers = await self._look_up([question for question, _ in asked])
        except Exception as error:  # noqa: BLE001 - the pages must not wait, whatever it was
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(NotCompared(f"{type(error).__name__}: {error}"))
            return
        for (_, answer), found in zip(asked, answers, strict=True):
            if not answer.done():
                answer.set_result(found)

    async def _look_up(self, questions: list[Question]) -> list[Duplicate | None]:
        exact = [self._exact(content.digest) for _, content in questions]
        near = [self._near.names(content) for _, content in questions]
        buckets = await self._buckets.read([*exact, *(name for names in near for name in names)])
        answers: list[Duplicate | None] = [None] * len(questions)
        left = []
        for index, (url_id, content) in enumerate(questions):
            if same := owners(buckets[exact[index]], _record(content.digest, 0)[:HASH_BYTES]):
                answers[index] = Duplicate(same[0]) if same[0] != url_id else None
            elif near[index]:
                left.append(index)
        if left:
            found = await self._near.nearest([questions[index] for index in left], buckets)
            for index, duplicate in zip(left, found, strict=True):
                answers[index] = duplicate
        return answers

    async def _change(self, changes: list[Change]) -> None:
        cuts: list[Record] = []
        puts: list[Record] = []
        for url_id, before, now in changes:
            if before is not None and (now is None or now.digest != before.digest):
                cuts.append((self._exact(before.digest), CUT + _record(before.digest, url_id)))
            if now is not None:
                puts.append((self._exact(now.digest), PUT_FIRST + _record(now.digest, url_id)))
                puts += self._near.records(url_id, now)
        try:
            if cuts:
                await self._buckets.change(cuts)
            await self._near.remove_old(changes)
            if puts:
                await self._buckets.change(puts)
        except _ERRORS as error:
            self.lost += len(changes)
            logger.debug("%d contents are not remembered: %s", len(changes), error)
        except Exception:
            # Pages that are looked up next must not wait for ever, whatever it was.
            self.lost += len(changes)
            logger.exception("Contents of %d pages are not remembered", len(changes))

    def _exact(self, digest: bytes) -> str:
        """Name the bucket of a content's hash."""
        number = int.from_bytes(digest[:4], "big") >> (32 - self._near.bits)
        return bucket_name(self._tags, _EXACT, number)


class _MadeFor(NamedTuple):
    """What the index of a crawl was made for; as text "1000000 minhash".

    Crawls that earlier releases created have the number of pages only.
    """

    pages: int
    near_by: str

    def __str__(self) -> str:
        return f"{self.pages} {self.near_by}"

    @classmethod
    def parse(cls, text: bytes) -> Self:
        pages, _, near_by = text.decode().partition(" ")
        return cls(int(pages), near_by or SIMHASH)


_PAGES = "pages"


def _meta(crawl: str) -> str:
    """Name the hash with what the tables are made for; deleted with the crawl."""
    return f"{{{crawl}}}:content"


def _record(digest: bytes, url_id: int) -> bytes:
    """Pack the record of a content's hash."""
    return digest[4 : 4 + HASH_BYTES] + packed(url_id)
