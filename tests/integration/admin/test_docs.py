"""Every command of docs/admin.md works as it stands."""

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from crawler.frontier import Entry, Frontier
from crawler.servers.redis.connection import connect
from crawler.storage.mongo.runs import MongoRuns
from crawler.urls import fingerprint
from tests.integration.admin.api import TOKEN
from tests.integration.admin.servers import served
from tests.support.crawlers import project_crawler
from tests.support.runs import run

DOCS = Path(__file__).resolve().parents[3] / "docs" / "admin.md"
NEWS = "https://example.com/news"


async def meet_the_host(redis_url: str) -> None:
    """The host and the URL that the page speaks of."""
    redis = await connect(redis_url)
    frontier = Frontier(redis, "web")
    await frontier.open()
    await frontier.add([Entry(id=fingerprint(NEWS), url=NEWS)])
    claim = await frontier.claim(1, "r1")
    await frontier.release([(lease, 1000) for lease in claim.leases])
    await frontier.done([(lease, True) for lease in claim.leases])
    await redis.aclose()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_calls_in_the_docs_work(redis_url: str, mongo_uri: str, mongo_db_name: str) -> None:
    async def record_run() -> None:
        async with AsyncMongoClient[dict[str, Any]](mongo_uri) as mongo:
            await MongoRuns(mongo[mongo_db_name]).record(run(id="20260504T020000-1f3a9c04"))

    asyncio.run(record_run())
    crawler = project_crawler(MONGO_URI=mongo_uri, MONGO_DATABASE=mongo_db_name)
    blocks = re.findall(r"```sh\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    script = "set -euo pipefail\n" + "\n".join(blocks).replace("\nask ", "\necho; ask ")
    assert script.count("ask ") > 20
    with served(redis_url, settings=crawler.settings) as address:
        asyncio.run(meet_the_host(redis_url))
        done = subprocess.run(
            ["bash", "-c", script],
            env={**os.environ, "ADMIN": address, "TOKEN": TOKEN},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert '"added":1,"known":1' in done.stdout
    assert '"requeued":0' in done.stdout
    assert done.stdout.count('"id":"20260504T020000-1f3a9c04"') == 2
