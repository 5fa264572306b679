"""A crawl into MongoDB and an S3 server: both have the same pages."""

import asyncio
from pathlib import Path
from typing import Any

import pymongo

from crawler.servers.objects import ObjectStore
from crawler.storage.mongo.sink import decompress
from crawler.storage.objects import unpack
from demo.process import DemoServer
from demo.web import Web, WebOptions
from tests.acceptance.crawls import Crawls

OPTIONS = WebOptions(hosts=4, pages=4, seed=3, zoo="demo")


async def objects(url: str) -> dict[str, dict[str, Any]]:
    """The documents of all objects, by their addresses."""
    store = ObjectStore.from_url(url, what="SINKS")
    return {f"{url}/{name}": unpack(await store.get(name)) async for name, _ in store.list()}


def test_a_crawl_stores_each_page_as_an_object_too(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str, s3_url: str
) -> None:
    crawls = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
    with DemoServer(OPTIONS, tmp_path / "access.log") as web:
        run = crawls.run(
            Web(OPTIONS).seeds[0],
            web=web,
            arguments={"scope": "any"},
            # The environment names a proxy, for whatever is not on loopback.
            settings={"SINKS": f"mongo {s3_url}", "HTTPPROXY_ENABLED": False},
        )
    assert run.code == 0, run.stderr
    assert "Traceback" not in run.stderr
    assert "tests-secret" not in run.stderr
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        pages = list(client[mongo_db_name]["pages_metadata"].find())
        content = {page["page_id"]: page for page in client[mongo_db_name]["pages_content"].find()}
    found = asyncio.run(objects(s3_url))
    kept = {page["places"]["s3"]["object"]: page for page in pages if page.get("places")}
    assert len(kept) > 10
    assert kept.keys() == found.keys()
    assert {page["url_hash"] for page in kept.values()} == content.keys()
    for address, page in kept.items():
        document, stored = found[address], content[page["url_hash"]]
        assert document["body"] == decompress(stored["codec"], stored["body"])
        assert document["text"] == stored["text"]
        for name in ("url", "title", "links", "headers"):
            assert document[name] == page[name]
