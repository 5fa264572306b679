"""`scrapy pages find`: list pages, the newest first."""

from __future__ import annotations

import argparse
from typing import Any

from crawler.errors import NotFound
from crawler.page_verbs import choice
from crawler.page_verbs.shown import as_json, time
from crawler.progress.text import size
from crawler.storage.stored_pages import StoredPages

_LIMIT = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    choice.add_options(parser)
    parser.add_argument(
        "--limit", type=_whole, default=_LIMIT, metavar="N", help=f"so many ({_LIMIT}); 0: all"
    )
    parser.add_argument("--json", action="store_true", help="all that is known, an object a line")


async def run(pages: StoredPages, arguments: argparse.Namespace) -> None:
    found = 0
    async for page in pages.find(choice.wanted(arguments), arguments.limit):
        found += 1
        print(as_json(page) if arguments.json else _line(page))
    if not found:
        raise NotFound("No stored page is like that.")


def _line(page: dict[str, Any]) -> str:
    status = page.get("status") or "–"
    why = page.get("reason") or ("duplicate" if page.get("duplicate_of") else "")
    length = size(page.get("size_bytes", 0))
    line = f"{time(page['crawled_at'])}  {status:>3}  {length:>8}  {page['url']}"
    return f"{line}  ({why})" if why and why != f"status_{status}" else line


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return int(text)
