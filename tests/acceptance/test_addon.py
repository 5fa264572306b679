"""Another Scrapy project switches the frontier on with one line and keeps its spiders."""

import asyncio
import json
import os
import pty
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter, defaultdict
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from threading import Thread
from typing import Any

import pymongo
from aiohttp import web

from crawler.frontier import Frontier
from crawler.frontier.meta import stored_shards
from crawler.servers.redis.connection import connect
from crawler.urls import canonical
from demo.access_log import Entry, read_log
from demo.judge import judge_entries
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import ROOT, TIMEOUT_S, Run, environment, scrapy
from tests.acceptance.fleets import Process, sizes
from tests.support.archives import audit
from tests.support.cluster import RedisProcess
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until

DELAY_S = 0.05

SETTINGS = """
BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
USER_AGENT = "crawler (+https://example.org)"
ADDONS = {{"crawler.addon.FrontierAddon": 0}}
REDIS_URL = {redis_url!r}
SINKS = "none"
DNS_OVERRIDES = {{".test": {address!r}}}
ALLOW_NETWORKS = ["127.0.0.0/8"]
DELAY_MIN = {delay_s}
DELAY_FACTOR = 0
RETRY_BASE = 0.2
LOG_LEVEL = "INFO"
FEEDS = {{"items.jsonl": {{"format": "jsonlines"}}}}

# Scrapy's cookies would ask the network for the list of public suffixes.
import tldextract
from scrapy.downloadermiddlewares import cookies

cookies._split_domain = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
"""


class Project:
    """A small Scrapy project of someone else's, in a folder of its own."""

    def __init__(self, folder: Path, spider: str, **values: Any) -> None:
        self.folder = folder
        package = folder / "shop" / "spiders"
        package.mkdir(parents=True)
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
        (folder / "shop" / "__init__.py").touch()
        (package / "__init__.py").touch()
        settings = SETTINGS.format(**{"delay_s": DELAY_S, **values})
        (folder / "shop" / "settings.py").write_text(settings)
        (package / "mine.py").write_text(textwrap.dedent(spider))

    def add_settings(self, **values: object) -> None:
        with (self.folder / "shop" / "settings.py").open("a") as settings:
            settings.writelines(f"{name} = {value!r}\n" for name, value in values.items())

    def crawl(self, *arguments: str) -> Run:
        run = self.crawl_with_tracebacks(*arguments)
        assert "Traceback" not in run.stderr, run.stderr
        return run

    def crawl_with_tracebacks(self, *arguments: str) -> Run:
        run = scrapy("crawl", "mine", *arguments, cwd=self.folder)
        assert run.code == 0, run.stderr
        return run

    @property
    def items(self) -> list[dict[str, Any]]:
        path = self.folder / "items.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# --- a plain spider on the synthetic web --------------------------------------------------------

FOLLOWER = """
    import scrapy


    class Mine(scrapy.Spider):
        name = "mine"
        start_urls = ["http://s0.test/"]

        def parse(self, response):
            yield {"url": response.url}
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link)
"""


def known_as(log: Path) -> list[Entry]:
    """Requests by their canonical URLs: a plain spider's are fetched as it found them."""
    entries = []
    for entry in read_log(log):
        url = canonical(entry.url)
        assert isinstance(url, str)
        entries.append(entry._replace(target=url.partition(entry.host)[2]))
    return entries


def test_a_plain_spider_crawls_a_web_once_and_politely_and_a_second_run_finds_nothing(
    tmp_path: Path, redis_url: str
) -> None:
    options = WebOptions(hosts=16, pages=8, seed=3, zoo="none")
    log = tmp_path / "access.log"
    with DemoServer(options, log) as served:
        project = Project(
            tmp_path / "project",
            FOLLOWER,
            redis_url=redis_url,
            address=served.address,
            delay_s=DELAY_S + 0.01,
        )
        assert "is known to the crawl" not in project.crawl().stderr
        second = project.crawl()
    assert "<GET http://s0.test/> is known to the crawl 'mine' and not fetched" in second.stderr
    expected = truth(options)
    verdict = judge_entries(known_as(log), expected, min_delay_s=DELAY_S)
    assert verdict.ok, "\n".join(verdict.lines())
    items = Counter(canonical(item["url"]) for item in project.items)
    assert items == dict.fromkeys(expected.must_fetch, 1)
    # The first run fetched all of it, so the second nothing: not even a robots.txt.
    assert set(Counter(entry.url for entry in known_as(log)).values()) == {1}
    left = sizes(redis_url, "mine")
    assert (left.unfinished, left.owners) == (0, 0)


def test_one_line_gives_it_the_dashboard_the_view_and_the_summary(
    tmp_path: Path, redis_url: str
) -> None:
    with Shop() as shop:
        project = Project(
            tmp_path / "project",
            FOLLOWER.replace("s0.test", "shop.test"),
            redis_url=redis_url,
            address=shop.address,
        )
        shown = ("Dashboard and admin API: http://127.0.0.1:", "The whole crawl, all runs", "ended")
        plain = project.crawl().stderr
        assert not [text for text in shown if text in plain]
        assert "[scrapy.extensions.logstats] INFO" in plain
        project.add_settings(ADDON_DASHBOARD=True, ADMIN_PORT=0, CRAWL="again")
        told = project.crawl().stderr
    assert [text for text in shown if text not in told] == []
    # One of them reports the progress, not both.
    assert "[scrapy.extensions.logstats] INFO" not in told


def own_sink() -> str:
    """The code of the sink in docs/sinks.md."""
    text = (ROOT / "docs" / "sinks.md").read_text(encoding="utf-8")
    return text.partition("<!-- own sink -->\n```python\n")[2].partition("```")[0]


def test_a_sink_of_the_users_own_gets_every_page_and_its_items(
    tmp_path: Path, redis_url: str
) -> None:
    options = WebOptions(hosts=6, pages=6, seed=3, zoo="none")
    with DemoServer(options, tmp_path / "access.log") as site:
        project = Project(tmp_path / "mine", FOLLOWER, redis_url=redis_url, address=site.address)
        (project.folder / "shop" / "sinks.py").write_text(own_sink() + ITEMS_SINK)
        sinks = "shop.sinks.Table:pages.db shop.sinks.Items:items.db"
        project.add_settings(SINKS=sinks, COMMANDS_MODULE="crawler.commands")
        project.crawl()
    with closing(sqlite3.connect(project.folder / "pages.db")) as table:
        rows = table.execute("SELECT crawl, url, body FROM pages").fetchall()
    pages = {url: body for _, url, body in rows}
    assert {crawl for crawl, *_ in rows} == {"mine"}
    assert len(rows) == len(pages)
    assert not truth(options).missing_from(pages)
    assert all(body.startswith(b"<!") or b"<html" in body for body in pages.values())
    with closing(sqlite3.connect(project.folder / "items.db")) as table:
        items = dict(table.execute("SELECT url, items FROM items WHERE status = 200").fetchall())
    assert items.keys() == pages.keys()
    assert all(len(json.loads(found)) == 1 for found in items.values())


ITEMS_SINK = """

import json


class Items(Table):
    async def write(self, pages):
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS items (url, status, items, PRIMARY KEY (url))"
        )
        rows = [(page.url, page.status, json.dumps(list(page.items))) for page in pages]
        with self.db:
            self.db.executemany("REPLACE INTO items VALUES (?, ?, ?)", rows)
"""


def test_responses_of_another_project_and_their_items_are_pages_in_mongodb(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    spider = FOLLOWER.replace('{"url": response.url}', '{"url": response.url, "odd": {1, 2}}')
    options = WebOptions(hosts=4, pages=4, seed=3, zoo="none")
    with DemoServer(options, tmp_path / "access.log") as site:
        project = Project(tmp_path / "mine", spider, redis_url=redis_url, address=site.address)
        project.add_settings(
            SINKS=f"mongo warc:{tmp_path / 'archive'}",
            MONGO_URI=mongo_uri,
            MONGO_DATABASE=mongo_db_name,
            COMMANDS_MODULE="crawler.commands",
        )
        project.crawl()
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        pages = list(client[mongo_db_name]["pages_metadata"].find({"status": 200}))
    assert {page["crawl"] for page in pages} == {"mine"}
    assert not truth(options).missing_from(page["url"] for page in pages)
    assert all(page["items"] == [{"url": page["final_url"], "odd": [1, 2]}] for page in pages)
    urls = {page["url"] for page in pages}
    assert audit(tmp_path / "archive").pages(urls) == dict.fromkeys(urls, 1)
    shown = scrapy("pages", "get", "http://s0.test/", "--body", cwd=project.folder)
    assert "<html" in shown.stdout


def test_a_crawl_has_one_spider_and_another_one_is_refused(tmp_path: Path, redis_url: str) -> None:
    with Shop() as shop:
        project = Project(
            tmp_path / "project",
            FOLLOWER.replace("s0.test", "shop.test"),
            redis_url=redis_url,
            address=shop.address,
        )
        project.add_settings(CRAWL="shared")
        other = project.folder / "shop" / "spiders" / "other.py"
        other.write_text(
            textwrap.dedent(FOLLOWER)
            .replace("mine", "other")
            .replace("s0.test/", "shop.test/other")
        )
        project.crawl()
        # By Scrapy's own command, and by ours in one line.
        told = "The crawl 'shared' is of the spider 'mine', and this one is 'other': "
        run = scrapy("crawl", "other", cwd=project.folder)
        assert run.code == 1
        assert told in run.stderr
        project.add_settings(COMMANDS_MODULE="crawler.commands")
        run = scrapy("crawl", "other", cwd=project.folder)
        assert run.code == 2
        assert f"scrapy crawl: {told}" in run.stderr
        assert "Traceback" not in run.stderr
        assert "/other" not in shop.asked
        # Nothing of it came into the crawl of the first one.
        left = sizes(redis_url, "shared")
        assert (left.added, left.owners) == (1, 0)
        assert scrapy("crawl", "other", "-s", "CRAWL=", cwd=project.folder).code == 0
        assert len(shop.asked["/other"]) == 1
        project.crawl()


def test_robots_are_obeyed_and_a_run_that_was_cut_short_goes_on(
    tmp_path: Path, redis_url: str
) -> None:
    options = WebOptions(hosts=12, pages=5, seed=3, zoo="demo")
    log = tmp_path / "access.log"
    # The spider knows nothing of nofollow.
    expected = truth(options, follow_nofollow=True)
    with DemoServer(options, log) as served:
        project = Project(
            tmp_path / "project",
            FOLLOWER,
            redis_url=redis_url,
            address=served.address,
            delay_s=DELAY_S + 0.01,
        )
        project.crawl("-s", "CLOSESPIDER_ITEMCOUNT=10")
        assert sizes(redis_url, "mine").waiting > 0
        project.crawl()
    verdict = judge_entries(known_as(log), expected, min_delay_s=DELAY_S)
    assert verdict.ok, "\n".join(verdict.lines())
    assert expected.must_not_fetch
    assert sizes(redis_url, "mine").unfinished == 0


def test_the_commands_of_this_project_work_in_another_one(tmp_path: Path, redis_url: str) -> None:
    project = Project(tmp_path / "project", FOLLOWER, redis_url=redis_url, address="127.0.0.1:9")
    with (project.folder / "shop" / "settings.py").open("a") as settings:
        settings.write('COMMANDS_MODULE = "crawler.commands"\n')
    run = scrapy("frontier", "status", "--crawl", "mine", cwd=project.folder)
    assert (run.code, run.stdout) == (1, "")
    assert run.stderr.startswith("scrapy frontier: There is no crawl 'mine' in this Redis.")
    run = scrapy("crawl", "mien", cwd=project.folder)
    assert run.code == 2
    assert "scrapy crawl: There is no spider 'mien'; there are: mine.\n" in run.stderr
    run = scrapy("crawl", "mine", "-s", "REDIS_URL=redis://127.0.0.1:9/0", cwd=project.folder)
    assert run.code == 3
    assert "scrapy crawl: Redis at redis://127.0.0.1:9/0 does not answer" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_generic_spider_is_told_from_others_and_works_with_all_settings(
    tmp_path: Path, redis_url: str
) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "addon.md"
    spider = page.read_text().partition("```python\nfrom crawler.spiders.web")[2]
    spider = "from crawler.spiders.web" + spider.partition("```")[0].replace("prices", "mine")
    with DemoServer(WebOptions(hosts=2, pages=4, seed=3, zoo="none")) as served:
        values = {"redis_url": redis_url, "address": served.address, "delay_s": 0}
        project = Project(tmp_path / "project", spider, **values)
        seeds = "-aseeds=http://s0.test/"
        run = scrapy("crawl", "mine", seeds, cwd=project.folder)
        assert "'mine' is a WebSpider and needs all settings of its project" in run.stderr
        assert not project.items
        settings = project.folder / "shop" / "settings.py"
        own = settings.read_text().replace("ADDONS", "UNUSED")
        settings.write_text(f"from crawler.settings import *\n{own}")
        project.crawl(seeds)
    assert len(project.items) > 1
    assert all(item["extra"] == {"price": None} for item in project.items)


# --- while a spider is developed ----------------------------------------------------------------


def answering(*arguments: str, answer: str, cwd: Path) -> Run:
    """Run a scrapy command on a terminal, where somebody types an answer."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as keyboard, os.fdopen(theirs, "rb") as terminal:
        keyboard.write(answer.encode())
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", *arguments],
            cwd=cwd,
            env=environment(),
            stdin=terminal,
            timeout=TIMEOUT_S,
            capture_output=True,
            text=True,
            check=False,
        )
    return Run(done.returncode, done.stdout, done.stderr)


async def at_work(redis_url: str, crawl: str, spider: str) -> Frontier:
    """A process that works on a crawl, and is killed."""
    redis = await connect(redis_url)
    shards = await stored_shards(redis, crawl) or 1
    frontier = Frontier(redis, crawl, shards=shards, spider=spider)
    await frontier.open()
    await redis.aclose()
    return frontier


def test_items_of_pages_that_are_done_are_in_the_feed_when_the_process_is_killed(
    tmp_path: Path, redis_url: str
) -> None:
    options = WebOptions(hosts=4, pages=6, seed=3, zoo="none")
    with DemoServer(options, tmp_path / "access.log") as served:
        project = Project(
            tmp_path / "project", FOLLOWER, redis_url=redis_url, address=served.address
        )
        project.add_settings(LEASE_TTL=2)
        process = Process(["crawl", "mine"], tmp_path / "first.log", cwd=project.folder)
        try:
            wait_until(lambda: len(project.items) >= 5, what="some items")
        finally:
            process.kill()
        assert "Stored jsonlines feed" not in process.log
        project.crawl()
    found = {canonical(item["url"]) for item in project.items}
    assert found == truth(options).must_fetch


def test_a_feed_that_a_kill_would_cut_is_refused_unless_a_pipeline_has_the_items(
    tmp_path: Path, redis_url: str
) -> None:
    with Shop() as shop:
        spider = FOLLOWER.replace("s0.test", "shop.test")
        project = Project(tmp_path / "project", spider, redis_url=redis_url, address=shop.address)
        project.add_settings(
            COMMANDS_MODULE="crawler.commands", FEEDS={"ftp://127.0.0.1:1/a.jsonl": {}}
        )
        refused = scrapy("crawl", "mine", cwd=project.folder)
        assert (refused.code, shop.asked) == (2, {})
        assert "The feed ftp://127.0.0.1:1/a.jsonl is whole only when" in refused.stderr
        (project.folder / "shop" / "mine.py").write_text("class Keeps:\n    pass\n")
        project.add_settings(ITEM_PIPELINES={"shop.mine.Keeps": 1})
        run = scrapy("crawl", "mine", cwd=project.folder)
    assert "it lacks items that count as crawled" in run.stderr
    assert len(shop.asked["/"]) == 1


def test_a_second_run_says_why_it_gives_nothing_and_a_fresh_one_starts_anew(
    tmp_path: Path, redis_url: str
) -> None:
    spider = FOLLOWER.replace("s0.test", "shop.test")
    crawl = ("crawl", "mine", "-O", "books.jsonl")
    with Shop() as shop:
        project = Project(
            tmp_path / "project", spider, redis_url=redis_url, address=shop.address, delay_s=0
        )
        project.add_settings(COMMANDS_MODULE="crawler.commands")
        books = project.folder / "books.jsonl"

        def run(*arguments: str, answer: str = "") -> Run:
            if answer:
                return answering(*crawl, *arguments, answer=answer, cwd=project.folder)
            return scrapy(*crawl, *arguments, cwd=project.folder)

        # There is nothing to ask about yet.
        assert run("--fresh").code == 0
        first = books.read_text()
        assert json.loads(first) == {"url": "http://shop.test/"}
        second = run()
        assert second.code == 0
        assert (
            "WARNING: Nothing was crawled: the crawl 'mine' was finished before, and knows all "
            "start requests of this run (1). -s CRAWL=NAME begins another crawl, `scrapy crawl "
            "mine --fresh` starts it anew"
        ) in second.stderr
        assert "WARNING: Nothing was crawled, so the feed books.jsonl stays" in second.stderr
        # Nobody says yes, or somebody says no.
        question = "Delete the crawl 'mine' with 1 URLs from Redis? Pages stay. [y/N]"
        for refused in (run("--fresh"), run("--fresh", answer="\n"), run("--fresh", answer="n\n")):
            assert refused.code == 2
            assert "The crawl 'mine' was not deleted; say yes, or give --yes." in refused.stderr
        assert question in refused.stderr
        assert len(shop.asked["/"]) == 1
        assert books.read_text() == first
        for fresh in (run("--fresh", "--yes"), run("--fresh", answer="y\n")):
            assert fresh.code == 0, fresh.stderr
            assert "WARNING" not in fresh.stderr
            assert books.read_text() == first
        assert len(shop.asked["/"]) == 3
        # A run that fetched pages gave what it gave.
        mine = project.folder / "shop" / "spiders" / "mine.py"
        mine.write_text(mine.read_text().replace("yield {", "{"))
        assert run("--fresh", "--yes").code == 0
        assert books.read_text() == ""
        asyncio.run(at_work(redis_url, "mine", "mine"))
        refused = run("--fresh", "--yes")
    assert refused.code == 2
    assert "The crawl 'mine' is being worked on; stop its processes first." in refused.stderr
    assert "Traceback" not in refused.stderr
    assert sizes(redis_url, "mine").done == 1


def test_a_fresh_start_does_not_delete_the_crawl_of_another_spider(
    tmp_path: Path, redis_url: str
) -> None:
    project = Project(tmp_path / "project", FOLLOWER, redis_url=redis_url, address="127.0.0.1:9")
    project.add_settings(COMMANDS_MODULE="crawler.commands")
    asyncio.run(at_work(redis_url, "shared", "other"))
    for command in (("crawl",), ("fleet", "-n", "2")):
        run = scrapy(
            *(*command, "mine", "--fresh", "--yes", "-s", "CRAWL=shared"), cwd=project.folder
        )
        assert run.code == 2
        assert "The crawl 'shared' is of the spider 'other', and this one is 'mine'" in run.stderr
    assert sizes(redis_url, "shared").owners == 1


def test_a_spider_with_a_crawl_of_its_own_starts_that_anew(tmp_path: Path, redis_url: str) -> None:
    spider = FOLLOWER.replace("s0.test", "shop.test").replace(
        "start_urls", 'custom_settings = {"CRAWL": "own"}\n        start_urls'
    )
    with Shop() as shop:
        project = Project(
            tmp_path / "project", spider, redis_url=redis_url, address=shop.address, delay_s=0
        )
        project.add_settings(COMMANDS_MODULE="crawler.commands", CRAWL="shared")
        for _ in range(2):
            project.crawl("--fresh", "--yes")
        assert len(shop.asked["/"]) == 2
        project.crawl("-a", "crawl=given")
        project.crawl("-a", "crawl=given", "--fresh", "--yes")
    assert len(shop.asked["/"]) == 4
    assert sizes(redis_url, "own").done == sizes(redis_url, "given").done == 1


# --- a project that had scrapy-redis ------------------------------------------------------------


def test_a_project_that_had_scrapy_redis_keeps_its_settings_and_where_seeds_are_pushed(
    tmp_path: Path, redis_process: RedisProcess
) -> None:
    spider = FOLLOWER.replace('start_urls = ["http://s0.test/"]', 'redis_key = "shop:%(name)s"')
    options = WebOptions(hosts=4, pages=4, seed=3, zoo="none")
    with DemoServer(options) as served, redis_process.client as client:
        project = Project(tmp_path / "project", spider, redis_url=None, address=served.address)
        with (project.folder / "shop" / "settings.py").open("a") as settings:
            settings.write(f"REDIS_HOST = '127.0.0.1'\nREDIS_PORT = {redis_process.port}\n")
            settings.write("DUPEFILTER_CLASS = 'scrapy_redis.dupefilter.RFPDupeFilter'\n")
        client.sadd("shop:mine", "http://s0.test/", '{"url": "http://s1.test/", "meta": {}}')
        project.crawl()
        assert not client.exists("shop:mine")
    assert {item["url"] for item in project.items} == truth(options).must_fetch


FILTERED = """
    import scrapy


    class Mine(scrapy.Spider):
        name = "mine"
        redis_key = "mine:start_urls"

        def __init__(self, *args, **kwargs):
            # As the examples of scrapy-redis have it.
            domain = kwargs.pop("domain", "")
            self.allowed_domains = filter(None, domain.split(","))
            super().__init__(*args, **kwargs)

        def start_requests(self):
            yield scrapy.Request("http://shop.test/never")

        def parse(self, response):
            yield {"url": response.url}
            if response.url.endswith("/"):
                yield response.follow("/more")
                yield scrapy.Request("http://offsite.test/link")
"""


def test_pushed_seeds_pass_the_offsite_filter_and_their_links_meet_it(
    tmp_path: Path, redis_process: RedisProcess
) -> None:
    with Shop() as shop, redis_process.client as client:
        project = Project(
            tmp_path / "project", FILTERED, redis_url=redis_process.url, address=shop.address
        )
        client.lpush("mine:start_urls", "http://shop.test/", "http://elsewhere.test/seed")
        client.lpush("mine:start_urls", '{"url": "http://elsewhere.test/json", "meta": {"x": 1}}')
        log = project.crawl("-a", "domain=shop.test,www.shop.test").stderr
    assert sorted(item["url"] for item in project.items) == [
        "http://elsewhere.test/json",
        "http://elsewhere.test/seed",
        "http://shop.test/",
        "http://shop.test/more",
    ]
    assert "ERROR: start_requests() of the spider 'mine' is not called" in log
    assert "Make it `async def start(self):`" in log


WORKER = """
    import json

    import scrapy


    class Mine(scrapy.Spider):
        name = "mine"

        def make_request_from_data(self, data):
            job = json.loads(data)
            for path in job["paths"]:
                yield scrapy.Request(
                    f"http://s0.test{path}", dont_filter=job["again"], cb_kwargs={"job": job["id"]}
                )

        def parse(self, response, job):
            yield {"url": response.url, "job": job}
"""


def test_a_spider_makes_requests_of_what_is_pushed_as_with_scrapy_redis(
    tmp_path: Path, redis_process: RedisProcess
) -> None:
    options = WebOptions(hosts=4, pages=4, seed=3, zoo="none")
    with DemoServer(options) as served, redis_process.client as client:
        project = Project(
            tmp_path / "project", WORKER, redis_url=redis_process.url, address=served.address
        )
        for number, again in enumerate((True, True, False, False)):
            job = {"id": number, "again": again, "paths": ["/"]}
            client.lpush("mine:start_urls", json.dumps(job), "no job")
            run = project.crawl_with_tracebacks()
            assert "'no job' was left out: make_request_from_data: JSONDecodeError" in run.stderr
            assert not client.exists("mine:start_urls")
        assert "1 of 1 URLs are known to this crawl" in run.stderr
    assert [item["job"] for item in project.items] == [0, 1]


def test_a_spider_makes_requests_of_messages_of_kafka(
    tmp_path: Path, redis_process: RedisProcess, kafka: KafkaBroker, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}jobs"
    jobs = [{"id": number, "again": True, "paths": ["/"]} for number in range(2)]
    kafka.send(topic, *map(json.dumps, jobs), "no job")
    with DemoServer(WebOptions(hosts=4, pages=4, seed=3, zoo="none")) as served:
        project = Project(
            tmp_path / "project", WORKER, redis_url=redis_process.url, address=served.address
        )
        run = project.crawl("-s", f"KAFKA_SEEDS={kafka.url}/{topic}")
    assert "'no job' was left out: make_request_from_data: JSONDecodeError" in run.stderr
    assert sorted(item["job"] for item in project.items) == [0, 1]
    assert sizes(redis_process.url, "mine").dead == 1


# --- requests beside the frontier ---------------------------------------------------------------

BESIDE = """
    import scrapy
    from scrapy.exceptions import IgnoreRequest


    class Mine(scrapy.Spider):
        name = "mine"
        start_urls = ["http://s0.test/"]

        async def parse(self, response):
            for path in ("/", "/bin/a.cgi", "/x/draft/1"):
                request = scrapy.Request("http://s1.test" + path)
                try:
                    found = await self.crawler.engine.download_async(request)
                except IgnoreRequest as error:
                    yield {"refused": str(error)}
                else:
                    yield {"found": found.url}
"""


def test_what_a_spider_downloads_itself_obeys_robots(tmp_path: Path, redis_url: str) -> None:
    options = WebOptions(hosts=16, pages=8, seed=3, zoo="demo")
    forbidden = {"http://s1.test/bin/a.cgi", "http://s1.test/x/draft/1"}
    assert forbidden <= truth(options).must_not_fetch
    log = tmp_path / "access.log"
    with DemoServer(options, log) as served:
        project = Project(tmp_path / "project", BESIDE, redis_url=redis_url, address=served.address)
        project.crawl()
    assert project.items == [
        {"found": "http://s1.test/"},
        *({"refused": f"robots.txt forbids {url}"} for url in sorted(forbidden)),
    ]
    # With one fetch of the rules, and none of what they forbid.
    assert [entry.url for entry in read_log(log) if entry.host == "s1.test"] == [
        "http://s1.test/robots.txt",
        "http://s1.test/",
    ]


# --- all that a request may carry ---------------------------------------------------------------

CARRIER = """
    import scrapy


    class Mine(scrapy.Spider):
        name = "mine"
        allowed_domains = ["shop.test"]
        start_urls = ["http://shop.test/"]

        def parse(self, response):
            yield response.follow("/kwargs", self.kwargs, cb_kwargs={"name": "x", "tags": ["y"]})
            yield response.follow("/meta", self.meta, meta={"note": {"deep": [1, None, "ü"]}})
            yield scrapy.Request(
                "http://shop.test/post", self.seen, method="POST", body=b"a=1&b=\\xff",
                headers={"Content-Type": "text/plain"},
            )
            yield scrapy.FormRequest("http://shop.test/post", self.seen, formdata={"form": "1"})
            yield scrapy.http.JsonRequest("http://shop.test/post", data={"json": 1},
                                          callback=self.seen)
            yield response.follow("/cookie", self.seen, cookies={"session": "42"})
            yield response.follow("/header", self.seen, headers={"X-Mine": "yes"})
            for query in ("sig=1&b=2&a=1&utm_source=x", "utm_source=x&a=1&b=2&sig=1"):
                yield response.follow(f"/signed?{query}", self.seen)
            yield response.follow("/sign", self.seen)
            yield scrapy.Request("http://me:secret@shop.test/", self.seen)
            for _ in range(2):
                yield response.follow("/again", self.seen, dont_filter=True)
            for _ in range(3):
                yield response.follow("/once", self.seen)
            yield response.follow("/missing", self.seen, errback=self.failed)
            yield scrapy.Request("http://elsewhere.test/", self.seen)
            yield response.follow("/jump", self.seen)
            for number in range(6):
                yield response.follow(f"/low/{number}", self.seen, priority=-100)
            yield response.follow("/high", self.seen, priority=100)

        def seen(self, response):
            yield {"seen": response.url}

        def kwargs(self, response, name, tags):
            yield {"kwargs": [name, tags]}

        def meta(self, response):
            yield {"meta": response.meta["note"]}

        def failed(self, failure):
            yield {"failed": failure.value.response.status}
"""


class Shop:
    """A web server in a thread that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.order: list[str] = []
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._runner: web.ServerRunner

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        host = request.host.partition(":")[0]
        name = request.path if host == "shop.test" else f"{host}{request.path}"
        self.asked[name].append(
            {
                "method": request.method,
                "target": request.raw_path,
                "body": await request.read(),
                "headers": {key.lower(): value for key, value in request.headers.items()},
            }
        )
        self.order.append(name)
        if request.path == "/sign":
            # As for a cookie: to itself, but for what the canonical form leaves out.
            way = "?utm_id=1" if not request.query_string else "ed?z=1&a=1&utm_id=2#part"
            return web.Response(status=302, headers={"Location": f"/sign{way}"})
        if request.path == "/jump":
            return web.Response(status=302, headers={"Location": "http://elsewhere.test/jump"})
        missing = request.path in ("/robots.txt", "/missing")
        return web.Response(status=404 if missing else 200, text="<p>", content_type="text/html")

    async def _start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = f"127.0.0.1:{self._runner.addresses[0][1]}"

    def __enter__(self) -> "Shop":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def test_requests_arrive_with_all_that_their_spider_gave_them(
    tmp_path: Path, redis_url: str
) -> None:
    with Shop() as shop:
        project = Project(
            tmp_path / "project", CARRIER, redis_url=redis_url, address=shop.address, delay_s=0
        )
        log = project.crawl().stderr
        asked = deepcopy(shop.asked)
        project.crawl()
        assert shop.asked == asked
    items = project.items
    assert {"kwargs": ["x", ["y"]]} in items
    assert {"meta": {"deep": [1, None, "ü"]}} in items
    assert {"failed": 404} in items
    posts = sorted(request["body"] for request in asked["/post"])
    assert posts == [b"a=1&b=\xff", b"form=1", b'{"json": 1}']
    assert {request["method"] for request in asked["/post"]} == {"POST"}
    types = {request["headers"]["content-type"] for request in asked["/post"]}
    assert types == {"text/plain", "application/x-www-form-urlencoded", "application/json"}
    assert asked["/cookie"][0]["headers"]["cookie"] == "session=42"
    assert asked["/header"][0]["headers"]["x-mine"] == "yes"
    assert asked["/header"][0]["headers"]["referer"] == "http://shop.test/"
    assert asked["/"][0]["headers"]["user-agent"] == "crawler (+https://example.org)"
    # Known by the canonical form, fetched as its spider or its server spelled it.
    assert [request["target"] for request in asked["/sign"]] == ["/sign", "/sign?utm_id=1"]
    targets = [request["target"] for request in asked["/signed"]]
    assert sorted(targets) == ["/signed?sig=1&b=2&a=1&utm_source=x", "/signed?z=1&a=1&utm_id=2"]
    assert {"seen": "http://shop.test/signed?z=1&a=1&utm_id=2"} in items
    refused = "<GET http://me:***@shop.test/> is not fetched: a URL with a user name or password"
    assert log.count(refused) == 1
    assert len(asked["/again"]) == 2
    assert len(asked["/once"]) == len(asked["/missing"]) == len(asked["/robots.txt"]) == 1
    # Scrapy's offsite filter holds for links and for redirects.
    assert not any(name.startswith("elsewhere.test") for name in asked)
    low = [shop.order.index(f"/low/{number}") for number in range(6)]
    assert shop.order.index("/high") < sorted(low)[2]
    left = sizes(redis_url, "mine")
    assert (left.unfinished, left.owners) == (0, 0)


def test_a_single_file_spider_needs_no_project(tmp_path: Path, redis_url: str) -> None:
    with Shop() as shop:
        (tmp_path / "spider.py").write_text(textwrap.dedent(FOLLOWER).replace("s0", "shop"))
        settings = {
            "ADDONS": json.dumps({"crawler.addon.FrontierAddon": 0}),
            "REDIS_URL": redis_url,
            "SINKS": "none",
            "DNS_OVERRIDES": json.dumps({".test": shop.address}),
            "ALLOW_NETWORKS": "127.0.0.0/8",
            "DELAY_MIN": 0,
        }
        options = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
        run = scrapy("runspider", "spider.py", *options, cwd=tmp_path)
    assert run.code == 0, run.stderr
    assert len(shop.asked["/"]) == 1
    assert sizes(redis_url, "mine").done == 1


def test_another_scheduler_in_the_settings_is_named(tmp_path: Path, redis_url: str) -> None:
    project = Project(tmp_path / "project", FOLLOWER, redis_url=redis_url, address="127.0.0.1:1")
    run = scrapy(
        *("crawl", "mine", "-s", "SCHEDULER=scrapy_redis.scheduler.Scheduler"), cwd=project.folder
    )
    assert "SCHEDULER is 'scrapy_redis.scheduler.Scheduler'; remove it" in run.stderr
