"""Take seeds from topics of Kafka into the frontier, and commit their offsets after that.

    read ─▶ added to the frontier ─▶ on the disk of Redis ─▶ offsets committed
        └─▶ bad: in crawl-errors, or a dead letter ────────────▶

A message is a URL, JSON with a `url`, or whatever the spider makes requests of, as an element that
is pushed to Redis (discovery/pushed.py). A process that is killed before the commit leaves the
messages to others: URLs that come twice are known. While the frontier is full or Redis is away,
nothing is read. While Kafka is away, the crawl goes on with what it has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import monotonic, time

from crawler.discovery.pushed import Pushed, PushedReader, Unreadable
from crawler.discovery.seeds import why
from crawler.errors import NotStored
from crawler.frontier import Added, Entry
from crawler.servers.health import ServerHealth
from crawler.servers.kafka_group import GroupMember, KafkaAway, Received
from crawler.servers.redis.errors import RedisAway
from crawler.storage.sink import RejectedMessage
from crawler.util.secrets import shown
from crawler.util.tasks import abandon, end

logger = logging.getLogger(__name__)

# What waits for Kafka, for the log.
SEEDS = "seeds"
# Messages that are taken in at once.
_BATCH = 200
# Bytes of a message; a longer one is rejected. As of a line in a file of seeds.
_MESSAGE_MAX = 100_000
# Bytes after which other tasks have their turn: reading them takes some milliseconds.
_TURN_BYTES = 200_000
# Characters of a rejected message that are kept.
_TEXT_MAX = 1000
_WAIT_S = 0.5
# Between two commits; Redis writes its log every second.
_COMMIT_S = 1.0
# Until the next attempt after an error of Kafka or of the place for bad messages, and after one
# that nobody expected.
_AGAIN_S, _FAILED_S = 2.0, 5.0
_SHOWN = 10
# Reason of messages that fail for no reason that has a code of its own.
_BAD = "bad_message"

Add = Callable[[Sequence[Entry], str], Awaitable[Added]]


class KafkaSeeds:
    """Seeds in Kafka, as one process takes them in."""

    def __init__(
        self,
        member: GroupMember,
        reader: PushedReader,
        add: Add,
        reject: Callable[[Sequence[RejectedMessage]], Awaitable[None]],
        *,
        is_full: Callable[[], Awaitable[bool]],
        sync: Callable[[], Awaitable[None]],
        count: Callable[[str, int], None] = lambda _name, _by: None,
    ) -> None:
        """`sync` returns when what was added is on the disk of Redis."""
        self.health = ServerHealth(
            "Kafka", lambda error: f"({error})", effect="the crawl goes on without new seeds"
        )
        self._member = member
        self._reader = reader
        self._add = add
        self._reject = reject
        self._is_full = is_full
        self._sync = sync
        self._count = count
        # Messages that are read, and not yet in the frontier.
        self._batch: list[Received] = []
        # By partition: the last message that is in the frontier, and perhaps not on Redis' disk.
        self._added: dict[tuple[str, int], Received] = {}
        self._committed_s = 0.0
        self._rejected = 0
        self._was_full = False
        self._task: asyncio.Task[None] | None = None

    # --- life ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Join the group; ConfigurationError or ServerAway if that is impossible."""
        await self._member.open()
        logger.info(
            "Seeds are read from Kafka at %s, topic %s, by the consumer group %s",
            *(self._member.servers, ", ".join(self._member.topics), self._member.group),
        )

    def start(self) -> None:
        """Take in messages from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop, and leave the group. Messages that were not committed are read again."""
        if self._task is not None:
            await end(self._task)
        await self._member.close(is_away=self.health.away)

    async def waiting(self) -> bool:
        """Return False if the frontier has all messages, whichever process read them."""
        if self.health.away:
            return True
        try:
            return not await self._member.is_at_end()
        except KafkaAway:
            # The other task finds out, too.
            return True

    # --- messages --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                if self.health.away:
                    await self._member.ping()
                    self.health.worked(SEEDS)
                await self._step()
            except KafkaAway as error:
                self.health.failed(SEEDS, error)
                await asyncio.sleep(_AGAIN_S)
            except NotStored:
                # Redis is given up on, so the process ends.
                return
            except Exception:
                logger.exception("Messages of Kafka could not be taken in; trying again")
                await asyncio.sleep(_FAILED_S)

    async def _step(self) -> None:
        if not self._batch:
            if await self._has_no_room():
                await self._member.stay(_WAIT_S)
                return
            self._batch = await self._member.read(_BATCH, _WAIT_S)
        is_idle = not self._batch
        if self._batch:
            await self._while_in_group(self._take(self._batch))
            self._added |= {(each.topic, each.partition): each for each in self._batch}
            self._batch = []
        is_due = is_idle or monotonic() >= self._committed_s + _COMMIT_S
        if is_due and (self._added or self._member.has_uncommitted):
            with suppress(*RedisAway):
                await self._sync()
                # Not before: the group may commit by itself what is done, as when it is left.
                self._member.done(self._added.values())
                self._added = {}
                await self._member.commit()
                self._committed_s = monotonic()

    async def _has_no_room(self) -> bool:
        try:
            is_full = await self._is_full()
        except RedisAway:
            return True
        if is_full != self._was_full:
            self._was_full = is_full
            logger.info(
                "The frontier is full: messages wait in Kafka"
                if is_full
                else "The frontier has room for seeds of Kafka again"
            )
        return is_full

    async def _while_in_group(self, work: Awaitable[None]) -> None:
        """Wait for work that may take long, and stay in the group meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=_WAIT_S))[0]:
                with suppress(KafkaAway):
                    await self._member.stay(_WAIT_S)
            task.result()
        finally:
            abandon(task)

    async def _take(self, messages: Sequence[Received]) -> None:
        """Bring messages into the frontier, or to where bad ones go."""
        received = [each for each in messages if not each.is_end]
        found: list[Pushed] = []
        bad: list[RejectedMessage] = []
        size = 0
        for message in received:
            if message.value is None:
                continue
            size += len(message.value)
            if size > _TURN_BYTES:
                size = 0
                await asyncio.sleep(0)
            try:
                found += self._read(message.value)
            except Unreadable as error:
                bad.append(_rejected(message, error.reason, str(error)))
            except Exception as error:
                # Others wait behind it.
                logger.debug("A message could not be read", exc_info=True)
                bad.append(_rejected(message, _BAD, f"it could not be read: {error!r}"))
        try:
            await self._add_all(found)
        except (NotStored, *RedisAway):
            raise
        except Exception as error:
            if len(received) > 1:
                # One message may be the cause; the others must not fail for it.
                for message in received:
                    await self._take([message])
                return
            logger.debug("A message could not be added", exc_info=True)
            text = f"it could not be added: {error}"
            bad = [_rejected(each, _BAD, text) for each in received]
        self._count("seeds/messages", len(received))
        if bad:
            await self._reject_all(bad)

    def _read(self, value: bytes) -> list[Pushed]:
        if len(value) > _MESSAGE_MAX:
            text = f"it has {len(value):,} bytes, and {_MESSAGE_MAX:,} are allowed"
            raise Unreadable("too_long", text)
        try:
            value.decode()
        except UnicodeDecodeError:
            raise Unreadable("no_utf8", why("no_utf8")) from None
        return self._reader.parse(value, now_s=time())

    async def _add_all(self, found: Sequence[Pushed]) -> None:
        if entries := [one.entry for one in found if not one.forced]:
            added = await self._add(entries, "all")
            self._count("seeds/streamed", added.new)
            self._count("seeds/known", len(entries) - added.new)
        # Last: after an error they would be added once more.
        if forced := [one.entry for one in found if one.forced]:
            await self._add(forced, "force")
            self._count("seeds/streamed", len(forced))

    async def _reject_all(self, bad: Sequence[RejectedMessage]) -> None:
        for each in bad:
            self._rejected += 1
            if self._rejected <= _SHOWN:
                logger.warning(
                    "%s, partition %d, offset %d: %r was left out: %s%s",
                    *(each.topic, each.partition, each.offset, shown(each.text), each.last_error),
                    "; more are only counted" if self._rejected == _SHOWN else "",
                )
        while True:
            try:
                await self._reject(bad)
            except RedisAway as error:
                logger.debug("Bad messages wait: %s", error)
                await asyncio.sleep(_AGAIN_S)
            else:
                break
        self._count("seeds/rejected", len(bad))


def _rejected(message: Received, reason: str, last_error: str) -> RejectedMessage:
    text = (message.value or b"")[: 4 * _TEXT_MAX].decode("utf-8", "replace")[:_TEXT_MAX]
    place = (message.topic, message.partition, message.offset)
    return RejectedMessage(reason, text, *place, last_error)
