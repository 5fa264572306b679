"""Records of runs: the exit code, and options without secrets."""

import getpass
import json
from typing import Any

import pytest
from scrapy.settings import SETTINGS_PRIORITIES, Settings

from crawler import settings as ours
from crawler.errors import ExitCode
from crawler.monitoring.logs import mask_of
from crawler.pipelines import runs
from crawler.pipelines.runs import exit_code
from crawler.scheduling.lease_pool import BAD_SEEDS, DATA_LOST, NO_SEEDS, REDIS_LOST
from crawler.spiders.web import WebSpider
from tests.support.crawlers import project_crawler


@pytest.mark.parametrize(
    ("reason", "stats", "code"),
    [
        ("finished", {}, ExitCode.DONE),
        ("shutdown", {}, ExitCode.DONE),
        ("start_error", {}, ExitCode.FAILED),
        (NO_SEEDS, {}, ExitCode.MISTAKE),
        (BAD_SEEDS, {}, ExitCode.MISTAKE),
        (REDIS_LOST, {}, ExitCode.SERVER_AWAY),
        (DATA_LOST, {}, ExitCode.DATA_LOST),
        ("finished", {"feedexport/failed_count/S3": 1}, ExitCode.FAILED),
        (DATA_LOST, {"feedexport/failed_count/S3": 1}, ExitCode.DATA_LOST),
    ],
)
def test_the_exit_code_tells_why_it_ended(
    reason: str, stats: dict[str, Any], code: ExitCode
) -> None:
    assert exit_code(reason, stats) is code


def test_options_are_those_that_were_given_and_have_no_secrets() -> None:
    settings = Settings()
    settings.setmodule(ours)
    given = {
        "REDIS_URL": "redis://:hunter-22@localhost/0",
        "REDIS_PARAMS": '{"password": "hunter-33"}',
        "ADMIN_TOKEN": "hunter 44, and more",
        "MYPROJECT_HTTP_PASS": "hunter-55",
        "SINKS": "mongo s3://user:hunter-66@bucket/x",
        "CONCURRENT_REQUESTS": 7,
        "USER_AGENT": "me" * 2000,
    }
    for name, value in {**given, "LOG_INSTALL_ROOT_HANDLER": False}.items():
        settings.set(name, value, SETTINGS_PRIORITIES["cmdline"])
    spider = WebSpider(seeds="https://u:hunter-77@a.example/", max_pages="5")
    found = dict(runs._options(settings, spider, mask_of(settings)))
    assert given.keys() | {"seeds", "max_pages"} == found.keys()
    assert found["CONCURRENT_REQUESTS"] == 7
    assert found["max_pages"] == 5
    assert found["ADMIN_TOKEN"] == "***"
    assert len(found["USER_AGENT"]) == 1000
    assert "hunter" not in json.dumps(found)


def test_a_command_line_has_no_secrets() -> None:
    mask = mask_of(project_crawler().settings)
    argv = [
        "/venv/bin/scrapy",
        "web",
        "-a",
        "http_pass=hunter-2",
        "-s",
        "MONGO_URI=mongodb://u:p@h/",
    ]
    found = runs._command(argv, mask)
    assert found == "scrapy crawl web -a http_pass=*** -s MONGO_URI=mongodb://u:***@h/"
    assert runs._command(["/usr/bin/my_script.py", "x"], mask) == ""


def test_a_user_without_a_name_is_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert runs._user().isdigit()
