"""`scrapy pages get` on a real MongoDB, as the store pipeline fills it."""

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymongo
import pytest
import zstandard

from crawler.urls import fingerprint

ROOT = Path(__file__).resolve().parents[2]
URL = "http://a.test/page"
COPY = "http://b.test/copy"
GONE = "http://a.test/gone"
HIDDEN = "http://a.test/hidden"
BODY = "<html>Grüße, 世界</html>".encode()

Get = Callable[..., subprocess.CompletedProcess[bytes]]


def url_hash(url: str) -> str:
    return f"{fingerprint(url):016x}"


def metadata(url: str, status: int = 200, duplicate_of: str = "") -> dict[str, Any]:
    return {
        "url": url,
        "url_hash": url_hash(url),
        "status": status,
        "title": "A title",
        "charset": "utf-8",
        "crawled_at": datetime(2024, 5, 6, tzinfo=UTC),
        "size_bytes": len(BODY),
        "duplicate_of": url_hash(duplicate_of) if duplicate_of else "",
        "links": ["http://a.test/"],
    }


def content(url: str, codec: str, body: bytes) -> dict[str, Any]:
    return {"page_id": url_hash(url), "codec": codec, "body": body, "text": "Grüße, 世界"}


@pytest.fixture
def get(mongo_uri: str, mongo_db_name: str) -> Get:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        database = client[mongo_db_name]
        database["pages_metadata"].insert_many(
            [
                metadata(URL),
                metadata(COPY, duplicate_of=URL),
                metadata(GONE, status=404),
                metadata(HIDDEN),
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

    def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "scrapy", "pages", "get", *arguments]
        command += ["-s", f"MONGO_URI={mongo_uri}", "-s", f"MONGO_DATABASE={mongo_db_name}"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=False)

    return run


def test_a_page_is_shown_in_brief(get: Get) -> None:
    # Spelled otherwise, it is the same page.
    done = get("HTTP://A.test:80/page?utm_source=x#part")
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert URL in text
    assert "A title" in text
    assert "Grüße, 世界" in text
    assert done.stderr == b""


def test_the_body_is_given_byte_for_byte(get: Get) -> None:
    assert get(URL, "--body").stdout == BODY
    assert get("http://a.test/zlib", "--body").stdout == BODY


def test_a_duplicate_shows_the_content_that_was_kept(get: Get) -> None:
    assert get(COPY, "--text").stdout.decode() == "Grüße, 世界\n"
    read = json.loads(get("--json", "--body", COPY).stdout)
    assert read == {"url": COPY, "content_url": URL, "body": BODY.decode()}


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
        (["a.test/page"], 2, "'a.test/page' is no URL of a page (no_scheme)"),
        (["ftp://a.test/"], 2, "(scheme)"),
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
