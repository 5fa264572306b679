"""`scrapy pages` on a real MongoDB, as the store pipeline fills it."""

import argparse
import gzip
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pymongo
import pytest
import zstandard
from scrapy.exceptions import UsageError

from crawler.commands.pages import Command
from crawler.discovery.page_ranks import PageRanks
from crawler.urls import fingerprint, host_of, registered_domain
from demo.documents import docx, word_paragraph
from tests.support import old_pages
from tests.support.crawlers import project_crawler

ROOT = Path(__file__).resolve().parents[3]
URL = "http://a.test/page"
COPY = "http://b.test/copy"
GONE = "http://a.test/gone"
HIDDEN = "http://a.test/hidden"
DENIED = "http://www.a.test/denied"
UNSORTED = "http://a.test/?b=2&a=1"
BODY = "<html>Grüße, 世界</html>".encode()


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: bytes
    stderr: bytes


Run = Callable[..., Done]
Get = Run


def url_hash(url: str) -> str:
    return f"{fingerprint(url):016x}"


def metadata(
    url: str, status: int = 200, duplicate_of: str = "", reason: str = "", crawl: str = "web"
) -> dict[str, Any]:
    return {
        "crawl": crawl,
        "url": url,
        "url_hash": url_hash(url),
        "host": host_of(url),
        "domain": registered_domain(host_of(url)),
        "status": status,
        "reason": reason,
        "title": "A title",
        "charset": "utf-8",
        "crawled_at": datetime(2024, 5, 6, tzinfo=UTC),
        "size_bytes": len(BODY),
        "content_hash": "a hash",
        "duplicate_of": url_hash(duplicate_of) if duplicate_of else "",
        "links": ["http://a.test/"],
    }


def content(url: str, codec: str, body: bytes, crawl: str = "web") -> dict[str, Any]:
    return {
        "crawl": crawl,
        "page_id": url_hash(url),
        "crawled_at": datetime(2024, 5, 6, tzinfo=UTC),
        "codec": codec,
        "body": body,
        "text": "Grüße, 世界",
    }


@pytest.fixture
def pages(mongo_uri: str, mongo_db_name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs the command in this process: there are many runs, and Python starts slowly."""
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        database = client[mongo_db_name]
        database["pages_metadata"].insert_many(
            [
                metadata(URL),
                metadata(COPY, duplicate_of=URL),
                metadata(GONE, status=404, reason="status_404"),
                metadata(HIDDEN, reason="noindex"),
                metadata(DENIED, status=0, reason="robots"),
                metadata("http://a.test/zlib"),
                metadata("http://a.test/odd"),
                metadata("http://a.test/damaged"),
            ]
        )
        database["pages_content"].insert_many(
            [
                content(URL, "zstd", zstandard.ZstdCompressor().compress(BODY)),
                content("http://a.test/zlib", "zlib", zlib.compress(BODY)),
                content("http://a.test/odd", "rot13", BODY),
                content("http://a.test/damaged", "zstd", b"nonsense"),
            ]
        )

    def run(*arguments: str, **settings: Any) -> Done:
        command = Command()
        values = {"MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db_name, **settings}
        command.settings = project_crawler(**values).settings
        capfdbinary.readouterr()
        try:
            command.run(list(arguments), argparse.Namespace())
        except SystemExit as error:
            command.exitcode = int(error.code or 0)
        except UsageError as error:
            # Scrapy prints it and exits so.
            command.exitcode = 2
            print(error, file=sys.stderr)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Done(command.exitcode, out, err)

    return run


@pytest.fixture
def get(pages: Run) -> Get:
    return partial(pages, "get")


def test_a_page_is_shown_in_brief(get: Get) -> None:
    # Spelled otherwise, it is the same page.
    done = get("HTTP://A.test:80/page?utm_source=x#part")
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert URL in text
    assert "A title" in text
    assert "Grüße, 世界" in text
    assert done.stderr == b""


def test_the_flags_of_a_page_are_shown_if_it_has_some(
    get: Get, mongo_uri: str, mongo_db_name: str
) -> None:
    assert "flags" not in get(URL).stdout.decode()
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        flags = {"$set": {"flags": ["unread:encrypted"]}}
        client[mongo_db_name]["pages_metadata"].update_one({"url": URL}, flags)
    assert 'flags       ["unread:encrypted"]' in get(URL).stdout.decode().splitlines()


def test_a_page_is_looked_for_as_its_crawl_spells_urls(
    get: Get, mongo_uri: str, mongo_db_name: str
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[mongo_db_name]["pages_metadata"].insert_one(metadata(UNSORTED))
    assert get(UNSORTED).stderr == b"scrapy pages: http://a.test/?a=1&b=2 is not stored.\n"
    done = get(f"{UNSORTED}&ref=x", URL_SORT_QUERY=False, URL_DROP_PARAMETERS=["ref"])
    assert (done.returncode, done.stderr) == (0, b"")
    assert UNSORTED in done.stdout.decode()


def test_the_body_is_given_byte_for_byte(get: Get) -> None:
    assert get(URL, "--body").stdout == BODY
    assert get("http://a.test/zlib", "--body").stdout == BODY


SENTENCE = "The council met in the old town hall, and it decided on the new bridge."
ARTICLE = f"<nav>Menu</nav><p>{SENTENCE} <a href=/x>More</a></p><footer>{SENTENCE}</footer>"


@pytest.fixture
def article(pages: Run, mongo_uri: str, mongo_db_name: str) -> Callable[..., str]:
    """Stores a page with this body, and returns its URL."""

    def store(body: str | bytes, content_type: str, **stored: str) -> str:
        url = "http://a.test/article"
        data = body.encode() if isinstance(body, str) else body
        texts = content(url, "zlib", zlib.compress(data)) | stored
        headers = {"headers": {"content-type": content_type}, "final_url": f"{url}/en/"}
        with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
            client[mongo_db_name]["pages_metadata"].insert_one(metadata(url) | headers)
            client[mongo_db_name]["pages_content"].insert_one(texts)
        return url

    return store


def test_the_article_is_made_of_the_stored_body(get: Get, article: Callable[..., str]) -> None:
    url = article(ARTICLE, "text/html")
    assert get(url, "--main-text").stdout.decode() == f"{SENTENCE} More\n"
    assert get(url, "--markdown").stdout.decode() == f"{SENTENCE} [More](http://a.test/x)\n"
    read = json.loads(get(url, "--markdown", "--json").stdout)
    assert read["markdown"] == f"{SENTENCE} [More](http://a.test/x)"


def test_the_article_is_shown_as_it_is_stored(get: Get, article: Callable[..., str]) -> None:
    url = article(ARTICLE, "text/html", markdown="# Stored")
    assert get(url, "--markdown").stdout == b"# Stored\n"
    assert get(url, "--main-text").stdout.decode() == f"{SENTENCE} More\n"


@pytest.mark.parametrize(
    ("body", "content_type", "markdown"),
    [
        ("# One\ntwo\n\nthree", "text/plain", "\\# One\ntwo\n\nthree"),
        ("# One\n\ntwo", "text/markdown", "# One\n\ntwo"),
        (docx(word_paragraph("One") + word_paragraph("*two*")), "", "One\n\n\\*two\\*"),
    ],
)
def test_files_have_markdown_too(
    body: str | bytes,
    content_type: str,
    markdown: str,
    get: Get,
    article: Callable[..., str],
) -> None:
    done = get(article(body, content_type), "--markdown")
    assert (done.stdout.decode(), done.stderr) == (f"{markdown}\n", b"")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<a href=/>Home</a>", b"No main text is found in http://a.test/article; --text has"),
        ("%PDF-1.7 damaged", b"The document http://a.test/article cannot be read: damaged."),
    ],
)
def test_a_page_without_an_article_says_so(
    body: str, said: bytes, get: Get, article: Callable[..., str]
) -> None:
    done = get(article(body, ""), "--markdown")
    assert (done.returncode, done.stdout) == (1, b"")
    assert said in done.stderr


def test_a_duplicate_shows_the_content_that_was_kept(get: Get) -> None:
    assert get(COPY, "--text").stdout.decode() == "Grüße, 世界\n"
    read = json.loads(get("--json", "--body", COPY).stdout)
    assert read == {"url": COPY, "content_url": URL, "body": BODY.decode()}


Collection = pymongo.collection.Collection[dict[str, Any]]


@pytest.fixture
def stored(mongo_uri: str, mongo_db_name: str) -> Iterator[Collection]:
    """The metadata of the pages."""
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        yield client[mongo_db_name]["pages_metadata"]


def test_a_duplicate_of_what_has_changed_since_does_not_show_that(
    get: Get, mongo_uri: str, mongo_db_name: str
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[mongo_db_name]["pages_metadata"].update_one(
            {"url": URL}, {"$set": {"content_hash": "of another version"}}
        )
    done = get(COPY, "--text")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"it has the content of another page, which is gone" in done.stderr


@pytest.mark.parametrize(
    ("how_near", "simhash", "is_shown"),
    [
        ("duplicate_distance", "00000000000000ff", True),
        ("duplicate_distance", "00000000000000f0", False),
        ("duplicate_distance", "", False),
        ("duplicate_similarity", "00000000000fff3f", True),
        ("duplicate_similarity", "00000000ffffff3f", False),
    ],
)
def test_a_near_duplicate_shows_what_is_still_as_near_to_it(
    get: Get, stored: Collection, how_near: str, simhash: str, is_shown: bool
) -> None:
    near = {how_near: 2, "simhash": "000000000000003f", "content_hash": "of another"}
    stored.update_one({"url": COPY}, {"$set": near})
    stored.update_one({"url": URL}, {"$set": {"simhash": simhash}})
    done = get(COPY, "--text")
    assert done.returncode == (0 if is_shown else 1)
    assert ("Grüße" in done.stdout.decode()) == is_shown


def test_metadata_is_given_as_json(get: Get) -> None:
    read = json.loads(get(URL, "--meta", "--json").stdout)
    assert read["title"] == "A title"
    assert read["crawled_at"].startswith("2024-05-06T00:00:00")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["http://a.test/never"], 1, "http://a.test/never is not stored."),
        ([GONE, "--body"], 1, "the answer was 404"),
        ([HIDDEN, "--text"], 1, "asks not to be kept (noindex)"),
        ([DENIED, "--body"], 1, "robots.txt forbids it"),
        (["a.test/page"], 2, "'a.test/page': it is no URL; write"),
        (["ftp://a.test/"], 2, "only http and https are crawled"),
        (["http://a.test/odd", "--body"], 2, "the codec 'rot13'"),
        (["http://a.test/damaged", "--body"], 2, "damaged"),
        ([URL, "--body", "--text"], 2, "not allowed with"),
    ],
)
def test_what_cannot_be_shown_is_told(get: Get, arguments: list[str], code: int, text: str) -> None:
    done = get(*arguments)
    assert done.returncode == code
    assert text in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_folder_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    environment = {name: value for name, value in os.environ.items() if name != "MONGO_URI"}
    command = [sys.executable, "-m", "scrapy", "pages", "get", URL, "-s", f"CRAWL_DIR={folder}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"There is no folder" in done.stderr
    assert not folder.exists()


# --- find -----------------------------------------------------------------------------------------


def test_pages_are_found_by_domain_time_status_and_reason(pages: Run) -> None:
    def found(*options: str) -> set[str]:
        done = pages("find", "--json", *options)
        assert done.returncode in (0, 1)
        return {json.loads(line)["url"] for line in done.stdout.splitlines()}

    assert len(found()) == 8
    assert found("--domain", "b.test") == {COPY}
    assert found("--domain", "www.A.test") == {DENIED}
    assert found("--status", "4xx") == {GONE}
    assert found("--status", "0") == {DENIED}
    assert found("--reason", "noindex") == {HIDDEN}
    assert len(found("--since", "2024-05-06", "--limit", "3")) == 3
    assert found("--since", "3d") == set()


def test_pages_that_were_rendered_are_found(pages: Run, mongo_uri: str, mongo_db_name: str) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        stored = client[mongo_db_name]["pages_metadata"]
        stored.update_one({"url": URL}, {"$set": {"rendered": True}})
        # As a later visit without a browser leaves it.
        stored.update_one({"url": COPY}, {"$set": {"rendered": False}})
    found = pages("find", "--rendered", "--json").stdout.splitlines()
    assert [json.loads(line)["url"] for line in found] == [URL]
    assert b"\nrendered    True\n" in pages("get", URL).stdout


def test_pages_of_a_platform_are_found_under_its_suffix_too_as_former_versions_stored_them(
    pages: Run, mongo_uri: str, mongo_db_name: str
) -> None:
    now, before = "http://alice.github.io/now", "http://alice.github.io/before"
    other = "http://bob.github.io/before"
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[mongo_db_name]["pages_metadata"].insert_many(
            [metadata(now), *({**metadata(url), "domain": "github.io"} for url in (before, other))]
        )
    done = pages("find", "--json", "--domain", "alice.github.io")
    assert {json.loads(line)["url"] for line in done.stdout.splitlines()} == {now, before}


def test_a_list_for_people_says_what_is_special(pages: Run) -> None:
    done = pages("find", "--domain", "a.test")
    text = done.stdout.decode()
    assert done.returncode == 0
    assert "2024-05-06 00:00:00 UTC  200  " in text
    assert f"{DENIED}  (robots)" in text
    assert f"404      28 B  {GONE}\n" in text
    nothing = pages("find", "--domain", "never.test")
    assert (nothing.returncode, nothing.stdout) == (1, b"")
    assert b"No stored page is like that." in nothing.stderr


def test_a_reader_that_has_seen_enough_ends_the_list_quietly(
    mongo_uri: str, mongo_db_name: str, pages: Run
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[mongo_db_name]["pages_metadata"].insert_many(
            metadata(f"http://many.test/{number}") for number in range(5000)
        )
    options = f"-s MONGO_URI={mongo_uri} -s MONGO_DATABASE={mongo_db_name}"
    command = f"{sys.executable} -m scrapy pages find --limit 0 {options} | head -n 2"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, check=False
    )
    assert done.stdout.count(b"\n") == 2
    assert done.stderr == b""


# --- export ---------------------------------------------------------------------------------------


@pytest.fixture
def whole(mongo_uri: str, mongo_db_name: str, pages: Run) -> Run:
    """Without the pages whose content cannot be read."""
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        broken = [url_hash("http://a.test/odd"), url_hash("http://a.test/damaged")]
        client[mongo_db_name]["pages_metadata"].delete_many({"url_hash": {"$in": broken}})
    return pages


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.jsonl.gz", "-"])
def test_pages_are_exported_a_line_each(whole: Run, tmp_path: Path, name: str) -> None:
    path = "-" if name == "-" else str(tmp_path / name)
    done = whole("export", "-o", path, "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    assert b"2 pages written" in done.stderr
    data = done.stdout if name == "-" else Path(path).read_bytes()
    lines = (gzip.decompress(data) if name.endswith("gz") else data).splitlines()
    read = {page["url"]: page for page in map(json.loads, lines)}
    assert read.keys() == {URL, "http://a.test/zlib"}
    assert read[URL]["body"] == BODY.decode()
    assert read[URL]["text"] == "Grüße, 世界"
    assert read[URL]["crawled_at"].startswith("2024-05-06T00:00:00")
    assert name == "-" or [each.name for each in tmp_path.iterdir()] == [name]


def test_all_that_is_known_is_exported_on_wish(whole: Run, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    whole("export", "-o", str(path), "--all", "--no-body")
    read = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(read) == 6
    assert not any("body" in page for page in read)
    whole("export", "-o", str(path), "--all", "--domain", "b.test")
    # The file was replaced.
    assert len(path.read_text().splitlines()) == 1


def test_an_export_that_fails_leaves_what_was_there(
    pages: Run, mongo_uri: str, mongo_db_name: str, tmp_path: Path
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        moved = {"$set": {"object": "a"}, "$unset": {"body": True}}
        client[mongo_db_name]["pages_content"].update_many({}, moved)
    path = tmp_path / "pages.jsonl"
    path.write_text("old")
    done = pages("export", "-o", str(path))
    assert done.returncode == 2
    assert b"PAGES_TIER_URL is not set" in done.stderr
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["pages.jsonl"]
    missing = pages("export", "-o", str(tmp_path / "no" / "pages.jsonl"))
    assert missing.returncode == 2
    assert b"cannot be written: there is no folder" in missing.stderr


# --- stats and repair -----------------------------------------------------------------------------


def test_what_is_stored_is_counted(pages: Run) -> None:
    text = pages("stats").stdout.decode()
    assert "pages with content  4" in text
    assert "200 6, no answer 1, 404 1" in text
    counted = json.loads(pages("stats", "--json").stdout)
    assert (counted["urls"], counted["pages"], counted["duplicates"]) == (8, 4, 1)
    assert counted["reasons"] == {"noindex": 1, "robots": 1, "status_404": 1}
    assert counted["domains"] == {"a.test": 7, "b.test": 1}
    assert counted["disk_bytes"] > 0


def test_of_an_empty_database_everything_is_zero(
    mongo_uri: str, mongo_db_name: str, pages: Run
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client.drop_database(mongo_db_name)
    done = pages("stats", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["urls"] == 0
    assert pages("stats").returncode == 1


def test_orphans_are_found_and_mended(mongo_uri: str, mongo_db_name: str, pages: Run) -> None:
    young = content("http://x.test/young", "none", b"") | {"crawled_at": datetime.now(UTC)}
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        database = client[mongo_db_name]
        database["pages_content"].insert_many(
            [
                content("http://x.test/", "none", b"nobody knows it"),
                content(HIDDEN, "none", b"not to be kept"),
                # Its metadata may be on its way.
                young,
                # An error since then does not take it away.
                content(GONE, "none", b"as it was"),
            ]
        )
        database["pages_metadata"].insert_one(metadata("http://x.test/empty"))
        found = {"content_without_metadata": 2, "metadata_without_content": 1}
        looked = pages("repair", "--dry-run", "--json")
        assert looked.returncode == 1
        assert json.loads(looked.stdout) == {**found, "mended": False}
        mended = pages("repair", "--json")
        assert mended.returncode == 0, mended.stderr
        assert json.loads(mended.stdout) == {**found, "mended": True}
        assert database["pages_content"].count_documents({}) == 6
        assert "crawl_1_url_hash_1" in database["pages_metadata"].index_information()
    assert pages("repair", "--dry-run").returncode == 0
    lost = pages("find", "--reason", "content_missing").stdout.decode()
    assert "http://x.test/empty  (content_missing)" in lost


# --- crawls ---------------------------------------------------------------------------------------


@pytest.fixture
def crawls(whole: Run, mongo_uri: str, mongo_db_name: str) -> Run:
    """Another crawl has the page too, and a copy of it, which is of later."""
    later = {"crawled_at": datetime(2024, 5, 7, tzinfo=UTC), "title": "Later"}
    body = content(URL, "none", b"later", crawl="news") | {"text": "later"}
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        database = client[mongo_db_name]
        database["pages_metadata"].insert_many(
            [
                metadata(URL, crawl="news") | later,
                metadata(COPY, crawl="news", duplicate_of=URL) | later,
            ]
        )
        database["pages_content"].insert_one(body | {"crawled_at": later["crawled_at"]})
    return whole


def test_a_page_is_that_of_the_newest_crawl_or_of_the_one_that_is_named(crawls: Run) -> None:
    done = crawls("get", URL)
    assert b"crawl       news\n" in done.stdout
    assert b"Later" in done.stdout
    assert done.stderr == (b"This is the newest; other crawls have it: web; --crawl chooses.\n")
    done = crawls("get", URL, "--crawl", "web")
    assert b"A title" in done.stdout
    assert done.stderr == b""
    # A duplicate is one of a page of its own crawl.
    assert crawls("get", COPY, "--text").stdout == b"later\n"
    assert crawls("get", COPY, "--text", "--crawl", "web").stdout.decode() == "Grüße, 世界\n"


def test_a_page_that_only_other_crawls_have_is_told(crawls: Run) -> None:
    done = crawls("get", GONE, "--crawl", "news")
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"scrapy pages: {GONE} is not stored by the crawl 'news'; other crawls have it: web.\n"
    )


@pytest.mark.parametrize(
    "verb",
    [
        ["get", URL],
        ["find"],
        ["stats"],
        ["export", "-o", "-"],
        ["repair", "--dry-run"],
        ["delete", "--yes"],
    ],
)
def test_a_crawl_without_pages_is_told_with_those_that_have_some(
    crawls: Run, verb: list[str]
) -> None:
    done = crawls(*verb, "--crawl", "wbe")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        "scrapy pages: The crawl 'wbe' has no stored pages; those that have some: news, web.\n"
    )


def test_pages_are_listed_exported_and_counted_by_crawl(crawls: Run) -> None:
    def urls(done: Done) -> list[str]:
        assert done.returncode == 0, done.stderr
        return sorted(json.loads(line)["url"] for line in done.stdout.splitlines())

    assert urls(crawls("find", "--crawl", "news", "--json")) == [URL, COPY]
    # Lines say whose page it is, unless all are of one crawl.
    everything = crawls("find").stdout.decode()
    assert "[news]" in everything
    assert "[news]" not in crawls("find", "--crawl", "news").stdout.decode()
    assert urls(crawls("export", "-o", "-", "--crawl", "news")) == [URL]
    both = [json.loads(line) for line in crawls("export", "-o", "-").stdout.splitlines()]
    texts = {(page["crawl"], page["url"]): page["text"] for page in both}
    assert (texts["web", URL], texts["news", URL]) == ("Grüße, 世界", "later")
    assert b"by crawl            web 6, news 2\n" in crawls("stats").stdout
    one = crawls("stats", "--crawl", "news").stdout
    assert b"URLs                2\n" in one
    assert b"on disk with all crawls" in one
    assert b"by crawl" not in one
    assert json.loads(crawls("stats", "--json").stdout)["crawls"] == {"web": 6, "news": 2}


def test_one_crawl_is_repaired(crawls: Run, mongo_uri: str, mongo_db_name: str) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        contents = client[mongo_db_name]["pages_content"]
        # The metadata of another crawl do not make it whole.
        contents.insert_one(content("http://a.test/zlib", "none", b"", crawl="news"))
        contents.delete_one({"crawl": "web", "page_id": url_hash(URL)})
        counts = json.loads(crawls("repair", "--json", "--crawl", "news").stdout)
        assert counts == {
            "content_without_metadata": 1,
            "metadata_without_content": 0,
            "mended": True,
        }
    assert crawls("find", "--reason", "content_missing").returncode == 1
    assert crawls("repair").returncode == 0
    lost = crawls("find", "--reason", "content_missing", "--json").stdout.splitlines()
    assert [(page["crawl"], page["url"]) for page in map(json.loads, lost)] == [("web", URL)]


# --- delete ---------------------------------------------------------------------------------------


def left(mongo_uri: str, mongo_db_name: str) -> set[tuple[str, str, bool]]:
    """Crawl, URL and whether there is content; checks that no content is without metadata."""
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        database = client[mongo_db_name]
        contents = {(each["crawl"], each["page_id"]) for each in database["pages_content"].find()}
        pages = list(database["pages_metadata"].find())
    assert contents <= {(page["crawl"], page["url_hash"]) for page in pages}
    return {
        (page["crawl"], page["url"], (page["crawl"], page["url_hash"]) in contents)
        for page in pages
    }


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (["--crawl", "web"], {("news", URL, True), ("news", COPY, False)}),
        (["--domain", "a.test"], {("news", COPY, False), ("web", COPY, False)}),
        (["--before", "2024-05-07"], {("news", URL, True), ("news", COPY, False)}),
        (
            ["--crawl", "web", "--domain", "a.test", "--before", "1h"],
            {("news", URL, True), ("news", COPY, False), ("web", COPY, False)},
        ),
    ],
)
def test_pages_are_deleted_with_their_content(
    crawls: Run,
    mongo_uri: str,
    mongo_db_name: str,
    options: list[str],
    kept: set[tuple[str, str, bool]],
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        # Those whose metadata the fixture has deleted.
        broken = [url_hash("http://a.test/odd"), url_hash("http://a.test/damaged")]
        client[mongo_db_name]["pages_content"].delete_many({"page_id": {"$in": broken}})
    before = left(mongo_uri, mongo_db_name)
    done = crawls("delete", *options, "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == f"{len(before) - len(kept)} pages deleted\n"
    assert left(mongo_uri, mongo_db_name) == kept
    assert crawls("delete", *options, "--yes").returncode == 1


def test_content_that_has_no_metadata_goes_with_its_crawl(
    crawls: Run, mongo_uri: str, mongo_db_name: str
) -> None:
    assert json.loads(crawls("delete", "--crawl", "web", "--yes", "--json").stdout) == {
        "deleted": 6
    }
    # The fixture left some.
    assert len(left(mongo_uri, mongo_db_name)) == 2


def test_pages_are_deleted_only_after_a_yes_to_their_number(
    crawls: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = crawls("delete", "--crawl", "news")
    assert done.returncode == 2
    assert b"No page was deleted; say yes, or give --yes." in done.stderr
    asked: list[str] = []
    monkeypatch.setattr(
        "crawler.commands.pages.confirmed", lambda question: not asked.append(question)
    )
    assert crawls("delete", "--crawl", "news").stdout == b"2 pages deleted\n"
    assert asked == ["Delete 2 pages from MongoDB?"]


# --- migrate --------------------------------------------------------------------------------------


def test_pages_of_an_earlier_version_are_migrated_by_hand(
    pages: Run, mongo_uri: str, mongo_db_name: str
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client.drop_database(mongo_db_name)
    old_pages.fill(mongo_uri, mongo_db_name, 3)
    for verb in (["stats"], ["get", old_pages.url(1)], ["delete", "--crawl", "web"]):
        done = pages(*verb)
        assert done.returncode == 2
        assert done.stderr.decode() == (
            f"scrapy pages: The database '{mongo_db_name}' has pages of an earlier version, which "
            "do not say which crawl they are of: start their crawl, or give them its name with "
            "`scrapy pages migrate --crawl NAME`.\n"
        )
    nameless = pages("migrate", "--crawl", "")
    assert (nameless.returncode, b"--crawl is empty" in nameless.stderr) == (2, True)
    done = pages("migrate", "--crawl", "shop")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"All stored pages are of the crawl 'shop' now.\n"
    old_pages.check_migrated(mongo_uri, mongo_db_name, 3, "shop")
    assert pages("get", old_pages.url(1)).returncode == 0
    again = pages("migrate", "--crawl", "other")
    assert again.returncode == 0
    assert b"has no pages of an earlier version" in again.stdout


def test_a_migration_that_a_killed_process_began_is_ended_with_its_name(
    pages: Run, mongo_uri: str, mongo_db_name: str
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client.drop_database(mongo_db_name)
        old_pages.fill(mongo_uri, mongo_db_name, 3)
        expires_at = datetime.now(UTC) + timedelta(seconds=1.5)
        lock = {"crawl": "first", "owner": "killed", "expires_at": expires_at}
        client[mongo_db_name]["pages_schema"].update_one(
            {}, {"$set": {"version": 2, "migration": lock}}
        )
    done = pages("migrate", "--crawl", "second")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"All stored pages are of the crawl 'first' now.\n"
    assert done.stderr.count(b"Another process gives them the name 'first', or was killed") == 1
    old_pages.check_migrated(mongo_uri, mongo_db_name, 3, "first")


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["find", "--since", "soon"], "'soon' is no time"),
        (["find", "--status", "700"], "'700' is no status"),
        (["find", "--limit", "-1"], "'-1' is no whole number"),
        (["find", "--dom", "a.test"], "unrecognized arguments"),
        (["export"], "the following arguments are required: -o/--output"),
        (["export", "-o", "x", "--format", "xml"], "invalid choice: 'xml'"),
        (["repair", "--older", "1"], "'1' is no time"),
        (["delete", "--yes"], "Say which pages to delete: --crawl NAME, --domain NAME or"),
        (["migrate"], "the following arguments are required: --crawl"),
        (["migrate", "--crawl", "a b"], "without braces, colons, blanks"),
        (["drop"], "there is no 'drop'; use one of get, find, export, index, search, stats"),
    ],
)
def test_a_mistake_is_named(pages: Run, arguments: list[str], text: str) -> None:
    done = pages(*arguments)
    assert done.returncode == 2
    assert text in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_pages_of_another_version_are_not_read(
    mongo_uri: str, mongo_db_name: str, pages: Run
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[mongo_db_name]["pages_schema"].insert_one({"_id": "pages", "version": 9})
    done = pages("stats")
    assert done.returncode == 2
    assert b"has pages of version 9" in done.stderr


def test_pages_are_ranked_by_the_links_between_them(
    pages: Run, mongo_uri: str, mongo_db_name: str, tmp_path: Path
) -> None:
    links = {URL: [COPY], COPY: [URL], GONE: [], HIDDEN: [URL, "http://new.test/"]}
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        collection = client[mongo_db_name]["pages_metadata"]
        for url in [DENIED, *(f"http://a.test/{name}" for name in ("zlib", "odd", "damaged"))]:
            links[url] = [URL]
        for url, found in links.items():
            collection.update_one({"url": url}, {"$set": {"links": found}})
        file = tmp_path / "ranks"
        done = pages("rank", "-o", str(file), "--top", "2", CRAWL_DIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        ranks = {each["url"]: each["page_rank"] for each in collection.find()}
    first, second, last = done.stdout.decode().splitlines()
    assert first.split() == [f"{ranks[URL]:.1f}", URL]
    assert second.split() == [f"{ranks[COPY]:.1f}", COPY]
    assert last.startswith("9 URLs ranked by 8 links, in ")
    assert ranks[URL] > ranks[COPY] > ranks[GONE] == ranks[HIDDEN] > 0
    of_file = PageRanks.open(file).of(
        [fingerprint(url) for url in (URL, GONE, "http://new.test/", "http://not.test/")]
    )
    assert of_file[:2] == pytest.approx([ranks[URL], ranks[GONE]])
    assert of_file[2] > of_file[1]
    assert of_file[3] == 0
    # Nothing is left of the files with the links.
    assert [path.name for path in tmp_path.iterdir()] == ["ranks"]


def test_the_folder_for_ranks_is_asked_for_before_they_are_computed(
    pages: Run, tmp_path: Path
) -> None:
    done = pages("rank", "-o", str(tmp_path / "no" / "ranks"), CRAWL_DIR=str(tmp_path))
    assert done.returncode == 2
    assert b"there is no folder" in done.stderr


def test_a_ranking_wants_one_crawl_with_links(
    pages: Run, mongo_uri: str, mongo_db_name: str, tmp_path: Path
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        collection = client[mongo_db_name]["pages_metadata"]
        collection.update_many({}, {"$set": {"links": []}})
        done = pages("rank", CRAWL_DIR=str(tmp_path))
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"The pages of the crawl 'web' have no links that are stored." in done.stderr
        collection.insert_one(metadata(URL, crawl="other"))
        done = pages("rank", CRAWL_DIR=str(tmp_path))
        assert done.returncode == 2
        assert b"Several crawls have pages: other, web. Say which one: --crawl NAME." in done.stderr
        assert pages("rank", "--crawl", "other", CRAWL_DIR=str(tmp_path)).returncode == 0
