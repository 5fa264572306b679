"""`scrapy pages export`: write pages to a file, one JSON object a line.

The file appears under its name when it is complete. A page at a time is in memory, and some more.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from crawler.errors import CrawlerError
from crawler.page_verbs import choice
from crawler.page_verbs.bar import bar
from crawler.page_verbs.shown import as_json, decoded
from crawler.storage.stored_pages import StoredPages

_FORMATS = ("jsonl",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=_FORMATS, default=_FORMATS[0], help="one JSON object a line (jsonl)"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="PATH",
        help="file to write, replaced if it exists; compressed if it ends in .gz; - for stdout",
    )
    choice.add_options(parser)
    parser.add_argument(
        "--all", action="store_true", help="also duplicates, and URLs without content"
    )
    parser.add_argument("--no-body", action="store_true", help="leave the bodies out")


async def run(pages: StoredPages, arguments: argparse.Namespace) -> None:
    wanted = choice.wanted(arguments, kept=not arguments.all)
    total, written = await pages.count(wanted), 0
    with _output(arguments.output) as file, bar("pages", total) as advance:
        async for page, content in pages.with_content(wanted):
            if content is not None:
                page["text"] = content.text
                if not arguments.no_body:
                    page["body"] = decoded(content.body, page.get("charset"))
            file.write(as_json(page) + "\n")
            written += 1
            advance(1)
    print(f"{written:,} pages written to {arguments.output}", file=sys.stderr)


@contextmanager
def _output(path: str) -> Iterator[IO[str]]:
    """A file for text that is there when all of it is, or standard output."""
    if path == "-":
        yield sys.stdout
        return
    part = Path(f"{path}.part")
    opened = gzip.open if path.endswith(".gz") else open
    try:
        try:
            with opened(part, "wt", encoding="utf-8") as file:
                yield cast("IO[str]", file)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise CrawlerError(f"{path} cannot be written ({reason}); name another file.") from error
