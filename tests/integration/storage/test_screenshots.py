"""Screenshots of pages, in a folder and in a real S3 server."""

import logging
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crawler.errors import ConfigurationError
from crawler.servers.objects import ObjectStore
from crawler.storage import screenshots
from crawler.storage.screenshots import Screenshots
from tests.support.crawlers import project_crawler
from tests.support.s3_front import Front, front_of
from tests.support.s3_server import S3Server, use_server

HASH = "0123456789abcdef"
NAME = f"web/01/{HASH}.webp"
IMAGE = b"RIFF....WEBP"


class Counted(Screenshots):
    """Screenshots that write down what they count."""

    stats: Counter[str]


def screenshots_of(where: str | None, **settings: Any) -> Counted:
    stats: Counter[str] = Counter()
    crawler = project_crawler(RENDER_SCREENSHOTS=where, **settings)
    found = Counted.from_settings(crawler.settings, lambda name: stats.update([name]))
    found.stats = stats
    return found


def files_in(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their names in it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
async def front(
    s3_url: str, s3_server: S3Server, s3_environment: pytest.MonkeyPatch
) -> AsyncIterator[Front]:
    async with front_of(s3_server.endpoint) as front:
        use_server(s3_environment, front.endpoint)
        yield front


async def test_a_screenshot_is_a_file_in_the_folder_of_the_crawl(tmp_path: Path) -> None:
    kept = screenshots_of(None, CRAWL_DIR=str(tmp_path))
    place = await kept.put("web", HASH, IMAGE)
    assert place == str(tmp_path / "screenshots" / NAME)
    assert files_in(tmp_path / "screenshots") == {NAME: IMAGE}
    assert kept.stats == {"screenshots/kept": 1}


async def test_a_place_can_be_read_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = await screenshots_of("pictures").put("web", HASH, IMAGE)
    assert place == str(tmp_path / "pictures" / NAME)
    assert files_in(tmp_path / "pictures") == {NAME: IMAGE}


async def test_the_next_visit_replaces_a_screenshot(tmp_path: Path) -> None:
    kept = screenshots_of(str(tmp_path))
    for image in (b"one", b"two"):
        await kept.put("web", HASH, image)
    assert files_in(tmp_path) == {NAME: b"two"}


@pytest.mark.parametrize(
    ("crawl", "folder"), [("a/b", "a%2Fb"), ("..", "%2E%2E"), ("/etc", "%2Fetc")]
)
async def test_an_odd_name_of_a_crawl_is_one_folder(
    tmp_path: Path, crawl: str, folder: str
) -> None:
    await screenshots_of(str(tmp_path)).put(crawl, HASH, IMAGE)
    assert files_in(tmp_path) == {f"{folder}/01/{HASH}.webp": IMAGE}


async def test_a_screenshot_is_an_object(s3_url: str) -> None:
    kept = screenshots_of(f"{s3_url}/pictures/")
    for image in (b"earlier", IMAGE):
        place = await kept.put("web", HASH, image)
    assert place == f"{s3_url}/pictures/{NAME}"
    assert await ObjectStore.from_url(s3_url, what="a test").get(f"pictures/{NAME}") == IMAGE


async def test_a_folder_may_be_named_as_an_object_store(tmp_path: Path) -> None:
    place = await screenshots_of(f"file://{tmp_path}").put("web", HASH, IMAGE)
    assert place == f"file://{tmp_path}/{NAME}"
    assert files_in(tmp_path) == {NAME: IMAGE}


async def test_screenshots_that_cannot_be_written_are_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "web").write_text("a file in the place of the folder")
    kept = screenshots_of(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert [await kept.put("web", HASH, IMAGE) for _ in range(3)] == ["", "", ""]
    (message,) = caplog.messages
    assert "A screenshot is not kept: " in message
    assert str(tmp_path / "web") in message
    assert kept.stats == {"screenshots/failed": 3}


async def test_a_store_that_refuses_is_one_warning_and_the_next_picture_may_be_kept(
    s3_url: str, front: Front, caplog: pytest.LogCaptureFixture
) -> None:
    kept = screenshots_of(s3_url)
    front.answer = (403, "AccessDenied")
    with caplog.at_level(logging.WARNING):
        assert [await kept.put("web", HASH, IMAGE) for _ in range(2)] == ["", ""]
    (message,) = caplog.messages
    assert f"{s3_url}/{NAME} is refused (403 Forbidden: AccessDenied" in message
    front.answer = None
    assert await kept.put("web", HASH, IMAGE) == f"{s3_url}/{NAME}"


async def test_no_page_waits_for_a_store_that_does_not_answer(
    s3_url: str,
    front: Front,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(screenshots, "_DEADLINE_S", 0.05)
    front.held = ("PUT", "webp")
    with caplog.at_level(logging.WARNING):
        assert await screenshots_of(s3_url).put("web", HASH, IMAGE) == ""
    assert "no answer within 0.05 s" in caplog.text


@pytest.mark.parametrize("given", ["http://host/bucket", "s3://", "s3://key:secret@bucket"])
def test_a_place_that_is_none_is_told_with_the_setting(given: str) -> None:
    with pytest.raises(ConfigurationError, match="RENDER_SCREENSHOTS ") as caught:
        screenshots_of(given)
    assert "secret" not in str(caught.value)
