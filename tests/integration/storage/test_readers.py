"""Both readers give the same of the same visits; bodies come from WARC files and objects."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pymongo
import pytest

from crawler.admin.queries import StoredPages
from crawler.errors import ConfigurationError, NotFound, ServerAway
from crawler.items import Page
from crawler.servers.connections import Servers
from crawler.storage.documents import OPTIONAL, as_json
from crawler.storage.postgres import reader as postgres_reader
from crawler.storage.reader import Document, PageReader, StoredContent, Wanted
from crawler.storage.readers import open_reader, store_of
from crawler.storage.search.index import IndexWriter, SearchSettings
from crawler.storage.search.query import Filters, search
from crawler.storage.search.update import Update
from crawler.storage.sinks import named_sinks
from crawler.urls import fingerprint
from tests.support.crawlers import project_crawler
from tests.support.postgres_server import PostgresServer, PrivatePostgres
from tests.unit.storage.warc.pages import exchange

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
WORDS = " ".join(f"word{number}" for number in range(100))
# What the stores do not have alike, and why.
OF_MONGO = {
    # PostgreSQL compresses no bodies.
    "compression_ratio",
}
# Fields of a page, which PostgreSQL has for URLs that ever gave one.
OF_PAGES = {"headers", "size_bytes", "charset", "places"}


def url_hash(url: str) -> str:
    return f"{fingerprint(url):016x}"


def html(title: str) -> bytes:
    return f"<html lang=en><title>{title}</title><p>{title} Grüße {WORDS}</p>".encode()


def page(path: str, hours: float = 0, **fields: Any) -> Page:
    url = f"http://a.test{path}" if path.startswith("/") else path
    title = fields.get("title", path)
    body = fields.pop("body", html(title))
    values: dict[str, Any] = {
        "final_url": url,
        "status": 200,
        "crawl": "web",
        "content_type": "text/html",
        "charset": "utf-8",
        "headers": {"content-type": "text/html; charset=utf-8", "server": "x"},
        "title": title,
        "text": f"{title} Grüße {WORDS}",
        "content_hash": f"hash of {body!r}"[:40],
        "simhash": "00000000000000ff",
        "worker": "me",
        "fetch_ms": 7,
        "priority": 3,
        "discovered_at": AT - HOUR,
        "links": [f"{url}1", f"{url}2"],
        **fields,
    }
    return Page(url=url, crawled_at=AT + hours * HOUR, body=body, size_bytes=len(body), **values)


def bare(path: str, hours: float = 0, *, status: int = 0, reason: str = "", **fields: Any) -> Page:
    empty = {"text": "", "title": "", "content_hash": "", "simhash": "", "links": [], "body": b""}
    about = {"headers": {}, "charset": "", "content_type": "", "stored": False, **fields}
    return page(path, hours, status=status, reason=reason, **{**empty, **about})


def unchanged(path: str, hours: float) -> Page:
    return bare(path, hours, status=304, reason="status_304", flags=["not_modified"], visits=2)


# Fields that not every page has.
READ: dict[str, Any] = {
    "media_type": "application/pdf",
    "text_language": "de",
    "author": "Ann O’Nym",
    "published_at": AT - 48 * HOUR,
    "updated_at": AT - 24 * HOUR,
    "headings": ["# Grüße", "## Zwei"],
    "rights": {"meta": ["noai"], "robots.txt": ["ai-train=no"]},
    "relevance": 0.0,
    "rendered": True,
}


def rendered(path: str, hours: float = 0, **fields: Any) -> Page:
    """A page whose server sent a shell without words, and whose browser showed more."""
    found = page(path, hours, rendered=True, **fields)
    found.exchange = exchange(body=SHELL, url=found.url)
    return found


SHELL = b"<html><div id=app></div><script src=/app.js></script>" + b" " * 300

# Visits in the order in which they are written.
VISITS = [
    page("/read", **READ),
    rendered("/shown", final_url="http://a.test/by-history"),
    rendered("/shown-too"),
    page("/shown-copy", duplicate_of=url_hash("http://a.test/shown"), title="/shown"),
    rendered("/not-shown-now"),
    page("/not-shown-now", 1, visits=2),
    page("/no-more", **READ),
    page("/no-more", 1, visits=2),
    page("/similar", duplicate_of=url_hash("http://a.test/"), duplicate_similarity=0.93),
    page("/", languages={"de": "http://a.test/de"}, feeds=["http://a.test/feed"], etag='"1"'),
    page("/found", parent=url_hash("http://a.test/"), depth=1, extra={"price": 1.5, "n": [1, "x"]}),
    page("/listed", parent="00000000000000aa", parent_url="http://a.test/map.xml", depth=1),
    page("/moved", final_url="http://a.test/there", redirects=["/moved"], redirect_statuses=[301]),
    page("/copy", duplicate_of=url_hash("http://a.test/"), title="/"),
    page("/near", duplicate_of=url_hash("http://a.test/"), duplicate_distance=2),
    page("/copy-of-changed", duplicate_of=url_hash("http://a.test/changed"), title="/changed"),
    page("/hidden", stored=False, reason="noindex"),
    page("http://www.b.test/", crawl="other", language="fr", description="Un deux"),
    page("/", 9, crawl="other"),
    bare("/gone", status=404, reason="status_404", error_count=1, last_error="status_404"),
    bare("/denied", reason="robots", robots_allowed=False),
    bare("http://c.test:8080/", reason="timeout", error_count=3, last_error="timeout"),
    page("/same"),
    page("/changed"),
    page("/failed"),
    page("/back"),
    page("/removed"),
    page("/became-copy"),
    unchanged("/same", 1),
    page("/listed", 1, parent="00000000000000aa", depth=1, visits=2),
    page("/changed", 1, title="new", visits=2, changes=1, next_crawl=AT + 5 * HOUR),
    bare("/failed", 1, status=503, reason="status_503", visits=2, error_count=1),
    bare("/back", 1, status=500, reason="status_500", visits=2),
    unchanged("/back", 2),
    page("/removed", 1, stored=False, reason="noindex", visits=2),
    page("/became-copy", 1, duplicate_of=url_hash("http://a.test/"), title="/", visits=2),
    # Late: it is older than what is there.
    page("/changed", 0.5, title="late", visits=2),
]
PATHS = sorted({each.url for each in VISITS})


def rounds(visits: Sequence[Page]) -> list[list[Page]]:
    """Batches that have each URL once."""
    found: list[dict[str, Page]] = []
    for each in visits:
        name = each.crawl + each.url
        free = next((batch for batch in found if name not in batch), None)
        if free is None:
            found.append(free := {})
        free[name] = each
    return [[*batch.values()] for batch in found]


class Stores:
    """MongoDB, PostgreSQL and an archive with the same visits."""

    def __init__(self, settings: Any, servers: Servers) -> None:
        self.settings, self.servers = settings, servers
        self.mongo: PageReader
        self.postgres: PageReader

    async def write(self, visits: Sequence[Page]) -> None:
        """As storage.Storage does: sinks of bodies first, and the others get the places."""
        sinks = {
            named.name: named.make("web", self.settings, self.servers)
            for named in named_sinks(self.settings)
        }
        for sink in sinks.values():
            await sink.open()
        for name, sink in sorted(sinks.items(), key=lambda each: not each[1].keeps_bodies):
            for batch in rounds(visits):
                results = await sink.write([sink.prepare(each) for each in batch]) or {}
                for number, found in results.items():
                    assert not isinstance(found, Exception), found
                    batch[number].places = {**batch[number].places, name: found}
        for sink in sinks.values():
            await sink.close()

    async def open(self) -> None:
        self.mongo = await open_reader(self.settings, self.servers, store="mongo")
        self.postgres = await open_reader(self.settings, self.servers, store="postgresql")


def settings_of(sinks: str, folder: Path, **more: Any) -> Any:
    return project_crawler(SINKS=sinks, CRAWL_DIR=str(folder / "crawl"), **more).settings


async def write(settings: Any, visits: Sequence[Page]) -> None:
    servers = Servers.from_settings(settings)
    for each in visits:
        each.places = {}
    await Stores(settings, servers).write(visits)
    await servers.close()


@pytest.fixture(scope="module")
def written(
    mongo_server: str, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The settings of stores with all visits, which tests only read."""
    name, folder = f"test_{uuid4().hex}", tmp_path_factory.mktemp("readers")
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        sinks = f"mongo {postgres_server.url(name)} warc:{folder / 'warc'}"
        settings = settings_of(sinks, folder, MONGO_URI=mongo_server, MONGO_DATABASE=name)
        asyncio.run(write(settings, VISITS))
        yield settings
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    with pymongo.MongoClient[dict[str, Any]](mongo_server) as client:
        client.drop_database(name)


@pytest.fixture
async def stores(written: Any) -> AsyncIterator[Stores]:
    found = Stores(written, Servers.from_settings(written))
    await found.open()
    yield found
    await found.servers.close()


@pytest.fixture
async def alone(postgres_url: str, tmp_path: Path) -> AsyncIterator[PageReader]:
    """The reader of a catalogue of the test's own, with an archive."""
    settings = settings_of(f"{postgres_url} warc:{tmp_path / 'warc'}", tmp_path)
    await write(settings, VISITS)
    servers = Servers.from_settings(settings)
    yield await open_reader(settings, servers)
    await servers.close()


def compared(found: Document) -> Document:
    """What both stores have alike."""
    left_out = OF_MONGO | (set() if found["content_hash"] else OF_PAGES)
    # MongoDB has empty ones where there were some before.
    known = {
        name: value
        for name, value in found.items()
        if name not in OPTIONAL or value != OPTIONAL[name]
    }
    return {name: value for name, value in known.items() if name not in left_out | {"_id"}}


async def found_by(reader: PageReader, wanted: Wanted, limit: int = 0) -> list[Document]:
    return [each async for each in reader.find(wanted, limit)]


def key(found: Document) -> tuple[str, str]:
    return found["crawl"], found["url"]


async def test_both_have_the_same_fields_of_every_page(stores: Stores) -> None:
    of_mongo, of_postgres = [
        {key(each): compared(each) for each in await found_by(reader, Wanted())}
        for reader in (stores.mongo, stores.postgres)
    ]
    assert len(of_mongo) == len(PATHS) + 1
    assert of_mongo.keys() == of_postgres.keys()
    for each, expected in of_mongo.items():
        assert of_postgres[each] == expected, each
        # Also as text, which tells 1.0 from 1.
        texts = [json.loads(as_json(found)) for found in (expected, of_postgres[each])]
        assert json.dumps(texts[1], sort_keys=True) == json.dumps(texts[0], sort_keys=True)


CHOICES = [
    Wanted(crawl="web"),
    Wanted(crawl="none"),
    Wanted(domain="b.test"),
    Wanted(domain="www.b.test"),
    Wanted(domain="c.test:8080"),
    Wanted(since=AT + HOUR),
    Wanted(before=AT + HOUR, crawl="web"),
    Wanted(statuses=(404, 404)),
    Wanted(statuses=(400, 599)),
    Wanted(statuses=(0, 0), reason="robots"),
    Wanted(kept=True),
    Wanted(rendered=True),
]


async def test_both_find_the_same(stores: Stores) -> None:
    for wanted in CHOICES:
        of_mongo, of_postgres = [
            [(each["crawled_at"], key(each)) for each in await found_by(reader, wanted)]
            for reader in (stores.mongo, stores.postgres)
        ]
        assert sorted(of_postgres) == sorted(of_mongo)
        newest_first = sorted((at for at, _ in of_postgres), reverse=True)
        assert [at for at, _ in of_postgres] == newest_first
        assert await stores.postgres.count(wanted) == await stores.mongo.count(wanted)
        assert len(await found_by(stores.postgres, wanted, 2)) == min(2, len(of_postgres))


async def test_a_text_that_postgresql_does_not_have_is_not_found(stores: Stores) -> None:
    for text in ("\udcff'; --", "a\0b"):
        assert await stores.postgres.count(Wanted(reason=text, crawl=text)) == 0
        assert await stores.postgres.metadata("http://a.test/", text) is None


async def test_both_have_the_same_figures(stores: Stores) -> None:
    for crawl in (None, "other", "none"):
        of_mongo, of_postgres = [
            asdict(await reader.overview(crawl)) for reader in (stores.mongo, stores.postgres)
        ]
        assert of_postgres.pop("disk_bytes") > 8192
        of_mongo.pop("disk_bytes")
        assert of_postgres == of_mongo
        assert [*of_postgres["reasons"]] == [*of_mongo["reasons"]]


async def test_both_name_the_crawls_of_a_url(stores: Stores) -> None:
    for reader in (stores.mongo, stores.postgres):
        assert await reader.crawls() == ["other", "web"]
        assert await reader.crawls("http://a.test/") == ["other", "web"]
        assert await reader.crawls("http://a.test/none") == []
        newest = await reader.metadata("http://a.test/")
        assert newest is not None
        assert newest["crawl"] == "other"
        assert await reader.metadata("http://a.test/none", "web") is None


async def test_both_have_the_same_content(stores: Stores) -> None:
    """Of duplicates that of the original, of changed pages the last, and the text with it."""
    kept = 0
    for url in PATHS:
        contents = []
        for reader in (stores.mongo, stores.postgres):
            found = await reader.metadata(url)
            assert found is not None
            contents.append(await reader.content(found))
        # MongoDB keeps the content of a page that fails later, and so do WARC files.
        assert contents[1] == contents[0], url
        kept += contents[0] is not None
    assert kept >= 12


async def in_batches(
    reader: PageReader, wanted: Wanted, **options: Any
) -> list[tuple[Document, StoredContent | None]]:
    return [each async for batch in reader.with_content(wanted, **options) for each in batch.pages]


async def test_both_export_the_same(stores: Stores) -> None:
    choices = [
        (fields, contents, wanted)
        for fields in (None, ["title", "text", "links"], ["parent_url"])
        for contents in (True, False)
        for wanted in (Wanted(kept=True), Wanted(crawl="web"))
    ]
    for fields, contents, wanted in choices:
        chosen = None if fields is None else [*fields, "crawl", "url"]
        of_mongo, of_postgres = [
            {
                key(found): ({name: found.get(name) for name in fields or ()}, content)
                for found, content in await in_batches(
                    reader, wanted, fields=chosen, contents=contents
                )
            }
            for reader in (stores.mongo, stores.postgres)
        ]
        assert of_postgres == of_mongo


async def test_an_export_goes_on_after_any_page(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_reader, "_STEP", 2)
    monkeypatch.setattr(postgres_reader, "BATCH", 3)
    every = await in_batches(stores.postgres, Wanted())
    for at in (0, 3, len(every) - 1):
        rest = await in_batches(stores.postgres, Wanted(after=every[at][0]["_id"]))
        assert rest == every[at + 1 :]
    by_time = await in_batches(stores.postgres, Wanted(), by_time=True)
    times = [found["crawled_at"] for found, _ in by_time]
    assert times == sorted(times)
    assert len(times) == len(every)


async def test_pages_keep_their_ranks_when_they_are_visited_again(
    stores: Stores, written: Any
) -> None:
    hashes = [found["url_hash"] for found in await found_by(stores.mongo, Wanted(crawl="web"))]
    ranks = {each: number / 3 for number, each in enumerate(sorted(hashes), 1)}
    for reader in (stores.mongo, stores.postgres):
        await reader.set_page_ranks("web", {**ranks, "f" * 16: 1.0})
        await reader.set_page_ranks("web", {})
    await write(written, [page("/late", 500)])
    for reader in (stores.mongo, stores.postgres):
        found = {each["url_hash"]: each for each in await found_by(reader, Wanted())}
        assert {each: found[each].get("page_rank") for each in ranks} == ranks
        assert not any("page_rank" in each for each in found.values() if each["crawl"] == "other")


async def test_deleted_records_are_gone_from_both_tables(
    alone: PageReader, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_reader, "_DELETED_AT_ONCE", 4)
    reader = alone
    count = await reader.count(Wanted(crawl="web"))
    steps = [step async for step in reader.delete(Wanted(crawl="web"))]
    assert sum(steps) == count
    assert max(steps) == 4
    assert await reader.crawls() == ["other"]
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("SELECT DISTINCT crawl FROM documents").fetchall()
    assert rows == [("other",)]


async def test_a_body_that_is_lost_is_told_and_the_others_are_read(
    alone: PageReader, tmp_path: Path
) -> None:
    for each in (tmp_path / "warc").iterdir():
        each.unlink()
    found = await alone.metadata("http://a.test/", "web")
    assert found is not None
    with pytest.raises(NotFound, match=r"\.warc\.gz, in which http://a\.test/ is, is not in"):
        await alone.content(found)
    unread = [batch.unread async for batch in alone.with_content(Wanted(kept=True))]
    assert sum(unread) == await alone.count(Wanted(kept=True))


async def test_bodies_are_read_from_objects(postgres_url: str, tmp_path: Path) -> None:
    """Also of a page that was crawled again on the same day while it was read."""
    settings = settings_of(f"{postgres_url} {tmp_path.as_uri()}/objects", tmp_path)
    servers = Servers.from_settings(settings)
    stores = Stores(settings, servers)
    texts = {"text": "as the spider read it", "main_text": "as", "markdown": "*as*"}
    first = page("http://a.test:8080/", **texts)
    await stores.write([first, page("/other")])
    reader = await open_reader(settings, servers)
    old = await reader.metadata(first.url)
    assert old is not None
    assert await reader.content(old) == StoredContent(first.url, first.body, **texts)
    again = page("http://a.test:8080/", 1, body=html("new"), text="new", visits=2)
    await stores.write([again])
    assert await reader.content(old) == StoredContent(first.url, again.body, "new")
    elsewhere = await open_reader(settings_of(postgres_url, tmp_path), servers)
    with pytest.raises(NotFound, match="SINKS does not name that store"):
        await elsewhere.content(old)
    await servers.close()


async def test_without_a_sink_of_bodies_the_records_say_so(
    postgres_url: str, tmp_path: Path
) -> None:
    settings = settings_of(postgres_url, tmp_path)
    servers = Servers.from_settings(settings)
    stores = Stores(settings, servers)
    await stores.write([page("/")])
    reader = await open_reader(settings, servers)
    found = await reader.metadata("http://a.test/")
    assert found is not None
    with pytest.raises(NotFound, match="no sink kept its body; add warc:FOLDER"):
        await reader.content(found)
    [(_, content)] = await in_batches(reader, Wanted(kept=True))
    assert content is None
    await servers.close()


# --- which store, and stores that are away --------------------------------------------------------


async def test_a_catalogue_that_is_not_there_is_told(postgres_url: str, tmp_path: Path) -> None:
    settings = settings_of(postgres_url, tmp_path)
    servers = Servers.from_settings(settings)
    for _ in range(3):
        with pytest.raises(ConfigurationError, match="has no catalogue"):
            await open_reader(settings, servers)
    with psycopg.connect(postgres_url) as connection:
        query = "SELECT FROM pg_stat_activity WHERE application_name = 'crawler' AND datname = %s"
        used = connection.execute(query, [connection.info.dbname]).fetchall()
    # The same connection each time: the admin API asks again and again.
    assert len(used) == 1
    pages = StoredPages.from_settings(settings, servers)
    for _ in range(2):
        found, note = await pages.record("http://a.test/", "web")
        assert found is None
        assert "start a crawl with it in SINKS" in note
    await servers.close()


async def test_a_server_that_goes_away_ends_a_question_in_one_line(tmp_path: Path) -> None:
    with PrivatePostgres() as server:
        settings = settings_of(server.url(), tmp_path)
        servers = Servers.from_settings(settings)
        await Stores(settings, servers).write([page(f"/{number}") for number in range(120)])
        reader = await open_reader(settings, servers)
        batches = reader.with_content(Wanted(), contents=False)
        pages = reader.find(Wanted())
        await anext(pages)
        server.kill()
        with pytest.raises(ServerAway, match=r"PostgreSQL at .* does not answer|was lost"):
            async for _ in pages:
                pass
        with pytest.raises(ServerAway, match="does not answer"):
            await anext(batches)
        with pytest.raises(ServerAway, match="does not answer"):
            await reader.metadata("http://a.test/1")
        server.start()
        assert await reader.count(Wanted()) == 120
        server.freeze()
        assert isinstance(reader, postgres_reader.PostgresReader)
        reader._database.timeout_s = 1.0
        with pytest.raises(ServerAway, match="does not answer"):
            await reader.metadata("http://a.test/1")
        server.thaw()
        reader._database.timeout_s = 20.0
        assert await reader.metadata("http://a.test/1") is not None
        await servers.close()


@pytest.mark.parametrize(
    ("sinks", "store", "expected"),
    [
        ("mongo postgresql://h/d", None, "mongo"),
        ("postgres://h/d mongo", None, "mongo"),
        ("mongo postgresql://h/d", "postgresql", "postgresql"),
        ("warc:a/ postgres://h/d", None, "postgresql"),
        ("postgresql://h/d", "mongo", None),
        ("mongo", "postgresql", None),
        ("warc:a/", None, None),
        ("none", None, None),
    ],
)
def test_the_store_is_that_of_sinks(
    sinks: str, store: str | None, expected: str | None, tmp_path: Path
) -> None:
    settings = settings_of(sinks, tmp_path)
    assert store_of(settings, store) == expected
    # The MongoDB of an earlier crawl is the last that is asked.
    earlier = settings_of(sinks, tmp_path, MONGO_URI="mongodb://h/")
    assert store_of(earlier, store) == (expected or (None if store == "postgresql" else "mongo"))


@pytest.mark.parametrize("store", [None, "postgresql", "mongo"])
async def test_no_store_is_told_in_one_line(tmp_path: Path, store: str | None) -> None:
    settings = settings_of("warc:a/", tmp_path)
    with pytest.raises(ConfigurationError, match=r"SINKS is warc:a/, which has no"):
        await open_reader(settings, Servers.from_settings(settings), store=store)


async def test_the_admin_api_reads_records_of_either_store(
    written: Any, postgres_url: str, tmp_path: Path
) -> None:
    alone = settings_of(postgres_url, tmp_path)
    await write(alone, [page("/")])
    for settings in (written, alone):
        servers = Servers.from_settings(settings)
        pages = StoredPages.from_settings(settings, servers)
        found, note = await pages.record("http://a.test/", "web")
        assert found is not None
        assert (found["title"], note) == ("/", "")
        assert await pages.record("http://a.test/none", "web") == (None, "It is not stored.")
        await servers.close()
    nowhere = settings_of("postgresql://127.0.0.1:1/none", tmp_path)
    servers = Servers.from_settings(nowhere)
    pages = StoredPages.from_settings(nowhere, servers)
    assert await pages.record("http://a.test/", "web") == (None, "PostgreSQL does not answer.")
    await servers.close()


async def test_the_search_index_is_the_same_of_both(stores: Stores, tmp_path: Path) -> None:
    found = {}
    for reader in (stores.mongo, stores.postgres):
        chosen = SearchSettings(tmp_path / reader.name, heap_bytes=15_000_000)
        with IndexWriter(chosen) as writer:
            update = Update(writer, reader)
            async for _ in update.run():
                pass
            again = Update(writer, reader)
            async for _ in again.run():
                pass
        assert (again.counts.indexed, again.counts.removed) == (0, 0)
        results = search(chosen.folder, "grusse word99", Filters(), limit=50)
        of_reader = sorted((each.crawl, each.url, each.title) for each in results.results)
        found[reader.name] = update.counts, of_reader
    assert found[stores.mongo.name] == found[stores.postgres.name]
    assert found[stores.mongo.name][0].unread == 0
    assert ("web", "http://a.test/changed", "new") in found[stores.mongo.name][1]
