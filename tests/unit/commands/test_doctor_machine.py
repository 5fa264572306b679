"""Checks of the machine: what is enough, and what to change."""

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from crawler.commands import doctor
from crawler.commands.doctor import FAILURE, OK, WARNING
from crawler.items import Page
from crawler.storage.spool import Spool
from crawler.urls.canonical import suffix_list_date
from crawler.util.file_limit import Connections


def test_a_file_for_each_fetch_and_each_kept_connection() -> None:
    usual = Connections(fetches=64, kept=256)
    assert doctor.file_limit(534, 534, usual).level == OK
    short = doctor.file_limit(533, 533, usual)
    assert (short.level, short.text) == (
        WARNING,
        "533 open files allowed, 534 needed: 255 connections are kept",
    )
    few = doctor.file_limit(100, 100, usual)
    assert (few.level, few.text) == (
        WARNING,
        "100 open files allowed, 534 needed: 17 fetches run at a time",
    )
    assert "ulimit -n 65536" in few.advice
    assert doctor.file_limit(30, 30, usual).level == FAILURE
    raised = doctor.file_limit(64, 534, usual)
    assert (raised.level, raised.text) == (
        OK,
        "64 open files allowed, 534 needed: a crawl raises its limit",
    )
    huge = doctor.file_limit(1024, 4096, Connections(fetches=100_000, kept=0))
    assert "ulimit -n 200150" in huge.advice


@pytest.mark.parametrize(
    ("value", "name", "level"),
    [
        ("default/1.0 (+https://example.org)", "default", WARNING),
        ("Scrapy/2 (+https://scrapy.org)", "Scrapy", WARNING),
        ("mine/1.0", "mine", WARNING),
        ("", "", WARNING),
        ("Mozilla/5.0 (+https://mine.org/bot)", "Mozilla", WARNING),
        ("Mozilla/5.0 (+https://mine.org/bot)", "mine", OK),
        ("mine/1.0 (+https://mine.org/bot)", "mine", OK),
        ("mine/1.0 (bot@mine.org)", "mine", OK),
    ],
)
def test_a_user_agent_is_ones_own_and_names_somebody(value: str, name: str, level: str) -> None:
    defaults = ("default/1.0 (+https://example.org)", "Scrapy/2 (+https://scrapy.org)")
    found = doctor.user_agent(value, name, defaults)
    assert found.level == level
    assert bool(found.advice) == (level != OK)


@pytest.mark.parametrize(
    ("free_bytes", "level"), [(1, FAILURE), (2 << 30, WARNING), (99 << 30, OK)]
)
def test_a_disk_has_room(
    free_bytes: int, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def usage(path: Path) -> tuple[int, int, int]:
        asked.append(path)
        return type("Usage", (), {"free": free_bytes})()

    monkeypatch.setattr("shutil.disk_usage", usage)
    assert doctor.disk(tmp_path / "not" / "there" / "yet").level == level
    assert asked == [tmp_path]


@pytest.mark.parametrize(("free_bytes", "level"), [(999, WARNING), (1000, OK)])
def test_a_spool_has_room_and_leaves_nothing_behind(
    free_bytes: int, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free_bytes))
    found = doctor.spool(tmp_path / "not" / "there" / "yet", 1000)
    assert found.level == level
    assert bool(found.advice) == (level != OK)
    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_cannot_be_written_to_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        found = doctor.spool(folder, 1000)
        assert found.level == FAILURE
        assert "SPOOL_DIR" in found.advice


def page(url: str) -> Page:
    return Page(url=url, final_url=url, status=200, crawled_at=datetime.now(UTC))


async def test_pages_in_a_spool_are_told(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "web", max_bytes=10**6, is_closing=lambda: False)
    await spool.open(None)
    assert await spool.put(page("http://a.test/1"), ["mongo"])
    assert await spool.put(page("http://a.test/2"), ["mongo"])
    found = doctor.spool(tmp_path, 1)
    assert found.level == OK
    assert "; 2 pages, " in found.text
    await spool.set_aside(page("http://a.test/3"), "mongo")
    found = doctor.spool(tmp_path, 1)
    assert found.level == WARNING
    assert "1 page in it that a sink refused" in found.text
    await spool.close()


def test_a_user_agent_without_contact_is_no_start_where_one_is_required() -> None:
    for value in ("mybot/1.0", "default/1.0"):
        found = doctor.user_agent(value, "mybot", ["default/1.0"], is_required=True)
        assert found.level == FAILURE


@pytest.mark.parametrize(
    ("listed", "level"),
    [(date(2026, 9, 1), OK), (date(2026, 1, 1), OK), (date(2025, 4, 7), WARNING), (None, WARNING)],
)
def test_the_list_of_public_suffixes_tells_its_date(listed: date | None, level: str) -> None:
    found = doctor.suffix_list(listed, today=date(2026, 9, 20))
    assert found.level == level
    assert (str(listed) if listed else "no date") in found.text
    assert bool(found.advice) == (level != OK)


def test_the_installed_list_of_public_suffixes_has_a_date() -> None:
    assert suffix_list_date() is not None
