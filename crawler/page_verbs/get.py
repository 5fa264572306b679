"""`scrapy pages get URL`: show one page."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from crawler.errors import ConfigurationError, NotFound
from crawler.page_verbs.shown import as_json, decoded, fields, harmless
from crawler.progress.text import size
from crawler.seeds import why
from crawler.storage.stored_pages import Content, StoredPages
from crawler.urls import Rejected, Urls

_TEXT_SHOWN = 600
_BRIEF = (
    "url",
    "status",
    "reason",
    "title",
    "content_type",
    "language",
    "crawled_at",
    "depth",
    "links_count",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--meta", action="store_true", help="all that is known of it")
    part.add_argument("--text", action="store_true", help="its text")
    part.add_argument("--body", action="store_true", help="its body, byte for byte")
    parser.add_argument("--json", action="store_true", help="as JSON; a body as text")


async def run(pages: StoredPages, arguments: argparse.Namespace) -> None:
    url = _page_url(arguments.url, pages.urls)
    page = await pages.metadata(url)
    if page is None:
        raise NotFound(f"{url} is not stored.")
    if arguments.text or arguments.body:
        content = await pages.content(page)
        if content is None:
            raise NotFound(_why_not_kept(page))
        _print_content(page, content, arguments)
    elif arguments.json:
        print(as_json(page, indent=2))
    elif arguments.meta:
        print(fields(page))
    else:
        _print_brief(page, await pages.content(page))


def _page_url(text: str, urls: Urls) -> str:
    """The URL as the crawl spells it."""
    url = urls.canonical(text)
    if isinstance(url, Rejected):
        raise ConfigurationError(
            f"{text!r} is no URL of a page: {why(url.reason)}. Write it as https://example.com/page"
        )
    return url


_WHY = {
    "noindex": "the page asks not to be kept (noindex)",
    "robots": "robots.txt forbids it",
    "host_rules": "HOST_RULES forbid it",
    "type_not_accepted": "its type is none of ACCEPT_TYPES",
    "too_big_to_store": "it is larger than a document of MongoDB may be",
    "content_missing": "it was lost (scrapy pages repair found that)",
}


def _why_not_kept(page: dict[str, Any]) -> str:
    reason = page.get("reason", "")
    if page.get("duplicate_of"):
        why = "it has the content of another page, which is gone"
    elif reason in _WHY:
        why = _WHY[reason]
    elif not page["status"]:
        why = f"there was no answer ({reason})"
    elif not 200 <= page["status"] < 300:
        why = f"the answer was {page['status']}"
    else:
        why = "it is missing; scrapy pages repair looks for more of them"
    return f"The content of {page['url']} is not stored: {why}. --meta shows what is known."


def _print_content(page: dict[str, Any], content: Content, arguments: argparse.Namespace) -> None:
    if arguments.json:
        name = "body" if arguments.body else "text"
        text = content.text if arguments.text else decoded(content.body, page.get("charset"))
        print(as_json({"url": page["url"], "content_url": content.url, name: text}, indent=2))
    elif arguments.text:
        # To a file or a program all of it.
        print(harmless(content.text) if sys.stdout.isatty() else content.text)
    else:
        sys.stdout.buffer.write(content.body)


def _print_brief(page: dict[str, Any], content: Content | None) -> None:
    brief = {name: page[name] for name in _BRIEF if page.get(name) not in ("", None)}
    brief["size"] = size(page.get("size_bytes", 0))
    if content is not None and content.url != page["url"]:
        brief["content of"] = content.url
    print(fields(brief))
    if content is None:
        print(f"\n{_why_not_kept(page)}")
    else:
        more = " …" if len(content.text) > _TEXT_SHOWN else ""
        print(f"\n{harmless(content.text[:_TEXT_SHOWN])}{more}")
