"""`scrapy pages get URL`: look at what is stored. Exit 0: found; 1: not there; 2: a mistake."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from pymongo.errors import PyMongoError
from scrapy.commands import ScrapyCommand

from crawler.errors import ConfigurationError, CrawlerError
from crawler.extensions.servers import Servers
from crawler.progress.text import size
from crawler.stored_pages import Content, StoredPages
from crawler.urls import Rejected, canonical
from crawler.verbs import Verb, Verbs

_NOT_FOUND, _USAGE = 1, 2
_TEXT_SHOWN = 600
_BRIEF = (
    "url",
    "status",
    "title",
    "content_type",
    "language",
    "crawled_at",
    "depth",
    "links_count",
)


class NotFound(CrawlerError):
    """What was asked for is not stored."""


Run = Callable[[StoredPages, argparse.Namespace], Awaitable[None]]


class Command(ScrapyCommand):
    """Needs no reactor: a plain event loop reads MongoDB."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return VERBS.syntax

    def short_desc(self) -> str:
        return "Look at stored pages"

    def long_desc(self) -> str:
        said = f"Look at stored pages. {VERBS.summary}."
        return f"{said} Servers are found as `scrapy crawl` finds them."

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        run, arguments = VERBS.parse(args)
        try:
            self._check_folder()
            asyncio.run(self._run(run, arguments))
        except NotFound as error:
            self._say(error, _NOT_FOUND)
        except CrawlerError as error:
            self._say(error, _USAGE)
        except PyMongoError as error:
            self._say(CrawlerError(f"MongoDB: {error}"), _USAGE)
        except BrokenPipeError:
            # `… | head` has seen enough; Python would complain once more when it flushes.
            sys.stdout = None

    def _check_folder(self) -> None:
        assert self.settings is not None
        folder = Path(self.settings["CRAWL_DIR"])
        if not self.settings["MONGO_URI"] and not folder.is_dir():
            # Embedded servers would make an empty one.
            raise ConfigurationError(
                f"There is no folder {str(folder)!r}: crawl first, or name the crawl's folder by "
                "-s CRAWL_DIR=… or its database by -s MONGO_URI=…"
            )

    async def _run(self, run: Run, arguments: argparse.Namespace) -> None:
        settings = self.settings
        assert settings is not None
        servers = Servers.from_settings(settings)
        try:
            database = (await servers.mongo())[settings["MONGO_DATABASE"]]
            await run(StoredPages(database), arguments)
            sys.stdout.flush()
        finally:
            await servers.close()

    def _say(self, error: Exception, exitcode: int) -> None:
        print(f"scrapy pages: {error}", file=sys.stderr)
        self.exitcode = exitcode


# --- get ------------------------------------------------------------------------------------------


def _page_url(text: str) -> str:
    """The URL as the crawl spells it."""
    url = canonical(text)
    if isinstance(url, Rejected):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no URL of a page ({url.reason}); write it as https://example.com/page"
        )
    return url


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", type=_page_url)
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--meta", action="store_true", help="all that is known of it")
    part.add_argument("--text", action="store_true", help="its text")
    part.add_argument("--body", action="store_true", help="its body, byte for byte")
    parser.add_argument("--json", action="store_true", help="as JSON; a body as text")


async def _get(pages: StoredPages, arguments: argparse.Namespace) -> None:
    page = await pages.metadata(arguments.url)
    if page is None:
        raise NotFound(f"{arguments.url} is not stored.")
    if arguments.text or arguments.body:
        content = await pages.content(page)
        if content is None:
            raise NotFound(_why_not_kept(page))
        _print_content(page, content, arguments)
    elif arguments.json:
        _print_json(page)
    elif arguments.meta:
        _print_fields(page)
    else:
        _print_brief(page, await pages.content(page))


def _why_not_kept(page: dict[str, Any]) -> str:
    if page.get("duplicate_of"):
        why = "it has the content of another page, which is gone"
    elif 200 <= page["status"] < 300:
        why = "the page asks not to be kept (noindex)"
    else:
        why = f"the answer was {page['status']}"
    return f"The content of {page['url']} is not stored: {why}. --meta shows what is known."


def _print_content(page: dict[str, Any], content: Content, arguments: argparse.Namespace) -> None:
    if arguments.json:
        name = "body" if arguments.body else "text"
        text = content.text if arguments.text else _decode(content.body, page.get("charset"))
        _print_json({"url": page["url"], "content_url": content.url, name: text})
    elif arguments.text:
        print(content.text)
    else:
        sys.stdout.buffer.write(content.body)


def _decode(body: bytes, charset: str | None) -> str:
    try:
        return body.decode(charset or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _print_brief(page: dict[str, Any], content: Content | None) -> None:
    brief = {name: page[name] for name in _BRIEF if page.get(name) not in ("", None)}
    brief["size"] = size(page.get("size_bytes", 0))
    if content is not None and content.url != page["url"]:
        brief["content of"] = content.url
    _print_fields(brief)
    if content is None:
        print(f"\n{_why_not_kept(page)}")
    else:
        more = " …" if len(content.text) > _TEXT_SHOWN else ""
        print(f"\n{content.text[:_TEXT_SHOWN]}{more}")


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_as_json))


def _print_fields(fields: dict[str, Any]) -> None:
    width = max(len(name) for name in fields)
    for name, value in fields.items():
        shown = f"{value:%Y-%m-%d %H:%M:%S %Z}" if isinstance(value, datetime) else value
        if isinstance(value, list | dict):
            shown = json.dumps(value, ensure_ascii=False, default=_as_json)
        print(f"{name:<{width}}  {shown}")


def _as_json(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


VERBS = Verbs(
    "pages",
    {"get": Verb("show one page", "URL [--meta | --text | --body] [--json]", _get_arguments, _get)},
)
