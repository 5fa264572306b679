"""One crawl meets the whole zoo of hostile servers, and each behaviour ends as it must."""

import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from demo.hostile import crawl
from demo.hostile.zoo import behaviours
from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls

# Of what is large; `make hostile` crawls it at full size.
SIZE = 150_000
# All that never ends is waited for at the same time.
TIMEOUT_S = 10
WEB = WebOptions(hosts=4, pages=5, zoo="hostile")
STAT = re.compile(r"'([a-z_]+(?:/[a-z_0-9]+)+)': (\d+)")


def counted(log: str) -> dict[str, int]:
    return {name: int(value) for name, value in STAT.findall(log)}


def stored(mongo_uri: str, database: str) -> dict[str, Mapping[str, Any]]:
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        return {page["url"]: page for page in client[database]["pages_metadata"].find()}


@pytest.mark.timeout(300)
def test_each_hostile_server_ends_as_it_must_and_the_others_are_crawled(
    tmp_path: Path,
    redis_url: str,
    mongo_uri: str,
    mongo_db_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = (f"--hostile-bytes={SIZE}",)
    with DemoServer(WEB, tmp_path / "access.log", arguments=arguments) as web:
        for name, value in crawl.environment(web.ready).items():
            monkeypatch.setenv(name, value)
        urls = web.ready["hostile"]["urls"]
        seeds = tmp_path / "seeds"
        seeds.write_text("\n".join([*web.ready["seeds"], *chain.from_iterable(urls.values())]))
        run = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name).run(
            str(seeds),
            web=web,
            arguments=crawl.arguments(),
            settings={
                **crawl.settings(web.ready, SIZE),
                "DOCUMENT_NICE": 0,
                # A busy machine must fail no test.
                "DOCUMENT_TIMEOUT": 100,
                "DOWNLOAD_TIMEOUT": TIMEOUT_S,
                "STATS_DUMP": True,
            },
        )
    assert run.code == 0, run.stderr[-2000:]
    assert "Traceback" not in run.stderr
    records = stored(mongo_uri, mongo_db_name)
    wrong = crawl.wrong(behaviours(), urls, records, counted(run.stderr))
    assert wrong == []
    ordinary = [url for url in records if re.match(r"http://s\d+\.test/", url)]
    assert len(ordinary) > WEB.hosts
