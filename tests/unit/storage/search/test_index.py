"""The search index in a folder: versions of pages, its one writer, folders of others."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crawler.errors import ConfigurationError, CrawlerError, NotFound
from crawler.storage.search import index
from crawler.storage.search.index import (
    FIRST_MS,
    LAST_MS,
    IndexedPage,
    IndexWriter,
    SearchSettings,
    analyzer_of,
    milliseconds,
)
from crawler.storage.search.query import Filters, search
from tests.support.crawlers import project_crawler

NOW = datetime(2026, 5, 6, 12, tzinfo=UTC)


def page(number: int, text: str = "words", at: datetime = NOW, crawl: str = "web") -> IndexedPage:
    return IndexedPage(crawl, f"{number:016x}", at, f"http://a.test/{number}", "A title", text)


@pytest.fixture
def chosen(tmp_path: Path) -> SearchSettings:
    return SearchSettings(tmp_path / "search", heap_bytes=15_000_000)


def urls(chosen: SearchSettings, text: str) -> set[str]:
    return {found.url for found in search(chosen.folder, text, Filters()).results}


def test_a_newer_version_replaces_the_older_one(chosen: SearchSettings) -> None:
    with IndexWriter(chosen) as writer:
        writer.replace([page(1, "old"), page(2, "old"), page(1, "old", crawl="other")])
        writer.commit()
        writer.replace([page(1, "new", NOW + timedelta(hours=1))])
        writer.commit()
        assert len(writer.snapshot()) == 3
    assert search(chosen.folder, "old", Filters(crawl="web")).total == 1
    assert urls(chosen, "new") == {"http://a.test/1"}


def test_a_version_is_removed_and_a_newer_one_stays(chosen: SearchSettings) -> None:
    old, new = page(1, "old"), page(1, "new", NOW + timedelta(seconds=1))
    with IndexWriter(chosen) as writer:
        writer.replace([old, page(2, "old")])
        writer.commit()
        writer.replace([new])
        # Hashes of more than 63 bits are among them.
        writer.remove([old.visit, page(2).visit])
        writer.commit()
        assert list(writer.snapshot().visits(FIRST_MS, LAST_MS)) == [{new.visit}]


def test_visits_of_a_span_are_listed_some_at_a_time(
    chosen: SearchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_VISITS_MAX", 2)
    pages = [page(number, at=NOW + timedelta(milliseconds=number)) for number in range(5)]
    # More of the same moment are not split.
    twins = [page(number, at=NOW + timedelta(milliseconds=9)) for number in range(5, 9)]
    first_ms = milliseconds(NOW)
    with IndexWriter(chosen) as writer:
        assert list(writer.snapshot().visits(FIRST_MS, LAST_MS)) == []
        writer.replace([*pages, *twins])
        writer.commit()
        found = list(writer.snapshot().visits(first_ms + 1, LAST_MS))
    assert set.union(*found) == {each.visit for each in (*pages[1:], *twins)}
    assert max(len(part) for part in found if twins[0].visit not in part) <= 2


def test_nothing_is_found_before_it_is_committed(chosen: SearchSettings) -> None:
    with IndexWriter(chosen) as writer:
        writer.replace([page(1)])
        assert urls(chosen, "words") == set()
    # A run that ends in an error leaves the last commit, and the lock is free.
    with suppress(RuntimeError), IndexWriter(chosen) as writer:
        writer.replace([page(1)])
        writer.commit()
        writer.replace([page(2)])
        raise RuntimeError
    assert urls(chosen, "words") == {"http://a.test/1"}
    with IndexWriter(chosen, fresh=True) as writer:
        assert len(writer.snapshot()) == 0


def test_a_second_writer_is_refused(chosen: SearchSettings) -> None:
    with IndexWriter(chosen), pytest.raises(CrawlerError, match="Another process writes"):
        IndexWriter(chosen).__enter__()


def test_a_folder_with_other_files_is_refused_and_spared(chosen: SearchSettings) -> None:
    chosen.folder.mkdir()
    (chosen.folder / "letter.txt").write_text("dear")
    with pytest.raises(ConfigurationError, match=r"has 'letter.txt', which is no part"):
        IndexWriter(chosen, fresh=True).__enter__()
    assert (chosen.folder / "letter.txt").read_text() == "dear"


def test_a_file_instead_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be written to"):
        IndexWriter(SearchSettings(tmp_path / "file" / "search")).__enter__()


def test_an_index_that_is_missing_or_damaged_is_told(chosen: SearchSettings) -> None:
    with pytest.raises(NotFound, match=r"There is no search index in .*: make one by"):
        search(chosen.folder, "words", Filters())
    chosen.folder.mkdir()
    (chosen.folder / "meta.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="damaged, or of another version"):
        search(chosen.folder, "words", Filters())
    with IndexWriter(chosen, fresh=True) as writer:
        writer.replace([page(1)])
        writer.commit()
    assert urls(chosen, "words") == {"http://a.test/1"}


@pytest.mark.parametrize(
    ("language", "text", "analyzer"),
    [
        ("en-GB", "words", "en"),
        ("DE_at", "Wörter", "de"),
        ("nb", "ord", "no"),
        ("tlh", "mu'", "plain"),
        ("", "words", "plain"),
        # Many sites declare the language of their template.
        ("en", "これは日本語の文章です。", "plain"),
        ("en", "A word of Chinese in a long English sentence: 中文", "en"),
        ("en", "", "en"),
    ],
)
def test_the_analyzer_is_that_of_the_language(language: str, text: str, analyzer: str) -> None:
    assert analyzer_of(language, text) == analyzer


def test_the_folder_is_in_that_of_the_crawl_unless_it_is_named() -> None:
    settings = project_crawler(CRAWL_DIR="crawls/one", SEARCH_TEXT_MAX=5).settings
    chosen = SearchSettings.from_settings(settings)
    assert (chosen.folder, chosen.text_max) == (Path("crawls/one/search"), 5)
    assert SearchSettings.from_settings(settings, "other").folder == Path("other")
