"""The log of a whole crawl: lines for people or for programs, and no secret in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls, scrapy

TOKEN = "a-token-that-nobody-may-see"


def test_every_line_is_json_and_lines_about_urls_are_for_debugging(
    tmp_path: Path, redis_url: str
) -> None:
    crawls = Crawls(tmp_path, redis_url)
    with DemoServer(WebOptions(hosts=2, pages=3), tmp_path / "access.log") as web:
        run = crawls.run(
            "http://s0.test/",
            web=web,
            settings={"LOG_JSON": 1, "ADMIN_TOKEN": TOKEN, "PROGRESS": "plain"},
            options=("-L", "DEBUG", "--logfile", str(tmp_path / "crawl.log")),
        )
    assert run.code == 0, run.stderr
    text = (tmp_path / "crawl.log").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0]["message"].startswith("Scrapy ")
    assert TOKEN not in text + run.stderr + run.stdout
    urls = [line for line in lines if "http://s0.test/" in line["message"]]
    assert urls
    shown = [line for line in urls if line["level"] != "DEBUG"]
    assert not [line for line in shown if "seeds" not in line["message"].lower()], shown


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("progress", ["plain", "live"])
def test_the_summary_is_a_line_of_json_too(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str, progress: str
) -> None:
    crawls = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
    settings = {"LOG_JSON": 1, "PROGRESS": progress, "PROGRESS_INTERVAL": 0.1}
    with DemoServer(WebOptions(hosts=2, pages=3), tmp_path / "access.log") as web:
        run = crawls.run("http://s0.test/", web=web, settings=settings)
    assert run.code == 0, run.stderr
    assert run.stdout == ""
    lines = lines_of(run.stderr)
    (told,) = [line for line in lines if "pages crawled     " in line["message"]]
    assert told["figures"]["this_run"]["pages"] == run.summary["this_run"]["pages"] > 0
    assert told["figures"]["reason"] == "finished"
    assert [line for line in lines if line["message"].startswith("this process: ")]


@pytest.mark.parametrize(
    ("setting", "word"), [("CRAWL=web", "Redis"), ("DELAY_MIN=soon", "DELAY_MIN")]
)
def test_a_mistake_is_a_line_of_json_too(tmp_path: Path, setting: str, word: str) -> None:
    nowhere = f"REDIS_URL=unix://{tmp_path}/none.sock"
    command = ["crawl", "web", "-a", "seeds=http://a.test/", "-s", "LOG_JSON=1"]
    run = scrapy(*command, "-s", nowhere, "-s", setting, "-s", "SINKS=none")
    assert run.code != 0
    lines = lines_of(run.stderr)
    assert lines[-1]["level"] == "ERROR"
    assert lines[-1]["message"].startswith("scrapy crawl: ")
    assert word in lines[-1]["message"]


def test_what_others_print_is_in_lines_of_json(tmp_path: Path, redis_url: str) -> None:
    crawls = Crawls(tmp_path, redis_url)
    settings = {
        "LOG_JSON": 1,
        "SPIDER_MODULES": "tests.acceptance.raising_spider",
        "RETRY_TIMES": 0,
    }
    with DemoServer(WebOptions(hosts=1, pages=1), tmp_path / "access.log") as web:
        command = crawls.command("http://s0.test/", web=web, settings=settings)
        command[1] = "raising"
        run = scrapy(*command)
    assert run.code == 0, run.stderr
    lines = lines_of(run.stderr)
    errors = [line["error"] for line in lines if "error" in line]
    assert [error for error in errors if "ValueError: on purpose" in error]
    assert [error for error in errors if "ZeroDivisionError" in error]
    messages = [line["message"] for line in lines]
    assert [message for message in messages if "mind the gap" in message]
    assert [message for message in messages if "%d pages" in message]


def test_a_fleet_and_its_processes_write_json(tmp_path: Path, redis_url: str) -> None:
    crawls = Crawls(tmp_path, redis_url)
    with DemoServer(WebOptions(hosts=2, pages=3), tmp_path / "access.log") as web:
        settings = {"LOG_JSON": 1, "PROGRESS": "live", "PROGRESS_INTERVAL": 0.1, "ADMIN_PORT": 0}
        _, spider, *options = crawls.command("http://s0.test/", web=web, settings=settings)
        run = scrapy("fleet", spider, "-n", "1", *options)
    assert run.code == 0, run.stderr
    messages = [line["message"] for line in lines_of(run.stderr)]
    assert any(message.startswith("1 processes crawl 'web'") for message in messages)
    assert any(message.startswith("The whole crawl: ") for message in messages)
    (log,) = (tmp_path / "crawl" / "fleet" / "web").glob("process-1.log")
    assert lines_of(log.read_text(encoding="utf-8"))
