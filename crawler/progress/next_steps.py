"""Where a crawl's data lies and the commands that lead to it, from the settings. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from scrapy.settings import SETTINGS_PRIORITIES

from crawler.frontier.connection import masked
from crawler.progress.summary import Commands

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_DEFAULT_FOLDER = ".crawl"
_DEFAULT_DATABASE = "crawler"


def frontier_at(settings: BaseSettings, crawl: str) -> str:
    """Where the frontier is."""
    where = settings["REDIS_URL"]
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
    settings: BaseSettings, *, page_url: str | None, argv: Sequence[str], program: str
) -> Commands:
    """What to type next; `argv` is how this process was started, without the word crawl."""
    look = ""
    if page_url is not None and settings["PAGES_STORE"] != "none":
        options = "".join(f" -s {shlex.quote(option)}" for option in _page_options(settings))
        look = f"{program} pages get {shlex.quote(page_url)}{options}"
    folder = settings["CRAWL_DIR"]
    forget = "make clean-data"
    if folder != _DEFAULT_FOLDER:
        forget += f" CRAWL_DIR={shlex.quote(folder)}"
    return Commands(
        look=look, resume=settings["RESUME_COMMAND"] or _resume(argv, program), forget=forget
    )


def _page_options(settings: BaseSettings) -> list[str]:
    """Settings that another process would not have by itself."""
    options = []
    if settings["MONGO_URI"]:
        # From the environment it is known there too.
        if (settings.getpriority("MONGO_URI") or 0) >= SETTINGS_PRIORITIES["cmdline"]:
            options.append(f"MONGO_URI={masked(settings['MONGO_URI'])}")
    elif settings["CRAWL_DIR"] != _DEFAULT_FOLDER:
        options.append(f"CRAWL_DIR={settings['CRAWL_DIR']}")
    if settings["MONGO_DATABASE"] != _DEFAULT_DATABASE:
        options.append(f"MONGO_DATABASE={settings['MONGO_DATABASE']}")
    return options


def _resume(argv: Sequence[str], program: str) -> str:
    if argv and PurePath(argv[0]).name == "scrapy":
        # Scrapy took the word "crawl" out of the arguments. -O would overwrite what the feed has.
        options = {"-O": "-o", "--overwrite-output": "--output"}
        arguments = [options.get(argument, argument) for argument in argv[1:]]
        return masked(shlex.join([program, "crawl", *arguments]))
    return "start it again as before"
