"""`scrapy frontier explain`: the reasons for a score, and mistakes told in a line."""

import argparse
from typing import Any

import pytest
from scrapy.exceptions import UsageError

from crawler.commands.frontier import Command
from tests.support.crawlers import project_crawler

URL = "http://h.test/a/b/c"


def run(*arguments: str, **settings: Any) -> int:
    command = Command()
    command.settings = project_crawler(**settings).settings
    command.run(list(arguments), argparse.Namespace())
    return command.exitcode


def test_a_score_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", URL, "--depth", "2", "--inbound", "100") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == URL
    assert [line.split()[0] for line in lines[1:-1]] == ["+100", "-30", "-40", "+30"]
    assert lines[-1].split()[0] == "60"
    assert lines[-1].endswith("front queue 3")


def test_links_to_a_url_and_from_its_home_page_are_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        run("explain", URL, "--links", "9", "--page", "http://h.test/", "--host-urls", "500") == 0
    )
    lines = capsys.readouterr().out
    assert "+75  9 links to it from other domains" in lines
    assert "+30  linked from the home page of its host" in lines
    assert "-30  500 URLs of its host" in lines


def test_it_says_how_a_url_is_fetched(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", f"{URL}?b&a&utm_id=1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{URL}?a&b"
    assert lines[1] == f"Judged by robots.txt and fetched as {URL}?b&a&utm_id=1"


@pytest.mark.parametrize(
    ("url", "reason"), [("http://h.test/a.zip", "SKIPPED_EXTENSIONS"), (URL + "/c/c", "repeated")]
)
def test_it_says_if_the_url_would_not_be_followed(
    capsys: pytest.CaptureFixture[str], url: str, reason: str
) -> None:
    assert run("explain", url) == 0
    assert reason in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("url", "settings", "text"),
    [
        ("nonsense", {}, "'nonsense' is not crawled"),
        (URL, {"PRIORITY_WEIGHTS": {"dept": 1}}, "PRIORITY_WEIGHTS has no weight 'dept'"),
        (URL, {"PRIORITY_WEIGHTS": {"depth": "x"}}, "PRIORITY_WEIGHTS is {'depth': 'x'}"),
        (URL, {"TRUSTED_DOMAINS": "/no/such/file"}, "TRUSTED_DOMAINS: /no/such/file cannot be"),
    ],
)
def test_a_mistake_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str], url: str, settings: dict[str, Any], text: str
) -> None:
    assert run("explain", url, **settings) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


def test_there_must_be_something_to_do() -> None:
    with pytest.raises(UsageError, match="say what to do: crawls, status, hosts, host, url"):
        run()
