"""The verbs of `scrapy frontier` on a real Redis: what they do, print, and exit with."""

import argparse
import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgpack
import psycopg
import pymongo
import pytest
from scrapy.exceptions import UsageError

from crawler.commands import frontier
from crawler.commands.frontier import Command
from crawler.frontier import CrawlControl, Entry, Frontier
from crawler.frontier.entry import DOCUMENTS, MEDIA
from crawler.frontier.on_disk import OnDisk
from crawler.monitoring.ledger import Ledger
from crawler.robots.gate import RobotsCache
from crawler.servers.embedded import EmbeddedServers
from crawler.servers.redis.connection import connect
from crawler.storage.postgres.sink import PostgresSink
from crawler.urls import fingerprint
from tests.support import old_pages
from tests.support.crawlers import project_crawler
from tests.support.sinks import page

URL = "http://a.test/1"
ALL = (
    "crawls status hosts host url explain add block unblock robots dns forget pause resume dead "
    "requeue rebuild delete"
).split()


def run_verb(*arguments: str, wants_help: bool = False, **settings: Any) -> int:
    command = Command()
    command.settings = project_crawler(**settings).settings
    command.run(list(arguments), argparse.Namespace(help=wants_help))
    return command.exitcode


class Verbs:
    """Runs verbs on one Redis; the answer is exit code, output and error."""

    def __init__(self, capsys: pytest.CaptureFixture[str], redis_url: str) -> None:
        self._capsys = capsys
        self.redis_url = redis_url

    def __call__(self, *arguments: str, **settings: Any) -> tuple[int, str, str]:
        code = run_verb(*arguments, REDIS_URL=self.redis_url, **settings)
        return code, *self._capsys.readouterr()

    def json(self, *arguments: str, code: int = 0) -> Any:
        found, out, error = self(*arguments, "--json")
        assert found == code, error
        return json.loads(out)

    def frontier(self, work: Callable[[Frontier], Awaitable[Any]]) -> Any:
        """Do something as a process of the crawl does it."""

        async def do() -> Any:
            redis = await connect(self.redis_url)
            frontier = Frontier(redis, "web")
            await frontier.open({"machine": "m", "pid": 4711, "pages": 3, "shards": [0]})
            try:
                return await work(frontier)
            finally:
                await frontier.leave()
                await redis.aclose()

        return asyncio.run(do())


@pytest.fixture
def verbs(capsys: pytest.CaptureFixture[str], redis_url: str) -> Verbs:
    """Three URLs of a.test and one of b.test wait; one of c.test is dead."""
    found = Verbs(capsys, redis_url)

    async def fill(frontier: Frontier) -> None:
        urls = [URL, "http://a.test/2", "http://a.test/3", "http://b.test/", "http://c.test/"]
        await frontier.add([Entry(id=fingerprint(url), url=url) for url in urls])
        for lease in (await frontier.claim(10, "r1")).leases:
            if lease.entry.host == "c.test":
                await frontier.bury([(lease, "timeout")])
            else:
                await frontier.hand_back([(lease, 0)])

    found.frontier(fill)
    return found


def test_the_crawls_of_a_redis_are_listed(verbs: Verbs) -> None:
    async def add_others() -> None:
        async with await connect(verbs.redis_url) as redis:
            await Frontier(redis, "an other").open()
            await (await CrawlControl.open(redis, "web")).pause()
            await redis.hset("{old}:crawl", "version", "1")
            # Nearly the name of a crawl's record.
            await redis.set("{no}:crawl", "1")

    asyncio.run(add_others())
    code, out, _ = verbs("crawls")
    assert code == 0
    titles, *lines = out.splitlines()
    assert titles.split() == "crawl state pages waiting leased processes note".split()
    assert [line.split()[0] for line in lines] == ["an", "old", "web"]
    assert lines[1].endswith("of another version of this program (data model 1)")
    assert lines[2].split() == ["web", "stopped", "0", "4", "0", "0", "paused"]
    found = verbs.json("crawls")
    assert [(crawl["crawl"], crawl["processes"]) for crawl in found] == [
        ("an other", 1),
        ("old", None),
        ("web", 0),
    ]


def test_a_redis_without_crawls_is_told(capsys: pytest.CaptureFixture[str], redis_url: str) -> None:
    code, out, error = Verbs(capsys, redis_url)("crawls")
    assert (code, out, error) == (1, "", "scrapy frontier: There is no crawl in this Redis.\n")


def test_status_tells_how_the_crawl_stands(verbs: Verbs) -> None:
    code, out, _ = verbs("status")
    assert code == 0
    assert "URLs found     5" in out
    assert "waiting        4 (" in out
    assert "given up       1" in out
    assert out.endswith("No process works on it.\n")
    found = verbs.json("status")
    assert (found["crawl"], found["added"], found["waiting"], found["dead"]) == ("web", 5, 4, 1)
    assert found["paused"] is False


def test_status_lists_the_processes(verbs: Verbs) -> None:
    async def ask(_frontier: Frontier) -> Any:
        return await asyncio.to_thread(lambda: (verbs("status"), verbs.json("status")))

    (_, out, _), found = verbs.frontier(ask)
    assert "4711" in out.splitlines()[-1]
    [worker] = found["workers"].values()
    assert worker["machine"] == "m"


def test_status_tells_the_state_of_each_sink(verbs: Verbs) -> None:
    sink = {"name": "mongo", "state": "away", "waiting": 12, "lag_s": 65.0, "pages_per_s": 1.5}
    about = {"sinks": [sink], "spooled_pages": 3, "spooled_bytes": 4500}

    async def ask(frontier: Frontier) -> Any:
        await frontier.beat([0], about=about)
        redis = await connect(verbs.redis_url)
        figures = {"sink/pages/mongo": 1234, "sink/bytes/mongo": 5_600_000}
        await Ledger(redis, "web").add(figures, now_s=1e9)
        await OnDisk(redis, "web").register("spool:x", "machine:/spool/web (id)")
        await OnDisk(redis, "web").register("spill:x", "machine:/spill/web (id)")
        await redis.aclose()
        return await asyncio.to_thread(lambda: (verbs("status"), verbs.json("status")))

    (_, out, _), found = verbs.frontier(ask)
    *_, titles, row, spooled, place = out.splitlines()
    assert titles.split()[:4] == ["sink", "state", "pages", "pages/s"]
    assert row.split() == ["mongo", "away", "1,234", "1.5", "5.6", "MB", "12", "1:05", "0"]
    assert spooled == "spooled: 3 pages, 4.5 kB"
    assert place == "spooled in machine:/spool/web (id)"
    assert (found["sinks"][0]["pages"], found["sinks"][0]["state"]) == (1234, "away")
    assert found["spool"] == {
        "pages": 3,
        "bytes": 4500,
        "places": ["machine:/spool/web (id)"],
    }


def test_pause_and_resume(verbs: Verbs) -> None:
    assert verbs("pause")[1] == "The crawl 'web' is paused; what is in flight finishes.\n"
    assert verbs.json("status")["paused"] is True
    assert "crawl          web, paused" in verbs("status")[1]
    assert verbs("resume")[1] == "The crawl 'web' goes on.\n"
    assert verbs.json("pause") == {"crawl": "web", "paused": True}
    assert verbs.json("resume") == {"crawl": "web", "paused": False}


def test_hosts_are_listed_searched_and_sorted(verbs: Verbs) -> None:
    code, out, _ = verbs("hosts", "--sort", "waiting")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == "state waiting pages delay ms next contact host".split()
    assert [line.split()[-1] for line in lines[1:3]] == ["a.test", "b.test"]
    found = verbs.json("hosts", "b.", "--sort", "host", "--limit", "5")
    assert [host["host"] for host in found["hosts"]] == ["b.test"]
    assert verbs.json("hosts", "--state", "blocked")["hosts"] == []


def test_one_host_is_shown_blocked_and_unblocked(verbs: Verbs) -> None:
    assert "waiting        3" in verbs("host", "A.test")[1]
    code, _, error = verbs("unblock", "a.test")
    assert (code, error) == (1, "scrapy frontier: a.test is neither blocked nor excluded.\n")
    code, out, _ = verbs("block", "a.test", "--for", "2h")
    assert code == 0
    assert out.startswith("a.test is not contacted until 20")
    assert verbs.json("host", "a.test")["state"] == "blocked"
    assert verbs("unblock", "a.test")[1] == "a.test is contacted again.\n"
    assert verbs.json("host", "a.test")["state"] == "ready"
    # The dashboard blocks for good by excluding a host.
    asyncio.run(exclude(verbs.redis_url, "a.test"))
    assert verbs.json("host", "a.test")["state"] == "excluded"
    assert verbs("unblock", "a.test")[0] == 0
    assert not verbs.json("host", "a.test")["excluded"]
    # The crawl need not have met it.
    assert "until it is unblocked" in verbs("block", "bad.test")[1]
    assert verbs.json("host", "bad.test")["state"] == "blocked"


def test_the_robots_txt_of_a_host_is_shown_and_forgotten(verbs: Verbs) -> None:
    code, out, _ = verbs("robots", "a.test")
    assert (code, out) == (0, "No robots.txt of a.test is cached; its next URL fetches it.\n")

    async def fetch(frontier: Frontier) -> None:
        cache = RobotsCache(frontier._redis, "crawler")
        body = b"User-agent: *\nDisallow: /x\x1b[31m\nSitemap: http://a.test/s.xml\n"
        await cache.put("http://a.test", body, status=200)

    verbs.frontier(fetch)
    code, out, _ = verbs("robots", "a.test")
    assert code == 0
    assert "Disallow: /x\ufffd[31m" in out
    assert re.search(r"^state +rules$", out, re.MULTILINE)
    assert re.search(r"^used until +[\d-]+ [\d:]+ UTC$", out, re.MULTILINE)
    assert re.search(r"^may fetch / +yes$", out, re.MULTILINE)
    assert "_" not in out
    assert "reason" not in out
    [file] = verbs.json("robots", "A.test")["files"]
    assert (file["status"], file["sitemaps"]) == (200, ["http://a.test/s.xml"])
    code, out, _ = verbs("robots", "a.test", "--forget")
    assert (code, "http://a.test/robots.txt" in out) == (0, True)
    assert verbs.json("robots", "a.test")["files"] == []
    assert verbs.json("robots", "a.test", "--forget") == {"host": "a.test", "forgotten": []}
    code, _, error = verbs("robots", "unknown.test")
    assert (code, "'unknown.test'" in error) == (1, True)
    code, _, error = verbs("robots", "no host")
    assert (code, "'no host' is no host" in error) == (2, True)


def test_the_addresses_of_a_host_are_shown_and_forgotten(verbs: Verbs) -> None:
    assert verbs.json("dns", "a.test")["state"] == "unknown"

    async def look_up(frontier: Frontier) -> None:
        await frontier._redis.set("dns:a.test", msgpack.packb(["192.0.2.1"]), px=86_460_000)

    verbs.frontier(look_up)
    code, out, _ = verbs("dns", "a.test")
    assert code == 0
    assert re.search(r"^addresses +192\.0\.2\.1$", out, re.MULTILINE)
    code, out, _ = verbs("dns", "a.test", "--forget")
    assert (code, "192.0.2.1" in out) == (0, True)
    assert verbs.json("dns", "a.test")["addresses"] == []
    fixed = json.loads(verbs("dns", "b.test", "--json", DNS_OVERRIDES={".test": "127.0.0.1:80"})[1])
    assert (fixed["addresses"], fixed["cached_in"]) == (["127.0.0.1"], "DNS_OVERRIDES")
    assert verbs("dns", "unknown.test")[0] == 1


def test_a_host_is_shown_with_what_was_ordered_for_it(verbs: Verbs) -> None:
    asyncio.run(set_options(verbs.redis_url, {"host_delay:a.test": 2.5}))
    found = verbs.json("host", "a.test")
    assert (found["delay_s"], found["delay_ms"]) == (2.5, 0)
    assert verbs.json("hosts", "a.test")["hosts"] == [found]


def test_what_is_no_host_is_named(verbs: Verbs) -> None:
    code, _, error = verbs("host", "no host")
    assert code == 2
    assert error == "scrapy frontier: 'no host' is no host; write it as www.example.com.\n"


async def exclude(redis_url: str, host: str) -> None:
    redis = await connect(redis_url)
    await (await CrawlControl.open(redis, "web")).host(host, exclude=True)
    await redis.aclose()


def test_where_a_url_is(verbs: Verbs) -> None:
    assert "state     waiting" in verbs("url", "HTTP://a.test:80/2")[1]
    found = verbs.json("url", "http://c.test")
    assert (found["state"], found["reason"], found["depth"]) == ("dead", "timeout", 0)
    assert verbs.json("url", "http://new.test/", code=1)["state"] == "unseen"
    verbs("add", "http://new.test/?b&a")
    found = verbs.json("url", "http://new.test/?a&b")
    assert (found["url"], found["written"]) == ("http://new.test/?a&b", "http://new.test/?b&a")
    code, _, error = verbs("url", "nonsense")
    assert (code, error.count("\n")) == (2, 1)


def test_urls_are_added_and_forgotten(verbs: Verbs) -> None:
    code, out, error = verbs("add", "http://new.test", URL, "nonsense")
    assert code == 2
    assert out.splitlines() == [
        "added     http://new.test/",
        "known     http://a.test/1",
        "rejected  nonsense: it is no URL; write it with http:// or https://",
    ]
    assert error == "scrapy frontier: Some of the URLs were rejected.\n"
    assert [seed["state"] for seed in verbs.json("add", "http://other.test/")] == ["added"]
    assert "is forgotten" in verbs("forget", URL)[1]
    assert verbs("forget", URL)[0] == 1
    assert verbs.json("add", URL)[0]["state"] == "added"
    assert verbs.json("forget", URL) == {"url": URL, "forgotten": True}


def test_a_url_in_flight_is_not_forgotten(verbs: Verbs) -> None:
    async def ask(frontier: Frontier) -> Any:
        leases = (await frontier.claim(10, "r2")).leases
        url = leases[0].entry.url
        answer = await asyncio.to_thread(verbs, "forget", url)
        await frontier.hand_back([(lease, 0) for lease in leases])
        return answer

    code, _, error = verbs.frontier(ask)
    assert code == 2
    assert "is being fetched" in error


def test_no_dead_letters_are_told_and_no_mistake(verbs: Verbs) -> None:
    assert verbs("dead", "--reason", "x") == (0, "", "There is no dead letter like that.\n")


def test_dead_letters_as_json(verbs: Verbs) -> None:
    [letter] = verbs.json("dead")
    assert (letter["url"], letter["reason"]) == ("http://c.test/", "timeout")
    assert verbs.json("requeue", "--reason", "other") == {"requeued": 0}
    assert verbs.json("requeue", "--host", "c.test") == {"requeued": 1}
    assert verbs.json("dead", "--limit", "5") == []


def test_a_score_as_json(verbs: Verbs) -> None:
    found = verbs.json("explain", "http://a.test/x.zip")
    assert found["score"] == sum(part["points"] for part in found["parts"])
    assert found["queue"] == MEDIA
    assert "SKIPPED_EXTENSIONS" in found["refused"]
    assert found["share_of_turns"] is None


@pytest.mark.parametrize(
    ("options", "arguments", "refused"),
    [
        ({}, (), ""),
        ({}, ("--page", "http://other.test/"), "outside of scope"),
        ({"scope": "seeds"}, ("--page", "http://other.test/"), "outside of scope"),
        ({"excluded_domains": ["a.test"]}, (), "excluded_domains"),
        ({"max_depth": 2}, ("--depth", "3"), "max_depth"),
        ({"max_url_length": 10}, (), "max_url_length"),
        ({"include": ["/news/"]}, (), "include"),
        ({"exclude": ["/x$"]}, (), "of exclude"),
        ({"follow": False}, (), "follow=no"),
        ({"weights": [1, 1, 1, 1, 0]}, (), ""),
    ],
)
def test_a_crawl_says_what_it_would_not_follow(
    verbs: Verbs, options: dict[str, Any], arguments: tuple[str, ...], refused: str
) -> None:
    asyncio.run(set_options(verbs.redis_url, options))
    found = verbs.json("explain", "http://a.test/x", "--crawl", "web", *arguments)
    assert refused in found["refused"]
    assert bool(refused) == bool(found["refused"])
    shares = [0.25] * 4 if "weights" in options else [0.4, 0.3, 0.2, 0.07, 0.03]
    assert found["share_of_turns"] == shares[found["queue"] - 1]


def test_a_crawl_says_the_share_and_the_number_of_its_documents(verbs: Verbs) -> None:
    budgets = {
        name: {"share": 0.25, "max_per_host": 0, "max": 0} for name in ("document", "medium")
    }
    asyncio.run(set_options(verbs.redis_url, {"type_budgets": budgets}))
    found = verbs.json("explain", "http://a.test/x.pdf", "--crawl", "web")
    assert (found["queue"], found["share_of_turns"], found["refused"]) == (DOCUMENTS, 0.25, "")
    assert "docs 1" not in verbs("status")[1]
    document = Entry(1, "http://a.test/x.pdf", queue=DOCUMENTS)
    verbs.frontier(lambda frontier: frontier.add([document]))
    assert "docs 1," in verbs("status")[1]


async def set_options(redis_url: str, values: dict[str, Any]) -> None:
    redis = await connect(redis_url)
    await (await CrawlControl.open(redis, "web")).set_options(values)
    await redis.aclose()


# --- delete ---------------------------------------------------------------------------------------


def keys_of(redis_url: str, crawl: str) -> int:
    async def count() -> int:
        redis = await connect(redis_url)
        found = [key async for key in redis.scan_iter(f"{{{crawl}*")]
        await redis.aclose()
        return len(found)

    return asyncio.run(count())


def test_delete_asks_first(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, error = verbs("delete")
    assert code == 2
    assert error == ("scrapy frontier: The crawl 'web' was not deleted; say yes, or give --yes.\n")
    monkeypatch.setattr(frontier, "confirmed", lambda question: "5 URLs" in question)
    assert verbs("delete")[0] == 0
    # What lets it begin anew beside its pages.
    assert keys_of(verbs.redis_url, "web") == 1


def test_delete_shows_progress_and_deletes_that_crawl_only(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other() -> None:
        redis = await connect(verbs.redis_url)
        await Frontier(redis, "web2").open()
        await redis.aclose()

    asyncio.run(other())
    before = keys_of(verbs.redis_url, "web2")
    monkeypatch.setattr(frontier, "PROGRESS_KEYS", 1)
    code, out, error = verbs("delete", "--yes", "--json")
    assert code == 0
    assert json.loads(out)["keys_deleted"] > 3
    assert "keys deleted …" in error
    assert keys_of(verbs.redis_url, "web2") == before
    assert verbs("status", "--crawl", "web")[0] == 1


def test_the_pages_of_a_crawl_stay_or_are_deleted_with_it(
    verbs: Verbs, mongo_uri: str, mongo_db_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db_name}
    asked: list[str] = []
    monkeypatch.setattr(frontier, "confirmed", lambda question: not asked.append(question))
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        database = client[mongo_db_name]
        for crawl in ("web", "web2"):
            database["pages_metadata"].insert_many(
                {"crawl": crawl, "url_hash": f"{n}", "crawled_at": old_pages.AT} for n in range(3)
            )
            database["pages_content"].insert_many(
                {"crawl": crawl, "page_id": f"{n}", "crawled_at": old_pages.AT} for n in range(3)
            )
        code, out, error = verbs("delete", "--pages", **settings)
        assert code == 0, error
        assert asked == [
            "Delete the crawl 'web' with 5 URLs from Redis, and its 3 pages from MongoDB?"
        ]
        assert "keys and 3 pages." in out
        for collection in ("pages_metadata", "pages_content"):
            assert database[collection].distinct("crawl") == ["web2"]
            assert database[collection].count_documents({}) == 3

    async def again(_frontier: Frontier) -> None:
        pass

    verbs.frontier(again)
    code, out, error = verbs("delete", "--yes", **settings)
    assert code == 0, error
    assert "Its pages stay; to delete them: scrapy pages delete --crawl web\n" in out


def test_the_pages_of_a_crawl_are_deleted_from_postgresql_without_mongodb(
    verbs: Verbs, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store() -> None:
        sink = PostgresSink(postgres_url, timeout_s=20.0)
        await sink.open()
        pages = [page(number, crawl=crawl) for number in range(3) for crawl in ("web", "web2")]
        await sink.write([sink.prepare(each) for each in pages])
        await sink.close()

    asyncio.run(store())
    asked: list[str] = []
    monkeypatch.setattr(frontier, "confirmed", lambda question: not asked.append(question))
    code, out, error = verbs("delete", "--pages", SINKS=postgres_url)
    assert code == 0, error
    assert asked == [
        "Delete the crawl 'web' with 5 URLs from Redis, and its 3 pages from PostgreSQL?"
    ]
    assert "keys and 3 pages." in out
    with psycopg.connect(postgres_url) as connection:
        for table in ("crawled_urls", "documents"):
            rows = connection.execute(f"SELECT crawl, count(*) FROM {table} GROUP BY 1").fetchall()
            assert rows == [("web2", 3)]


def test_a_crawl_is_not_deleted_with_pages_of_an_earlier_version(
    verbs: Verbs, mongo_uri: str, mongo_db_name: str
) -> None:
    old_pages.fill(mongo_uri, mongo_db_name, 2)
    settings = {"MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db_name}
    code, _, error = verbs("delete", "--pages", "--yes", **settings)
    assert (code, "scrapy pages migrate --crawl NAME" in error) == (2, True)
    assert keys_of(verbs.redis_url, "web") > 0


def test_a_crawl_at_work_is_not_deleted(verbs: Verbs) -> None:
    async def ask(_frontier: Frontier) -> Any:
        return await asyncio.to_thread(verbs, "delete", "--yes")

    code, _, error = verbs.frontier(ask)
    assert (code, "stop its processes first" in error) == (2, True)


# --- all of them ----------------------------------------------------------------------------------


def test_these_are_the_verbs() -> None:
    with pytest.raises(UsageError) as error:
        Command.parse(["nonsense"])
    assert str(error.value) == f"there is no 'nonsense'; use one of {', '.join(ALL)}"


@pytest.mark.parametrize("verb", ALL)
def test_each_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run_verb(verb, wants_help=True)
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: scrapy frontier {verb}")
    assert "--json" in out


def test_the_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_verb(wants_help=True)
    out = capsys.readouterr().out
    assert all(f"\n  {verb} " in out for verb in ALL)


@pytest.mark.parametrize(
    "arguments",
    [
        ("host",),
        ("block", "a.test", "--for", "soon"),
        ("hosts", "--sort", "x"),
        ("hosts", "--limit", "-1"),
        ("status", "--unknown"),
        ("add",),
    ],
)
def test_wrong_arguments_exit_with_2(verbs: Verbs, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as end:
        verbs(*arguments)
    assert end.value.code == 2


@pytest.mark.parametrize("verb", ["status", "hosts", "pause", "dead", "delete"])
def test_a_crawl_that_is_not_there_is_not_found_and_not_made(
    capsys: pytest.CaptureFixture[str], redis_url: str, tmp_path: Path, verb: str
) -> None:
    verbs = Verbs(capsys, redis_url)
    code, _, error = verbs(verb, "--crawl", "other")
    assert code == 1
    assert error.startswith("scrapy frontier: There is no crawl 'other' in this Redis. There are")
    assert keys_of(redis_url, "other") == 0
    folder = tmp_path / "nothing"
    assert run_verb(verb, REDIS_URL=None, CRAWL_DIR=str(folder)) == 1
    assert "crawl first" in capsys.readouterr().err
    assert not folder.exists()


def test_a_rebuild_without_pages_makes_nothing(
    capsys: pytest.CaptureFixture[str],
    redis_url: str,
    mongo_uri: str,
    mongo_db_name: str,
    tmp_path: Path,
) -> None:
    verbs = Verbs(capsys, redis_url)
    store = {"SINKS": "mongo", "MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db_name}
    code, _, error = verbs("rebuild", "--crawl", "other", **store)
    assert (code, error) == (
        1,
        "scrapy frontier: MongoDB has no run of a crawl 'other'; name it by --crawl.\n",
    )
    assert keys_of(redis_url, "other") == 0
    folder = tmp_path / "nothing"
    assert run_verb("rebuild", REDIS_URL=None, CRAWL_DIR=str(folder)) == 2
    assert "crawl first" in capsys.readouterr().err
    assert not folder.exists()


def test_a_redis_that_does_not_answer_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, error = Verbs(capsys, f"unix://{tmp_path}/nobody.sock")("status")
    assert (code, error.count("\n")) == (3, 1)
    assert "does not answer" in error


def test_verbs_reach_the_embedded_server_of_a_running_crawl(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "crawl"
    running = EmbeddedServers(folder)
    redis_url = running.redis_url()

    async def fill() -> None:
        redis = await connect(redis_url)
        await Frontier(redis, "web").open({"pid": os.getpid()})
        await redis.aclose()

    asyncio.run(fill())
    assert run_verb("pause", REDIS_URL=None, CRAWL_DIR=str(folder)) == 0
    capsys.readouterr()
    assert run_verb("status", "--json", REDIS_URL=None, CRAWL_DIR=str(folder)) == 0
    assert json.loads(capsys.readouterr().out)["paused"] is True
    running.release()
