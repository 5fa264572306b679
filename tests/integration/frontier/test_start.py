"""The start of an instance: what must fit, and what is said when it does not."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.asyncio import RedisCluster

from crawler.errors import ConfigurationError, CrawlerError, DataLost, ServerAway
from crawler.frontier import CrawlControl, Frontier, Tuning, keys, meta
from crawler.frontier.meta import DATA_MODEL, KNOWN_MODEL, VISITS_MODEL
from crawler.frontier.tuning import bloom
from crawler.scheduling import options
from crawler.servers.redis import checks
from crawler.servers.redis.connection import connect, masked, server_mode
from crawler.servers.redis.errors import RedisAway
from crawler.urls import UrlRules, Urls, host_of
from tests.integration.frontier.fleet import CRAWL, Place, entries
from tests.support.cluster import RedisProcess, cluster_node


async def test_another_number_of_shards_is_refused(place: Place) -> None:
    await place.instance()
    with pytest.raises(
        ConfigurationError,
        match=rf"FRONTIER_SHARDS is 5; the crawl 'test' was created with {place.shards}, which "
        "cannot change. Set it to that, or choose another name with CRAWL",
    ):
        await Frontier(place.redis, CRAWL, shards=5).open()


async def test_another_form_of_url_seen_is_refused(place: Place) -> None:
    await place.instance()
    with pytest.raises(ConfigurationError, match=r"URL_SEEN is bloom; .* created with intset"):
        await place.instance(tuning=Tuning(url_seen=bloom()))


async def test_a_crawl_of_another_data_model_is_refused(place: Place) -> None:
    await place.instance()
    await place.redis.hset(keys.crawl_meta(CRAWL), "version", 1)
    with pytest.raises(ConfigurationError, match=f"data model 1, .* knows 4 to {VISITS_MODEL}"):
        await place.instance()
    with pytest.raises(ConfigurationError, match="Finish it with the version that began it"):
        await place.control()


async def test_another_spider_is_refused_whoever_of_a_fleet_came_first(place: Place) -> None:
    names = ["shop", "news"] * 10
    found = await asyncio.gather(
        *(Frontier(place.redis, CRAWL, shards=place.shards, spider=name).open() for name in names),
        return_exceptions=True,
    )
    owner = (await place.redis.hget(keys.crawl_meta(CRAWL), "spider")).decode()
    for name, answer in zip(names, found, strict=True):
        assert isinstance(answer, int if name == owner else ConfigurationError)
    with pytest.raises(
        ConfigurationError,
        match=rf"The crawl 'test' is of the spider '{owner}', and this one is 'x': its URLs "
        r"would meet callbacks that are not theirs\. Give each spider a crawl of its own .*, or "
        r"delete that one: scrapy frontier delete --crawl test\.",
    ):
        await Frontier(place.redis, CRAWL, shards=place.shards, spider="x").open()


async def test_a_crawl_from_before_spiders_were_recorded_is_the_next_ones(place: Place) -> None:
    await place.instance()
    assert (await meta.read(place.redis, CRAWL)).spider == ""
    await Frontier(place.redis, CRAWL, shards=place.shards, spider="shop").open()
    assert (await meta.read(place.redis, CRAWL)).spider == "shop"
    with pytest.raises(ConfigurationError, match="is of the spider 'shop'"):
        await Frontier(place.redis, CRAWL, shards=place.shards, spider="news").open()


@pytest.mark.parametrize("version", [4, 5, 6])
async def test_a_crawl_of_a_version_before_goes_on_and_keeps_that_version_out(
    place: Place, version: int
) -> None:
    await (await place.instance()).leave()
    await place.redis.hset(keys.crawl_meta(CRAWL), "version", version)
    await CrawlControl.open(place.redis, CRAWL)
    await place.instance()
    assert int(await place.redis.hget(keys.crawl_meta(CRAWL), "version")) == DATA_MODEL


async def test_seeds_that_people_add_keep_the_version_before_out(place: Place) -> None:
    older = await place.instance()
    await place.redis.hset(keys.crawl_meta(CRAWL), "version", DATA_MODEL - 1)
    control = await CrawlControl.open(place.redis, CRAWL)
    with pytest.raises(ServerAway, match="1 processes of an earlier version work on it"):
        await control.add(entries(2))
    await older.leave()
    assert (await control.add(entries(2))).new == 2
    assert int(await place.redis.hget(keys.crawl_meta(CRAWL), "version")) == DATA_MODEL


async def test_a_newer_program_waits_until_older_ones_have_ended(place: Place) -> None:
    older = Frontier(place.redis, CRAWL, shards=place.shards)
    await older.open({"machine": "box", "pid": 7})
    await place.redis.hset(keys.crawl_meta(CRAWL), "version", DATA_MODEL - 1)
    newer = Frontier(place.redis, CRAWL, shards=place.shards)
    with pytest.raises(ServerAway, match=r"\(box pid 7\): stop them first"):
        await newer.create()
    assert int(await place.redis.hget(keys.crawl_meta(CRAWL), "version")) == DATA_MODEL - 1
    await older.leave()
    await newer.create()
    assert int(await place.redis.hget(keys.crawl_meta(CRAWL), "version")) == DATA_MODEL


async def test_pages_are_not_rendered_beside_programs_that_do_not_know_visits(place: Place) -> None:
    older = Frontier(place.redis, CRAWL, shards=place.shards)
    await older.open({"machine": "box", "pid": 7})
    newer = Frontier(place.redis, CRAWL, shards=place.shards)
    await newer.open({KNOWN_MODEL: VISITS_MODEL})
    with pytest.raises(ServerAway, match=r"renders pages .*\(box pid 7\)"):
        await newer.allow_visits()
    await older.leave()
    await newer.allow_visits()
    assert int(await place.redis.hget(keys.crawl_meta(CRAWL), "version")) == VISITS_MODEL
    # It stays, also where nothing is rendered.
    await newer.create()
    assert int(await place.redis.hget(keys.crawl_meta(CRAWL), "version")) == VISITS_MODEL


async def test_a_crawl_that_is_not_there_cannot_be_steered(place: Place) -> None:
    with pytest.raises(CrawlerError, match="There is no crawl 'nothing' in this Redis"):
        await CrawlControl.open(place.redis, "nothing")


async def test_a_crawl_keeps_the_suffixes_that_it_began_with(place: Place) -> None:
    urls, url = Urls(UrlRules(group_by="domain")), "http://www.alice.github.io/"
    await place.instance()
    new = await CrawlControl.open(place.redis, CRAWL, urls)
    assert host_of(url)[new.urls.group_skip(url) :] == "alice.github.io"
    assert (await options.of_crawl(new)).private_suffixes
    # As former versions have created it.
    await place.redis.hdel(keys.crawl_meta(CRAWL), "suffixes")
    for _ in range(2):
        former = await CrawlControl.open(place.redis, CRAWL, urls)
        assert host_of(url)[former.urls.group_skip(url) :] == "github.io"
        assert not (await options.of_crawl(former)).private_suffixes
        watcher = options.OptionsWatcher()
        await watcher.open(former, {})
        assert not watcher.options.private_suffixes
        await watcher.close()
        await place.instance()


async def test_a_bloom_filters_size_stays_what_it_was(place: Place) -> None:
    await place.instance(tuning=Tuning(url_seen=bloom(1000)))
    second = await place.instance(tuning=Tuning(url_seen=bloom(2000)))
    assert second._seen_argument == bloom(1000).argument


async def test_a_whole_fleet_may_create_a_crawl_at_once(place: Place) -> None:
    fleet = await asyncio.gather(*(place.instance() for _ in range(20)))
    assert len({frontier.owner for frontier in fleet}) == 20
    assert {frontier._seen_argument for frontier in fleet} == {"512"}
    assert not [key async for key in place.redis.scan_iter("*probe*")]


async def test_a_crawl_that_is_being_created_is_not_there_yet(place: Place) -> None:
    await place.redis.hset(keys.crawl_meta(CRAWL), "shards", place.shards)
    with pytest.raises(CrawlerError, match="There is no crawl 'test' in this Redis"):
        await place.control()
    await place.instance()
    # Small hashes keep the order in which they were written.
    assert (await place.redis.hkeys(keys.crawl_meta(CRAWL)))[-1] == b"version"


async def test_a_creation_that_was_cut_off_is_completed(place: Place) -> None:
    await place.redis.hset(keys.crawl_meta(CRAWL), "version", DATA_MODEL)
    await place.instance()
    assert (await place.redis.hlen(keys.crawl_meta(CRAWL))) == 6


async def test_another_crawl_of_the_same_name_is_not_taken_for_its_own(place: Place) -> None:
    ours = await place.instance()
    await place.redis.flushall()
    # The same crawl, whoever creates it again.
    await place.instance()
    await ours.create()
    await place.redis.hset(keys.crawl_meta(CRAWL), "id", "1700000000000-0a1b2c3d")
    with pytest.raises(
        DataLost, match=r"another crawl of the name 'test' now, begun on 2023-11-14"
    ):
        await ours.create()
    # A process that starts there works on it.
    await place.instance()


async def test_a_server_with_smaller_compact_sets_gets_smaller_buckets(redis_url: str) -> None:
    client = await connect(redis_url)
    await client.config_set("set-max-intset-entries", 130)
    try:
        assert (await Place(client, 1).instance())._seen_argument == "128"
    finally:
        await client.config_set("set-max-intset-entries", 512)
        await client.aclose()


# --- persistence ---------------------------------------------------------------------------------


async def test_a_server_that_keeps_what_it_has_is_accepted(place: Place) -> None:
    await checks.check(place.redis)


@pytest.mark.parametrize(
    ("setting", "bad", "good", "risk"),
    [
        ("appendonly", "no", "yes", "a restart would lose the frontier"),
        ("maxmemory-policy", "allkeys-lru", "noeviction", "host clocks could be evicted"),
    ],
)
async def test_a_server_that_would_lose_urls_is_refused(
    redis_process: RedisProcess, setting: str, bad: str, good: str, risk: str
) -> None:
    with redis_process.client as admin:
        admin.config_set(setting, bad)
    client = await connect(redis_process.url)
    with pytest.raises(ConfigurationError) as refused:
        await checks.check(client)
    text = str(refused.value)
    assert f"Redis has {setting} {bad}: " in text
    assert risk in text
    assert f"`redis-cli config set {setting} {good}`" in text
    assert "REQUIRE_PERSISTENCE=0" in text
    await client.aclose()


async def test_a_server_that_damages_compressed_lists_is_refused(
    redis_process: RedisProcess,
) -> None:
    with redis_process.client as admin:
        version = admin.info("server")["redis_version"]
        admin.config_set("list-compress-depth", 1)
    client = await connect(redis_process.url)
    if checks.compresses_well(version):
        await checks.check(client)
    else:
        with pytest.raises(ConfigurationError, match="list-compress-depth 1 damages lists"):
            await checks.check(client)
    await client.aclose()


@pytest.mark.parametrize(("version", "well"), [("6.2.21", False), ("7.0.0", True), ("10.1", True)])
def test_lists_are_compressed_well_since_redis_7(version: str, well: bool) -> None:
    assert checks.compresses_well(version) is well


async def test_a_server_that_tells_nothing_is_warned_about(
    redis_process: RedisProcess, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_process.client as admin:
        admin.execute_command("ACL SETUSER managed on >pw ~* +@all -config")
    client = await connect(redis_process.url.replace("//", "//managed:pw@"))
    with caplog.at_level(logging.WARNING):
        await checks.check(client)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "does not report its appendonly; make sure that it is yes" in caplog.text
    await client.aclose()


# --- connection ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"foo": 1}, "REDIS_PARAMS is .*'foo'"),
        ({"decode_responses": True}, "REDIS_PARAMS has decode_responses"),
    ],
)
async def test_arguments_that_the_client_does_not_take_are_told(
    redis_url: str, params: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        await connect(redis_url, params)


async def test_the_address_in_the_arguments_is_that_of_the_url(redis_url: str) -> None:
    client = await connect(redis_url, {"host": "elsewhere.test", "port": 1, "db": 5})
    assert await client.ping()
    await client.aclose()


async def test_nobody_there_is_said_in_one_line() -> None:
    with pytest.raises(ServerAway, match=r"Redis at redis://127.0.0.1:1/0 does not answer"):
        await connect("redis://127.0.0.1:1/0")


async def test_a_password_is_not_shown() -> None:
    assert masked("redis://me:secret@host:1/0") == "redis://me:***@host:1/0"
    assert masked("redis://me:se@c/ret@host:1/0") == "redis://me:***@host:1/0"
    with pytest.raises(ServerAway) as refused:
        await connect("redis://me:secret@127.0.0.1:1/0")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://x", "redis+sentinel://host:1", "nonsense"])
async def test_a_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="Use redis://host:6379/0"):
        await connect(url)


async def test_a_cluster_is_found_out(redis_cluster_url: str) -> None:
    client = await connect(redis_cluster_url)
    assert isinstance(client, RedisCluster)
    assert await client.ping()
    await client.aclose()


async def test_a_connection_that_the_client_closed_under_our_hands_is_an_absence(
    redis_cluster_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(redis_cluster_url)

    async def closed(*_: Any, **__: Any) -> None:
        raise AttributeError("'NoneType' object has no attribute 'writelines'")

    with monkeypatch.context() as patch:
        patch.setattr(RedisCluster, "execute_command", closed)
        with pytest.raises(RedisAway):
            await client.get("k")
    assert await client.get("k") is None
    await client.aclose()


async def test_a_cluster_that_is_not_formed_is_said_in_one_line(tmp_path: Path) -> None:
    node = cluster_node(tmp_path)
    node.start()
    try:
        with pytest.raises(ServerAway, match=r"Redis at .+ does not answer \(.+\)\. Start"):
            await connect(node.url)
    finally:
        node.kill()


async def test_a_wrong_password_is_said(redis_process: RedisProcess) -> None:
    with redis_process.client as admin:
        admin.config_set("requirepass", "right")
    for url in (redis_process.url, redis_process.url.replace("//", "//:wrong@")):
        with pytest.raises(ConfigurationError, match=r"refuses .*redis://user:…@host"):
            await connect(url)
    with redis.Redis(port=redis_process.port, password="right") as admin:
        admin.config_set("requirepass", "")


@pytest.mark.parametrize(
    ("info", "mode"),
    [
        ({"redis_mode": "cluster"}, "cluster"),
        ({"server_mode": "cluster", "server_name": "valkey"}, "cluster"),
        ({"redis_mode": "standalone"}, "standalone"),
        ({}, "standalone"),
    ],
)
def test_a_cluster_is_known_by_redis_word_and_by_valkeys(info: dict[str, str], mode: str) -> None:
    assert server_mode(info) == mode
