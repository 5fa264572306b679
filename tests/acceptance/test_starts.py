"""Starts that fail or are stopped: one line, no traceback, an exit code that says which."""

import asyncio
import os
import re
import signal
import socket
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymongo
import pytest

from chaos.proxy import Proxy
from crawler.errors import ExitCode
from tests.acceptance.crawls import ROOT, Crawls, Run, scrapy
from tests.acceptance.fleets import Process

SEED = "http://s0.test/"
ENDS = re.compile(r"^scrapy crawl: .*", re.MULTILINE)


def assert_away(run: Run, *texts: str) -> None:
    """One line tells that a server is away."""
    assert run.code == ExitCode.SERVER_AWAY, run.stderr
    assert "Traceback" not in run.stderr
    told = ENDS.findall(run.stderr)
    assert len(told) == 1, run.stderr
    for text in texts:
        assert text in told[0]


# --- a server that is away -----------------------------------------------------------------------


async def test_redis_may_go_away_at_any_moment_of_a_start(tmp_path: Path, redis_url: str) -> None:
    path = Path(urlsplit(redis_url).path)
    settings = {"REDIS_GIVE_UP": 0.5, "CRAWL_IDLE": "wait"}
    messages, began = 0, False
    while not began:
        with Proxy(str(path), messages=messages) as proxy:
            crawls = Crawls(tmp_path, f"redis://{proxy.address}/0")
            arguments = {"crawl": f"cut-{messages}"}
            run = await asyncio.to_thread(crawls.run, SEED, settings=settings, arguments=arguments)
        assert run.code == ExitCode.SERVER_AWAY, run.stderr
        assert "Traceback" not in run.stderr
        # From here on it waits for Redis, and logs that.
        began = "Redis is away" in run.stderr
        if not began:
            assert_away(run, "Redis ")
        assert messages < 200, "it never began"
        messages += 11
    assert messages > 12


async def test_mongodb_may_go_away_while_a_crawl_opens(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    path = Path(unquote(mongo_uri.removeprefix("mongodb://")))
    # In the look at the servers, while the scheduler opens, and while the pipelines do.
    for messages in (2, 8, 12):
        with Proxy(str(path), messages=messages) as proxy:
            crawls = Crawls(tmp_path, redis_url, f"mongodb://{proxy.address}/", mongo_db_name)
            run = await asyncio.to_thread(crawls.run, SEED)
        assert_away(run, "MongoDB ")


def test_a_pipeline_that_cannot_open_ends_the_crawl_in_one_line(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[mongo_db_name]["pages_schema"].insert_one({"_id": "pages", "version": 9})
    run = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name).run(SEED)
    assert run.code == ExitCode.MISTAKE
    assert "Traceback" not in run.stderr
    (told,) = ENDS.findall(run.stderr)
    assert "has pages of version 9" in told


def test_an_embedded_server_that_does_not_come_up_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "redis-server"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho no memory >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    settings = ["-s", f"CRAWL_DIR={tmp_path / 'crawl'}", "-s", "SINKS=none"]
    run = scrapy("crawl", "web", "-a", f"seeds={SEED}", *settings)
    assert_away(run, "The embedded redis-server", "ended during its start")
    assert "no memory" in run.stderr


def test_the_other_commands_tell_it_by_the_same_code(tmp_path: Path, redis_url: str) -> None:
    away = ["-s", "REDIS_URL=redis://127.0.0.1:9/0", "-s", "MONGO_URI=mongodb://127.0.0.1:9/"]
    settings = [*away, "-s", f"CRAWL_DIR={tmp_path}"]
    for words in (["fleet", "web"], ["admin"], ["frontier", "status"], ["pages", "stats"]):
        run = scrapy(*words, *settings)
        assert run.code == ExitCode.SERVER_AWAY, run.stderr
        assert "does not answer" in run.stderr
        assert "Traceback" not in run.stderr
    # The first of a fleet's servers is there, the second is not.
    run = scrapy("fleet", "web", *settings, "-s", f"REDIS_URL={redis_url}")
    assert run.code == ExitCode.SERVER_AWAY, run.stderr
    assert "MongoDB at mongodb://127.0.0.1:9/ does not answer" in run.stderr


# --- signals -------------------------------------------------------------------------------------

SETTINGS = """
from crawler.settings import *

SPIDER_MODULES = ["own.spiders"]
if {at!r} == "settings":
    import signal
    signal.raise_signal(signal.SIGTERM)
"""
ADDON_SETTINGS = """
ADDONS = {{"crawler.addon.FrontierAddon": 0}}
COMMANDS_MODULE = "crawler.commands"
SPIDER_MODULES = ["own.spiders"]
"""
SPIDER = """
import signal
from scrapy import Spider

def here(name):
    if name == {at!r}:
        signal.raise_signal(signal.SIGTERM)

class Own(Spider):
    name = "own"

    @classmethod
    def update_settings(cls, settings):
        super().update_settings(settings)
        here("crawler")
        from twisted.internet import reactor
        reactor.addSystemEventTrigger("before", "startup", here, "reactor")

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        here("made")

    async def start(self):
        here("start")
        if False:
            yield

here("spiders")
"""


def own_project(folder: Path, settings: str, at: str) -> Path:
    """A project that gets SIGTERM at one moment of its start."""
    package = folder / "own"
    package.mkdir()
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = own.settings\n")
    (package / "__init__.py").touch()
    (package / "settings.py").write_text(settings.format(at=at))
    (package / "spiders.py").write_text(SPIDER.format(at=at))
    return folder


@pytest.mark.parametrize(
    ("at", "settings", "code", "told"),
    [
        ("settings", SETTINGS, ExitCode.INTERRUPTED, "stopped by SIGTERM"),
        ("spiders", SETTINGS, ExitCode.INTERRUPTED, "stopped by SIGTERM"),
        ("spiders", ADDON_SETTINGS, ExitCode.INTERRUPTED, "stopped by SIGTERM"),
        ("crawler", SETTINGS, ExitCode.INTERRUPTED, "stopped by SIGTERM"),
        # Twisted logs exceptions there, and goes on.
        ("reactor", SETTINGS, ExitCode.DONE, "Spider closed (shutdown)"),
        ("made", SETTINGS, ExitCode.INTERRUPTED, "stopped before the crawl began"),
        ("start", SETTINGS, ExitCode.DONE, "Spider closed (shutdown)"),
    ],
)
def test_sigterm_in_a_start_ends_it_with_one_line(
    *, tmp_path: Path, redis_url: str, at: str, settings: str, code: ExitCode, told: str
) -> None:
    folder = own_project(tmp_path, settings, at)
    given = {"REDIS_URL": redis_url, "SINKS": "none", "CRAWL_IDLE": "wait", "PROGRESS": "off"}
    words = [word for item in given.items() for word in ("-s", f"{item[0]}={item[1]}")]
    run = scrapy("crawl", "own", *words, cwd=folder)
    assert run.code == code, run.stderr
    assert told in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("command", ["crawl", "fleet"])
def test_sigterm_while_a_server_is_silent_ends_the_start(tmp_path: Path, command: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        silent.settimeout(120)
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        words = [command, "web", "-s", f"REDIS_URL={url}", "-s", f"CRAWL_DIR={tmp_path}"]
        process = Process(words, tmp_path / "start.log")
        try:
            connection, _ = silent.accept()
            process.send(signal.SIGTERM)
            assert process.wait() == ExitCode.INTERRUPTED, process.log
        finally:
            process.kill()
        connection.close()
    assert "stopped before the crawl began" in process.log
    assert "does not answer" not in process.log
    assert "Traceback" not in process.log


def test_an_embedded_server_is_not_left_behind_by_a_start_that_was_stopped(tmp_path: Path) -> None:
    folder = own_project(tmp_path, SETTINGS, "made")
    words = ["-s", "CRAWL_DIR=data", "-s", "SINKS=none", "-s", "PROGRESS=off"]
    run = scrapy("crawl", "own", *words, cwd=folder)
    assert run.code == ExitCode.INTERRUPTED, run.stderr
    assert (folder / "data" / "redis.log").exists()
    assert not (folder / "data" / "redis.sock").exists()


# --- the table -----------------------------------------------------------------------------------


def test_the_documentation_has_the_exit_codes_of_the_program() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (\d+) \| `([A-Z_]+)` \|", text, re.MULTILINE)
    assert [(int(code), name) for code, name in table] == [
        (code.value, code.name) for code in ExitCode
    ]
