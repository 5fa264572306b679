"""`scrapy pages index` and `search` on a real MongoDB."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pymongo
import pytest

from crawler.commands.pages import Command
from crawler.storage.mongo import reader
from crawler.storage.search import update
from crawler.storage.search.index import IndexWriter, SearchSettings
from crawler.urls import fingerprint, host_of, registered_domain
from tests.integration.commands import indexing
from tests.support.crawlers import project_crawler

ROOT = Path(__file__).resolve().parents[3]
BEGAN = datetime(2026, 5, 6, tzinfo=UTC)
COUNT = 60


@dataclass
class Store:
    """Pages in MongoDB, written as a crawl does."""

    database: Any

    def put(self, number: int, text: str, *, at: datetime | None = None, **fields: Any) -> None:
        url = f"http://h{number % 3}.a.test/{number}"
        found = {"crawl": "web", "url_hash": f"{fingerprint(url):016x}"}
        # Three of them have the same time.
        at = at or BEGAN + timedelta(seconds=number // 3)
        host = host_of(url)
        page = {
            **found,
            "url": url,
            "host": host,
            "domain": registered_domain(host),
            "status": 200,
            "reason": "",
            "duplicate_of": "",
            "title": f"Page {number}",
            "language": "en",
            "crawled_at": at,
            "size_bytes": len(text),
            **fields,
        }
        content = {
            "crawl": "web",
            "page_id": found["url_hash"],
            "crawled_at": at,
            "codec": "none",
            "body": text.encode(),
            "text": text,
        }
        self.database["pages_metadata"].replace_one(found, page, upsert=True)
        of_page = {"crawl": "web", "page_id": found["url_hash"]}
        self.database["pages_content"].replace_one(of_page, content, upsert=True)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def store(mongo_uri: str, mongo_db_name: str) -> Iterator[Store]:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        store = Store(client[mongo_db_name])
        for number in range(COUNT):
            store.put(number, f"Common words and number{number}")
        yield store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "search"


@pytest.fixture
def small_batches(monkeypatch: Any) -> None:
    # Several batches and windows, with pages of the same time on both sides of their ends.
    monkeypatch.setattr(reader, "BATCH", indexing.BATCH)
    monkeypatch.setattr(reader, "BATCH_BARE", indexing.BATCH)
    monkeypatch.setattr(update, "_WINDOW", indexing.WINDOW)


@pytest.fixture
def pages(store: Store, small_batches: None, mongo_uri: str, folder: Path, capfd: Any) -> Run:
    name = store.database.name

    def run(*arguments: str, **settings: Any) -> Done:
        command = Command()
        values = {"MONGO_URI": mongo_uri, "MONGO_DATABASE": name, "SEARCH_DIR": folder}
        command.settings = project_crawler(**values | settings).settings
        capfd.readouterr()
        command.run(list(arguments), argparse.Namespace())
        return Done(command.exitcode, *capfd.readouterr())

    return run


def counts(done: Done) -> tuple[int, int, int]:
    assert done.code == 0, done.err
    found = done.json()
    assert found["unread"] == 0
    return found["compared"], found["indexed"], found["removed"]


def total(pages: Run, *words: str) -> int:
    return int(pages("search", *words, "--json").json()["total"])


def test_only_what_changed_is_indexed_again(pages: Run, store: Store) -> None:
    assert counts(pages("index", "--json")) == (COUNT, COUNT, 0)
    assert counts(pages("index", "--json")) == (COUNT, 0, 0)
    later = BEGAN + timedelta(days=1)
    store.put(7, "Other words", at=later)
    store.put(COUNT, "New words", at=later)
    assert counts(pages("index", "--json")) == (COUNT + 1, 2, 1)
    assert [total(pages, word) for word in ("number7", "other", "new", "common")] == [0, 1, 1, 59]
    # Stored late: its time is before that of others in the index.
    store.put(COUNT + 1, "Late words", at=BEGAN + timedelta(seconds=3))
    assert counts(pages("index", "--json")) == (COUNT + 2, 1, 0)
    assert total(pages, "late") == 1
    assert counts(pages("index", "--fresh", "--json")) == (COUNT + 2, COUNT + 2, 0)


def test_what_is_gone_or_not_stored_any_more_is_removed(pages: Run, store: Store) -> None:
    pages("index")
    later = BEGAN + timedelta(days=1)
    store.put(1, "It is a copy now", at=later, duplicate_of="a" * 16)
    store.put(2, "It is gone now", at=later, status=404, reason="status_404")
    # At the age of PAGES_KEEP, the time of the visit stays.
    metadata = store.database["pages_metadata"]
    metadata.update_one({"title": "Page 3"}, {"$set": {"reason": "expired"}})
    metadata.delete_one({"title": "Page 4"})
    assert counts(pages("index", "--json")) == (COUNT - 4, 0, 4)
    assert total(pages, "common") == COUNT - 4
    # Whatever is left in the store.
    metadata.delete_many({})
    assert counts(pages("index", "--json")) == (0, 0, COUNT - 4)
    assert total(pages, "common") == 0


def test_since_compares_only_newer_pages(pages: Run, store: Store) -> None:
    pages("index")
    store.put(3, "Other words", at=BEGAN + timedelta(days=1, microseconds=1500))
    store.database["pages_metadata"].delete_one({"title": "Page 4"})
    since = (BEGAN + timedelta(seconds=18)).isoformat()
    # Pages 54 to 59 and the new one. The older version of 3 is replaced; 4 is left for later.
    assert counts(pages("index", "--since", since, "--json")) == (7, 1, 0)
    assert (total(pages, "number3"), total(pages, "other"), total(pages, "number4")) == (0, 1, 1)
    assert counts(pages("index", "--json")) == (COUNT - 1, 0, 1)


def test_content_that_cannot_be_read_is_counted_and_tried_again(pages: Run, store: Store) -> None:
    store.database["pages_content"].update_one(
        {"text": "Common words and number5"}, {"$set": {"codec": "odd"}}
    )
    done = pages("index")
    assert done.code == 0
    assert f"{COUNT - 1} pages indexed" in done.out
    assert "content that cannot be read: 1" in done.out
    store.put(5, "Mended words")
    assert counts(pages("index", "--json")) == (COUNT, 1, 0)


def test_content_is_read_of_missing_pages_and_few_others(
    pages: Run, store: Store, monkeypatch: Any
) -> None:
    monkeypatch.setattr(update, "_WINDOW", 2 * COUNT)
    monkeypatch.setattr(update, "_BETWEEN_MAX", 6)
    pages("index")
    read, read_contents = [], reader.MongoReader._read_contents

    async def counted(self: Any, found: Any) -> Any:
        read.extend(page["title"] for page in found)
        return await read_contents(self, found)

    monkeypatch.setattr(reader.MongoReader, "_read_contents", counted)
    # All three of a moment are in its span.
    for number in (0, 6, 57):
        at = BEGAN + timedelta(seconds=number // 3, milliseconds=1)
        store.put(number, "Other words", at=at)
    assert counts(pages("index", "--json")) == (COUNT, 3, 3)
    assert read == [f"Page {number}" for number in (0, 3, 4, 5, 7, 8, 6, 57)]


def test_updates_that_are_killed_go_on(
    pages: Run, mongo_uri: str, mongo_db_name: str, tmp_path: Path
) -> None:
    # The pages that the index has at least when its writer is killed.
    moments = {"added": 0, "committed": 1, "done": COUNT}
    runs = [each for moment in moments for each in (moment, str(tmp_path / moment))]
    subprocess.run(
        [sys.executable, "-m", indexing.__name__, mongo_uri, mongo_db_name, *runs],
        cwd=ROOT,
        timeout=120,
        check=True,
    )
    for moment, least in moments.items():
        folder = {"SEARCH_DIR": tmp_path / moment}
        before = pages("search", "common", "--json", **folder).json()["total"]
        assert before >= least, moment
        assert counts(pages("index", "--json", **folder)) == (COUNT, COUNT - before, 0)
        assert pages("search", "common", "--json", **folder).json()["total"] == COUNT
        assert counts(pages("index", "--json", **folder)) == (COUNT, 0, 0)


def test_a_second_update_at_once_is_refused_in_one_line(pages: Run, folder: Path) -> None:
    with IndexWriter(SearchSettings(folder)):
        done = pages("index")
    assert done.code == 2
    assert "Another process writes the search index" in done.err
    assert done.err.count("\n") == 1


def test_results_are_shown_for_people(pages: Run) -> None:
    pages("index")
    done = pages("search", "number12")
    assert done.code == 0
    title, url, snippet, about = done.out.splitlines()
    assert (title, url) == ("Page 12", "http://h0.a.test/12")
    assert snippet == "Common words and number12"
    assert about.startswith("2026-05-06 00:00:04 UTC  [web]  ")
    done = pages("search", "common", "words", "--limit", "2", "--domain", "h1.a.test")
    assert done.out.count("http://h1.a.test/") == 2
    assert "20 pages in all; --limit shows more" in done.err


def test_words_are_bold_on_a_terminal_that_pages_cannot_steer(
    pages: Run, store: Store, monkeypatch: Any
) -> None:
    store.put(1, "An \x1b]0;evil\x07 dog", title="T\x1b[2Jitle")
    pages("index")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    text = pages("search", "dogs").out
    assert "\x1b[1mdog\x1b[0m" in text
    assert "evil" in text
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text


def test_filters_and_json(pages: Run) -> None:
    pages("index")
    found = pages("search", "number12", "--crawl", "web", "--language", "en", "--json").json()
    (result,) = found["results"]
    assert result["snippet"] == "Common words and <b>number12</b>"
    assert result["crawled_at"].startswith("2026-05-06T00:00:04")
    assert pages("search", "number12", "--crawl", "other", "--json").code == 1
    assert pages("search", "number12", "--since", "2026-05-07").code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["search", "words"], 1, "There is no search index in"),
        (["index", "--fresh", "--since", "1d"], 2, "leave --since out"),
    ],
)
def test_mistakes_are_told_in_one_line(
    pages: Run, arguments: list[str], code: int, text: str
) -> None:
    done = pages(*arguments)
    assert done.code == code
    assert text in done.err
    assert done.err.count("\n") == 1


def test_words_that_no_page_has_are_told(pages: Run) -> None:
    pages("index")
    done = pages("search", "nothing")
    assert (done.code, done.out) == (1, "")
    assert "No page in the index has all of that" in done.err
    assert "has no word to search for" in pages("search", "&").err
    done = pages("search", "common", "--crawl", "nope")
    assert done.code == 1
    assert "no page of the crawl 'nope'; those that it has: web" in done.err


def test_without_the_package_the_extra_is_named(pages: Run, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    done = pages("search", "words")
    assert done.code == 2
    assert 'pip install "mercator-crawler[search]"' in done.err
