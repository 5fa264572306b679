"""No fleet takes the logs of another away, nor those of its crawl's last start."""

from pathlib import Path

import pytest

from crawler.commands.fleet import fresh_log, log_folder


def test_each_crawl_has_a_log_folder_its_own(tmp_path: Path) -> None:
    one, other = (log_folder(str(tmp_path), crawl) for crawl in ("one", "other"))
    fresh_log(one, "process 1").write_text("of one")
    fresh_log(other, "process 1").write_text("of the other")
    assert (tmp_path / "fleet" / "one" / "process-1.log").read_text() == "of one"
    assert (tmp_path / "fleet" / "other" / "process-1.log").read_text() == "of the other"


@pytest.mark.parametrize("crawl", ["news/2030", "a%2Fb", "é", "..", "a.b"])
def test_the_folder_is_below_that_of_the_fleets_whatever_the_crawl_is_called(crawl: str) -> None:
    folder = log_folder("crawl", crawl)
    assert folder.parent == Path("crawl", "fleet")
    assert folder.name not in ("", ".", "..")


def test_the_log_of_the_last_start_is_kept(tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        log = fresh_log(tmp_path / "web", "process 1")
        assert not log.exists()
        log.write_text(text)
    kept = {path.name: path.read_text() for path in (tmp_path / "web").iterdir()}
    assert kept == {"process-1.log": "third", "process-1.log.1": "second"}


def test_a_process_that_still_runs_loses_nothing(tmp_path: Path) -> None:
    with fresh_log(tmp_path, "process 1").open("a") as output:
        output.write("before, ")
        output.flush()
        fresh_log(tmp_path, "process 1")
        output.write("after")
    assert (tmp_path / "process-1.log.1").read_text() == "before, after"
