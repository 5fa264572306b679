"""Cache entries that all processes drop from memory."""

from redis.asyncio import Redis

from crawler.servers.redis.invalidation import NOTES_MAX, InvalidationReader, invalidate
from tests.support.waiting import until


async def test_every_process_drops_what_one_invalidates(redis_client: Redis) -> None:
    readers = [InvalidationReader() for _ in range(2)]
    dropped: list[tuple[int, str | None]] = []
    for number, reader in enumerate(readers):
        reader.open(redis_client, "robots", lambda name, n=number: dropped.append((n, name)))
    await invalidate(redis_client, "robots", ["http://a.test", "https://a.test"])
    await invalidate(redis_client, "dns", ["a.test"])
    await until(lambda: len(dropped) == 4)
    for reader in readers:
        await reader.close()
    assert sorted(dropped) == [(n, f"{s}://a.test") for n in (0, 1) for s in ("http", "https")]


async def test_notes_are_applied_once(redis_client: Redis) -> None:
    reader, dropped = InvalidationReader(), []
    reader._drops["dns"] = dropped.append
    await reader.read(redis_client)
    for name in ("a.test", "b.test"):
        await invalidate(redis_client, "dns", [name])
        await reader.read(redis_client)
        await reader.read(redis_client)
    assert dropped == ["a.test", "b.test"]


async def test_a_process_that_missed_notes_drops_everything(redis_client: Redis) -> None:
    reader, dropped = InvalidationReader(), []
    reader._drops["dns"] = dropped.append
    await invalidate(redis_client, "dns", [f"{n}.test" for n in range(NOTES_MAX + 5)])
    assert await redis_client.xlen("invalidated") == NOTES_MAX
    await reader.read(redis_client)
    assert dropped == [None]
    await reader.read(redis_client)
    assert dropped == [None]
