"""A MongoDB that answers, and takes no pages: people are told what to do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from scrapy.crawler import Crawler

from crawler.errors import ConfigurationError, ServerAway
from crawler.servers.connections import Servers
from tests.integration.pipelines.test_store import opened, page
from tests.support.cluster import free_port
from tests.support.crawlers import project_crawler
from tests.support.private_mongo import PrivateMongo
from tests.support.waiting import until

DISK_FULL = 14031


@asynccontextmanager
async def crawler_of(uri: str) -> AsyncIterator[Crawler]:
    crawler = project_crawler(MONGO_URI=uri, MONGO_DATABASE="test")
    crawler.engine = SimpleNamespace(_slot=None)  # type: ignore[assignment]
    yield crawler
    await Servers.of(crawler).close()


async def test_wrong_credentials_and_missing_rights_are_told_at_the_start() -> None:
    with PrivateMongo("--auth") as mongo:
        async with AsyncMongoClient[dict[str, Any]](mongo.uri) as client:
            await client.admin.command("createUser", "reader", pwd="good", roles=["read"])
        address = mongo.uri.removeprefix("mongodb://")
        async with crawler_of(f"mongodb://reader:secret@{address}") as crawler:
            with pytest.raises(ConfigurationError) as told:
                await opened(crawler)
        assert "it does not accept the user and the password of MONGO_URI" in str(told.value)
        assert "secret" not in str(told.value)
        async with crawler_of(f"mongodb://reader:good@{address}/admin") as crawler:
            with pytest.raises(ConfigurationError, match="role readWrite on MONGO_DATABASE"):
                await opened(crawler)


async def test_a_server_that_takes_no_writes_is_told_at_the_start() -> None:
    # A member of a set that was never set up is nobody's primary.
    with PrivateMongo("--replSet", "set") as mongo:
        async with crawler_of(f"{mongo.uri}/?directConnection=true") as crawler:
            with pytest.raises(ServerAway, match="it takes no writes now"):
                await opened(crawler)


async def test_pages_wait_for_a_server_whose_disk_is_full(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with PrivateMongo("--setParameter", "enableTestCommands=1") as mongo:
        async with (
            AsyncMongoClient[dict[str, Any]](mongo.uri) as client,
            crawler_of(mongo.uri) as crawler,
        ):
            store = await opened(crawler)
            await client.admin.command(
                "configureFailPoint",
                "failCommand",
                mode={"times": 3},
                data={"failCommands": ["insert"], "errorCode": DISK_FULL},
            )
            async with asyncio.timeout(60):
                await asyncio.gather(*(store.process_item(page(number)) for number in range(5)))
            stats = crawler.stats.get_stats()
            assert stats["sink/failed_writes/mongo"] == 3
            # Two failures opened it, and the third was the probe.
            assert (stats["sink/breaker_open/mongo"], stats["store/state"]) == (2, "ok")
            assert await client["test"]["pages_metadata"].count_documents({}) == 5
    told = [record.getMessage() for record in caplog.records if record.name.startswith("crawler")]
    assert "its disk is full: make room there" in told[0]
    assert "MongoDB is back" in told[-1]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said about MongoDB going away and coming back."""
    of = "crawler.servers.health"
    return [record.getMessage() for record in caplog.records if record.name == of]


async def test_pages_wait_while_a_user_has_no_rights(caplog: pytest.LogCaptureFixture) -> None:
    with PrivateMongo("--auth") as mongo:
        address = mongo.uri.removeprefix("mongodb://")
        async with AsyncMongoClient[dict[str, Any]](mongo.uri) as client:
            await client.admin.command("createUser", "root", pwd="r", roles=["root"])
        async with AsyncMongoClient[dict[str, Any]](f"mongodb://root:r@{address}/admin") as root:
            role = {"role": "readWrite", "db": "test"}
            await root.admin.command("createUser", "user", pwd="u", roles=[role])
            async with crawler_of(f"mongodb://user:u@{address}/admin") as crawler:
                store = await opened(crawler)
                await store.process_item(page(0))
                await root.admin.command("revokeRolesFromUser", "user", roles=[role])
                waiting = [asyncio.create_task(store.process_item(page(n))) for n in range(1, 5)]
                await until(lambda: told(caplog), "it was noticed")
                assert not any(task.done() for task in waiting)
                await root.admin.command("grantRolesToUser", "user", roles=[role])
                async with asyncio.timeout(60):
                    await asyncio.gather(*waiting)
            assert await root["test"]["pages_metadata"].count_documents({}) == 5
    away, back = told(caplog)
    assert "give it the role readWrite on MONGO_DATABASE" in away
    assert "MongoDB is back" in back


async def test_pages_wait_while_a_set_has_no_primary(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with PrivateMongo("--replSet", "set", port=port) as mongo:
        direct = f"{mongo.uri}/?directConnection=true"
        async with AsyncMongoClient[dict[str, Any]](direct) as client:
            member = {"_id": 0, "host": f"127.0.0.1:{port}"}
            await client.admin.command("replSetInitiate", {"_id": "set", "members": [member]})

            async def is_primary() -> bool:
                return bool((await client.admin.command("hello"))["isWritablePrimary"])

            await until(is_primary, "it is elected")
            async with crawler_of(direct) as crawler:
                store = await opened(crawler)
                await store.process_item(page(0))
                # For long, but a test need not wait for the end of it.
                await client.admin.command("replSetStepDown", 600, force=True)
                waiting = [asyncio.create_task(store.process_item(page(n))) for n in range(1, 5)]
                await until(lambda: told(caplog), "it was noticed")
                assert not any(task.done() for task in waiting)
                await client.admin.command("replSetFreeze", 0)
                async with asyncio.timeout(60):
                    await asyncio.gather(*waiting)
            assert await client["test"]["pages_metadata"].count_documents({}) == 5
    away, back = told(caplog)
    assert "it takes no writes now" in away
    assert "MongoDB is back" in back
