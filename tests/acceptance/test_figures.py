"""Pages, failures and the success rate mean the same wherever a crawl shows them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.monitoring.ledger import read
from crawler.monitoring.prometheus import Sheet, add_fleet
from crawler.monitoring.report import report
from crawler.servers.redis.connection import connect
from tests.acceptance.crawls import Crawls, scrapy
from tests.acceptance.failing_site import FAILED, PAGES, Site, serving


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as found:
        yield found


async def test_a_url_counts_once_and_all_views_agree(
    tmp_path: Path, site: Site, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    crawls = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
    run = crawls.run(site.url, settings={"RETRY_TIMES": 1, "PROGRESS": "plain"})
    assert run.summary["finished"], run.stderr
    success = len(PAGES) / (len(PAGES) + sum(FAILED.values()))

    this_run = run.summary["this_run"]
    assert this_run["pages"] == run.summary["whole_crawl"]["pages"] == len(PAGES)
    assert (this_run["stored"], this_run["not_kept"]) == (len(PAGES) - 1, 1)
    assert this_run["failed"] == FAILED
    assert this_run["dead"] == {"status_500": 1, "connection": 1}
    assert this_run["success_rate"] == pytest.approx(success)
    assert this_run["robots_denied"] == 2
    assert "pages crawled     4 " in run.stderr
    assert "failed            6 (status_404 3, " in run.stderr
    assert "success           40.0%" in run.stderr

    redis = await connect(redis_url)
    totals = report(await read(redis, "web"))["totals"]
    sheet = Sheet("web")
    await add_fleet(sheet, redis, "web")
    await redis.aclose()
    assert (totals["pages"], totals["failed"]) == (len(PAGES), sum(FAILED.values()))
    assert totals["success_rate"] == pytest.approx(success)
    errors = {one["cause"]: one for one in totals["errors"]}
    assert errors["status_404"] == {
        "cause": "status_404",
        "retried": 0,
        "failed": 3,
        "blocked": 0,
    }
    assert (errors["status_500"]["retried"], errors["status_500"]["failed"]) == (1, 1)
    assert errors["robots"]["blocked"] == 2

    metrics = sheet.text().decode()
    assert 'crawler_pages_crawled_total{crawl="web",scope="fleet"} 4.0' in metrics
    assert 'crawler_pages_failed_total{cause="status_404",crawl="web",scope="fleet"} 3.0' in metrics


def test_a_crawl_of_error_pages_has_no_page_and_no_success(
    tmp_path: Path, site: Site, redis_url: str
) -> None:
    crawls = Crawls(tmp_path, redis_url)
    seeds = " ".join(f"{site.url}/not/{number}" for number in range(5))
    settings = {"PROGRESS": "plain"}
    run = crawls.run(seeds, settings=settings, options=("-o", str(tmp_path / "pages.jsonl")))
    assert run.summary["finished"], run.stderr
    this_run = run.summary["this_run"]
    assert (this_run["pages"], this_run["failed"], this_run["hosts"]) == (0, {"status_404": 5}, 0)
    assert this_run["success_rate"] == 0.0
    assert "success           0.0%" in run.stderr
    assert "no page, because  status_404" in run.stderr


def test_a_fleet_shows_the_same(tmp_path: Path, site: Site, redis_url: str) -> None:
    crawls = Crawls(tmp_path, redis_url)
    _, spider, *options = crawls.command(site.url, settings={"RETRY_TIMES": 1})
    run = scrapy("fleet", spider, "-n", "1", "--json", *options)
    assert run.code == 0, run.stderr
    found = json.loads(run.stdout)
    assert (found["pages"], found["failed"]) == (len(PAGES), sum(FAILED.values()))
    assert found["success_rate"] == pytest.approx(0.4)
