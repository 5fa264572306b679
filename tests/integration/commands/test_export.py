"""`scrapy pages export` on a real MongoDB: what other programs read, and what a kill leaves."""

import argparse
import asyncio
import csv
import fcntl
import gzip
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bson
import duckdb
import pyarrow.parquet
import pymongo
import pytest
from pymongo import WriteConcern
from warcio.archiveiterator import ArchiveIterator
from warcio.cli import main as warcio

from crawler.commands.pages import Command
from crawler.items import NOT_MODIFIED, Page
from crawler.servers import connections
from crawler.servers.objects import ObjectStore
from crawler.storage.export import formats
from crawler.storage.export.run import Export
from crawler.storage.mongo import reader
from crawler.storage.mongo.reader import MongoReader
from crawler.storage.mongo.sink import compressor, documents_of
from tests.integration.commands import exporting
from tests.support.crawlers import project_crawler
from tests.support.private_mongo import PrivateMongo
from tests.support.s3_server import use_server

ROOT = Path(__file__).resolve().parents[3]
AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
COUNT = 60


def url(number: int) -> str:
    return f"http://a.test/{number}"


def body(number: int) -> bytes:
    return f'<p>{number}, "Grüße",\r\n世界 {"x" * number}'.encode()


def page(number: int, **others: Any) -> Page:
    values: dict[str, Any] = {
        "url": url(number),
        "final_url": f"{url(number)}?b&a",
        "status": 200,
        "crawled_at": AT + timedelta(days=number),
        "crawl": "web",
        "discovered_at": AT,
        "headers": {"content-type": "text/html", "set-cookie": "a=1\nb=2", "content-length": "1"},
        "content_type": "text/html",
        "charset": "utf-8",
        "title": f'Title "{number}", 世界',
        "redirect_statuses": [301] if number % 2 else [],
        "languages": {"de": f"{url(number)}/de"},
        "extra": {"price": number, "at": AT},
        "content_hash": f"hash {number}",
        "size_bytes": len(body(number)),
        "links": [url(number + 1)],
        "text": f"Text {number}\nof two lines",
        "body": body(number),
        **others,
    }
    return Page(**values)


def store(database: Any, *pages: Page) -> None:
    documents = [documents_of(each, "zstd", compressor("zstd")) for each in pages]
    database["pages_metadata"].insert_many([bson.decode(each.metadata) for each in documents])
    contents = [bson.decode(each.content) for each in documents if each.content is not None]
    if contents:
        database["pages_content"].insert_many(contents)


Run = Callable[..., str]


@pytest.fixture
def database(mongo_uri: str, mongo_db_name: str) -> Any:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri, tz_aware=True) as client:
        store(client[mongo_db_name], *map(page, range(COUNT)))
        yield client[mongo_db_name]


@pytest.fixture
def run(mongo_uri: str, database: Any, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs an export in this process, and returns what it says; with an exit code."""

    def run(*arguments: str, code: int = 0, **settings: Any) -> str:
        command = Command()
        values = {"MONGO_URI": mongo_uri, "MONGO_DATABASE": database.name}
        values |= {"CRAWL_DIR": str(tmp_path / "crawl"), **settings}
        command.settings = project_crawler(**values).settings
        command.run(["export", *arguments], argparse.Namespace())
        said = capfd.readouterr().err
        assert command.exitcode == code, said
        return said

    return run


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BATCH", 7)


def urls_in(path: Path) -> list[str]:
    """Read the URLs of an export in its order, by another program than ours."""
    if path.name.endswith(".warc.gz"):
        with path.open("rb") as file:
            return [
                record.rec_headers["WARC-Target-URI"].partition("?")[0]
                for record in ArchiveIterator(file)
                if record.rec_type == "response"
            ]
    if path.suffix == ".parquet":
        return [name for (name,) in duckdb.sql(f"SELECT url FROM '{path}'").fetchall()]
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    if ".csv" in path.name:
        return [row["url"] for row in csv.DictReader(text.splitlines(keepends=True))]
    return [json.loads(line)["url"] for line in text.splitlines()]


ALL = [url(number) for number in range(COUNT)]
NAMES = ["p.jsonl", "p.jsonl.gz", "p.csv", "p.csv.gz", "p.parquet", "p.warc.gz"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("small_batches")
def test_the_name_says_the_format(run: Run, tmp_path: Path, name: str) -> None:
    assert "60 pages written" in run("-o", str(tmp_path / name))
    assert urls_in(tmp_path / name) == ALL
    assert [each.name for each in tmp_path.iterdir()] == [name]


def typed_row(query: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the only row of a query, and the types of its columns, as DuckDB has them."""
    with duckdb.connect() as db:
        found = db.sql(query)
        types = dict(zip(found.columns, map(str, found.types), strict=True))
        # Times as Arrow has them: DuckDB's own need one more package.
        (row,) = found.to_arrow_table().to_pylist(maps_as_pydicts="strict")
    return row, types


# --- formats --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_batches")
def test_duckdb_finds_the_same_rows_and_types_in_parquet(
    run: Run, database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_ROW_GROUP_BYTES", 10_000)
    path = tmp_path / "p.parquet"
    run("-o", str(path))
    row, types = typed_row(f"SELECT * FROM '{path}' WHERE url = '{url(7)}'")
    assert list(types) == list(formats.COLUMNS)
    assert types["status"] == "BIGINT"
    assert types["crawled_at"] == types["next_crawl"] == "TIMESTAMP WITH TIME ZONE"
    assert types["headers"] == "MAP(VARCHAR, VARCHAR)"
    assert types["redirect_statuses"] == "BIGINT[]"
    assert types["versions"] == 'STRUCT("at" TIMESTAMP WITH TIME ZONE, content_hash VARCHAR)[]'
    assert (types["is_active"], types["body"], types["items"]) == ("BOOLEAN", "BLOB", "VARCHAR")
    assert json.loads(row.pop("extra")) == {"price": 7, "at": AT.isoformat()}
    assert row.pop("body") == body(7)
    assert row.pop("text") == "Text 7\nof two lines"
    stored = database["pages_metadata"].find_one({"url": url(7)}, {"_id": False, "extra": False})
    assert {name: value for name, value in row.items() if name in stored} == stored
    assert {row[name] for name in row if name not in stored} == {None}
    about = pyarrow.parquet.ParquetFile(path).metadata
    assert about.num_row_groups > 1
    assert about.row_group(0).column(0).compression == "ZSTD"


def test_the_query_of_the_documentation_works(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("-o", "pages.parquet")
    docs = (ROOT / "docs" / "pages.md").read_text(encoding="utf-8")
    query = docs.partition("<!-- duckdb -->\n```sql\n")[2].partition("```")[0]
    row, _ = typed_row(query.strip().removesuffix(";"))
    assert (row["domain"], row["pages"]) == ("a.test", COUNT)
    assert row["last"] == AT + timedelta(days=COUNT - 1)


def test_numbers_and_lists_of_csv_can_be_read_back(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    run("-o", str(path))
    with path.open(newline="", encoding="utf-8") as file:
        row = list(csv.DictReader(file))[7]
    assert list(row) == list(formats.COLUMNS)
    assert row["title"] == 'Title "7", 世界'
    assert row["body"] == body(7).decode()
    assert json.loads(row["headers"])["set-cookie"] == "a=1\nb=2"
    assert json.loads(row["redirect_statuses"]) == [301]
    assert datetime.fromisoformat(row["crawled_at"]) == AT + timedelta(days=7)
    assert (row["status"], row["is_active"], row["next_crawl"]) == ("200", "true", "")


@pytest.mark.usefixtures("small_batches")
def test_warcio_finds_whole_responses_in_warc(
    run: Run, database: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # One that was not modified since, one that broke off, and one whose content is gone.
    for number, flag in ((70, NOT_MODIFIED), (71, "truncated")):
        store(database, page(number, flags=[flag]))
    store(database, page(72))
    database["pages_content"].delete_one({"page_id": page(72).url_hash})
    path = tmp_path / "p.warc.gz"
    assert "62 pages written" in (said := run("-o", str(path)))
    assert "; without content and left out: 1" in said
    with pytest.raises(SystemExit) as ended:
        warcio(["check", "-v", str(path)])
    assert ended.value.code == 0
    checked = capfd.readouterr().out
    assert checked.count("digest pass") == 63
    assert "invalid" not in checked
    with path.open("rb") as file:
        info, *records = [
            (record.rec_type, record.rec_headers, record.http_headers, record.raw_stream.read())
            for record in ArchiveIterator(file)
        ]
    assert info[0] == "warcinfo"
    assert {kind for kind, *_ in records} == {"response"}
    _, about, head, content = records[7]
    assert about["WARC-Target-URI"] == f"{url(7)}?b&a"
    assert about["WARC-Date"] == "2026-01-09T03:04:05Z"
    assert about["WARC-Crawl"] == "web"
    assert content == body(7)
    assert head.get_statuscode() == "200"
    assert head["Content-Length"] == str(len(body(7)))
    assert [value for name, value in head.headers if name == "Set-Cookie"] == ["a=1", "b=2"]
    assert records[-1][1]["WARC-Truncated"] == "unspecified"
    assert records[-2][3] == body(70)


@pytest.mark.parametrize("name", ["p.jsonl", "p.csv", "p.parquet"])
def test_columns_are_chosen(run: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    run("-o", str(path), "--columns", "title,url, text")
    with duckdb.connect() as db:
        found = db.sql(f"SELECT * FROM '{path}'")
        assert found.columns == ["title", "url", "text"]
        assert found.fetchall()[3] == ('Title "3", 世界', url(3), "Text 3\nof two lines")


def test_columns_of_main_text_are_made_of_bodies(run: Run, database: Any, tmp_path: Path) -> None:
    prose = "This is a sentence that is long enough to be prose"
    html = f"<nav>Menu</nav><p>{prose} <b>{{}}</b>.</p>"
    store(
        database,
        *(
            page(
                1000 + number,
                body=html.format(number).encode(),
                markdown="# stored" if number == 1 else "",
            )
            for number in range(2)
        ),
    )
    columns = ["--columns", "url,markdown,main_text"]
    for name in ("pages.jsonl", "pages.csv", "pages.parquet"):
        run("-o", str(tmp_path / name), *columns)
    expected = [
        (url(1000), f"{prose} **0**.", f"{prose} 0."),
        (url(1001), "# stored", f"{prose} 1."),
    ]
    with (tmp_path / "pages.jsonl").open(encoding="utf-8") as file:
        rows = [tuple(json.loads(line).values()) for line in file]
    assert rows[COUNT:] == expected
    with (tmp_path / "pages.csv").open(encoding="utf-8", newline="") as file:
        assert [tuple(row) for row in csv.reader(file)][COUNT + 1 :] == expected
    table = pyarrow.parquet.read_table(tmp_path / "pages.parquet").to_pylist()
    assert [tuple(row.values()) for row in table[COUNT:]] == expected


def test_contents_are_read_only_for_columns_that_need_them(
    run: Run, database: Any, tmp_path: Path
) -> None:
    database["pages_content"].drop()
    run("-o", str(tmp_path / "p.jsonl"), "--columns", "url,items,status")
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"url": url(0), "items": None, "status": 200}


def test_the_columns_of_pages_without_content_are_empty(
    run: Run, database: Any, tmp_path: Path
) -> None:
    store(database, page(99, status=404, stored=False, reason="status_404"))
    path = tmp_path / "p.parquet"
    run("-o", str(path), "--all", "--status", "4xx", "--columns", "url,reason,text,body")
    assert duckdb.sql(f"SELECT * FROM '{path}'").fetchall() == [(url(99), "status_404", None, None)]


@pytest.mark.parametrize("name", NAMES)
def test_an_export_of_nothing_is_a_file_without_rows(run: Run, tmp_path: Path, name: str) -> None:
    assert "0 pages written" in run("-o", str(tmp_path / name), "--domain", "never.test")
    assert urls_in(tmp_path / name) == []


def test_a_value_of_another_type_is_named(run: Run, database: Any, tmp_path: Path) -> None:
    database["pages_metadata"].update_one({"url": url(5)}, {"$set": {"depth": "deep"}})
    said = run("-o", str(tmp_path / "p.parquet"), code=2)
    assert f"The field depth of {url(5)} is 'deep', and the column's type is int64" in said
    run("-o", str(tmp_path / "p.parquet"), "--columns", "url,title")


@pytest.mark.parametrize("value", ["text", ["a"], 5])
def test_headers_that_are_no_mapping_are_named(
    run: Run, database: Any, tmp_path: Path, value: Any
) -> None:
    database["pages_metadata"].update_one({"url": url(5)}, {"$set": {"headers": value}})
    said = run("-o", str(tmp_path / "p.parquet"), "--columns", "url,headers", code=2)
    assert f"The field headers of {url(5)} is {str(value)!r}, and the column's type is map" in said


@pytest.mark.parametrize("options", [["--reason", "status_404"], ["--status", "4xx"]])
def test_filters_for_pages_without_content_find_them(
    run: Run, database: Any, tmp_path: Path, options: list[str]
) -> None:
    store(database, page(99, status=404, stored=False, reason="status_404"))
    store(database, page(98, duplicate_of=page(1).url_hash))
    run("-o", str(tmp_path / "p.jsonl"), *options)
    assert urls_in(tmp_path / "p.jsonl") == [url(99)]
    assert "is not for WARC" in run("-o", str(tmp_path / "p.warc.gz"), *options, code=2)
    run("-o", str(tmp_path / "p.warc.gz"), "--status", "200")
    assert urls_in(tmp_path / "p.warc.gz") == ALL


def test_ctrl_c_ends_an_export_to_a_pipe_that_nobody_reads(mongo_uri: str, database: Any) -> None:
    store(database, *(page(number, text="x" * 3000) for number in range(100, 200)))
    options = ["-s", f"MONGO_URI={mongo_uri}", "-s", f"MONGO_DATABASE={database.name}"]
    with subprocess.Popen(
        [sys.executable, "-m", "scrapy", "pages", "export", "-o", "-", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            # More than a pipe holds is on its way.
            assert process.stdout.read(10)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert process.stderr.read().decode().strip().endswith("scrapy pages: stopped")
        finally:
            process.kill()


def test_warc_goes_to_standard_output(
    mongo_uri: str, database: Any, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    command = Command()
    values = {"MONGO_URI": mongo_uri, "MONGO_DATABASE": database.name}
    command.settings = project_crawler(**values).settings
    command.run(["export", "-o", "-", "--format", "warc"], argparse.Namespace())
    (tmp_path / "p.warc.gz").write_bytes(capfdbinary.readouterr().out)
    assert urls_in(tmp_path / "p.warc.gz") == ALL


# --- interruptions --------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_batches")
def test_a_killed_export_goes_on(run: Run, mongo_uri: str, database: Any, tmp_path: Path) -> None:
    cases = {
        tmp_path / "1.jsonl": "torn",
        tmp_path / "2.csv.gz": "unsaved",
        tmp_path / "3.warc.gz": "torn",
        tmp_path / "4.parquet": "torn",
        tmp_path / "5.parquet": "complete",
        tmp_path / "6.jsonl.gz": "in_place",
    }
    for path in cases:
        path.write_text("of an earlier export")
    subprocess.run(
        [sys.executable, "-m", exporting.__name__, mongo_uri, database.name]
        + [each for path, moment in cases.items() for each in (moment, str(path))],
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    done = {"complete": COUNT, "in_place": None}
    for path, moment in cases.items():
        pages = done.get(moment, (exporting.NUMBER - 2) * exporting.BATCH)
        if pages is not None:
            assert path.read_text() == "of an earlier export"
        said = run("-o", str(path))
        assert f"Going on after {pages} pages" in said or pages is None
        assert urls_in(path) == ALL, moment
    assert set(tmp_path.iterdir()) == cases.keys()


def test_an_export_that_is_cut_off_from_mongodb_goes_on(
    run: Run, tmp_path: Path, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, calls = Export._append, 0

    def cut_off(self: Export, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            mongo.kill()
        append(self, *arguments)

    monkeypatch.setattr(connections, "_SELECT_MS", 200)
    monkeypatch.setattr(Export, "_append", cut_off)
    path = tmp_path / "p.jsonl"
    with PrivateMongo() as mongo:
        mongo.start()
        with pymongo.MongoClient[dict[str, Any]](mongo.uri) as client:
            database = client["crawler"].with_options(write_concern=WriteConcern(1, j=True))
            store(database, *map(page, range(COUNT)))
        settings = {"MONGO_URI": mongo.uri, "MONGO_DATABASE": "crawler"}
        said = run("-o", str(path), code=3, **settings)
        assert f"{path}.part has what was read so far (21 pages); the same command goes on" in said
        mongo.start()
        assert "Going on after 21 pages" in run("-o", str(path), **settings)
    assert urls_in(path) == ALL


# A document whose content is in an object store.
MOVED = {"$set": {"object": "a"}, "$rename": {"body": "kept_body"}}
BACK = {"$unset": {"object": True}, "$rename": {"kept_body": "body"}}


def test_an_export_that_fails_goes_on_when_the_cause_is_gone(
    run: Run, database: Any, tmp_path: Path, small_batches: None
) -> None:
    moved = {"page_id": page(40).url_hash}
    database["pages_content"].update_one(moved, MOVED)
    path = tmp_path / "p.jsonl"
    said = run("-o", str(path), code=2)
    assert f"{path}.part has what was read so far (35 pages); the same command goes on" in said
    assert "PAGES_TIER_URL is not set" in said
    database["pages_content"].update_one(moved, BACK)
    assert "Going on after 35 pages" in run("-o", str(path))
    assert urls_in(path) == ALL


@pytest.fixture
def interrupted(
    run: Run, database: Any, tmp_path: Path, small_batches: None
) -> Callable[..., Path]:
    """Interrupts an export after 35 pages: one is in a store that is not named."""

    def interrupt(*arguments: str, name: str = "p.jsonl") -> Path:
        moved = {"page_id": page(40).url_hash}
        database["pages_content"].update_one(moved, MOVED)
        path = tmp_path / name
        run("-o", str(path), *arguments, code=2)
        database["pages_content"].update_one(moved, BACK)
        return path

    return interrupt


def test_another_command_line_starts_anew_and_says_so(
    run: Run, interrupted: Callable[..., Path]
) -> None:
    path = interrupted()
    said = run("-o", str(path), "--no-body")
    assert f"{path}.part was of an export with other options, which is given up" in said
    assert urls_in(path) == ALL
    assert b"body" not in path.read_bytes()


def test_columns_in_another_order_start_anew(run: Run, interrupted: Callable[..., Path]) -> None:
    path = interrupted("--columns", "url,title,body", name="p.csv")
    assert "other options" in run("-o", str(path), "--columns", "title,url,body")
    assert urls_in(path) == ALL


def test_the_age_of_an_interrupted_export_is_told(
    run: Run, interrupted: Callable[..., Path]
) -> None:
    path = interrupted()
    state = path.with_name("p.jsonl.part") / "state"
    values = json.loads(state.read_text())
    earlier = datetime.fromisoformat(values["began"]) - timedelta(hours=23, minutes=5)
    state.write_text(json.dumps(values | {"began": earlier.isoformat()}))
    said = run("-o", str(path))
    assert "Going on after 35 pages of an export that began 23 h ago; to start anew, delete" in said
    assert f"{path}.part" in said


def test_a_time_span_counts_from_when_the_export_began(
    run: Run, database: Any, interrupted: Callable[..., Path]
) -> None:
    began = datetime.now(UTC)
    database["pages_metadata"].update_many({}, {"$set": {"crawled_at": began}})
    path = interrupted("--since", "5m")
    state = path.with_name("p.jsonl.part") / "state"
    values = json.loads(state.read_text())
    # As if it had been interrupted an hour ago.
    earlier = datetime.fromisoformat(values["began"]) - timedelta(hours=1)
    state.write_text(json.dumps(values | {"began": earlier.isoformat()}))
    database["pages_metadata"].update_one(
        {"url": url(59)}, {"$set": {"crawled_at": earlier - timedelta(minutes=6)}}
    )
    database["pages_metadata"].update_one(
        {"url": url(58)}, {"$set": {"crawled_at": earlier - timedelta(minutes=4)}}
    )
    run("-o", str(path), "--since", "5m")
    assert urls_in(path) == ALL[:-1]


def test_what_is_stored_meanwhile_is_exported_once(
    run: Run, database: Any, interrupted: Callable[..., Path]
) -> None:
    path = interrupted()
    store(database, page(100))
    database["pages_metadata"].update_one({"url": url(3)}, {"$set": {"title": "changed"}})
    database["pages_metadata"].delete_one({"url": url(50)})
    run("-o", str(path))
    expected = Counter([*ALL, url(100)])
    del expected[url(50)]
    assert Counter(urls_in(path)) == expected


def test_a_page_that_is_crawled_meanwhile_is_exported_as_one_visit(
    run: Run,
    database: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The metadata of one are there at once, of one a little later, and of one never."""
    at_once, soon, never = 3, 5, 7
    monkeypatch.setattr(reader, "_METADATA_S", 0.01)
    read_contents, calls = MongoReader._read_contents, 0

    def later(number: int) -> Any:
        again = page(number, crawled_at=AT + timedelta(days=500), title="later", body=b"later")
        return documents_of(again, "zstd", compressor("zstd"))

    def replace_metadata(number: int) -> None:
        values = bson.decode(later(number).metadata)
        database["pages_metadata"].update_one({"url": url(number)}, {"$set": values})

    async def read(self: MongoReader, pages: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            for number in (at_once, soon, never):
                values = bson.decode(later(number).content)
                database["pages_content"].replace_one({"page_id": values["page_id"]}, values)
            replace_metadata(at_once)
        elif calls == 2:
            replace_metadata(soon)
        return await read_contents(self, pages)

    monkeypatch.setattr(MongoReader, "_read_contents", read)
    path = tmp_path / "p.jsonl"
    assert "; content that cannot be read: 1" in run("-o", str(path))
    assert f"The content of {url(never)} cannot be read: it is of a later visit" in caplog.text
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["url"] for row in rows] == ALL
    for number in (at_once, soon):
        assert (rows[number]["title"], rows[number]["body"]) == ("later", "later")
    assert rows[never]["title"] == page(never).title
    assert "body" not in rows[never]


def test_batches_are_bounded_by_their_bytes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    append = Export._append

    def noted(self: Export, data: bytes, batch: reader.Batch, rows: int) -> None:
        sizes.append(len(batch.pages))
        append(self, data, batch, rows)

    monkeypatch.setattr(Export, "_append", noted)
    monkeypatch.setattr(reader, "BATCH_BYTES", 5_000)
    for columns in ("url,links,text", "url,title,headers,items,extra,languages,versions"):
        sizes.clear()
        run("-o", str(tmp_path / "p.jsonl"), "--columns", columns)
        assert urls_in(tmp_path / "p.jsonl") == ALL
        assert 1 < max(sizes) < 30


def test_only_chosen_fields_are_read(run: Run, database: Any, tmp_path: Path) -> None:
    database.command("profile", 2)
    run("-o", str(tmp_path / "p.csv"), "--columns", "title,body")
    run("-o", str(tmp_path / "p.warc.gz"))
    database.command("profile", 0)
    chosen = [
        each["command"]["projection"].keys()
        for each in database["system.profile"].find({"command.find": "pages_metadata"})
        if "projection" in each["command"]
    ]
    assert len(chosen) == 2
    for fields in chosen:
        assert fields.isdisjoint({"links", "items", "versions", "extra"})


def test_content_that_cannot_be_read_is_left_out_and_counted(
    run: Run,
    database: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store_folder = tmp_path / "store"
    store_folder.mkdir()
    (store_folder / "damaged").write_bytes(b"no gzip")
    changes: dict[int, dict[str, Any]] = {
        3: {"body": b"no"},
        5: {"codec": "rot13"},
        7: {"object": "damaged"},
        9: {"object": "gone"},
    }
    for number, change in changes.items():
        chosen = {"page_id": page(number).url_hash}
        moved = {"$unset": {"body": True}} if "object" in change else {}
        database["pages_content"].update_one(chosen, {"$set": change, **moved})
    monkeypatch.setattr("crawler.storage.reader._LOGGED_MAX", 3)
    path = tmp_path / "p.jsonl"
    said = run("-o", str(path), PAGES_TIER_URL=store_folder.as_uri())
    assert "60 pages written" in said
    assert "; content that cannot be read: 4" in said
    assert caplog.text.count("cannot be read: ") == 3
    assert f"The content of {url(3)} cannot be read: The stored page is damaged" in caplog.text
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["url"] for row in rows] == ALL
    assert [number for number in range(COUNT) if "body" not in rows[number]] == [*changes]


@pytest.mark.parametrize(("file", "text"), [("state", '{"pages": 1'), ("data", "{}")])
def test_a_damaged_state_starts_anew(
    run: Run, interrupted: Callable[..., Path], file: str, text: str
) -> None:
    path = interrupted()
    (path.with_name("p.jsonl.part") / file).write_text(text)
    assert "Going on" not in run("-o", str(path))
    assert urls_in(path) == ALL


def test_two_exports_to_the_same_place_are_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    work = tmp_path / "p.jsonl.part"
    work.mkdir()
    with (work / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = run("-o", str(path), code=2)
    assert f"Another export is at work in {work}; wait for its end" in said
    run("-o", str(path))
    assert urls_in(path) == ALL


# --- outputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["p.parquet", "p.jsonl.gz"])
def test_an_export_goes_to_an_object_store(run: Run, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "store"
    assert "60 pages written" in run("-o", f"{folder.as_uri()}/deep/{name}")
    assert urls_in(folder / "deep" / name) == ALL
    assert not (tmp_path / "crawl" / "export").exists()


def test_an_export_goes_to_s3(run: Run, s3_url: str, tmp_path: Path) -> None:
    run("-o", f"{s3_url}/p.warc.gz")

    async def download() -> None:
        store = ObjectStore.from_url(s3_url, what="-o")
        await store.download("p.warc.gz", tmp_path / "p.warc.gz")

    asyncio.run(download())
    assert urls_in(tmp_path / "p.warc.gz") == ALL


def test_a_failed_upload_is_repeated_by_the_next_run(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "store" / "p.jsonl"
    path.mkdir(parents=True)
    said = run("-o", path.as_uri(), code=3)
    assert "has what was read so far (60 pages)" in said
    path.rmdir()
    assert "Going on after 60 pages" in run("-o", path.as_uri())
    assert urls_in(path) == ALL


def test_a_store_that_is_away_is_told_before_any_page_is_read(
    run: Run, s3_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_server(s3_environment, "http://127.0.0.1:1")
    said = run("-o", "s3://bucket/p.jsonl", code=3)
    assert "s3://bucket" in said
    assert "pages" not in said.replace("scrapy pages", "")


def test_what_cannot_be_replaced_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "p.jsonl.part").write_text("of someone else")
    assert "no file that could be replaced" in run("-o", str(tmp_path / "folder.jsonl"), code=2)
    assert "p.jsonl.part is there" in run("-o", str(tmp_path / "p.jsonl"), code=2)
    assert "names no object" in run("-o", "s3://pages.jsonl", code=2)
    assert (tmp_path / "p.jsonl.part").read_text() == "of someone else"


@pytest.mark.parametrize("output", ["", "/", ".", "a\0b", "s3://a/\0"])
def test_names_of_no_file_are_refused(run: Run, output: str) -> None:
    assert f"-o {output!r} names no file; use" in run("-o", output, "--format", "csv", code=2)


@pytest.mark.parametrize("output", ["..", "x" * 300, "s3://a/\udcff"])
def test_names_that_no_file_can_have_are_told_in_a_line(
    run: Run, tmp_path: Path, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "Traceback" not in run("-o", output, "--format", "csv", code=2)
