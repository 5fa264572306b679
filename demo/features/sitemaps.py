"""Sitemaps of all forms: an index, a plain and a gzipped XML file, and a text file.

Each lists ordinary pages and one page that nothing links to.
"""

import gzip
from collections.abc import Iterable, Iterator
from typing import Final

from demo.features.site import Site
from demo.node import Behaviour, Node

_SPACE: Final = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
ROOT: Final = "/sitemap.xml"
FILES: Final = ("/maps/plain.xml", "/maps/packed.xml.gz", "/maps/list.txt")


def _xml(root: str, item: str, entries: Iterable[str]) -> bytes:
    items = "".join(f"<{item}>{entry}</{item}>\n" for entry in entries)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} {_SPACE}>\n{items}</{root}>\n'.encode()


def _loc(url: str) -> str:
    return f"<loc>{url.replace('&', '&amp;')}</loc>"


def _url_set(urls: Iterable[str]) -> bytes:
    extra = "<lastmod>2024-0{}-01</lastmod><priority>0.{}</priority>"
    entries = [_loc(url) + extra.format(at % 9 + 1, at % 9 + 1) for at, url in enumerate(urls)]
    return _xml("urlset", "url", entries)


def _file(site: Site, path: str, body: bytes, content_type: str) -> Node:
    return Node(
        site.host,
        path,
        Behaviour.FILE,
        body=body,
        content_type=content_type,
        linked="",
        in_sitemap=True,
    )


def sitemaps(site: Site) -> Iterator[Node]:
    """The sitemap files, and the pages that only they list."""
    only = [site.page(f"/only-in-map/{name}", linked="", in_sitemap=True) for name in "abc"]
    third = max(1, len(site.pages) // 3)
    parts = [[*site.pages[at * third : (at + 1) * third], only[at].url] for at in range(len(FILES))]
    index = _xml("sitemapindex", "sitemap", (_loc(site.url(path)) for path in FILES))
    yield _file(site, ROOT, index, "application/xml")
    yield _file(site, FILES[0], _url_set(parts[0]), "application/xml")
    packed = gzip.compress(_url_set(parts[1]), mtime=0)
    yield _file(site, FILES[1], packed, "application/gzip")
    yield _file(site, FILES[2], ("\n".join(parts[2]) + "\n").encode(), "text/plain; charset=utf-8")
    yield from only
