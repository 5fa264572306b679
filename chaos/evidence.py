"""Gather what an audit needs: from Redis, the sinks, the access log and the logs of crawlers."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pymongo
import redis

from chaos.audit import LACKING, LEAKS, LOST, ORPHANS, TWICE, Evidence, Finding
from chaos.servers import Messages
from crawler.frontier import Sizes, keys
from crawler.frontier.entry import DamagedEntry, decode
from crawler.frontier.frontier import tags
from crawler.servers.objects import ObjectStore
from crawler.urls import fingerprint
from demo.truth import Truth
from tests.acceptance.crawls import scrapy
from tests.support import archives, s3_server

# Names of instances, at the end of the keys that are theirs.
_OWNED = re.compile(r":([0-9a-f]{16})$")
_SCAN = 5_000


def of_redis(client: redis.Redis, crawl: str = "web", shards: int = 4) -> Iterator[Finding]:
    """Yield what a crawl that is over, and has no process, should not have left in Redis."""
    for raw in client.scan_iter(count=_SCAN):
        key = raw.decode(errors="replace")
        name = key.partition("}:")[2]
        if ":leases:" in key and (count := client.hlen(raw)):
            yield Finding(LEAKS, f"{key}: {count} leases")
        elif ":flights:" in key or ":visits:" in key:
            yield Finding(LEAKS, f"{key}: {client.hlen(raw)} slots")
        elif _OWNED.search(key) and client.ttl(raw) == -1:
            yield Finding(ORPHANS, f"{key} has no owner any more, and does not expire")
        elif "lock" in key and client.ttl(raw) == -1:
            yield Finding(ORPHANS, f"{key} is locked for ever")
        elif name.startswith("host:") and (tokens := client.hget(raw, "tokens")):
            yield Finding(LEAKS, f"{key}: its slot is taken by {tokens.decode()}")
    for tag in tags(crawl, shards):
        yield from _of_shard(client, tag)
    for who, what in client.hgetall(keys.on_disk(crawl)).items():
        yield Finding(
            ORPHANS, f"{who.decode()} has parts of the crawl on its disk: {what.decode()}"
        )


def of_sizes(sizes: Sizes) -> Iterator[Finding]:
    """Yield what the counters of a crawl that is over should not say, wherever its shards are."""
    for column, name in ((LOST, "unfinished"), (LOST, "dead"), (LEAKS, "leased")):
        if count := getattr(sizes, name):
            yield Finding(column, f"{name} counts {count}")
    if sizes.owners:
        yield Finding(ORPHANS, f"{sizes.owners} processes are registered")


def _of_shard(client: redis.Redis, tag: str) -> Iterator[Finding]:
    for owner, beat in client.zrange(keys.owners(tag), 0, -1, withscores=True):
        yield Finding(ORPHANS, f"{tag}: {owner.decode()} is registered, last beat {beat:.0f}")
    stats = {name.decode(): value for name, value in client.hgetall(keys.stats(tag)).items()}
    for key in (keys.instances(tag), f"{tag}:claims"):
        for owner in client.hkeys(key):
            yield Finding(ORPHANS, f"{key} has {owner.decode()}")
    waiting = 0
    for pattern in ("front:*", "back:*"):
        for key in client.scan_iter(f"{keys.literal(tag)}:{pattern}", count=_SCAN):
            entries = [entry for entry in client.lrange(key, 0, -1) if entry != b"-"]
            waiting += len(entries)
            for entry in entries[:3]:
                yield Finding(LOST, f"{key.decode()}: {_url(entry)} still waits")
    for key in client.scan_iter(f"{keys.literal(tag)}:delayed:*", count=_SCAN):
        yield Finding(LOST, f"{key.decode()}: {client.llen(key)} URLs are still delayed")
    for _, letter in client.xrange(keys.dead(tag)):
        reason = letter[b"reason"].decode()
        yield Finding(LOST, f"given up ({reason}): {_url(letter[b'entry'])}")
    heap = client.zcard(keys.host_heap(tag))
    if heap and not waiting:
        yield Finding(LEAKS, f"{tag}: {heap} hosts are active, and no URL waits")
    for name in ("back", "leased"):
        if int(stats.get(name, 0)) and not waiting:
            yield Finding(ORPHANS, f"{tag}: {name} counts {int(stats[name])}, and there is none")


def _url(packed: bytes) -> str:
    try:
        return decode(packed).url
    except DamagedEntry:
        return repr(packed)


# --- sinks ----------------------------------------------------------------------------------------


def of_mongo(
    uri: str, evidence: Evidence, found: list[Finding], *, database: str = "crawler"
) -> None:
    """Read the pages in MongoDB."""
    with pymongo.MongoClient[dict[str, Any]](uri) as client:
        fields = dict.fromkeys(("url", "url_hash", "status", "reason", "duplicate_of"), 1)
        pages = list(client[database]["pages_metadata"].find({}, fields))
        content = Counter(
            each["page_id"] for each in client[database]["pages_content"].find({}, {"page_id": 1})
        )
    known = {page["url_hash"] for page in pages}
    kept: Counter[str] = Counter()
    for page in pages:
        url, original = page["url"], page.get("duplicate_of")
        if original and original not in content:
            what = "has no content" if original in known else "is unknown"
            found.append(Finding(LACKING, f"mongo: {url} is a copy of {original}, which {what}"))
        if page["url_hash"] in content:
            kept[url] += 1
    for page_id, count in content.items():
        if count > 1:
            found.append(Finding(TWICE, f"mongo: {count} contents of {page_id}"))
        if page_id not in known:
            found.append(Finding(LACKING, f"mongo: the content {page_id} has no metadata"))
    twice = Counter(page["url"] for page in pages)
    found += [Finding(TWICE, f"mongo: {url}") for url, count in twice.items() if count > 1]
    _add(evidence, "mongo", kept, {page["url"] for page in pages if page["status"] not in _OK})


_OK = range(200, 300)


def of_postgres(url: str, evidence: Evidence, found: list[Finding]) -> None:
    """Read the catalogue in PostgreSQL."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            """SELECT u.url, u.http_status, u.reason, d.duplicate_of,
            u.content_hash = d.content_hash
            FROM crawled_urls u LEFT JOIN documents d USING (crawl, url_hash)"""
        ).fetchall()
        dangling = connection.execute(
            """SELECT d.url_hash, d.duplicate_of FROM documents d WHERE d.duplicate_of <> '' AND
            NOT EXISTS (SELECT 1 FROM documents o WHERE o.crawl = d.crawl
            AND o.url_hash = d.duplicate_of)"""
        ).fetchall()
    for one, original in dangling:
        found.append(Finding(LACKING, f"postgresql: {one} is a copy of {original}, which it lacks"))
    kept: Counter[str] = Counter()
    failed = set()
    for page, status, reason, duplicate_of, is_same in rows:
        if status not in _OK:
            failed.add(page)
        elif duplicate_of is None or not is_same:
            found.append(Finding(LACKING, f"postgresql: {page} has no document of its last visit"))
        elif not duplicate_of and not reason:
            kept[page] += 1
    _add(evidence, "postgresql", kept, failed)


def of_objects(endpoint: str, evidence: Evidence, found: list[Finding]) -> None:
    """List the objects in the S3 server."""
    variables = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": s3_server.KEY,
        "AWS_SECRET_ACCESS_KEY": s3_server.SECRET,
        "AWS_EC2_METADATA_DISABLED": "true",
    }

    async def names() -> list[tuple[str, int]]:
        store = ObjectStore.from_url(f"s3://{s3_server.BUCKET}/storm", what="the audit")
        return [pair async for pair in store.list()]

    with patch.dict(os.environ, variables):
        objects = asyncio.run(names())
    by_hash = _by_hash(evidence.truth)
    kept: Counter[str] = Counter()
    for name, size in objects:
        url_hash = name.rpartition("/")[2].removesuffix(".json.gz")
        # The name has the day of the visit, so one that is repeated after midnight is another one.
        kept[by_hash.get(url_hash, url_hash)] = 1
        if not size:
            found.append(Finding(LACKING, f"s3: {name} is empty"))
    evidence.pages = {**evidence.pages, "s3": kept}


def of_kafka(messages: Messages, evidence: Evidence, found: list[Finding]) -> None:
    """Take what the consumer has read. A message may come twice: at least once is the promise."""
    messages.end()
    if messages.missed:
        text = f"kafka: {messages.missed} messages were dropped by the broker before they were read"
        found.append(Finding(LACKING, text))
    pages = dict.fromkeys(messages.urls["crawled-documents"], 1)
    _add(evidence, "kafka", Counter(pages), set(messages.urls["crawl-errors"]))


def of_archive(folder: Path, settings: list[str], evidence: Evidence, found: list[Finding]) -> None:
    """Repair the archive as users do after crashes, and read it."""
    repaired = scrapy("pages", "repair", *settings, timeout_s=600)
    if repaired.code:
        found.append(Finding(LACKING, f"warc: repair exits with {repaired.code}"))
    try:
        kept = archives.audit(folder).pages(evidence.truth.must_store)
    except AssertionError as error:
        found.append(Finding(LACKING, f"warc: {error}"))
        return
    evidence.pages = {**evidence.pages, "warc": kept}


def _by_hash(truth: Truth) -> dict[str, str]:
    return {f"{fingerprint(url):016x}": url for url in truth.must_store}


def _add(evidence: Evidence, name: str, pages: Counter[str], failures: set[str]) -> None:
    evidence.pages = {**evidence.pages, name: pages}
    evidence.failures = {**evidence.failures, name: failures}
