"""Where a crawl's data lies and the commands that lead to it, from the settings. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from scrapy.settings import SETTINGS_PRIORITIES

from crawler.frontier.connection import masked
from crawler.masking import without_secrets
from crawler.progress.summary import Commands
from crawler.scrapy_redis_settings import redis_url

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_DEFAULT_FOLDER = ".crawl"
_DEFAULT_CRAWL = "web"
_DEFAULT_DATABASE = "crawler"


def frontier_at(settings: BaseSettings, crawl: str) -> str:
    """Where the frontier is."""
    where = redis_url(settings)
    return f"crawl {crawl!r} of " + (
        masked(where) if where else f"the embedded Redis in {settings['CRAWL_DIR']}"
    )


def pages_at(settings: BaseSettings) -> str:
    """Where the pages are."""
    if settings["PAGES_STORE"] == "none":
        return "no store (PAGES_STORE=none): feeds and your own pipelines have them"
    where = settings["MONGO_URI"]
    return f"database {settings['MONGO_DATABASE']!r} of " + (
        masked(where) if where else f"the embedded MongoDB in {settings['CRAWL_DIR']}"
    )


def scrapy_program(prefix: str, folder: str, environment: Mapping[str, str]) -> str:
    """How to call scrapy: by its path if its environment is in `folder` and not activated."""
    if "VIRTUAL_ENV" in environment or not PurePath(prefix).is_relative_to(folder):
        return "scrapy"
    return str(PurePath(prefix).relative_to(folder) / "bin" / "scrapy")


def commands(
    settings: BaseSettings, *, crawl: str, page_url: str | None, argv: Sequence[str], program: str
) -> Commands:
    """What to type next; `argv` is how this process was started, without the word crawl."""
    look = ""
    if page_url is not None and settings["PAGES_STORE"] != "none":
        look = f"{program} pages get {shlex.quote(page_url)}{_flags(_page_options(settings))}"
    name = "" if crawl == _DEFAULT_CRAWL else f" --crawl {shlex.quote(crawl)}"
    options = _server_options(settings, "REDIS_URL")
    at_redis = _flags(options)
    options += [option for option in _page_options(settings) if option not in options]
    return Commands(
        look=look,
        resume=settings["RESUME_COMMAND"] or _resume(argv, program),
        forget=f"{program} frontier delete{name}{at_redis}",
        requeue=f"{program} frontier requeue{name}{at_redis}",
        dashboard=f"{program} admin{name}{_flags(options)}",
    )


def _flags(options: Sequence[str]) -> str:
    return "".join(f" -s {shlex.quote(option)}" for option in options)


def _page_options(settings: BaseSettings) -> list[str]:
    """Settings by which another process finds the pages."""
    options = _server_options(settings, "MONGO_URI")
    if settings["MONGO_DATABASE"] != _DEFAULT_DATABASE:
        options.append(f"MONGO_DATABASE={settings['MONGO_DATABASE']}")
    return options


def _server_options(settings: BaseSettings, name: str) -> list[str]:
    """What another process would not know of a server by itself."""
    where = redis_url(settings) if name == "REDIS_URL" else settings[name]
    if where:
        told_by = name if settings[name] else "REDIS_HOST"
        # From the environment it is known there too.
        given = (settings.getpriority(told_by) or 0) >= SETTINGS_PRIORITIES["cmdline"]
        return [f"{name}={masked(where)}"] if given else []
    if settings["CRAWL_DIR"] != _DEFAULT_FOLDER:
        return [f"CRAWL_DIR={settings['CRAWL_DIR']}"]
    return []


def _is_for_once(argument: str) -> bool:
    """Is it an option that a run which goes on must not have? They may be abbreviated."""
    return len(argument) > 2 and any(name.startswith(argument) for name in ("--fresh", "--yes"))


def _resume(argv: Sequence[str], program: str) -> str:
    if argv and PurePath(argv[0]).name == "scrapy":
        # Scrapy took the word "crawl" out of the arguments. -O would overwrite what the feed has.
        options = {"-O": "-o", "--overwrite-output": "--output"}
        arguments = [options.get(word, word) for word in argv[1:] if not _is_for_once(word)]
        return without_secrets(shlex.join([program, "crawl", *arguments]))
    return "start it again as before"
