"""A crawl into MongoDB and WARC files, and what people do with the archive afterwards."""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo
import pytest
from scrapy.settings import Settings

from crawler import settings as ours
from crawler.commands.archive import Command
from crawler.errors import CrawlerError, NotFound
from crawler.storage.mongo.sink import decompress
from demo.access_log import Entry, read_log
from demo.process import DemoServer
from demo.truth import Truth, truth
from demo.web import Web, WebOptions
from tests.acceptance.crawls import ROOT, Crawls, scrapy
from tests.support.archives import Audit, audit, record_at

OPTIONS = WebOptions(hosts=24, pages=4, seed=3, zoo="demo")


@dataclass
class Archived:
    folder: Path
    expected: Truth
    requests: list[Entry]
    found: Audit
    pages: list[dict[str, Any]]
    content: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def archived(
    tmp_path_factory: pytest.TempPathFactory, redis_server: str, mongo_server: str
) -> Archived:
    """One crawl that all tests read."""
    folder = tmp_path_factory.mktemp("archive")
    crawls = Crawls(folder, redis_server, mongo_server, "test_archive")
    settings = {
        "SINKS": f"mongo warc:{folder / 'warc'}",
        "CRAWL": "archived",
        "WARC_MAX_BYTES": 200_000,
        "WARC_METADATA": True,
        "WARC_OPERATOR": "Some One",
    }
    with DemoServer(OPTIONS, folder / "access.log") as web:
        run = crawls.run(
            Web(OPTIONS).seeds[0], web=web, arguments={"scope": "any"}, settings=settings
        )
    assert run.code == 0, run.stderr
    assert "Traceback" not in run.stderr
    with pymongo.MongoClient[dict[str, Any]](mongo_server) as client:
        pages = list(client["test_archive"]["pages_metadata"].find())
        content = {page["page_id"]: page for page in client["test_archive"]["pages_content"].find()}
        client.drop_database("test_archive")
    return Archived(
        folder / "warc",
        truth(OPTIONS, read_sitemaps=True),
        list(read_log(folder / "access.log")),
        audit(folder / "warc"),
        pages,
        content,
    )


Archive = Callable[..., str]


def project_settings() -> Settings:
    settings = Settings()
    settings.setmodule(ours)
    return settings


@pytest.fixture
def archive(archived: Archived, capfd: pytest.CaptureFixture[str]) -> Archive:
    """`scrapy archive` in this process, which is faster; returns what it prints."""

    def run(*arguments: str, where: Path = archived.folder) -> str:
        verb, values = Command.parse([*arguments, "--in", str(where)])
        verb.run(project_settings(), values)
        sys.stdout.flush()
        return capfd.readouterr().out

    return run


def test_every_page_is_in_the_index_once(archived: Archived) -> None:
    kept = {page["url"] for page in archived.pages if not page["reason"]}
    assert archived.found.pages(kept) == dict.fromkeys(kept, 1)
    assert not archived.expected.missing_from(archived.found.pages(archived.expected.must_store))
    assert archived.found.unindexed == 0
    assert len(archived.found.files) > 2


def test_every_answer_is_archived_but_those_of_pages_that_forbid_it(archived: Archived) -> None:
    """Also robots.txt, sitemaps, redirects and errors; not what was tried again, and noindex."""
    found = {(line["url"].partition("//")[2], line.get("status")) for line in archived.found.lines}
    forbidden = {page["url"] for page in archived.pages if page["reason"] == "noindex"}
    missing = {
        (entry.host + entry.target, str(entry.status))
        for entry in archived.requests
        if entry.status and entry.outcome == "ok" and entry.url not in forbidden
    } - found
    assert {status for _, status in missing} <= {"429", "500", "503"}
    statuses = {status for _, status in found}
    assert {"200", "301", "302", "404"} <= statuses
    names = {url.rpartition("/")[2] for url, _ in found}
    assert {"robots.txt", "sitemap.xml"} <= names


def test_mongodb_says_where_the_record_of_each_page_is(archived: Archived) -> None:
    kept = [page for page in archived.pages if page["url_hash"] in archived.content]
    assert kept
    for page in kept:
        record = record_at(archived.folder, page["places"]["warc"])
        assert record.rec_headers.get_header("WARC-URL-Hash") == page["url_hash"]
        if record.rec_type == "response":
            content = archived.content[page["url_hash"]]
            assert record.content == decompress(content["codec"], content["body"])


def test_files_say_who_wrote_them(archived: Archived) -> None:
    for file in archived.found.files:
        with gzip.open(file) as opened:
            info = opened.read(2000).decode()
        assert "WARC-Type: warcinfo" in info
        assert f"WARC-Filename: {file.name}" in info
        for field in ("software: mercator-crawler/", "operator: Some One", "robots: obey"):
            assert field in info
        assert "isPartOf: archived" in info


def test_another_indexer_finds_the_same(archived: Archived, archive: Archive) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "cdxj_indexer.main", "--sort"]
        + [str(file) for file in archived.found.files],
        capture_output=True,
        check=True,
    )
    read = [
        [(line.split(" ")[:2], json.loads(line.split(" ", 2)[2])) for line in text.splitlines()]
        for text in (done.stdout.decode(), archive("cdxj"))
    ]
    common = ("url", "status", "offset", "length", "filename", "digest")
    theirs, own = (
        sorted((*keys, *(fields.get(name) for name in common)) for keys, fields in lines)
        for lines in read
    )
    assert own == theirs


def test_the_archive_is_listed_and_verified(archived: Archived, archive: Archive) -> None:
    listed = json.loads(archive("list", "--json"))
    assert [each["file"] for each in listed] == [file.name for file in archived.found.files]
    verified = scrapy("archive", "verify", "--in", str(archived.folder))
    assert verified.code == 0, verified.stdout + verified.stderr
    assert f"{archived.found.captures:,} captures" in verified.stdout
    assert "Everything is whole." in verified.stdout


def test_damage_is_found(archived: Archived, archive: Archive, tmp_path: Path) -> None:
    file, other = archived.found.files[:2]
    for path in (file, other):
        index = path.name.removesuffix(".warc.gz") + ".cdxj"
        (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / index).write_bytes((archived.folder / index).read_bytes())
    line = next(each for each in archived.found.lines if each["filename"] == file.name)
    with (tmp_path / file.name).open("r+b") as damaged:
        damaged.seek(int(line["offset"]) + int(line["length"]) // 2)
        damaged.write(b"####")
    found = scrapy("archive", "verify", "--json", "--in", str(tmp_path))
    assert found.code == 1
    damage = json.loads(found.stdout)["damage"]
    assert f"{file.name}: the record at {line['offset']} is damaged" in damage
    # Whatever follows it is still read.
    assert damage[1:] == [f"{file.name}: 1 line of its index have no record"]
    with pytest.raises(CrawlerError, match="is damaged"):
        archive("get", line["url"], where=tmp_path)


def test_a_page_is_read_from_the_archive(archived: Archived, archive: Archive) -> None:
    seed = Web(OPTIONS).seeds[0]
    (page,) = (page for page in archived.pages if page["url"] == seed)
    content = archived.content[page["url_hash"]]
    body = decompress(content["codec"], content["body"]).decode()
    assert archive("get", seed) == body
    record = archive("get", seed, "--record")
    assert record.startswith("WARC/1.1\r\n")
    assert "HTTP/1.1 200 OK\r\n" in record
    lines = archive("get", seed, "--list").splitlines()
    assert len(lines) == 1
    assert f'"urlhash": "{page["url_hash"]}"' in lines[0]
    for arguments in (("http://s0.test/nothing",), (seed, "--at", "2001")):
        with pytest.raises(NotFound, match=r"http://s0\.test/.* is not in"):
            archive("get", *arguments)


def test_the_body_of_a_duplicate_is_that_of_its_original(
    archived: Archived, archive: Archive
) -> None:
    revisits = [line for line in archived.found.lines if line.get("mime") == "warc/revisit"]
    assert revisits
    line = revisits[0]
    page = next(each for each in archived.pages if each["url_hash"] == line["urlhash"])
    assert len(archive("get", line["url"]).encode()) == page["size_bytes"]


def test_the_programs_of_the_docs_read_the_archive(archived: Archived, archive: Archive) -> None:
    text = (ROOT / "docs" / "archives.md").read_text(encoding="utf-8")
    programs = re.findall(r"<!-- (?:warcio|merged) -->\n```python\n(.*?)```", text, re.DOTALL)
    assert len(programs) == 2
    folder = archived.folder.parent
    (folder / "archive").symlink_to(archived.folder)
    (folder / "all.cdxj").write_text(archive("cdxj"), encoding="utf-8")
    responses = {
        line["url"]
        for line in archived.found.lines
        if line.get("status") == "200" and line.get("mime") != "warc/revisit"
    }
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, archived.found.files)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert {line.rpartition(" ")[0] for line in done.stdout.splitlines()} == responses


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["verify", "--in", "{}"], "There are no WARC files"),
        (["verify", "--in", "{}/no"], "there is no such folder"),
        (["verify", "--in", "s3:///no"], "without a bucket"),
        (["get", "nonsense", "--in", "{}"], "it is no URL"),
        (["upload"], "Say where to upload to"),
    ],
)
def test_an_archive_that_does_not_exist_is_one_clear_line(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    verb, values = Command.parse([each.format(tmp_path) for each in arguments])
    with pytest.raises(CrawlerError, match=told):
        verb.run(project_settings(), values)


def test_a_time_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Command.parse(["get", "http://a.test/", "--at", "noon"])
    assert "'noon' is no time" in capsys.readouterr().err
