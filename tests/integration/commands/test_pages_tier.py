"""`scrapy pages tier`, and commands on pages whose content was moved."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pymongo
import pytest
import zstandard

from crawler.commands.pages import Command
from tests.integration.commands.test_pages import BODY, content, metadata
from tests.support.cluster import free_port
from tests.support.crawlers import project_crawler

OLD, FRESH = "http://a.test/old", "http://a.test/fresh"
KEEP = "7d/-/5y"


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: bytes
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return (tmp_path / "objects").as_uri()


@pytest.fixture
def pages(
    mongo_uri: str, mongo_db_name: str, url: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Runs the command in this process, on a page of ten days and one of a day."""
    body = zstandard.ZstdCompressor().compress(BODY)
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        for page_url, days in ((OLD, 10), (FRESH, 1)):
            at = {"crawled_at": datetime.now(UTC) - timedelta(days=days)}
            database = client[mongo_db_name]
            database["pages_metadata"].insert_one(metadata(page_url) | at)
            database["pages_content"].insert_one(content(page_url, "zstd", body) | at)

    def run(*arguments: str, **settings: Any) -> Done:
        command = Command()
        servers = {"MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db_name}
        tiers = {"PAGES_KEEP": KEEP, "PAGES_TIER_URL": url}
        command.settings = project_crawler(**{**servers, **tiers, **settings}).settings
        capfdbinary.readouterr()
        command.run(list(arguments), argparse.Namespace())
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Done(command.exitcode, out, err.decode())

    return run


def test_a_dry_run_prints_pages_and_bytes_and_moves_nothing(pages: Run, tmp_path: Path) -> None:
    done = pages("tier", "--dry-run")
    assert done.returncode == 0, done.stderr
    warm, cold, expired = done.stdout.decode().splitlines()
    assert warm.startswith("warm     1 page, ")
    assert warm.endswith(" B would be moved to the object store")
    assert cold == "cold     0 pages, 0 B would be moved to the cold class"
    assert expired == "expired  0 pages, 0 B would be deleted"
    found = json.loads(pages("tier", "--dry-run", "--json").stdout)
    assert (found["warm"]["pages"], found["dry_run"], found["left"]) == (1, True, 0)
    assert not (tmp_path / "objects").exists()
    assert pages("get", OLD, "--body", PAGES_TIER_URL=None, PAGES_KEEP=None).stdout == BODY


def test_moved_content_is_read_exported_and_deleted(pages: Run, tmp_path: Path) -> None:
    done = pages("tier", "--crawl", "web")
    assert done.returncode == 0, done.stderr
    assert b"warm     1 page, " in done.stdout
    assert json.loads(pages("tier", "--json").stdout)["warm"] == {"pages": 0, "bytes": 0}
    assert pages("get", OLD, "--body").stdout == BODY
    assert "世界" in pages("get", OLD, "--text").stdout.decode()
    # Also without PAGES_KEEP, which only says what moves next.
    lines = pages("export", "-o", "-", PAGES_KEEP=None).stdout.decode().splitlines()
    assert [json.loads(line)["body"] for line in lines] == [BODY.decode()] * 2
    assert pages("repair", "--dry-run").returncode == 0
    done = pages("get", OLD, "--body", PAGES_TIER_URL=None, PAGES_KEEP=None)
    assert done.returncode == 2
    assert "PAGES_TIER_URL is not set" in done.stderr
    assert pages("delete", "--crawl", "web", "--yes").returncode == 0
    assert not [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]


def test_without_ages_objects_that_no_page_needs_are_deleted(
    pages: Run, tmp_path: Path, mongo_uri: str, mongo_db_name: str
) -> None:
    assert pages("tier").returncode == 0
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        moved = client[mongo_db_name]["pages_content"]
        moved.update_one({"tier": "warm"}, {"$set": {"tier": "gone"}, "$rename": LOOSE})
    done = pages("tier", PAGES_KEEP=None)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(b"1 object of earlier visits deleted\n")
    assert json.loads(pages("tier", "--json", PAGES_KEEP=None).stdout)["loose_objects"] == 0
    assert not [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]


LOOSE = {"object": "loose_object"}


def test_expired_content_has_its_reason(pages: Run) -> None:
    done = pages("tier", PAGES_KEEP="-/-/9d", PAGES_TIER_URL=None)
    assert b"expired  1 page, " in done.stdout
    done = pages("get", OLD, "--text")
    assert done.returncode == 1
    assert "it was deleted at the age that PAGES_KEEP has" in done.stderr
    assert OLD in pages("find", "--reason", "expired").stdout.decode()


@pytest.mark.parametrize(
    ("settings", "code", "text"),
    [
        ({"PAGES_KEEP": None, "PAGES_TIER_URL": None}, 2, "PAGES_KEEP is not set"),
        ({"PAGES_KEEP": "7d/1d/-"}, 2, "PAGES_KEEP is '7d/1d/-'; give ages that grow"),
        ({"PAGES_TIER_URL": None}, 2, "set PAGES_TIER_URL"),
        ({"PAGES_TIER_URL": "ftp://a.test/"}, 2, "PAGES_TIER_URL is 'ftp://a.test/'"),
        ({"PAGES_TIER_URL": "s3://pages"}, 3, "s3://pages/web/a.test/"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_lost(
    pages: Run,
    settings: dict[str, Any],
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody listens there.
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    done = pages("tier", **settings)
    assert text in done.stderr
    assert done.returncode == code
    assert pages("get", OLD, "--body").stdout == BODY
    if code == 2:
        return
    # Moved content of a store that is away.
    assert pages("tier").returncode == 0
    assert pages("get", OLD, "--body", **settings).returncode == 3
    assert pages("get", FRESH, "--body", **settings).returncode == 0


def test_a_crawl_without_pages_is_named(pages: Run) -> None:
    done = pages("tier", "--crawl", "other")
    assert done.returncode == 1
    assert "The crawl 'other' has no stored pages" in done.stderr
