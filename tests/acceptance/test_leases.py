"""Every lease is settled, however its request ends. The spiders are in lease_spiders.py."""

import fcntl
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client

from demo.access_log import read_log
from demo.process import DemoServer
from demo.truth import truth
from demo.web import Web, WebOptions
from tests.acceptance.crawls import ROOT, Crawls, environment
from tests.acceptance.fleets import Fleet, sizes
from tests.acceptance.lease_spiders import SPIDERS
from tests.support.waiting import wait_until

Runs = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def report(
    redis_server: str, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> dict[str, Any]:
    """What became of the spiders. They run once, though several workers look at it."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        folder = folder.parent
    kept = folder / "lease_runs.json"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(run_spiders(redis_server))
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def run_spiders(redis_server: str) -> str:
    with redis_client.Redis.from_url(redis_server) as client:
        client.flushall()
    done = subprocess.run(
        [sys.executable, "-m", "tests.acceptance.lease_runs", redis_server],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def runs(report: dict[str, Any]) -> Runs:
    runs: Runs = report["runs"]
    return runs


def counts(run: dict[str, Any]) -> tuple[int, int, int]:
    """URLs that were finished, that gave a page, and that were given up."""
    sizes = run["sizes"]
    return sizes["done"], sizes["pages"], sizes["dead"]


def fetched(run: dict[str, Any], name: str) -> list[str]:
    return sorted(run["fetched"].get(f"{name}.test", []))


@pytest.mark.parametrize("name", [spider.name for spider in SPIDERS])
def test_no_lease_is_left(runs: Runs, name: str) -> None:
    run = runs[name]
    assert not run["stuck"]
    assert run["sizes"]["leased"] == 0
    assert run["sizes"]["owners"] == 0
    assert run["sizes"]["retries"] == 0


@pytest.mark.parametrize(
    ("name", "pages", "items"),
    [
        ("nothing", 1, 0),
        ("several-items", 1, 5),
        ("one-item", 1, 1),
        ("yields-none", 1, 1),
        ("requests-only", 4, 3),
        ("plain-list", 2, 2),
        ("async-generator", 2, 2),
        ("coroutine", 2, 2),
        ("drops-items", 1, 0),
        ("slow-pipeline", 1, 5),
        ("depth-limit", 3, 3),
        ("fan", 10, 10),
        ("asks-when-idle", 3, 3),
    ],
)
def test_what_a_callback_returns_is_followed_and_scraped(
    runs: Runs, name: str, pages: int, items: int
) -> None:
    run = runs[name]
    assert run["reason"] == "finished"
    assert counts(run) == (pages, pages, 0)
    assert len(run["items"]) == items
    assert all(len(paths) == len(set(paths)) for paths in run["fetched"].values())
    assert sum(map(len, run["fetched"].values())) == pages


def test_thousands_of_requests_of_one_callback_all_arrive(runs: Runs) -> None:
    run = runs["many-requests"]
    assert run["reason"] == "max_pages"
    assert counts(run) == (3, 3, 0)
    assert run["sizes"]["waiting"] == 5001 - 3


@pytest.mark.parametrize(
    ("name", "reason", "items"),
    [
        ("raises-at-once", "callback_error_ValueError", 0),
        ("raises-in-coroutine", "callback_error_ValueError", 0),
        ("pipeline-raises", "item_error_ValueError", 0),
        ("input-refused", "ValueError", 0),
    ],
)
def test_an_error_is_retried_and_then_buried(
    runs: Runs, name: str, reason: str, items: int
) -> None:
    run = runs[name]
    assert run["dead"] == [[f"http://{name}.test/", reason]]
    assert counts(run) == (0, 0, 1)
    assert fetched(run, name) == ["/", "/"]
    assert len(run["items"]) == items


def test_what_a_callback_gave_before_it_failed_for_good_is_followed(runs: Runs) -> None:
    run = runs["raises-in-the-middle"]
    assert run["dead"] == [["http://raises-in-the-middle.test/", "callback_error_ValueError"]]
    assert counts(run) == (1, 1, 1)
    assert sorted(fetched(run, "raises-in-the-middle")) == ["/", "/", "/child"]


def test_a_callback_that_fails_once_loses_nothing(runs: Runs) -> None:
    run = runs["raises-once"]
    assert counts(run) == (2, 2, 0)
    assert sorted(fetched(run, "raises-once")) == ["/", "/", "/child"]


def test_an_exception_that_a_middleware_recovers_is_none(runs: Runs) -> None:
    run = runs["recovered"]
    assert counts(run) == (2, 2, 0)
    assert {"recovered": "http://recovered.test/"} in run["items"]


def test_requests_before_a_close_are_kept_for_the_next_run(runs: Runs) -> None:
    run = runs["closes"]
    assert run["reason"] == "enough"
    done, pages, dead = counts(run)
    assert (done, dead) == (pages, 0)
    # The second one waits, unless it was under way before the spider closed.
    assert done + run["sizes"]["waiting"] == 2
    assert runs["closes-at-once"]["reason"] == "enough"
    assert counts(runs["closes-at-once"]) == (1, 1, 0)


@pytest.mark.parametrize("name", ["asks-again", "same-request"])
def test_a_spider_may_ask_for_the_same_page_again(runs: Runs, name: str) -> None:
    assert fetched(runs[name], name) == ["/"] * 3
    assert runs[name]["reason"] == "finished"


@pytest.mark.parametrize(
    "name",
    ["errback-yields", "errback-async", "errback-async-generator", "errback-raises-later"],
)
def test_what_an_errback_yields_is_followed_and_scraped(runs: Runs, name: str) -> None:
    run = runs[name]
    assert fetched(run, name) == ["/after/refused", "/after/status", "/status/404"]
    assert [item for item in run["items"] if "failed" in item] == [
        {"failed": "refused"},
        {"failed": "status"},
    ] or [item for item in run["items"] if "failed" in item] == [
        {"failed": "status"},
        {"failed": "refused"},
    ]
    assert len(run["items"]) == 4
    assert counts(run) == (3, 2, 1)
    assert run["dead"] == [[f"http://{name}.refused/", "refused"]]


def test_an_errback_may_return_one_request(runs: Runs) -> None:
    run = runs["errback-one"]
    assert fetched(run, "errback-one") == ["/after/refused", "/after/status", "/status/404"]
    assert counts(run) == (3, 2, 1)


@pytest.mark.parametrize("name", ["errback-none", "errback-raises"])
def test_an_errback_may_return_nothing_or_raise(runs: Runs, name: str) -> None:
    assert counts(runs[name]) == (1, 0, 1)
    assert runs[name]["items"] == []


def test_an_errback_of_a_refused_response_is_followed_before_the_url_is_buried(runs: Runs) -> None:
    run = runs["input-refused-errback"]
    assert {"failed": "input"} in run["items"]
    assert sorted(url for url, _ in run["dead"]) == [
        "http://input-refused-errback.test/",
        "http://input-refused-errback.test/after",
    ]


def test_error_statuses_are_finished_or_retried(runs: Runs) -> None:
    run = runs["statuses"]
    assert fetched(run, "statuses") == ["/status/404", "/status/500", "/status/500"]
    assert counts(run) == (1, 0, 1)
    assert run["dead"] == [["http://statuses.test/status/500", "status_500"]]
    handled = runs["statuses-handled"]
    assert fetched(handled, "statuses-handled") == ["/status/404", "/status/500"]
    assert counts(handled) == (2, 0, 0)
    assert len(handled["items"]) == 2


def test_redirects_go_through_the_frontier_and_end(runs: Runs) -> None:
    run = runs["redirects"]
    paths = Counter(run["fetched"]["redirects.test"])
    assert set(paths.values()) == {1}
    # REDIRECT_MAX_TIMES is 3: the fourth step of an endless chain is its last.
    assert sorted(paths) == [
        *(f"/chain/{step}" for step in range(1, 5)),
        *("/ping", "/pong", "/target", "/to/other-host", "/to/target"),
    ]
    assert run["fetched"]["other.redirects.test"] == ["/"]
    assert len(run["items"]) == 2
    assert run["sizes"]["dead"] == 0


def test_a_redirect_loop_without_a_filter_ends(runs: Runs) -> None:
    assert fetched(runs["redirects-forced"], "redirects-forced") == [
        *("/", "/ping", "/ping", "/pong", "/pong")
    ]
    assert runs["redirects-forced"]["reason"] == "finished"


def test_links_offsite_are_left_out_and_a_redirect_there_settles_its_lease(runs: Runs) -> None:
    run = runs["redirects-offsite"]
    assert run["reason"] == "finished"
    assert fetched(run, "redirects-offsite") == ["/child-offsite", "/here", "/to/offsite"]
    # A start request may leave the site, as in Scrapy; what it links to may not.
    assert run["stats"]["offsite/filtered"] >= 1


@pytest.mark.parametrize(
    ("name", "expected", "paths"),
    [
        ("middleware-raises", (2, 2, 1), []),
        ("middleware-raises-on-response", (2, 2, 1), ["/bad", "/bad"]),
        ("middleware-ignores", (3, 2, 0), []),
        ("middleware-answers", (3, 3, 0), []),
        ("middleware-replaces", (4, 3, 0), ["/instead"]),
        ("middleware-gives-a-new-one", (4, 3, 0), ["/instead"]),
    ],
)
def test_a_middleware_that_ends_a_request_frees_its_host(
    runs: Runs, name: str, expected: tuple[int, int, int], paths: list[str]
) -> None:
    run = runs[name]
    assert run["reason"] == "finished"
    assert fetched(run, name) == sorted([*paths, "/good/1", "/good/2"])
    assert counts(run) == expected


def test_a_request_that_cannot_travel_is_refused_by_name(
    runs: Runs, report: dict[str, Any]
) -> None:
    for name in ("not-carried", "not-carried-start"):
        assert "/good" in fetched(runs[name], name)
        assert runs[name]["reason"] == "finished"
    assert runs["not-carried"]["stats"]["scheduler/rejected/not_carried"] == 3
    lines = [line for line in report["log"] if "//not-carried.test/" in line]
    for path, field in (("/meta", "meta['thing']"), ("/kwargs", "cb_kwargs['thing']")):
        assert any(path in line and field in line for line in lines)
    assert any("/lambda" in line and "callback" in line for line in lines)


@pytest.mark.parametrize("name", ["page-count", "item-count", "time-out"])
def test_a_run_that_scrapy_closes_hands_its_leases_back(runs: Runs, name: str) -> None:
    run = runs[name]
    assert run["reason"].startswith("closespider_")
    assert run["sizes"]["leased"] == 0
    known = run["sizes"]["waiting"] + run["sizes"]["done"]
    # Its time may be over before the spider has given all of its ten.
    assert known == 10 or (name == "time-out" and known < 10)


# --- signals ------------------------------------------------------------------------------------

OPTIONS = WebOptions(hosts=12, pages=8, seed=5, zoo="none")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


def test_a_run_that_is_stopped_loses_nothing_and_repeats_nothing(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    with DemoServer(OPTIONS, log) as web, Fleet(Crawls(tmp_path, redis_url), web) as fleet:
        first = fleet.start(Web(OPTIONS).seeds[0], arguments={"scope": "any"})
        wait_until(lambda: log.exists() and log.read_text().count("\n") > 30)
        first.send(signal.SIGINT)
        assert first.wait() == 0
        after = sizes(redis_url)
        assert (after.leased, after.owners) == (0, 0)
        assert after.waiting > 0
        assert fleet.start().wait() == 0
    times = Counter(entry.url for entry in read_log(log) if entry.target != "/robots.txt")
    assert set(times) == truth(OPTIONS).must_fetch
    assert max(times.values()) == 1
    assert sizes(redis_url).unfinished == 0


def test_a_run_that_is_stopped_twice_is_taken_up_by_the_next(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    with (
        DemoServer(OPTIONS, log, arguments=("--latency=0.3",)) as web,
        Fleet(Crawls(tmp_path, redis_url), web, LEASE_TTL=1.5) as fleet,
    ):
        first = fleet.start(Web(OPTIONS).seeds[0], arguments={"scope": "any", "max_pages": 40})
        wait_until(lambda: log.exists() and log.read_text().count("\n") > 12)
        first.send(signal.SIGINT)
        first.says("Received SIGINT, shutting down gracefully")
        first.send(signal.SIGINT)
        first.wait()
        assert fleet.start().wait() == 0
    after = sizes(redis_url)
    assert (after.leased, after.owners, after.pages) == (0, 0, 40)
