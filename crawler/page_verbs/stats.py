"""`scrapy pages stats`: what is stored."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from crawler.errors import NotFound
from crawler.page_verbs.shown import as_json, fields, time
from crawler.progress.text import size
from crawler.storage.overview import Overview, overview
from crawler.storage.stored_pages import StoredPages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


async def run(pages: StoredPages, arguments: argparse.Namespace) -> None:
    found = await overview(pages.database)
    if arguments.json:
        print(as_json(asdict(found), indent=2))
    elif not found.urls:
        raise NotFound("No page is stored yet.")
    else:
        print(fields(_said(found)))


def _said(found: Overview) -> dict[str, str]:
    said = {
        "URLs": f"{found.urls:,}",
        "pages with content": f"{found.pages:,}",
        "duplicates": f"{found.duplicates:,}",
        "by status": _counts({status or "no answer": n for status, n in found.statuses.items()}),
        "without content": _counts(found.reasons),
        "largest domains": _counts(found.domains),
        "size": f"{size(found.fetched_bytes)} fetched, {size(found.disk_bytes)} on disk",
    }
    if found.first_crawled is not None and found.last_crawled is not None:
        said["crawled"] = f"{time(found.first_crawled)} to {time(found.last_crawled)}"
    return {name: text for name, text in said.items() if text}


def _counts(counts: dict[int | str, int] | dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items())
