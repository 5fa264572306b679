"""`scrapy pages repair`: find and mend what does not belong together."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta

from crawler.errors import NotFound
from crawler.page_verbs import choice
from crawler.page_verbs.bar import bar
from crawler.page_verbs.shown import as_json
from crawler.progress.text import plural
from crawler.storage.repair import MISSING, Repair
from crawler.storage.stored_pages import StoredPages

_AGE = timedelta(hours=1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only look; exit 1 if there is some")
    parser.add_argument(
        "--older",
        type=choice.age,
        default=_AGE,
        metavar="TIME",
        help="leave content alone that is younger (1h): a crawl may be about to store its metadata",
    )
    parser.add_argument("--json", action="store_true", help="for programs")


async def run(pages: StoredPages, arguments: argparse.Namespace) -> None:
    before = datetime.now(UTC) - arguments.older
    repair = Repair(pages.database, before=before, only_look=arguments.dry_run)
    with bar("documents", await repair.count()) as advance:
        async for looked_at in repair.run():
            advance(looked_at)
    found = repair.found
    if arguments.json:
        counts = {
            "content_without_metadata": found.without_metadata,
            "metadata_without_content": found.without_content,
            "mended": not arguments.dry_run,
        }
        print(as_json(counts, indent=2))
    else:
        done = "" if arguments.dry_run else ": deleted"
        print(f"content without metadata  {found.without_metadata:,}{done}")
        done = "" if arguments.dry_run else f": marked as {MISSING}"
        print(f"metadata without content  {found.without_content:,}{done}")
        if found.without_content and not arguments.dry_run:
            print(f"scrapy pages find --reason {MISSING} lists the latter", file=sys.stderr)
    if arguments.dry_run and found.total:
        raise NotFound(f"{plural(found.total, 'document')} to mend; without --dry-run they are.")
