"""Crawls keep to their scope, and traps cost them little, on the synthetic web."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import redis

from crawler.frontier import keys
from crawler.frontier.meta import DATA_MODEL
from demo.access_log import read_log
from demo.features.traps import TRAPS
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import Web, WebOptions
from tests.acceptance.crawls import Crawls

SEED = "http://s0.test/"
# Of these hosts two have two traps each, and the others robots.txt that can be read.
TRAPPED = WebOptions(hosts=8, pages=6, seed=203, zoo="full")
PLAIN = WebOptions(hosts=6, pages=6, seed=3, zoo="none")
# Hosts with sitemaps: pages that nothing links to.
MAPPED = WebOptions(hosts=30, pages=4, seed=1, zoo="demo")
MAX_TRAP_FETCHES = 50


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


@pytest.fixture
def crawls(tmp_path: Path, redis_url: str) -> Crawls:
    return Crawls(tmp_path, redis_url)


def fetched(log: Path) -> set[str]:
    return {entry.url for entry in read_log(log) if entry.target != "/robots.txt"}


def hosts_of(urls: set[str]) -> set[str]:
    return {url.split("/")[2] for url in urls}


def trap_fetches(log: Path) -> Counter[str]:
    """How often each trap of each host was fetched from."""
    found: Counter[str] = Counter()
    for number in range(TRAPPED.hosts):
        profile = Web(TRAPPED).profile(number)
        for feature in set(profile.features) & set(TRAPS):
            prefix = TRAPS[feature][1]
            found[f"{profile.host} {feature}"] += sum(
                entry.host == profile.host and entry.target.startswith(prefix)
                for entry in read_log(log)
            )
    return found


def test_a_trap_costs_few_fetches_and_all_else_is_fetched(crawls: Crawls, log: Path) -> None:
    with DemoServer(TRAPPED, log) as web:
        run = crawls.run(SEED, web=web, arguments={"scope": "any"})
    assert run.code == 0, run.stderr
    verdict = judge(log, truth(TRAPPED, read_sitemaps=True), min_delay_s=0.0)
    assert verdict.ok, "\n".join(verdict.lines())
    spent = trap_fetches(log)
    assert len(spent) == len(TRAPS)
    assert min(spent.values()) > 0
    assert max(spent.values()) <= MAX_TRAP_FETCHES, spent


@pytest.mark.parametrize("scope", ["host", "domain", "seeds"])
def test_a_crawl_keeps_to_its_scope(crawls: Crawls, log: Path, scope: str) -> None:
    seeds = "http://s0.test/ http://s2.test/"
    with DemoServer(PLAIN, log) as web:
        run = crawls.run(seeds, web=web, arguments={"scope": scope})
    assert run.code == 0, run.stderr
    assert run.summary["finished"]
    assert hosts_of(fetched(log)) == {"s0.test", "s2.test"}
    expected = {url for url in truth(PLAIN).must_fetch if hosts_of({url}) & hosts_of(fetched(log))}
    assert fetched(log) == expected


def test_allowed_and_excluded_domains_and_patterns_decide(crawls: Crawls, log: Path) -> None:
    arguments = {
        "allowed_domains": "s0.test,s1.test,s2.test",
        "excluded_domains": "s2.test",
        "exclude": r"/news/ \?id=",
    }
    with DemoServer(PLAIN, log) as web:
        run = crawls.run(SEED, web=web, arguments=arguments)
    assert run.code == 0, run.stderr
    urls = fetched(log)
    assert hosts_of(urls) == {"s0.test", "s1.test"}
    assert not [url for url in urls if "/news/" in url or "?id=" in url]
    assert len(urls) > 5


def test_a_seed_alone_is_fetched_without_following(crawls: Crawls, log: Path) -> None:
    with DemoServer(PLAIN, log) as web:
        run = crawls.run(SEED, web=web, arguments={"follow": "no"})
    assert run.code == 0, run.stderr
    assert fetched(log) == {SEED}


def test_queued_urls_of_a_domain_that_is_excluded_later_are_not_fetched(
    crawls: Crawls, log: Path
) -> None:
    with DemoServer(PLAIN, log) as web:
        first = crawls.run(SEED, web=web, arguments={"scope": "any", "max_pages": 1})
        assert first.summary["whole_crawl"]["unfinished"] > 0
        arguments = {"excluded_domains": "test", "max_pages": 0}
        second = crawls.run(None, web=web, arguments=arguments)
    assert second.code == 0, second.stderr
    assert second.summary["finished"]
    assert fetched(log) == {SEED}


def test_sitemaps_lead_to_pages_that_nothing_links_to(crawls: Crawls, log: Path) -> None:
    (mapped,) = Web(MAPPED).hosts_with("sitemaps")
    only = {f"http://{mapped.host}/only-in-map/{name}" for name in "abc"}
    with DemoServer(MAPPED, log) as web:
        run = crawls.run(f"http://{mapped.host}/", web=web)
    assert run.code == 0, run.stderr
    assert only <= fetched(log)
    assert hosts_of(fetched(log)) == {mapped.host}


def test_a_given_sitemap_is_a_list_of_seeds(crawls: Crawls, log: Path) -> None:
    (mapped,) = Web(MAPPED).hosts_with("sitemaps")
    arguments = {"sitemaps": f"http://{mapped.host}/maps/packed.xml.gz", "follow": "no"}
    with DemoServer(MAPPED, log) as web:
        run = crawls.run(None, web=web, arguments=arguments)
    assert run.code == 0, run.stderr
    only = [url for url in fetched(log) if "/only-in-map/" in url]
    assert only == [f"http://{mapped.host}/only-in-map/b"]
    assert not [url for url in fetched(log) if url.endswith((".txt", "/sitemap.xml"))]


def test_a_sitemap_is_read_though_it_was_fetched_as_a_page_and_read_once(
    crawls: Crawls, log: Path
) -> None:
    (mapped,) = Web(MAPPED).hosts_with("sitemaps")
    url = f"http://{mapped.host}/maps/packed.xml.gz"
    with DemoServer(MAPPED, log) as web:
        for arguments in ({"seeds": url}, {"sitemaps": url}, {"sitemaps": url}):
            run = crawls.run(None, web=web, arguments={**arguments, "follow": "no"})
            assert run.code == 0, run.stderr
            known = f"sitemaps: {url} is known to the crawl 'web' and not added again"
    assert known in run.stderr
    times = Counter(entry.url for entry in read_log(log))
    assert times[url] == 2
    assert times[f"http://{mapped.host}/only-in-map/b"] == 1


def test_without_the_setting_sitemaps_are_left_alone(crawls: Crawls, log: Path) -> None:
    (mapped,) = Web(MAPPED).hosts_with("sitemaps")
    with DemoServer(MAPPED, log) as web:
        run = crawls.run(f"http://{mapped.host}/", web=web, settings={"FOLLOW_SITEMAPS": "False"})
    assert run.code == 0, run.stderr
    assert not [url for url in fetched(log) if "map" in url]


def test_a_process_stops_by_itself_after_its_time(crawls: Crawls, log: Path) -> None:
    with DemoServer(PLAIN, log) as web:
        run = crawls.run(
            SEED,
            web=web,
            arguments={"scope": "any", "max_time": "4s"},
            settings={"DELAY_MIN": 30, "CRAWL_MAX_WAIT": 60},
        )
    assert run.code == 0, run.stderr
    assert "max_time is reached" in run.summary["why"]
    assert run.summary["whole_crawl"]["unfinished"] > 0


def test_the_user_agent_can_be_given(crawls: Crawls, log: Path) -> None:
    agent = "otherbot/2.0 (+https://example.com/bot)"
    with DemoServer(PLAIN, log) as web:
        run = crawls.run(SEED, web=web, arguments={"follow": "no", "user_agent": agent})
    assert run.code == 0, run.stderr
    assert {entry.agent for entry in read_log(log)} == {agent}


# Its home page has links that redirect to another host.
REDIRECTING = WebOptions(hosts=8, pages=4, seed=1, zoo="demo")


def test_redirects_keep_to_the_scope_and_a_seed_may_lead_anywhere(
    crawls: Crawls, log: Path
) -> None:
    assert "cross_redirects" in Web(REDIRECTING).profile(6).features
    with DemoServer(REDIRECTING, log) as web:
        run = crawls.run("http://s6.test/", web=web)
        assert run.code == 0, run.stderr
        assert "http://s6.test/away/301" in fetched(log)
        assert hosts_of(fetched(log)) == {"s6.test"}
        run = crawls.run("http://s6.test/away/301", web=web, arguments={"crawl": "other"})
    assert run.code == 0, run.stderr
    assert hosts_of(fetched(log)) == {"s6.test", "s4.test"}


@contextmanager
def platform(*hosts: str) -> Iterator[tuple[str, set[str]]]:
    """A server whose every page links to these hosts: its address, and the hosts it was asked."""
    asked: set[str] = set()
    body = "".join(f'<a href="http://{host}/">{host}</a>' for host in hosts).encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.add(self.headers["Host"])
            self.send_response(404 if self.path == "/robots.txt" else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_sites_of_a_platform_are_domains_of_their_own_but_in_crawls_that_began_otherwise(
    crawls: Crawls, redis_url: str
) -> None:
    client = redis.Redis.from_url(redis_url)
    # As former versions created crawls.
    made = {"shards": 1, "seen": "intset", "seen_argument": 512, "version": DATA_MODEL}
    client.hset(keys.crawl_meta("former"), mapping=made)
    own = {"alice.github.io", "www.alice.github.io"}
    expected = {
        "new": (own, {b"alice.github.io"}),
        "former": ({*own, "bob.github.io"}, {b"github.io"}),
    }
    for crawl, (hosts, groups) in expected.items():
        with platform(*own, "bob.github.io") as (address, asked):
            settings = {
                "GROUP_BY": "domain",
                "FRONTIER_SHARDS": 1,
                "DNS_OVERRIDES": json.dumps({".github.io": address}),
            }
            arguments = {"crawl": crawl, "scope": "domain"}
            run = crawls.run("http://alice.github.io/", arguments=arguments, settings=settings)
        assert run.code == 0, run.stderr
        assert asked == hosts
        assert set(client.hkeys(f"{{{crawl}:0}}:pages")) == groups
    client.close()
