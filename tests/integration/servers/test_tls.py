"""Certificates of Redis and MongoDB: whom a start trusts, and what it says of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from chaos.proxy import Proxy
from crawler.errors import ConfigurationError, ServerAway
from crawler.servers.connections import Servers
from tests.support.certificates import Authority
from tests.support.crawlers import project_crawler


def servers(**settings: str) -> Servers:
    return Servers.from_settings(project_crawler(**settings).settings)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def redis_port(redis_url: str, authority: Authority) -> Iterator[int]:
    with Proxy(urlsplit(redis_url).path, tls=authority.server_context()) as proxy:
        yield proxy.port


@pytest.fixture
def mongo_port(mongo_uri: str, authority: Authority) -> Iterator[int]:
    path = unquote(mongo_uri.removeprefix("mongodb://"))
    with Proxy(path, tls=authority.server_context()) as proxy:
        yield proxy.port


async def test_redis_is_trusted_by_the_authority_in_its_url(
    redis_port: int, authority: Authority
) -> None:
    used = servers(REDIS_URL=f"rediss://127.0.0.1:{redis_port}/0?ssl_ca_certs={authority.path}")
    assert await (await used.redis()).ping()
    await used.close()


@pytest.mark.parametrize("given", ["?ssl_ca_certs={}", ""])
async def test_a_redis_of_another_authority_is_refused(
    redis_port: int, tmp_path: Path, given: str
) -> None:
    query = given.format(Authority(tmp_path, "other").path)
    used = servers(REDIS_URL=f"rediss://crawler:password@127.0.0.1:{redis_port}/0{query}")
    with pytest.raises(ConfigurationError, match=r"certificate is refused \(.*issuer") as refused:
        await used.redis()
    assert "ssl_ca_certs=FILE" in str(refused.value)
    assert "password" not in str(refused.value)


async def test_a_redis_with_another_name_in_its_certificate_is_refused(
    redis_url: str, authority: Authority
) -> None:
    with Proxy(urlsplit(redis_url).path, tls=authority.server_context("redis.test")) as proxy:
        used = servers(REDIS_URL=f"rediss://127.0.0.1:{proxy.port}/0?ssl_ca_certs={authority.path}")
        with pytest.raises(ConfigurationError, match=r"not valid for '127\.0\.0\.1'"):
            await used.redis()


async def test_a_missing_file_of_the_authority_is_named_as_the_mistake(redis_port: int) -> None:
    used = servers(REDIS_URL=f"rediss://127.0.0.1:{redis_port}/0?ssl_ca_certs=/nowhere.pem")
    with pytest.raises(ConfigurationError, match=r"/nowhere\.pem.* does not exist"):
        await used.redis()


async def test_a_redis_that_wants_tls_is_said_to(redis_port: int) -> None:
    with pytest.raises(ServerAway, match="rediss:// if it has TLS"):
        await servers(REDIS_URL=f"redis://127.0.0.1:{redis_port}/0").redis()


async def test_mongodb_is_trusted_by_the_authority_in_its_uri(
    mongo_port: int, authority: Authority
) -> None:
    used = servers(
        MONGO_URI=f"mongodb://127.0.0.1:{mongo_port}/?tls=true&tlsCAFile={authority.path}"
    )
    assert await (await used.mongo()).admin.command("ping")
    await used.close()


async def test_a_mongodb_of_another_authority_is_refused(mongo_port: int, tmp_path: Path) -> None:
    query = f"?tls=true&tlsCAFile={Authority(tmp_path, 'other').path}"
    # The driver tries again for as long.
    used = servers(MONGO_URI=f"mongodb://127.0.0.1:{mongo_port}/{query}", MONGO_TIMEOUT="0.5")
    with pytest.raises(ConfigurationError, match=r"certificate is refused \(.*issuer") as refused:
        await used.mongo()
    assert "tlsCAFile=FILE" in str(refused.value)


async def test_a_missing_file_of_mongodbs_authority_is_named(mongo_port: int) -> None:
    used = servers(MONGO_URI=f"mongodb://127.0.0.1:{mongo_port}/?tls=true&tlsCAFile=/nowhere.pem")
    with pytest.raises(ConfigurationError, match=r"/nowhere\.pem cannot be read"):
        await used.mongo()
