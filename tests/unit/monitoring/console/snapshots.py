"""Plain data to draw."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from crawler.frontier import Sizes
from crawler.monitoring.console.summary import Commands, Summary
from crawler.monitoring.console.view import RunFigures, Snapshot

EMPTY = Sizes((0,) * 7, *[0] * 19)
SIZES = replace(
    EMPTY,
    front=(1, 20, 300, 0, 5, 0, 0),
    back=1_234,
    leased=7,
    retries=3,
    added=9_000,
    done=7_430,
    pages=7_000,
    dead=9,
    hosts=64,
    owners=2,
)
RUN = RunFigures(
    elapsed_s=83.4,
    pages=2_066,
    failed={"status_404": 32, "dns": 2},
    stored=1_966,
    not_kept=66,
    duplicates_exact=30,
    duplicates_near=4,
    robots_denied=12,
    retries={"timeout": 9, "status_503": 3},
    dead={"dns": 2},
    size_bytes=66_800_000,
    hosts=63,
    seeds_added=1,
    in_flight=17,
    recent_s=31.4,
)
SNAPSHOT = Snapshot("web", RUN, SIZES, processes=2)
COMMANDS = Commands(
    look="scrapy pages get http://a.test/",
    resume="scrapy crawl web",
    forget="scrapy frontier delete",
    requeue="scrapy frontier requeue",
    dashboard="scrapy admin",
)


def summary(**changes: Any) -> Summary:
    values: dict[str, Any] = {
        "crawl": "web",
        "reason": "finished",
        "ended_at": datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC),
        "run": RUN,
        "sizes": replace(EMPTY, pages=7_000, added=9_000, done=9_000),
        "waits_s": None,
        "frontier_at": "crawl 'web' of the embedded Redis in .crawl",
        "pages_at": "database 'crawler' of the embedded MongoDB in .crawl",
        "commands": COMMANDS,
    }
    return Summary(**(values | changes))
