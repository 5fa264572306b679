"""The help of a spider's arguments, and words without -a in front."""

import re
from typing import Any

import pytest
from scrapy import Spider
from scrapy.cmdline import execute
from scrapy.exceptions import UsageError

from crawler.commands._arguments import arguments_of, check_words
from crawler.scheduling import options
from crawler.spiders.web import ARGUMENTS, Arguments, WebSpider


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as ended:
        execute(["scrapy", *argv])
    captured = capsys.readouterr()
    assert ended.value.code == (0 if not captured.err else 2), captured.err
    return captured.out + captured.err


@pytest.mark.parametrize("command", ["crawl", "fleet"])
@pytest.mark.parametrize("order", [("web", "-h"), ("--help", "web")])
def test_the_help_lists_every_argument_of_the_spider(
    capsys: pytest.CaptureFixture[str], command: str, order: tuple[str, ...]
) -> None:
    text = shown(capsys, command, *order)
    assert "--fresh" in text
    listed = text.partition("Arguments of the spider web")[2]
    names = re.findall(r"^  (\w+) ", listed, re.MULTILINE)
    assert names == list(ARGUMENTS)
    assert "which links to follow: host, domain" in listed


def test_lines_of_the_help_fit_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = shown(capsys, "crawl", "web", "-h").partition("Arguments of")[2]
    assert max(map(len, text.splitlines())) <= 60


def test_help_without_a_spider_lists_the_spiders(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Spiders: web. For the arguments" in shown(capsys, "crawl", "-h")


def test_help_of_a_spider_that_does_not_exist_names_those_that_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "There is no spider 'wep'; there are: web." in shown(capsys, "crawl", "wep", "-h")


def test_every_argument_that_is_read_has_a_text_and_the_other_way_round() -> None:
    own = {"max_time" if name == "max_time_s" else name for name in Arguments.__slots__}
    groups = {*options.ARGUMENTS, "render", "scroll"}
    assert set(ARGUMENTS) == own - {"options", "rendering"} | groups
    assert all(ARGUMENTS.values())


def test_arguments_of_other_spiders_are_those_of_their_constructors() -> None:
    class Shop(Spider):
        name = "shop"

        def __init__(self, currency: str, pages: int = 3, **rest: Any) -> None:
            super().__init__(**rest)

    class Prices(WebSpider):
        def __init__(self, currency: str = "eur", **arguments: Any) -> None:
            super().__init__(**arguments)

    assert arguments_of(Shop) == {"currency": "", "pages": "(3)"}
    assert arguments_of(Prices) == {**ARGUMENTS, "currency": "(eur)"}
    assert arguments_of(Spider) == {}


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["web", "seeds=https://a.test"], "-a seeds=https://a.test"),
        (["web", "--max-pages=3"], "-a max_pages=3"),
        (["seeds=x"], "-a seeds=x"),
    ],
)
def test_an_argument_without_its_option_is_explained(words: list[str], meant: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"write {meant}")):
        check_words("crawl", words)


@pytest.mark.parametrize("words", [[], ["web", "news"]])
def test_one_spider_is_wanted(words: list[str]) -> None:
    with pytest.raises(UsageError, match="scrapy fleet web -a seeds="):
        check_words("fleet", words)
    check_words("fleet", ["web"])
