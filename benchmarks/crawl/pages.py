"""The web that is crawled: so many hosts with 400 pages each, which link to each other. Pure.

The first pages of each host are the seeds: several, so that a robots.txt serves more than one page,
as it does in any crawl. Two thirds of the links of a page lead to its own host.

`page` makes those of the ground `small`, which have the text and the plain markup of the synthetic
web's ordinary pages: 26 KB, 600 words, and 60 links. `marked_up` makes pages with the markup of
real sites: all pages of a host have the same menu and footer, or the first items of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.crawl import markup
from demo.chance import draws
from demo.html import page_head
from demo.words import ANCHORS, FILLER, PARAGRAPH_BYTES, PARAGRAPH_COUNT, VOCABULARY, phrase

LINKS = 60
_PAGES_A_HOST = 400
_PARAGRAPHS = 15
_PAGE_BYTES = 26 * 1024
_SECTIONS = ("news", "guides", "blog", "docs", "people", "places", "science", "archive")
ROBOTS = b"User-agent: *\nDisallow: /private/\nDisallow: /search\nAllow: /\n"


@dataclass(frozen=True, slots=True)
class Size:
    """How large the web is, and how many of its pages are seeds."""

    seeds: int
    hosts: int


def host_of_page(number: int, size: Size) -> str:
    """The host that has a page."""
    return f"h{number % size.hosts}.test"


def number_of_host(host: str) -> int:
    """Which of the hosts has this name."""
    return int(host.removeprefix("h").removesuffix(".test"))


def address_of(host: str) -> str:
    """The loopback address of a host, for clients that cannot be told what names lead to."""
    number = number_of_host(host)
    return f"127.1.{number // 250}.{number % 250 + 1}"


def path_of(number: int) -> str:
    """The path of a page."""
    word = VOCABULARY[number * 17 % len(VOCABULARY)]
    return f"/{_SECTIONS[number % len(_SECTIONS)]}/{word}-{number}.html"


def url_of(number: int, size: Size, port: int, scheme: str = "http") -> str:
    """Where a page is, on a server with this port."""
    return f"{scheme}://{host_of_page(number, size)}:{port}{path_of(number)}"


def number_of(path: str) -> int | None:
    """Which page has this path."""
    digits = path.rpartition("-")[2].removesuffix(".html")
    number = int(digits) if digits.isdigit() else -1
    return number if number >= 0 and path_of(number) == path else None


def targets(number: int, size: Size, count: int = LINKS, framed: int = 0) -> list[int]:
    """The pages that a page links to, so many different ones.

    The first of them, `framed` ones, are those that all pages of its host link to.
    """
    host, hosts = number % size.hosts, size.hosts
    found: dict[int, None] = {}
    for name, until in ((f"frame:{host}", framed), (f"links:{number}", count)):
        for value in draws(name, 4 * until) if until else ():
            index = value % _PAGES_A_HOST
            # Every third leads to any host.
            other = (value >> 8) % hosts if len(found) % 3 == 2 else host
            found[index * hosts + other] = None
            if len(found) == until:
                break
    return list(found)


def hrefs(
    number: int, size: Size, port: int, count: int, scheme: str = "http", *, framed: int = 0
) -> list[str]:
    """The links of a page as it writes them: paths on its own host, else URLs."""
    host = number % size.hosts
    return [
        path_of(target) if target % size.hosts == host else url_of(target, size, port, scheme)
        for target in targets(number, size, count, framed)
    ]


def marked_up(number: int, shape: markup.Shape, size: Size, port: int, scheme: str) -> bytes:
    """The HTML of a page of this shape."""
    count = shape.distinct_links
    links = hrefs(number, size, port, count, scheme, framed=markup.framed(count))
    return markup.page(number, number % size.hosts, shape, links)


def page(number: int, size: Size, port: int) -> bytes:
    """The HTML of a page, on a server with this port."""
    title = phrase(f"title:{number}", 4)
    values = draws(f"text:{number}", _PARAGRAPHS + 1)
    parts = [page_head("en", title, phrase(f"about:{number}", 8), "", "").encode()]
    parts.append(f"<main><article><h1>{title}</h1>\n".encode())
    for value in values[1:]:
        parts += (b"<p>", PARAGRAPH_BYTES[value % PARAGRAPH_COUNT], b"</p>\n")
    parts.append(b'</article>\n<ul class="related">')
    for place, href in enumerate(hrefs(number, size, port, LINKS)):
        text = ANCHORS[(number + place) % len(ANCHORS)]
        parts.append(f'<li><a class="link" href="{href}">{text}</a></li>\n'.encode())
    rest = _PAGE_BYTES - sum(map(len, parts))
    at = values[0] % (len(FILLER) - _PAGE_BYTES)
    parts += (b'</ul></main>\n<script type="application/json">["', FILLER[at : at + rest])
    parts.append(b'"]</script>\n</body></html>\n')
    return b"".join(parts)
