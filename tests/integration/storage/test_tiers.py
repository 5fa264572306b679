"""Content that moves by its age, on a real MongoDB; crawls and crashes meanwhile."""

import asyncio
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from scrapy.crawler import Crawler

from crawler.errors import ConfigurationError, CrawlerError, NotFound, SinkAway
from crawler.items import Page
from crawler.pipelines.store import Store
from crawler.servers.objects import ObjectStore
from crawler.storage.mongo import sink
from crawler.storage.mongo.reader import MongoReader, Repair
from crawler.storage.mongo.schema import CONTENT, METADATA
from crawler.storage.mongo.tiers import Tiering, TierLock
from crawler.storage.reader import StoredContent, Wanted
from crawler.storage.retention import Keep, Retention
from tests.integration.storage.test_documents import visit
from tests.support.s3_front import front_of
from tests.support.s3_server import S3Server, use_server

Database = AsyncDatabase[dict[str, Any]]
ROOT = Path(__file__).resolve().parents[3]
DAY = timedelta(days=1)
NOW = datetime.now(UTC).replace(microsecond=123_000)
# By the age of the content.
FRESH, OLD, OLDER, OLDEST = (f"http://example.com/{n}" for n in ("fresh", "old", "older", "oldest"))
AGES = {FRESH: DAY, OLD: 10 * DAY, OLDER: 200 * DAY, OLDEST: 6 * 365 * DAY}
KEEP = "7d/180d/5y"


@pytest.fixture
async def store(crawler: Crawler) -> Store:
    store = Store.from_crawler(crawler)
    await store.open_spider()
    return store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def url(folder: Path) -> str:
    return folder.as_uri()


@pytest.fixture
async def filled(store: Store) -> None:
    """One page of each age; the body of one is no text."""
    bodies = [b"body 0", b"body 1", b"\xff\x00 no text", b"body 3"]
    pages = [
        page(page_url, age, body=body, text=f"text of {body!r} \xe4", markdown="**text**")
        for (page_url, age), body in zip(AGES.items(), bodies, strict=True)
    ]
    await asyncio.gather(*map(store.process_item, pages))


def page(page_url: str, age: timedelta, **fields: Any) -> Page:
    return visit(url=page_url, final_url=page_url, crawled_at=NOW - age, **fields)


async def tier(
    database: Database, url: str | None, keep: str = KEEP, cold_class: str = ""
) -> Tiering:
    tiering = Tiering(database, Retention(Keep.from_text(keep), url, cold_class), "web")
    async for _ in tiering.run():
        pass
    return tiering


async def contents(database: Database) -> dict[str, dict[str, Any]]:
    """Content by URL."""
    urls = {each["url_hash"]: each["url"] async for each in database[METADATA].find()}
    return {urls[each["page_id"]]: each async for each in database[CONTENT].find()}


async def bodies(database: Database, url: str | None) -> dict[str, tuple[bytes, str] | None]:
    """What a reader gets of each page."""
    found = {}
    for page_url, content in (await read_contents(database, url)).items():
        found[page_url] = (content.body, content.text) if content is not None else None
    return found


async def read_contents(database: Database, url: str | None) -> dict[str, StoredContent | None]:
    reader = MongoReader(database, tier_url=url)
    found = {}
    for page_url in AGES:
        metadata = await reader.metadata(page_url)
        assert metadata is not None
        found[page_url] = await reader.content(metadata)
    return found


async def contents_in_batches(
    reader: MongoReader, wanted: Wanted
) -> dict[str, StoredContent | None]:
    batches = [batch async for batch in reader.with_content(wanted)]
    return {page["url"]: content for batch in batches for page, content in batch.pages}


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.usefixtures("filled")
async def test_content_moves_by_its_age_and_is_read_from_where_it_is(
    database: Database, url: str, folder: Path
) -> None:
    before = await bodies(database, url)
    tiering = await tier(database, url)
    assert {to: moved.pages for to, moved in tiering.done.items()} == {
        "warm": 1,
        "cold": 1,
        "expired": 1,
    }
    assert all(moved.bytes > 100 for moved in tiering.done.values())
    assert await bodies(database, url) == {**before, OLDEST: None}
    found = await contents(database)
    assert {page_url: each.get("tier") for page_url, each in found.items()} == {
        FRESH: None,
        OLD: "warm",
        OLDER: "cold",
    }
    texts = await read_contents(database, url)
    assert [content and content.markdown for content in texts.values()].count("**text**") == 3
    moved = found[OLD]
    assert moved.keys() & {"body", "text", "markdown", "loose_object"} == set()
    assert moved.keys() >= {"codec", "original_size", "compressed_size", "crawled_at"}
    assert (folder / moved["object"]).stat().st_size == moved["object_size"]
    assert len(files(folder)) == 2
    # Also in batches.
    reader = MongoReader(database, tier_url=url)
    batch = await contents_in_batches(reader, Wanted())
    assert {name: content and content.text for name, content in batch.items()} == {
        name: content and content[1] for name, content in (await bodies(database, url)).items()
    }
    # Nothing is left to do, and nothing is damaged.
    assert await Tiering(database, Retention(Keep.from_text(KEEP), url), "web").count() == 0
    assert await repaired(database, url) == 0


async def repaired(database: Database, url: str) -> int:
    repair = Repair(MongoReader(database, tier_url=url), before=datetime.now(UTC), dry_run=False)
    async for _ in repair.run():
        pass
    return repair.found.total


@pytest.mark.usefixtures("filled")
async def test_warm_content_becomes_cold_and_then_expires(
    database: Database, url: str, folder: Path
) -> None:
    await tier(database, url, "7d/-/-")
    assert {each.get("tier") for each in (await contents(database)).values()} == {None, "warm"}
    before, names = await bodies(database, url), files(folder)
    await tier(database, url, "7d/8d/-")
    assert await bodies(database, url) == before
    assert {each.get("tier") for each in (await contents(database)).values()} == {None, "cold"}
    assert files(folder) == names
    await tier(database, url, "-/-/8d")
    assert await bodies(database, url) == {
        FRESH: before[FRESH],
        **dict.fromkeys((OLD, OLDER, OLDEST)),
    }
    assert files(folder) == []
    reasons = {each["url"]: each["reason"] async for each in database[METADATA].find()}
    assert reasons == {FRESH: "", **dict.fromkeys((OLD, OLDER, OLDEST), "expired")}
    assert await repaired(database, url) == 0


async def test_a_visit_without_main_text_leaves_none_of_an_earlier_one(
    store: Store, database: Database
) -> None:
    await store.process_item(page(FRESH, 2 * DAY, main_text="main", markdown="**main**"))
    await store.process_item(page(FRESH, DAY, main_text="other"))
    found = (await contents(database))[FRESH]
    assert found["main_text"] == "other"
    assert "markdown" not in found


async def test_only_the_given_crawl_is_touched(store: Store, database: Database, url: str) -> None:
    await store.process_item(page(OLD, 10 * DAY))
    retention = Retention(Keep.from_text(KEEP), url)
    tiering = Tiering(database, retention, "other")
    async for _ in tiering.run():
        pass
    assert (await contents(database))[OLD]["text"] == "text 1"


@pytest.mark.usefixtures("filled")
async def test_a_plan_counts_what_is_due_and_changes_nothing(
    database: Database, url: str, folder: Path
) -> None:
    async def state() -> list[Any]:
        names = sorted(await database.list_collection_names())
        return [
            [
                (
                    name,
                    await database[name].index_information(),
                    await database[name].find().to_list(),
                )
                for name in names
            ],
            files(folder),
        ]

    before = await state()
    plan = Tiering(database, Retention(Keep.from_text(KEEP), url), "web")
    await plan.plan()
    assert await state() == before
    assert plan.done == (await tier(database, url)).done


@pytest.mark.usefixtures("filled")
async def test_a_plan_reads_content_once(database: Database, url: str) -> None:
    await database.command("profile", 2)
    await Tiering(database, Retention(Keep.from_text(KEEP), url), "web").plan()
    await database.command("profile", 0)
    of_content = {"command.aggregate": CONTENT}
    (read,) = await database["system.profile"].find(of_content).to_list()
    assert read["docsExamined"] == len(AGES)


@pytest.mark.usefixtures("filled")
async def test_cold_content_has_its_class_in_s3_and_archived_content_is_named(
    database: Database, s3_url: str, s3_server: S3Server, s3_environment: pytest.MonkeyPatch
) -> None:
    before = await bodies(database, None)
    async with front_of(s3_server.endpoint) as front:
        use_server(s3_environment, front.endpoint)
        await tier(database, s3_url, "7d/-/-")
        assert [each.get("x-amz-storage-class") for each in front.headers("PUT")] == [None] * 3
        front.requests.clear()
        tiering = await tier(database, s3_url, "7d/180d/5y", "GLACIER_IR")
        assert [each["x-amz-storage-class"] for each in front.headers("PUT")] == ["GLACIER_IR"]
        assert {to: moved.pages for to, moved in tiering.done.items()} == {
            "warm": 0,
            "cold": 1,
            "expired": 1,
        }
        assert await bodies(database, s3_url) == {**before, OLDEST: None}
        front.answer = (403, "InvalidObjectState")
        with pytest.raises(CrawlerError, match="restore it first"):
            await bodies(database, s3_url)
        # In batches, it does not stop the others.
        found = await contents_in_batches(MongoReader(database, tier_url=s3_url), Wanted(kept=True))
        assert [name for name, content in found.items() if content is None] == [OLD, OLDER]
        front.answer = (503, "SlowDown")
        with pytest.raises(SinkAway):
            await bodies(database, s3_url)
        front.answer = None
        reader = MongoReader(database, tier_url=s3_url)
        assert [count async for count in reader.delete(Wanted(crawl="web"))] == [4]
        assert [each async for each in reader.moved.store.list()] == []


# --- crawls meanwhile -----------------------------------------------------------------------------


@pytest.mark.usefixtures("filled")
async def test_newer_content_is_hot_again_and_the_object_of_the_older_is_deleted(
    store: Store, database: Database, url: str, folder: Path
) -> None:
    await tier(database, url)
    await store.process_item(page(OLD, DAY, number=2))
    (content,) = [each for name, each in (await contents(database)).items() if name == OLD]
    assert (content["text"], content.get("tier"), content.get("object")) == ("text 2", None, None)
    assert content["loose_object"]
    assert await repaired(database, url) == 0
    assert len(files(folder)) == 2
    await tier(database, url)
    (content,) = [each for name, each in (await contents(database)).items() if name == OLD]
    assert "loose_object" not in content
    assert len(files(folder)) == 1
    assert (await bodies(database, url))[OLD] == (b"body 2", "text 2")


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "change", [{"duplicate_of": "0" * 16}, {"stored": False, "reason": "noindex"}]
)
async def test_the_object_of_a_page_that_has_no_content_any_more_is_deleted(
    store: Store, database: Database, url: str, folder: Path, change: dict[str, Any]
) -> None:
    await tier(database, url)
    for page_url in (FRESH, OLD):
        await store.process_item(page(page_url, timedelta(0), number=2, **change))
    found = await contents(database)
    assert found.keys() == {OLD, OLDER}
    assert found[OLD]["tier"] == "gone"
    assert (await bodies(database, url))[OLD] is None
    assert await repaired(database, url) == 0
    # The page comes back before its object is deleted.
    await store.process_item(page(OLD, timedelta(0), number=3))
    assert (await bodies(database, url))[OLD] == (b"body 3", "text 3")
    await store.process_item(page(OLD, -timedelta(1), number=4, **change))
    await tier(database, url)
    assert (await contents(database)).keys() == {OLDER}
    assert len(files(folder)) == 1


@pytest.mark.usefixtures("filled")
async def test_content_that_is_stored_during_the_copy_wins(
    store: Store, database: Database, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = ObjectStore.put

    async def slow_put(self: ObjectStore, name: str, data: bytes, **options: Any) -> None:
        await put(self, name, data, **options)
        await store.process_item(page(OLD, DAY, number=2))

    monkeypatch.setattr(ObjectStore, "put", slow_put)
    tiering = await tier(database, url, "7d/-/5y")
    monkeypatch.undo()
    assert tiering.left == 1
    assert (await bodies(database, url))[OLD] == (b"body 2", "text 2")
    # The object of the earlier visit is deleted in the same run.
    assert len(files(folder)) == 1


@pytest.mark.usefixtures("filled")
async def test_another_run_does_not_delete_what_is_being_copied(
    database: Database, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await bodies(database, None)
    put = ObjectStore.put

    async def slow_put(self: ObjectStore, name: str, data: bytes, **options: Any) -> None:
        await put(self, name, data, **options)
        # It lost the lock meanwhile.
        monkeypatch.undo()
        await tier(database, url, "-/-/9y")

    monkeypatch.setattr(ObjectStore, "put", slow_put)
    await tier(database, url, "7d/-/-")
    assert await bodies(database, url) == before


@pytest.mark.usefixtures("filled")
async def test_an_object_that_is_written_when_its_page_has_newer_content_is_deleted(
    store: Store, database: Database, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = ObjectStore.put

    async def late_put(self: ObjectStore, name: str, data: bytes, **options: Any) -> None:
        # The process was suspended, and lost the lock.
        monkeypatch.undo()
        await store.process_item(page(OLD, DAY, number=2))
        await tier(database, url, "-/-/9y")
        await put(self, name, data, **options)

    monkeypatch.setattr(ObjectStore, "put", late_put)
    tiering = Tiering(database, Retention(Keep.from_text("7d/100d/-"), url), "web", parallel=1)
    _ = [count async for count in tiering.run()]
    assert (await bodies(database, url))[OLD] == (b"body 2", "text 2")
    assert len(files(folder)) == 2
    await is_tidy(database, folder)


@pytest.mark.usefixtures("filled")
async def test_content_of_processes_without_tiers_is_read_and_moved_again(
    store: Store,
    database: Database,
    url: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await tier(database, url, "7d/-/-")
    ages = {OLD: DAY, OLDER: 190 * DAY}
    with monkeypatch.context() as patched:
        patched.setattr(sink, "NOT_MOVED", {"$unset": {}})
        for page_url, age in ages.items():
            await store.process_item(page(page_url, age, number=2))
    expected = {**await bodies(database, url), **dict.fromkeys(ages, (b"body 2", "text 2"))}
    assert await bodies(database, url) == expected
    for _ in range(2):
        await tier(database, url, "7d/180d/-")
        assert await bodies(database, url) == expected
    await is_tidy(database, folder)
    found = await contents(database)
    assert [found[page_url].get("tier") for page_url in ages] == [None, "cold"]
    assert len(files(folder)) == 2


@pytest.mark.usefixtures("filled")
async def test_a_page_that_is_visited_while_it_expires_keeps_its_new_content(
    store: Store, database: Database, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expire = Tiering._expire

    async def late(self: Tiering, batch: Any) -> Any:
        await store.process_item(page(OLDEST, DAY, number=2))
        return await expire(self, batch)

    monkeypatch.setattr(Tiering, "_expire", late)
    tiering = await tier(database, url)
    assert (tiering.done["expired"].pages, tiering.left) == (0, 1)
    assert (await bodies(database, url))[OLDEST] == (b"body 2", "text 2")
    found = await database[METADATA].find_one({"url": OLDEST})
    assert found is not None
    assert found["reason"] == ""


async def test_a_page_that_expired_and_is_not_modified_stays_without_content(
    store: Store, database: Database, url: str
) -> None:
    await store.process_item(page(OLDEST, AGES[OLDEST]))
    await tier(database, url)
    bare = {"status": 304, "stored": False, "flags": ["not_modified"], "body": b"", "text": ""}
    await store.process_item(page(OLDEST, DAY, number=2, content_hash="", **bare))
    found = await database[METADATA].find_one({"url": OLDEST})
    assert found is not None
    assert (found["status"], found["reason"]) == (200, "expired")
    assert await repaired(database, url) == 0


# --- pages that are deleted -----------------------------------------------------------------------


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("wanted", [Wanted(crawl="web"), Wanted(domain="example.com")])
async def test_deleted_pages_leave_no_object(
    store: Store, database: Database, url: str, folder: Path, wanted: Wanted
) -> None:
    await tier(database, url)
    # One that names an object of an earlier visit.
    await store.process_item(page(OLD, DAY, number=2))
    assert len(files(folder)) == 2
    with pytest.raises(ConfigurationError, match="PAGES_TIER_URL is not set"):
        _ = [count async for count in MongoReader(database).delete(wanted)]
    assert await database[METADATA].count_documents({}) == 4
    reader = MongoReader(database, tier_url=url)
    assert [count async for count in reader.delete(wanted)] == [4]
    assert files(folder) == []
    assert await database[CONTENT].count_documents({}) == 0


@pytest.mark.usefixtures("filled")
async def test_repair_deletes_moved_content_without_metadata(
    database: Database, url: str, folder: Path
) -> None:
    await tier(database, url)
    await database[METADATA].delete_many({})
    assert await repaired(database, url) == 3
    assert files(folder) == []


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("moment", [1, 2])
async def test_pages_that_are_deleted_while_they_are_moved_leave_nothing(
    database: Database, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    bulk_write, reader = AsyncCollection.bulk_write, MongoReader(database, tier_url=url)
    writes = 0

    async def late(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal writes
        writes += 1
        if writes == 1:
            # The deletion has read where the content is.
            tiering = Tiering(database, Retention(Keep.from_text("7d/-/-"), url), "web")
            if moment == 1:
                # Only the names of the objects are noted.
                monkeypatch.setattr(ObjectStore, "put", fail)
                with suppress(SinkAway):
                    _ = [count async for count in tiering.run()]
            else:
                _ = [count async for count in tiering.run()]
        return await bulk_write(self, *args, **options)

    async def fail(*_: Any, **__: Any) -> None:
        raise SinkAway("interrupted")

    monkeypatch.setattr(AsyncCollection, "bulk_write", late)
    assert [count async for count in reader.delete(Wanted(domain="example.com"))] == [4]
    assert await database[CONTENT].count_documents({}) == 0
    assert files(folder) == []


@pytest.mark.usefixtures("filled")
async def test_metadata_stay_while_their_content_cannot_be_deleted(
    database: Database, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await tier(database, url, "7d/-/-")
    remove = ObjectStore.delete

    async def changing(self: ObjectStore, names: Any) -> None:
        await remove(self, names)
        longer = [{"$set": {"object": {"$concat": ["$object", "x"]}}}]
        await database[CONTENT].update_many({"tier": "warm"}, longer)

    monkeypatch.setattr(ObjectStore, "delete", changing)
    reader = MongoReader(database, tier_url=url)
    assert [count async for count in reader.delete(Wanted(domain="example.com"))] == [1]
    assert await database[METADATA].count_documents({}) == 3
    assert "3 pages stay: their content is being moved" in caplog.text


@pytest.mark.usefixtures("filled")
async def test_without_ages_only_the_objects_of_earlier_visits_are_deleted(
    store: Store, database: Database, url: str, folder: Path
) -> None:
    await tier(database, url, "7d/-/-")
    await store.process_item(page(OLD, DAY, number=2))
    await store.process_item(page(OLDER, DAY, number=2, stored=False, reason="noindex"))
    tiering = Tiering(database, Retention(Keep(), url), "web")
    await tiering.plan()
    assert [count async for count in tiering.run()] == []
    assert (tiering.loose, len(files(folder))) == (2, 1)
    assert {name: each.get("tier") for name, each in (await contents(database)).items()} == {
        FRESH: None,
        OLD: None,
        OLDEST: "warm",
    }


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("filled")
async def test_an_object_that_is_refused_does_not_keep_others_from_being_moved(
    database: Database,
    url: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await tier(database, url, "150d/-/-")
    before, get, put = await bodies(database, url), ObjectStore.get, ObjectStore.put
    archived = (await contents(database))[OLDER]["object"]

    async def refuse_get(self: ObjectStore, name: str) -> bytes:
        if name == archived:
            raise CrawlerError(f"{name} is in a storage class that cannot be read at once.")
        return await get(self, name)

    async def refuse_put(self: ObjectStore, name: str, data: bytes, **options: Any) -> None:
        if options["storage_class"]:
            raise CrawlerError(f"{name} is refused (413).")
        await put(self, name, data, **options)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "get", refuse_get)
        patched.setattr(ObjectStore, "put", refuse_put)
        tiering = await tier(database, url, "7d/180d/-", "GLACIER_IR")
    assert (tiering.left, tiering.done["warm"].pages, tiering.done["cold"].pages) == (2, 1, 0)
    assert "Content of 2 pages stays where it is" in caplog.text
    assert await bodies(database, url) == before
    assert (await tier(database, url, "7d/180d/-")).done["cold"].pages == 2
    assert len(files(folder)) == 3


@pytest.mark.usefixtures("filled")
async def test_content_without_a_body_does_not_keep_others_from_being_moved(
    database: Database, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    (old,) = [each for name, each in (await contents(database)).items() if name == OLD]
    await database[CONTENT].update_one({"_id": old["_id"]}, {"$unset": {"body": True}})
    tiering = await tier(database, url, "1h/-/-")
    assert (tiering.left, tiering.done["warm"].pages) == (1, 3)
    assert f"The first one: {OLD}: its content has no field 'body'" in caplog.text


@pytest.mark.usefixtures("filled")
async def test_nothing_expires_without_the_store_that_has_the_content(
    database: Database, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tier(database, url, "7d/-/-")
    before = await database[METADATA].find().to_list()
    with pytest.raises(ConfigurationError, match="PAGES_TIER_URL is not set"):
        await tier(database, None, "-/-/9d")

    async def fail(_self: ObjectStore, _names: Any) -> None:
        raise SinkAway("no answer in time.")

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "delete", fail)
        with pytest.raises(SinkAway):
            await tier(database, url, "-/-/9d")
    assert await database[METADATA].find().to_list() == before
    assert len(files(folder)) == 3
    assert (await tier(database, url, "-/-/9d")).done["expired"].pages == 3
    assert files(folder) == []


@pytest.mark.usefixtures("filled")
async def test_an_object_that_is_gone_is_named(
    database: Database, url: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await tier(database, url)
    name = (await contents(database))[OLD]["object"]
    (folder / name).unlink()
    reader = MongoReader(database, tier_url=url)
    metadata = await reader.metadata(OLD)
    assert metadata is not None
    with pytest.raises(NotFound, match=name):
        await reader.content(metadata)
    found = await contents_in_batches(reader, Wanted(kept=True))
    assert [name for name, content in found.items() if content is None] == [OLD]
    assert f"The content of {OLD} cannot be read" in caplog.text
    # A run leaves it as it is, and moves the others.
    tiering = await tier(database, url, "1h/9d/-")
    assert (tiering.left, tiering.done["cold"].pages, tiering.done["warm"].pages) == (1, 0, 1)


@pytest.mark.usefixtures("filled")
async def test_a_damaged_object_and_a_damaged_body_are_named(
    database: Database, url: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await database[CONTENT].update_many({}, {"$set": {"body": b"nonsense"}})
    tiering = await tier(database, url, "7d/-/-")
    assert tiering.left == 3
    assert "Content of 3 pages stays where it is. The first one: http://" in caplog.text
    assert caplog.text.count("The stored page is damaged") == 1
    await database[CONTENT].update_many({}, {"$set": {"codec": "none"}})
    assert (await tier(database, url, "7d/-/-")).left == 0
    (folder / (await contents(database))[OLD]["object"]).write_bytes(b"nonsense")
    reader = MongoReader(database, tier_url=url)
    metadata = await reader.metadata(OLD)
    assert metadata is not None
    with pytest.raises(CrawlerError, match="is damaged"):
        await reader.content(metadata)


@pytest.mark.usefixtures("filled")
async def test_a_store_that_is_away_leaves_everything_in_mongodb(
    database: Database, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await bodies(database, None)

    async def fail(_self: ObjectStore, name: str, *_: Any, **__: Any) -> None:
        raise SinkAway(f"{name}: no answer in time.")

    monkeypatch.setattr(ObjectStore, "put", fail)
    with pytest.raises(SinkAway, match="no answer"):
        await tier(database, url, "7d/-/-")
    assert await bodies(database, None) == before
    monkeypatch.undo()
    assert (await tier(database, url, "7d/-/-")).done["warm"].pages == 3
    assert await bodies(database, url) == before


@pytest.mark.usefixtures("filled")
async def test_an_object_of_another_size_is_not_trusted(
    database: Database, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await bodies(database, None)

    async def short(_self: ObjectStore, _name: str) -> int:
        return 1

    monkeypatch.setattr(ObjectStore, "size", short)
    with pytest.raises(SinkAway, match="has 1 bytes instead of"):
        await tier(database, url, "7d/-/-")
    assert await bodies(database, None) == before


# --- crashes --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("filled")
async def test_a_run_that_is_killed_after_a_copy_loses_nothing(
    store: Store, database: Database, mongo_uri: str, url: str, folder: Path
) -> None:
    before = await bodies(database, url)
    for copies in (1, 2):
        arguments = [mongo_uri, database.name, url, str(copies)]
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.integration.storage.tiering", *arguments, cwd=ROOT
        )
        assert await child.wait() == -signal.SIGKILL
        assert await bodies(database, url) == before
        assert len(files(folder)) == copies
        await is_tidy(database, folder)
    # A newer version comes before the next run.
    await store.process_item(page(OLD, DAY, number=2))
    await tier(database, url)
    expected = {**before, OLD: (b"body 2", "text 2"), OLDEST: None}
    assert await bodies(database, url) == expected
    assert len(files(folder)) == 1


async def is_tidy(database: Database, folder: Path) -> None:
    """Check that every object is named by a document, and only once."""
    found = (await contents(database)).values()
    named = [each[key] for each in found for key in ("object", "loose_object") if key in each]
    assert len(named) <= len(found)
    assert {path.relative_to(folder).as_posix() for path in files(folder)} <= {*named}


async def test_a_run_that_is_interrupted_anywhere_loses_nothing(
    database: Database, store: Store, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, left = 0, 0
    while left <= 0:
        at += 1
        left = at
        # A new version of each page, as the run before left the old one.
        versions = [
            page(each, age - timedelta(seconds=at), number=at) for each, age in AGES.items()
        ]
        await asyncio.gather(*map(store.process_item, versions))
        stored = await bodies(database, url)
        with monkeypatch.context() as patched:
            for owner, name in INTERRUPTED:
                function = getattr(owner, name)

                async def call(*args: Any, function: Any = function, **kwargs: Any) -> Any:
                    nonlocal left
                    result = await function(*args, **kwargs)
                    left -= 1
                    if left == 0:
                        raise SinkAway("interrupted")
                    return result

                patched.setattr(owner, name, call)
            with suppress(SinkAway):
                await tier(database, url, "1h/9d/5y")
        found = await bodies(database, url)
        assert {**found, OLDEST: None} == {**stored, OLDEST: None}
        await is_tidy(database, folder)
    # Three copies and a deletion in three steps.
    assert at > 12
    assert len(files(folder)) == 3


INTERRUPTED = (
    (ObjectStore, "put"),
    (ObjectStore, "size"),
    (ObjectStore, "delete"),
    (AsyncCollection, "bulk_write"),
)


# --- one process at a time ------------------------------------------------------------------------


async def test_one_process_has_the_lock_and_a_turn_comes_once_an_hour(database: Database) -> None:
    first, second, other = (TierLock(database, name) for name in ("web", "web", "other"))
    async with first.taken(scheduled=True) as is_taken:
        assert is_taken
        for lock, expected in ((second, False), (other, True)):
            async with lock.taken() as is_taken_too:
                assert is_taken_too is expected
    for scheduled in (True, False):
        async with second.taken(scheduled=scheduled) as is_taken:
            assert is_taken is not scheduled


async def test_the_lock_of_a_killed_process_expires(database: Database) -> None:
    assert await TierLock(database, "web")._take(scheduled=False)
    lock = TierLock(database, "web")
    assert not await lock._take(scheduled=False)
    past = datetime.now(UTC) - timedelta(seconds=1)
    await database["pages_schema"].update_one({}, {"$set": {"expires_at": past}})
    assert await lock._take(scheduled=False)
