"""A fleet on the whole zoo of the synthetic web burdens no host, and a rude one is found out."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from aiohttp import web
from redis import Redis

from crawler import settings as ours
from crawler.frontier import Entry, Frontier
from crawler.frontier.frontier import shard_of, tags
from crawler.servers.redis.connection import connect
from crawler.urls import fingerprint
from demo.access_log import read_log
from demo.judge import Verdict, judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet

SEED = "http://s0.test/"
DELAY_S = 0.05
ZOO = WebOptions(hosts=64, pages=3, seed=3, zoo="full")
# All times are a fraction of what they are on the real web.
QUICK: dict[str, Any] = {
    "DELAY_MIN": DELAY_S + 0.01,
    "DELAY_FACTOR": 1,
    "DELAY_MAX": 1,
    "CRAWL_DELAY_MAX": 2,
    "ROBOTS_ERROR_TTL": 2,
    "RETRY_BASE": 0.3,
    "RETRY_TIMES": 2,
    "OVERLOAD_REST": 0.2,
    "OVERLOAD_FORGIVEN": 0,
    "BREAKER_REST": 0.5,
    "DOWNLOAD_TIMEOUT": 8,
    "CRAWL_MAX_WAIT": 3,
}


def crawl(
    tmp_path: Path, redis_url: str, options: WebOptions, processes: int, **settings: Any
) -> Verdict:
    log = tmp_path / "access.log"
    with (
        # Long enough for requests to meet, if they may.
        DemoServer(options, log, arguments=("--latency=0.02",)) as server,
        Fleet(Crawls(tmp_path, redis_url), server, **{**QUICK, **settings}) as fleet,
    ):
        arguments = {"scope": "any"}
        started = [fleet.start(SEED, arguments=arguments) for _ in range(processes)]
        for process in started:
            assert process.wait(100) == 0, process.log
            assert "Traceback" not in process.log, process.log
    factor, most_s = QUICK["DELAY_FACTOR"], QUICK["DELAY_MAX"]
    return judge(log, truth(options), min_delay_s=DELAY_S, delay_factor=factor, delay_max_s=most_s)


@pytest.mark.slow
def test_three_processes_are_polite_to_every_kind_of_host(tmp_path: Path, redis_url: str) -> None:
    verdict = crawl(tmp_path, redis_url, ZOO, 3)
    wrong = dict(verdict.violations)
    # What waits longer than this run is left for the next, as the host with the long crawl-delay.
    unfinished = wrong.pop("missing")
    assert not any(wrong.values()), "\n".join(verdict.lines())
    waiting = {"http://" + host for host, s in truth(ZOO).crawl_delays_s.items() if s > 2}
    assert all(line.startswith(tuple(waiting)) for line in unfinished), unfinished
    assert verdict.requests > 300


@pytest.mark.slow
def test_a_rude_crawl_is_found_out(tmp_path: Path, redis_url: str) -> None:
    options = WebOptions(hosts=16, pages=6, seed=3, zoo="demo")
    verdict = crawl(
        tmp_path,
        redis_url,
        options,
        1,
        HOST_PARALLELISM=10,
        DELAY_MIN=0,
        DELAY_FACTOR=0,
        DOWNLOADER_MIDDLEWARES=json.dumps(
            {**ours.DOWNLOADER_MIDDLEWARES, "crawler.middlewares.robots.Robots": None}
        ),
    )
    broken = {rule for rule, found in verdict.violations.items() if found}
    assert {"forbidden", "overlap", "too_soon", "adaptive", "robots_first"} <= broken, (
        verdict.lines()
    )


@pytest.mark.slow
def test_hosts_of_one_address_take_turns_over_all_processes(tmp_path: Path, redis_url: str) -> None:
    delay_s = 0.1
    options = WebOptions(hosts=6, pages=4, seed=3, zoo="none")
    verdict = crawl(tmp_path, redis_url, options, 2, IP_DELAY=delay_s, DELAY_MIN=0, DELAY_FACTOR=0)
    assert not verdict.violations["missing"], verdict.lines()
    # Each contact has a turn of its own, the robots.txt files included. The first may come late.
    starts = [entry.start_s for entry in read_log(tmp_path / "access.log")]
    assert len(starts) >= 20
    assert max(starts) - min(starts) > 0.7 * delay_s * (len(starts) - 1)


_REDIRECTS = {
    "/moved": (301, "/moved-again"),
    "/moved-again": (302, "/target"),
    "/ping": (302, "/pong"),
    "/pong": (302, "/ping"),
    "/self": (302, "/self"),
}


class Site:
    """A web server in a thread, for all hosts. Its robots.txt takes its time."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.overrides: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests[request.path] += 1
        if request.path == "/robots.txt":
            await asyncio.sleep(1)
            return web.Response(text="User-agent: *\nDisallow: /private/\n")
        if request.path in _REDIRECTS:
            status, target = _REDIRECTS[request.path]
            return web.Response(status=status, headers={"Location": target})
        if request.path == "/short":
            # Half of what it promises.
            answer = web.StreamResponse(headers={"Content-Length": "100"})
            answer.content_type = "text/html"
            await answer.prepare(request)
            await answer.write(b"<p>" + b"x" * 47)
            assert request.transport is not None
            request.transport.close()
            return answer
        if request.headers.get("If-None-Match") == '"1"':
            return web.Response(status=304)
        return web.Response(text=f"<p>{request.path}</p>", content_type="text/html")

    async def _start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.overrides = {".test": f"127.0.0.1:{self._runner.addresses[0][1]}"}

    def __enter__(self) -> "Site":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", [1, 50])
def test_a_slow_robots_txt_is_fetched_once_and_lets_nothing_through(
    tmp_path: Path, redis_url: str, site: Site, parallelism: int
) -> None:
    paths = [f"/{kind}/{number}" for number in range(25) for kind in ("open", "private")]
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(f"http://leak.test{path}" for path in paths))
    settings = {"HOST_PARALLELISM": parallelism, "CRAWL_MAX_WAIT": 5}
    with Fleet(Crawls(tmp_path, redis_url), site, **settings) as fleet:  # type: ignore[arg-type]
        for process in [fleet.start(str(seeds)) for _ in range(2)]:
            assert process.wait(60) == 0, process.log
            assert "Traceback" not in process.log, process.log
    open_once = Counter(path for path in paths if path.startswith("/open/"))
    assert site.requests == open_once + Counter({"/robots.txt": 1})


@pytest.mark.slow
async def test_pages_say_how_they_came_about(tmp_path: Path, redis_url: str, site: Site) -> None:
    redis = await connect(redis_url)
    frontier = Frontier(redis, "web")
    await frontier.open()
    known = "http://h.test/known"
    await frontier.add([Entry(fingerprint(known), known, tail={"etag": '"1"'})])
    await frontier.leave()
    seeds = " ".join(f"http://h.test/{name}" for name in ("moved", "ping", "self", "short"))
    feed = tmp_path / "pages.jsonl"
    run = await asyncio.to_thread(
        Crawls(tmp_path, redis_url).run,
        seeds,
        web=site,
        settings={"RETRY_TIMES": 1, "RETRY_BASE": 0.1, "REDIRECT_MAX_TIMES": 2},
        options=("-O", str(feed)),
    )
    assert run.code == 0, run.stderr
    pages = {page["url"]: page for page in map(json.loads, feed.read_text().splitlines())}
    assert {url.removeprefix("http://h.test"): page["flags"] for url, page in pages.items()} == {
        "/target": [],
        "/pong": ["redirect_loop"],
        "/self": ["redirect_loop"],
        "/short": ["truncated", "truncated:length"],
        "/known": ["not_modified"],
    }
    target = pages["http://h.test/target"]
    assert target["redirects"] == ["http://h.test/moved", "http://h.test/moved-again"]
    assert target["redirect_statuses"] == [301, 302]
    assert target["depth"] == 0
    assert site.requests["/short"] == 2
    left = await frontier.sizes()
    await redis.aclose()
    assert (left.unfinished, left.dead) == (0, 0)


@pytest.mark.slow
def test_rules_for_single_hosts_are_followed(tmp_path: Path, redis_url: str) -> None:
    options = WebOptions(hosts=4, pages=8, seed=2, zoo="none")
    log = tmp_path / "access.log"
    rules = {
        "s1.test": {"blocked": True},
        ".s2.test": {"budget": 2},
        "s3.test": {"delay": 0.3},
        "s0.test": {"parallelism": 2},
    }
    with DemoServer(options, log) as server:
        run = Crawls(tmp_path, redis_url).run(
            SEED, web=server, arguments={"scope": "any"}, settings={"HOST_RULES": json.dumps(rules)}
        )
    assert run.code == 0, run.stderr
    requests: dict[str, list[Any]] = {}
    for entry in sorted(read_log(log)):
        requests.setdefault(entry.host, []).append(entry)
    assert "s1.test" not in requests
    # Beside robots.txt.
    assert len(requests["s2.test"]) - 1 == 2
    with Redis.from_url(redis_url) as client:
        tag = tags("web", 4)[shard_of("s0.test", 4)]
        assert client.hget(f"{tag}:host:s0.test", "parallel") == b"2"
    pauses = [b.start_s - a.end_s for a, b in pairwise(requests["s3.test"])]
    assert pauses
    assert min(pauses) >= 0.295
