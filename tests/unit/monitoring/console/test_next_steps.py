"""Where the data lies, and commands that can be copied."""

from collections.abc import Sequence
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler import settings as ours
from crawler.monitoring.console.summary import (
    Commands,
    frontier_at,
    next_commands,
    pages_at,
    scrapy_program,
)


def settings(**changes: Any) -> Settings:
    found = Settings()
    found.setmodule(ours, priority="project")
    defaults = {"CRAWL_DIR": ".crawl", "REDIS_URL": None, "MONGO_URI": None}
    found.setdict(defaults, priority="project")
    found.setdict(changes, priority="cmdline")
    return found


def commands(
    changed: Settings, crawl: str = "web", page_url: str | None = None, argv: Sequence[str] = ()
) -> Commands:
    return next_commands(changed, crawl=crawl, page_url=page_url, argv=argv, program="scrapy")


def look(**changes: Any) -> str:
    url = "http://a.test/?x=1&y=2"
    return commands(settings(**changes), page_url=url).look


def test_by_default_the_url_is_enough() -> None:
    assert look() == "scrapy pages get 'http://a.test/?x=1&y=2'"


def test_settings_that_another_process_lacks_are_named() -> None:
    assert look(CRAWL_DIR="/data/a b").endswith(" -s 'CRAWL_DIR=/data/a b'")
    assert look(MONGO_DATABASE="mine").endswith(" -s MONGO_DATABASE=mine")


def test_pages_in_postgresql_are_shown_by_the_sinks_of_the_crawl() -> None:
    found = look(SINKS="postgresql://me:secret@h.test/d warc:a/")
    assert found.endswith(" -s 'SINKS=postgresql://me:***@h.test/d warc:a/'")
    by_project = settings()
    by_project.set("SINKS", "postgresql://h.test/d", priority="project")
    assert commands(by_project, page_url="http://a.test/").look == "scrapy pages get http://a.test/"
    assert look(SINKS="warc:a/") == ""


def test_a_password_is_never_shown() -> None:
    uri = "mongodb://user:secret@db:27017/"
    assert "secret" not in look(MONGO_URI=uri)
    assert "secret" not in pages_at(settings(MONGO_URI=uri))
    assert "secret" not in frontier_at(settings(REDIS_URL="redis://:secret@r:6379/0"), "web")
    sinks = "my_project.sinks.X://me:secret@h.test/ mongo"
    assert pages_at(settings(SINKS=sinks)).startswith("X my_project.sinks.X://me:***@h.test/, ")
    for given in (f"MONGO_URI={uri}", f"SINKS={sinks}"):
        argv = ["/bin/scrapy", "web", "-s", given]
        assert "secret" not in commands(settings(), argv=argv).resume


def dashboard(crawl: str = "web", **changes: Any) -> str:
    argv = ["scrapy", crawl]
    found = commands(settings(**changes), crawl=crawl, argv=argv)
    return found.dashboard


def test_the_dashboard_can_be_seen_when_the_crawl_has_ended() -> None:
    assert dashboard() == "scrapy admin"
    assert dashboard("demo", CRAWL_DIR="/data") == "scrapy admin --crawl demo -s CRAWL_DIR=/data"
    url = "redis://:secret@r:6379/0"
    assert dashboard(REDIS_URL=url) == "scrapy admin -s 'REDIS_URL=redis://:***@r:6379/0'"


def test_to_resume_a_feed_is_appended_to() -> None:
    argv = ["/bin/scrapy", "web", "-O", "pages.jsonl"]
    resume = commands(settings(), argv=argv).resume
    assert resume == "scrapy crawl web -o pages.jsonl"


@pytest.mark.parametrize("fresh", ["--fresh", "--fr"])
def test_to_resume_nothing_is_deleted(fresh: str) -> None:
    argv = ["/bin/scrapy", "web", fresh, "--yes", "-a", "seeds=http://a.test/", "--nolog"]
    resume = commands(settings(), argv=argv).resume
    assert resume == "scrapy crawl web -a seeds=http://a.test/ --nolog"


def test_no_secret_is_shown_again() -> None:
    secrets = ["ADMIN_TOKEN=hidden-secret", 'REDIS_PARAMS={"password": "hidden-secret"}']
    argv = ["/bin/scrapy", "web", *(word for secret in secrets for word in ("-s", secret))]
    resume = commands(settings(), argv=argv).resume
    assert resume.startswith("scrapy crawl web -s ADMIN_TOKEN=***")
    assert "hidden-secret" not in resume


def test_without_a_store_there_is_no_page_to_look_at() -> None:
    assert look(SINKS="none") == ""
    assert "SINKS=none" in pages_at(settings(SINKS="none"))


def test_the_command_that_was_typed_resumes() -> None:
    argv = ["/env/bin/scrapy", "web", "-a", "seeds=http://a.test/ http://b.test/"]
    found = commands(settings(), argv=argv)
    assert found.resume == "scrapy crawl web -a 'seeds=http://a.test/ http://b.test/'"


def test_a_program_that_starts_crawls_names_its_own_command() -> None:
    changed = settings(RESUME_COMMAND="make crawl")
    assert commands(changed).resume == "make crawl"
    other = commands(settings(), argv=["runner.py"])
    assert other.resume == "start it again as before"


@pytest.mark.parametrize(
    ("prefix", "environment", "program"),
    [
        ("/project/.venv", {}, ".venv/bin/scrapy"),
        ("/project/.venv", {"VIRTUAL_ENV": "/project/.venv"}, "scrapy"),
        ("/usr", {}, "scrapy"),
    ],
)
def test_scrapy_is_called_so_that_the_shell_finds_it(
    prefix: str, environment: dict[str, str], program: str
) -> None:
    assert scrapy_program(prefix, "/project", environment) == program


def test_one_crawl_is_forgotten_or_tried_again_and_no_other() -> None:
    found = commands(settings(CRAWL_DIR="x"), crawl="my shop")
    assert found.forget == "scrapy frontier delete --crawl 'my shop' -s CRAWL_DIR=x"
    assert found.requeue == "scrapy frontier requeue --crawl 'my shop' -s CRAWL_DIR=x"
