"""What does it take to read a page and to spell its links, beside Scrapy's own parts?

A page of 26 KB with 60 links: title, text, links made canonical and fingerprinted, against
LinkExtractor, Request and Scrapy's fingerprint. Single URLs against w3lib's canonicalize_url, each
URL a different one, as in a crawl. Both sides take turns, so that a busy machine hits both.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from time import process_time

from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.utils.request import fingerprint as scrapy_fingerprint
from w3lib.url import canonicalize_url

from benchmarks.command import run
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.frontier.links import LINKS_A_PAGE, url
from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader
from crawler.urls import canonical, fingerprint

PAGE_BYTES = 26_000
_URL = "http://www.words.example/library/page"
_TYPE = "text/html; charset=utf-8"
_HOSTS = 500
_MENU = 10
_SECTION = 5
_ROUNDS = 60


def page(number: int = 0) -> bytes:
    """A page as sites have them: head, menu, sections of text with links, data for its script."""
    chance = random.Random(number)
    words = [url(n, 1).rpartition("/")[2].partition("-")[0] for n in range(150)]
    links = [f'<a class="link" href="{href}">{words[0]}</a>' for href in _hrefs(number)]
    menu = "".join(f'<li class="item">{link}</li>\n' for link in links[:_MENU])
    html = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>Page {number}</title>\n<meta name=description content='What page {number} is'>\n"
        '<link rel="stylesheet" href="/style.css">\n<script>var visits = 1;</script>\n</head>\n'
        f"<body>\n<nav><ul>\n{menu}</ul></nav>\n<main>\n"
    )
    for first in range(_MENU, LINKS_A_PAGE, _SECTION):
        texts = [" ".join(chance.choices(words, k=28)) for _ in range(_SECTION)]
        linked = "\n".join(
            f"{text} {link}" for text, link in zip(texts, links[first:], strict=False)
        )
        html += f'<section class="story"><h2>{texts[0][:30]}</h2>\n<p class="lead">{linked}</p>\n'
        html += "</section>\n"
    html += '</main>\n<script type="application/json">["'
    end = '"]</script>\n<footer>All rights reserved</footer>\n</body>\n</html>\n'
    data = " ".join(chance.choices(words, k=2_000))
    return (html + data[: PAGE_BYTES - len(html) - len(end)] + end).encode()


def _hrefs(page_number: int) -> list[str]:
    """Links as pages have them: half of them within the site, a few with a query."""
    found = []
    first = page_number * LINKS_A_PAGE
    for number in range(first, first + LINKS_A_PAGE):
        link = url(number, _HOSTS)
        if number % 2:
            link = link[link.index("/", 8) :]
        if number % 8 == 0:
            link += f"?page={number}&amp;sort=date&amp;utm_source=home"
        found.append(link)
    return found


def urls(count: int) -> list[str]:
    """Different URLs: one in four with a query, one in ten with escapes, some with fragments."""
    found = []
    for number in range(count):
        link = url(number, _HOSTS)
        if number % 4 == 0:
            link += f"?sort=date&id={number}&utm_source=home&utm_medium=mail"
        if number % 10 == 1:
            link += "/caf%c3%a9/%7Eme"
        if number % 7 == 0:
            link += "#top"
        found.append(link)
    return found


def read_page(body: bytes, reader: DocumentReader) -> int:
    """Our way: one pass, then the links' fingerprints."""
    document = reader.read(body, _URL, content_type=_TYPE)
    assert document.title
    assert document.text
    return len([fingerprint(link) for link in document.links])


def read_page_by_scrapy(body: bytes, extractor: LinkExtractor) -> int:
    """Scrapy's way: less, since it reads no text."""
    response = HtmlResponse(_URL, body=body, headers={"Content-Type": _TYPE})
    assert response.css("title::text").get()
    links = extractor.extract_links(response)
    return len([scrapy_fingerprint(Request(link.url)) for link in links])


def measure_pages(quick: bool) -> Iterator[Figure]:
    """Pages by us and by Scrapy."""
    bodies = [page(number) for number in range(24)]
    reader = DocumentReader(HtmlReader(max_links=6000), max_links=6000)
    extractor = LinkExtractor()
    assert read_page(bodies[0], reader) == read_page_by_scrapy(bodies[0], extractor)
    ours, theirs = _best(
        quick,
        (lambda: [read_page(body, reader) for body in bodies], 24),
        (lambda: [read_page_by_scrapy(body, extractor) for body in bodies[:2]], 2),
    )
    yield Figure(
        "links.page_ratio", theirs / ours, "×", "Scrapy", theirs / ours, ratio_target=at_least(12)
    )
    yield Figure("links.page_us", ours * 1e6, "µs", target=at_most(1_000))


def measure_urls(quick: bool) -> Iterator[Figure]:
    """URLs by us and by w3lib."""
    texts = urls(2_000)
    ours, theirs = _best(
        quick,
        (lambda: [canonical(text) for text in texts], 2_000),
        (lambda: [canonicalize_url(text) for text in texts[:400]], 400),
    )
    yield Figure(
        "urls.canonical_ratio", theirs / ours, "×", "w3lib", theirs / ours, ratio_target=at_least(4)
    )
    yield Figure("urls.canonical_us", ours * 1e6, "µs", target=at_most(10))


# Something to do, and how many pages or URLs it does.
Work = tuple[Callable[[], object], int]


def _best(quick: bool, ours: Work, theirs: Work) -> tuple[float, float]:
    """CPU seconds a piece in the best round of each: other load can only make one slower.

    A round takes both about as long, so that both have the same chance of a quiet moment.
    """
    # Not before each round: it would empty the allocator's and the processor's caches.
    gc.collect()
    rounds = _ROUNDS // 3 if quick else _ROUNDS
    spent = [(_timed(ours[0]) / ours[1], _timed(theirs[0]) / theirs[1]) for _ in range(rounds)]
    return min(one for one, _ in spent), min(other for _, other in spent)


def _timed(work: Callable[[], object]) -> float:
    started = process_time()
    work()
    return process_time() - started


if __name__ == "__main__":
    sys.exit(run("links", __doc__, {"pages": measure_pages, "urls": measure_urls}))
