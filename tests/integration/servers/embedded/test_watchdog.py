"""Embedded servers that end under a crawl are started again."""

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from crawler.servers.embedded import EmbeddedServers
from crawler.servers.embedded.servers import Watchdog
from tests.support.waiting import until

AGAIN = "The embedded redis-server had ended; it runs again"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[EmbeddedServers]:
    servers = EmbeddedServers(tmp_path / "crawl")
    yield servers
    servers.release()


def pid_of(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        return int(client.info("server")["process_id"])


def kill_redis(url: str) -> None:
    os.kill(pid_of(url), signal.SIGKILL)


def answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False


async def test_one_that_was_killed_runs_again(servers: EmbeddedServers) -> None:
    url = servers.redis_url()
    assert servers.revive() == []
    kill_redis(url)
    revived: list[str] = []
    # A killed process needs a moment to be gone.
    await until(lambda: revived.extend(servers.revive()) or revived)
    assert revived == ["redis-server"]
    assert answers(url)


async def test_a_crawl_that_has_left_revives_nothing(servers: EmbeddedServers) -> None:
    url = servers.redis_url()
    servers.release()
    assert servers.revive() == []
    assert not answers(url)


async def test_a_folder_that_was_deleted_is_not_made_again(
    servers: EmbeddedServers, tmp_path: Path
) -> None:
    pid = pid_of(servers.redis_url())
    try:
        shutil.rmtree(tmp_path / "crawl")
        assert servers.revive() == []
        assert not (tmp_path / "crawl").exists()
    finally:
        # Nobody reaches it any more.
        os.kill(pid, signal.SIGKILL)


async def test_a_keeper_looks_by_itself_until_it_is_stopped(
    servers: EmbeddedServers, caplog: pytest.LogCaptureFixture
) -> None:
    url = await asyncio.to_thread(servers.redis_url)
    watchdog = Watchdog(servers, check_s=0.02)
    watchdog.start()
    watchdog.start()
    kill_redis(url)
    await until(lambda: AGAIN in caplog.messages)
    assert answers(url)
    await watchdog.stop()
    await watchdog.stop()
    assert caplog.messages.count(AGAIN) == 1


async def test_a_server_that_cannot_start_is_told_and_ends_nothing(
    servers: EmbeddedServers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = await asyncio.to_thread(servers.redis_url)
    data = tmp_path / "crawl" / "redis"
    watchdog = Watchdog(servers, check_s=0.02)
    watchdog.start()
    shutil.rmtree(data)
    data.write_text("no folder")
    kill_redis(url)
    await until(lambda: "cannot keep their data in" in caplog.text)
    await watchdog.stop()
