"""The catalogue in PostgreSQL: rows of pages, repeated and late writes, migrations, partitions."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from crawler.errors import ConfigurationError, CrawlerError, ServerAway
from crawler.items import Page
from crawler.servers.postgres import Database
from crawler.storage.postgres import schema
from crawler.storage.postgres.sink import PostgresSink
from crawler.storage.runs import Run
from tests.support.postgres_server import PostgresServer, PrivatePostgres
from tests.support.rights import postgres_grants
from tests.support.waiting import until

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
URL = "http://a.test/"
DOCS = Path(__file__).parents[3] / "docs"


def page(url: str = URL, *, at: datetime = AT, **fields: Any) -> Page:
    found: dict[str, Any] = {"content_hash": "c1", "content_type": "text/html", **fields}
    return Page(url, found.pop("final_url", url), found.pop("status", 200), at, "web", **found)


def failed(*, at: datetime, **fields: Any) -> Page:
    given = {"status": 503, "reason": "status_503", "error_count": 1, "last_error": "503"}
    return page(at=at, stored=False, **{**given, "content_hash": "", **fields})


def unchanged(*, at: datetime) -> Page:
    flags, empty = ["not_modified"], ""
    return page(at=at, status=304, flags=flags, stored=False, content_hash=empty, reason=empty)


@pytest.fixture
async def sink(postgres_url: str) -> AsyncIterator[PostgresSink]:
    sink = PostgresSink(postgres_url, timeout_s=20.0)
    await sink.open()
    yield sink
    await sink.close()


@pytest.fixture
def rows(postgres_url: str) -> Any:
    def read(query: str) -> list[dict[str, Any]]:
        with psycopg.connect(postgres_url, row_factory=dict_row) as connection:
            return connection.execute(query).fetchall()

    return read


async def store(sink: PostgresSink, *pages: Page) -> None:
    await sink.write([sink.prepare(each) for each in pages])


async def test_a_page_is_a_row_of_both_tables(sink: PostgresSink, rows: Any) -> None:
    await store(
        sink,
        page(
            "http://www.shop.co.uk/a\tb",
            final_url="http://www.shop.co.uk/b",
            title='Title\n\\N \\. "it\'s"',
            links=[f"http://a.test/{i}" for i in range(1500)],
            headers={"server": "x"},
            priority=2,
            parent="00ff",
            next_crawl=AT + HOUR,
            recrawl_interval_s=3600.0,
            extra={"price": 1.5, "seen": AT, "bad": float("nan")},
        ),
        failed(at=AT, robots_allowed=False, reason="robots"),
    )
    ok, bad = rows("SELECT * FROM crawled_urls ORDER BY url DESC")
    assert (ok["host"], ok["domain"]) == ("www.shop.co.uk", "shop.co.uk")
    assert ok["first_seen"] == ok["last_crawled"] == AT
    assert (ok["next_crawl"], ok["crawl_frequency"], ok["crawl_priority"]) == (AT + HOUR, 3600, 2)
    assert (ok["http_status"], ok["is_active"], ok["page_rank"]) == (200, True, None)
    assert ok["details"] == {"final_url": "http://www.shop.co.uk/b"}
    assert (bad["reason"], bad["error_count"], bad["is_active"]) == ("robots", 1, False)
    (document,) = rows("SELECT * FROM documents")
    assert document["title"] == 'Title\n\\N \\. "it\'s"'
    details = document["details"]
    assert (len(details["links"]), details["links_count"]) == (1000, 1500)
    assert details["extra"] == {"price": 1.5, "seen": AT.isoformat(), "bad": None}
    assert [each["content_hash"] for each in document["versions"]] == ["c1"]
    (denied,) = rows("SELECT * FROM robots_cache WHERE urls_denied > 0")
    assert (denied["host"], denied["last_denied"]) == ("a.test", AT)


async def test_links_are_not_compressed_slowly(sink: PostgresSink, rows: Any) -> None:
    links = [f"http://a.test/{i}" for i in range(1000)]
    await store(sink, page(links=links))
    (found,) = rows(
        "SELECT details->'links' AS links, pg_column_compression(details) FROM documents"
    )
    assert found["links"] == links
    assert found["pg_column_compression"] in (None, "lz4")


async def test_the_place_of_a_body_is_kept(sink: PostgresSink, rows: Any) -> None:
    found = page()
    found.places = {"warc": {"file": "a.warc.gz", "offset": 5}}
    found.items = [{"name": "x"}]
    await store(sink, found)
    (document,) = rows("SELECT places, details FROM documents")
    assert document["places"] == {"warc": {"file": "a.warc.gz", "offset": 5}}
    assert document["details"]["items"] == [{"name": "x"}]


async def test_characters_that_postgresql_refuses_are_removed(
    sink: PostgresSink, rows: Any
) -> None:
    await store(
        sink, page(title="a\0b\ud800", extra={"k\0": ["\0x", {"y": "\udfff"}], "z": "\\u0000"})
    )
    (document,) = rows("SELECT title, details FROM documents")
    assert document["title"] == "ab?"
    assert document["details"]["extra"] == {"k": ["x", {"y": "?"}], "z": "\\u0000"}


async def test_a_repeated_write_changes_nothing(sink: PostgresSink, rows: Any) -> None:
    both = "SELECT * FROM crawled_urls JOIN documents USING (crawl, url_hash)"
    await store(sink, page())
    before = rows(both)
    await store(sink, page())
    assert rows(both) == before


async def test_a_late_write_replaces_nothing_that_is_newer(sink: PostgresSink, rows: Any) -> None:
    await store(sink, page(at=AT + HOUR, title="new", visits=2, content_hash="c2"))
    await store(sink, page(title="old", visits=1))
    (url,) = rows("SELECT * FROM crawled_urls")
    assert (url["last_crawled"], url["visits"], url["content_hash"]) == (AT + HOUR, 2, "c2")
    # But the URL was seen then.
    assert url["first_seen"] == AT
    (document,) = rows("SELECT * FROM documents")
    assert (document["title"], document["content_hash"]) == ("new", "c2")


async def test_a_page_that_comes_after_a_later_failure_is_kept(
    sink: PostgresSink, rows: Any
) -> None:
    await store(sink, failed(at=AT + HOUR))
    await store(sink, page(title="found"))
    (url,) = rows("SELECT * FROM crawled_urls")
    assert (url["http_status"], url["content_hash"]) == (503, "c1")
    assert [each["title"] for each in rows("SELECT title FROM documents")] == ["found"]


async def test_a_visit_that_fails_leaves_the_page_as_it_was(sink: PostgresSink, rows: Any) -> None:
    await store(sink, page(title="kept", redirects=["http://x.test/"]))
    await store(sink, failed(at=AT + HOUR, content_type="text/plain"))
    (url,) = rows("SELECT * FROM crawled_urls")
    assert (url["http_status"], url["reason"], url["error_count"]) == (503, "status_503", 1)
    assert (url["content_hash"], url["content_type"]) == ("c1", "text/html")
    assert (url["first_seen"], url["last_crawled"]) == (AT, AT + HOUR)
    assert url["details"] == {}
    assert [each["title"] for each in rows("SELECT title FROM documents")] == ["kept"]


async def test_a_page_that_is_found_unchanged_is_good_again(sink: PostgresSink, rows: Any) -> None:
    await store(sink, page(redirects=["http://x.test/"], final_url="http://b.test/"))
    await store(sink, failed(at=AT + HOUR))
    await store(sink, unchanged(at=AT + 2 * HOUR))
    (url,) = rows("SELECT * FROM crawled_urls")
    assert (url["http_status"], url["reason"], url["error_count"]) == (200, "", 0)
    await store(sink, page(at=AT + 3 * HOUR, redirects=["http://y.test/"]))
    await store(sink, unchanged(at=AT + 4 * HOUR))
    (url,) = rows("SELECT * FROM crawled_urls")
    assert url["details"] == {"flags": ["not_modified"], "redirects": ["http://y.test/"]}


async def test_the_last_20_versions_are_kept(sink: PostgresSink, rows: Any) -> None:
    for i in range(25):
        await store(sink, page(at=AT + i * HOUR, content_hash=f"c{i // 2 if i < 4 else i}"))
    (document,) = rows("SELECT versions FROM documents")
    found = [each["content_hash"] for each in document["versions"]]
    assert found == [f"c{i}" for i in range(5, 25)]


async def test_a_url_may_be_in_a_batch_several_times(sink: PostgresSink, rows: Any) -> None:
    await store(
        sink,
        page(at=AT + 2 * HOUR, content_hash="c3", visits=3),
        page(),
        page("http://b.test/"),
        failed(at=AT + HOUR, visits=2),
    )
    (url, _) = rows("SELECT * FROM crawled_urls ORDER BY url")
    assert (url["visits"], url["first_seen"], url["last_crawled"]) == (3, AT, AT + 2 * HOUR)
    (versions,) = rows(f"SELECT versions FROM documents WHERE url_hash = '{url['url_hash']}'")
    assert [each["content_hash"] for each in versions["versions"]] == ["c1", "c3"]


async def test_what_people_computed_stays(sink: PostgresSink, rows: Any, postgres_url: str) -> None:
    await store(sink, page())
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE crawled_urls SET page_rank = 0.5")
    await store(sink, page(at=AT + HOUR))
    assert rows("SELECT page_rank FROM crawled_urls") == [{"page_rank": 0.5}]


async def test_a_record_that_postgresql_refuses_is_no_outage(sink: PostgresSink) -> None:
    with pytest.raises(psycopg.Error) as refused:
        await store(sink, page(visits=2**40))
    assert not sink.is_away(refused.value)
    # The connection is as good as before.
    await store(sink, page())


async def test_a_host_longer_than_an_index_takes_is_stored(sink: PostgresSink, rows: Any) -> None:
    await store(sink, page(f"http://{'x' * 5000}.test/"))
    assert len(rows("SELECT host FROM crawled_urls")[0]["host"]) == 255


async def test_items_that_are_too_big_are_left_out(
    sink: PostgresSink, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.storage.postgres.sink._ROW_MAX_BYTES", 5000)
    found = page()
    found.items = [{"x": "y" * 5000}]
    await store(sink, found)
    (url,) = rows("SELECT details FROM crawled_urls")
    assert (url["details"], found.flags) == ({"flags": ["items_too_big"]}, [])
    with pytest.raises(CrawlerError, match="bytes without its body"):
        sink.prepare(page(extra={"x": "y" * 5000}))


async def test_processes_that_write_the_same_rows_do_not_deadlock(
    postgres_url: str, rows: Any
) -> None:
    sinks = [PostgresSink(postgres_url, timeout_s=20.0) for _ in range(4)]
    await asyncio.gather(*(each.open() for each in sinks))
    urls = [f"http://a.test/{i}" for i in range(200)]

    async def write(number: int) -> None:
        for turn in range(5):
            at = AT + (number * 7 + turn) * HOUR
            found = [page(url, at=at) for url in (urls if number % 2 else reversed(urls))]
            await store(sinks[number], *found)

    await asyncio.gather(*(write(number) for number in range(len(sinks))))
    for each in sinks:
        await each.close()
    last = rows("SELECT last_crawled, count(*) FROM crawled_urls GROUP BY 1")
    assert last == [{"last_crawled": AT + 25 * HOUR, "count": 200}]


async def test_a_write_waits_for_who_deletes_the_page_and_keeps_nothing_from_it(
    sink: PostgresSink, rows: Any, postgres_url: str
) -> None:
    await store(sink, page())
    async with await psycopg.AsyncConnection.connect(postgres_url) as other:
        await other.execute("SELECT FROM crawled_urls FOR UPDATE")
        writing = asyncio.create_task(store(sink, page(at=AT + HOUR)))
        waiting = """SELECT FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()"""
        await until(lambda: rows(waiting), "the write waits")
        # In the other order both would wait for each other.
        await other.execute("DELETE FROM documents")
        await other.execute("DELETE FROM crawled_urls")
    await writing
    assert len(rows("SELECT FROM crawled_urls JOIN documents USING (crawl, url_hash)")) == 1


# --- runs -----------------------------------------------------------------------------------------


def run(id_: str, **fields: Any) -> Run:
    who = {"spider": "web", "machine": "m", "pid": 1, "user": "u", "worker": "w", "command": ""}
    return Run(id_, "web", **{**who, "started": AT, "seen": AT, **fields})


async def test_the_record_of_a_run_is_replaced_by_its_next_one(
    sink: PostgresSink, rows: Any
) -> None:
    first = run("1", options={"seeds": "http://a.test/\0"})
    await sink.record_run(first)
    ended = replace(first, seen=AT + HOUR, ended=AT + HOUR, state="finished", pages=7, exit_code=0)
    await sink.record_run(ended)
    # A late one changes nothing.
    await sink.record_run(first)
    (found,) = rows("SELECT * FROM crawl_jobs")
    assert (found["name"], found["state"], found["pages"]) == ("web", "finished", 7)
    assert found["options"] == {"seeds": "http://a.test/"}


async def test_runs_without_a_sign_of_life_are_lost_and_old_ones_deleted(
    sink: PostgresSink, rows: Any
) -> None:
    await sink.record_run(run("1", seen=AT - timedelta(days=400)))
    await sink.record_run(run("2", seen=AT - HOUR))
    await sink.record_run(run("3"))
    found = [(each["id"], each["state"]) for each in rows("SELECT * FROM crawl_jobs ORDER BY id")]
    assert found == [("2", "lost"), ("3", "running")]


# --- the schema -----------------------------------------------------------------------------------


async def test_processes_that_start_at_once_make_the_tables_once(
    postgres_url: str, rows: Any
) -> None:
    databases = [Database(postgres_url, 20.0) for _ in range(6)]
    await asyncio.gather(*(schema.prepare(each) for each in databases))
    for each in databases:
        await each.close()
    assert [each["version"] for each in rows("SELECT version FROM catalogue_schema")] == [1]


async def test_a_newer_catalogue_is_refused(sink: PostgresSink, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("INSERT INTO catalogue_schema (version) VALUES (99)")
    newer = PostgresSink(postgres_url, timeout_s=20.0)
    with pytest.raises(ConfigurationError, match="version 99, and this program knows version 1"):
        await newer.open()
    await newer.close()


async def test_a_migration_that_fails_leaves_nothing_behind(
    postgres_url: str, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {1: "CREATE TABLE half (x int); SELECT 1/0"}
    with monkeypatch.context() as patched:
        patched.setattr(schema, "migrations", lambda: broken)
        database = Database(postgres_url, 20.0)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await schema.prepare(database)
    assert rows("SELECT to_regclass('half') AS half") == [{"half": None}]
    await schema.prepare(database)
    await schema.check(database)
    await database.close()


async def test_tables_may_be_in_a_schema_of_their_own(postgres_url: str, rows: Any) -> None:
    sink = PostgresSink(f"{postgres_url}?schema=My%20crawls&application_name=x", timeout_s=20.0)
    await sink.open()
    await store(sink, page())
    await sink.close()
    assert rows('SELECT url FROM "My crawls".crawled_urls') == [{"url": URL}]
    assert rows("SELECT to_regclass('crawled_urls') AS found") == [{"found": None}]


async def test_a_user_without_the_right_to_create_writes_to_tables_that_exist(
    sink: PostgresSink, postgres_url: str, rows: Any
) -> None:
    role = f"role_{postgres_url.rpartition('_')[2]}"
    with psycopg.connect(postgres_url) as connection:
        database = connection.info.dbname
        connection.execute(f"CREATE ROLE {role} LOGIN")
        # It has what the docs give it, and nothing that everybody has.
        connection.execute(f"REVOKE ALL ON DATABASE {database} FROM PUBLIC")
        connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        connection.execute(postgres_grants(role, database))
    url = re.sub("//[^@]*@", f"//{role}@", postgres_url)
    limited, elsewhere = (
        PostgresSink(each, timeout_s=20.0) for each in (url, f"{url}?schema=elsewhere")
    )
    await limited.open()
    await store(limited, page())
    await limited.close()
    with pytest.raises(ConfigurationError, match="may not make the catalogue's tables"):
        await elsewhere.open()
    await elsewhere.close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")


async def test_the_sql_of_the_documentation_makes_partitions_that_are_written_to(
    sink: PostgresSink, postgres_url: str, rows: Any
) -> None:
    await store(sink, *(page(f"http://a.test/{i}") for i in range(50)))
    text = (DOCS / "catalogue.md").read_text(encoding="utf-8")
    (statements,) = re.findall(r"<!-- partitions -->\n```sql\n(.*?)```", text, re.DOTALL)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(statements)
    # Of the connection that it has, and of a new one.
    await store(sink, *(page(f"http://a.test/{i}", at=AT + HOUR) for i in range(50)))
    again = PostgresSink(postgres_url, timeout_s=20.0)
    await again.open()
    await store(again, *(page(f"http://a.test/{i}", at=AT - HOUR) for i in range(100)))
    await again.close()
    (found,) = rows("SELECT count(*), max(last_crawled), min(first_seen) FROM crawled_urls")
    assert found == {"count": 100, "max": AT + HOUR, "min": AT - HOUR}
    parts = rows("SELECT tableoid::regclass::text AS part FROM crawled_urls GROUP BY 1")
    assert len(parts) == 16
    assert len(rows("SELECT * FROM robots_cache")) == 1


async def test_the_queries_of_the_documentation_work(sink: PostgresSink, rows: Any) -> None:
    await store(sink, page(), failed(at=AT))
    text = (DOCS / "catalogue.md").read_text(encoding="utf-8")
    queries = re.findall(r"<!-- query -->\n```sql\n(.*?)```", text, re.DOTALL)
    assert len(queries) > 3
    for query in queries:
        rows(query)


# --- starts and doctor ----------------------------------------------------------------------------


async def test_doctor_describes_the_server_without_its_password(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    url = postgres_url.replace("crawler@", "crawler:topsecret@")
    report = await PostgresSink(url, timeout_s=20.0).check()
    assert report.text.startswith("PostgreSQL 18")
    assert "topsecret" not in report.text
    # As tests start it.
    assert set(report.warnings) == {"its fsync is off", "its full_page_writes are off"}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("/test_", "/nix_"), "does not exist"),
        (("crawler@", "stranger:topsecret@"), "does not exist"),
        (("crawler@", "crawler:topsecret@[["), "no address of PostgreSQL"),
    ],
)
async def test_a_start_that_fails_says_why(
    postgres_url: str, change: tuple[str, str], text: str
) -> None:
    url = postgres_url.replace(*change)
    with pytest.raises(ConfigurationError, match=text) as failed:
        await PostgresSink(url, timeout_s=5.0).open()
    assert "topsecret" not in str(failed.value)


async def test_a_database_without_utf_8_is_refused(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = f"{connection.info.dbname}_latin"
        connection.execute(
            f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
        )
    base, _, _ = postgres_url.rpartition("/")
    with pytest.raises(ConfigurationError, match=r"has the encoding LATIN1, .*ENCODING 'UTF8'"):
        await PostgresSink(f"{base}/{name}", timeout_s=5.0).open()


async def test_a_connection_that_cannot_be_prepared_is_closed(postgres_url: str) -> None:
    # Longer than PostgreSQL has room for.
    database = Database(postgres_url, timeout_s=1e7)
    with pytest.raises(psycopg.errors.InvalidParameterValue) as failed:
        await database.run(lambda connection: connection.execute("SELECT 1"))
    with psycopg.connect(postgres_url, autocommit=True) as watcher:

        def others() -> int:
            rows = watcher.execute(
                "SELECT FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid()"
            )
            return rows.rowcount

        # Now, and not when the error is forgotten, which refers to it.
        await until(lambda: others() == 0, "it is closed", deadline_s=5)
    assert failed.value.sqlstate == "22023"


async def test_times_are_in_utc_wherever_the_server_is(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'")
    database = Database(postgres_url, 20.0)

    async def now(connection: psycopg.AsyncConnection[Any]) -> datetime:
        ((found,),) = await (await connection.execute("SELECT now()")).fetchall()
        assert isinstance(found, datetime)
        return found

    assert (await database.run(now)).utcoffset() == timedelta(0)
    await database.close()


async def test_a_server_that_is_not_there_is_away() -> None:
    with pytest.raises(ServerAway, match="does not answer"):
        await PostgresSink("postgresql://u:topsecret@127.0.0.1:1/x", timeout_s=5.0).open()


async def test_a_server_that_hangs_is_given_up_in_time_and_written_to_when_it_is_back() -> None:
    with PrivatePostgres() as server:
        sink = PostgresSink(server.url(), timeout_s=1.0)
        await sink.open()
        server.freeze()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        with pytest.raises(TimeoutError) as silent:
            await store(sink, page())
        # psycopg alone takes ten seconds more.
        assert loop.time() - began_s < 8.0
        assert sink.is_away(silent.value)
        server.thaw()
        # A busy machine may need longer than a second.
        sink._database.timeout_s = 20.0
        await store(sink, page())
        server.kill()
        with pytest.raises(psycopg.OperationalError) as lost:
            await store(sink, page(at=AT + HOUR))
        assert sink.is_away(lost.value)
        server.start()
        await store(sink, page(at=AT + HOUR))
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            connection.execute("SELECT pg_reload_conf()")
        await sink.close()
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as refused:
            await store(sink, page(at=AT + HOUR))
        assert sink.is_away(refused.value)
        await sink.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
async def test_a_server_without_room_on_its_disk_is_away_until_it_has_some() -> None:
    with PrivatePostgres() as server, small_disk(server, "24m") as disk:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}/space'")
            connection.execute("CREATE DATABASE small TABLESPACE small")
        sink = PostgresSink(server.url("small"), timeout_s=20.0)
        await sink.open()
        await store(sink, page())
        (disk / "ballast").write_bytes(bytes(shutil.disk_usage(disk).free))
        noise = [{"noise": os.urandom(4000).hex()} for _ in range(300)]
        pages = [page(f"http://a.test/{i}", extra=extra) for i, extra in enumerate(noise)]
        with pytest.raises(psycopg.errors.DiskFull) as full:
            await store(sink, *pages)
        assert sink.is_away(full.value)
        (disk / "ballast").unlink()
        await store(sink, *pages)
        await sink.close()
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("DROP DATABASE small")
            connection.execute("DROP TABLESPACE small")


@contextmanager
def small_disk(server: PostgresServer, size: str) -> Iterator[Path]:
    """A disk of a few MB beside the server's folder, with a folder that is the server's."""
    disk = server.folder.with_suffix(".disk")
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", str(disk)]
    if subprocess.run(mounted, check=False, capture_output=True).returncode:
        disk.rmdir()
        pytest.skip("root may not mount here")
    try:
        (disk / "space").mkdir()
        shutil.chown(disk / "space", server.folder.stat().st_uid)
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
        disk.rmdir()
