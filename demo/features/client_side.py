"""Sites whose pages are made in the browser, and some that only look so.

Their scripts are in demo/scripts. The pages of a host have the paths of ordinary pages, and are
linked to as those are.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import quote

from demo import graph
from demo.features import static_files
from demo.features.site import Site
from demo.features.static_files import BOTTOM, JAVASCRIPT, TOP, part, source
from demo.html import page_head
from demo.node import Behaviour, Link, Node, Role, Shown
from demo.words import article, phrase

_PARAGRAPHS: Final = 3
_APP: Final = "/static/app.js"
_API: Final = "/api/page"
_LIST_API: Final = "/api/list"
# From the number of a host of the feature `shared` to those that have its scripts and its API.
SCRIPTS_BELOW: Final = 3
API_BELOW: Final = 7
_SHARED: Final = "/shared/app.js"
_GONE: Final = "/shared/gone.js"
_WIDGET: Final = "/shared/closed/widget.js"
_CLOSED: Final = "/closed/1"
_CLOSED_API: Final = "/closed-api"
# Items of an endless list in all, and those that are added at a time.
_ITEMS: Final = 60
_BATCH: Final = 5
_NEEDS_SCRIPTS: Final = "<noscript>You need to enable JavaScript to run this app.</noscript>\n"


@dataclass(frozen=True, slots=True)
class _Page:
    """Content of a page, from which both its answers and its truth are made."""

    url: str
    title: str
    texts: tuple[str, ...]
    links: tuple[Link, ...]

    def record(self, does: Mapping[str, object]) -> bytes:
        """Return what an API says of the page, and of what its script `does` beside showing it."""
        home = self.url.removesuffix(_path(self.url))
        links = [
            {"url": link.url.removeprefix(home), "text": phrase(link.url, 3)} for link in self.links
        ]
        found = {"title": self.title, "texts": self.texts, "links": links, **does}
        return json.dumps(found, indent=1).encode()

    def html(self) -> str:
        """Return the content as HTML."""
        texts = "".join(f"<p>{text}</p>\n" for text in self.texts)
        links = "".join(
            f'<li><a href="{escape(link.url)}">{phrase(link.url, 3)}</a></li>\n'
            for link in self.links
        )
        return f"<article><h1>{self.title}</h1>\n{texts}</article>\n<ul>{links}</ul>\n"


def _page(site: Site, url: str, links: Iterable[str]) -> _Page:
    key = f"{site.seed}:{url}"
    texts = tuple(article(key, _PARAGRAPHS))
    return _Page(url, phrase(key, 4), texts, tuple(Link(link) for link in dict.fromkeys(links)))


def _below(site: Site, index: int) -> list[str]:
    """Return the URLs of the pages to which page `index` leads, and of the home page."""
    return [site.pages[at] for at in (0, *graph.children(index, len(site.pages)))]


def _path(url: str) -> str:
    return "/" + url.split("/", 3)[3]


def _query(url: str) -> str:
    """Return the query that scripts ask an API with, as encodeURIComponent writes it."""
    return "?path=" + quote(_path(url), safe="!'()*")


def _document(site: Site, body: str) -> bytes:
    """Return a page of the site around the body that is the same on all of its pages."""
    name = phrase(f"host:{site.seed}:{site.number}", 2)
    return f"{page_head('en', name, name, '', '')}{TOP}{body}{BOTTOM}</body>\n</html>\n".encode()


# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _App:
    """A site of routes. All of its documents are the same shell."""

    site: Site
    # As documents name them: URLs or paths.
    scripts: tuple[str, ...] = (_APP,)
    api: str = _API

    def shell(self) -> bytes:
        """Return the document of every route."""
        scripts = "".join(f'<script src="{script}"></script>\n' for script in self.scripts)
        return _document(
            self.site, f'<div id="app" data-api="{self.api}"></div>\n{_NEEDS_SCRIPTS}{scripts}'
        )

    def url_of(self, path: str) -> str:
        """Return the URL of a part."""
        return path if path.startswith("http:") else self.site.url(path)

    def route(self, page: _Page, *, push: str = "", is_fatal: bool = False) -> Node:
        """Return the document of a route; `push` is a URL that it gives to the history."""
        api = _CLOSED_API if _path(page.url) == _CLOSED else self.api
        pushed = (Link(push),) if push else ()
        is_empty = is_fatal or api == _CLOSED_API
        return Node(
            self.site.host,
            _path(page.url),
            body=self.shell(),
            exact_group=f"shell:{self.site.host}",
            shown=Shown(
                texts=() if is_empty else page.texts,
                links=() if is_empty else page.links + pushed,
                parts=(
                    *static_files.urls(self.site.host),
                    *map(self.url_of, self.scripts),
                    self.url_of(api) + _query(page.url),
                ),
                is_fatal=is_fatal,
            ),
        )


def _answer(
    page: _Page,
    host: str,
    api: str,
    *,
    does: Mapping[str, object] | None = None,
    delay_s: float = 0.0,
) -> Node:
    body = page.record(does or {})
    return part(host, api + _query(page.url), body, "application/json", delay_s)


def _pages(site: Site, *more: str) -> list[_Page]:
    """Return the pages of an app; the home page links to `more`."""
    return [
        _page(site, url, [*_below(site, index), *(() if index else (*more, site.elsewhere))])
        for index, url in enumerate(site.pages)
    ]


def _own_app(site: Site) -> Iterator[Node]:
    yield from static_files.static_files(site)
    yield part(site.host, _APP, source("app.js"), JAVASCRIPT)


def spa(site: Site) -> Iterator[Node]:
    """An app whose home page shows a route in its address that nothing links to."""
    hidden = _page(site, site.url("/latest/today"), site.pages[:1])
    app = _App(site)
    yield from _own_app(site)
    for page in [*_pages(site), hidden]:
        is_home = page.url == site.pages[0]
        does = {"push": _path(hidden.url)} if is_home else None
        yield app.route(page, push=hidden.url if is_home else "")
        yield _answer(page, site.host, _API, does=does)


def slow(site: Site) -> Iterator[Node]:
    """An app whose API takes from one to two seconds."""
    app = _App(site)
    yield from _own_app(site)
    for place, page in enumerate(_pages(site)):
        yield app.route(page)
        yield _answer(page, site.host, _API, delay_s=1.0 + place % 3 / 2)


def heavy(site: Site) -> Iterator[Node]:
    """An app with routes that take all memory or time of a browser, or the time of a worker."""
    does: dict[str, dict[str, object]] = {
        site.url("/heavy/memory"): {"fatal": "memory"},
        site.url("/heavy/loop"): {"fatal": "loop"},
        site.url("/heavy/worker"): {"has_busy_worker": True},
    }
    app = _App(site)
    yield from _own_app(site)
    for page in [*_pages(site, *does), *(_page(site, url, site.pages[:1]) for url in does)]:
        done = does.get(page.url, {})
        yield app.route(page, is_fatal="fatal" in done)
        yield _answer(page, site.host, _API, does=done)


def shared(site: Site) -> Iterator[Node]:
    """An app whose scripts and API other hosts have, and a route whose content is not for us."""
    base = f"http://s{site.number - SCRIPTS_BELOW}.test"
    api = f"http://s{site.number - API_BELOW}.test/api/{site.host}"
    app = _App(site, (base + _GONE, base + _WIDGET, base + _SHARED), api)
    closed = _page(site, site.url(_CLOSED), site.pages[:1])
    yield from static_files.static_files(site)
    for page in [*_pages(site, closed.url), closed]:
        yield app.route(page)
    yield _answer(closed, site.host, _CLOSED_API)


def scripts_for_others(host: str) -> Iterator[Node]:
    """What the host `host` has of a site with the feature `shared`: its scripts."""
    yield part(host, _SHARED, source("app.js"), JAVASCRIPT)
    yield part(host, _WIDGET, source("widget.js"), JAVASCRIPT)
    yield Node(host, _GONE, Behaviour.STATUS, status=404, linked="", role=Role.PART)


def api_for_others(site: Site, host: str) -> Iterator[Node]:
    """What the host `host` has of a site with the feature `shared`: its API."""
    for page in _pages(site, site.url(_CLOSED)):
        yield _answer(page, host, f"/api/{site.host}")


# -------------------------------------------------------------------------------------------------


def frame(site: Site) -> Iterator[Node]:
    """Pages with a header, a menu and a footer, whose articles come later.

    The menu has the first half of the pages; the others are linked from articles.
    """
    script = "/static/frame.js"
    half = (len(site.pages) + 1) // 2
    menu = "".join(
        f'<li><a href="{escape(url)}">{phrase(url, 2)}</a></li>\n' for url in site.pages[:half]
    )
    about = [f"{phrase(f'about:{site.host}:{place}', 20)}." for place in range(2)]
    document = _document(
        site,
        f"<header><p>{about[0]}</p></header>\n<nav><ul>{menu}</ul></nav>\n<main></main>\n"
        f'<footer><p>{about[1]}</p></footer>\n<script src="{script}"></script>\n',
    )
    yield from static_files.static_files(site)
    yield part(site.host, script, source("frame.js"), JAVASCRIPT)
    for index, url in enumerate(site.pages):
        page = _page(site, url, _below(site, index))
        path = "/article" + _query(url)
        yield Node(
            site.host,
            _path(url),
            body=document,
            links=tuple(Link(other) for other in site.pages[:half]),
            exact_group=f"frame:{site.host}",
            shown=Shown(
                page.texts,
                page.links,
                parts=(*static_files.urls(site.host), site.url(script), site.url(path)),
            ),
        )
        yield part(site.host, path, page.html().encode(), "text/html; charset=utf-8")


def endless(site: Site) -> Iterator[Node]:
    """A list that grows when it is scrolled; the pages that it leads to need no browser."""
    script = "/static/list.js"
    items = [site.url(f"/items/{number}") for number in range(1, _ITEMS + 1)]
    first = [*site.pages[1:], *items[:_BATCH]]
    later = [items[at : at + _BATCH] for at in range(_BATCH, _ITEMS, _BATCH)]
    parts = [site.url(f"{_LIST_API}?from={number}") for number in range(1 + len(later))]
    yield from static_files.static_files(site)
    yield part(site.host, script, source("list.js"), JAVASCRIPT)
    for number, (url, batch) in enumerate(zip(parts, [first, *later], strict=True)):
        found = [{"url": item, "title": phrase(item, 3), "text": _teaser(item)} for item in batch]
        following = number + 1 if number < len(later) else None
        body = json.dumps({"items": found, "next": following}, indent=1).encode()
        yield part(site.host, _path(url), body, "application/json")
    yield Node(
        site.host,
        "/",
        body=_document(
            site,
            f'<ul id="list"></ul>\n<div id="end"></div>\n<script src="{script}"></script>\n',
        ),
        shown=Shown(
            tuple(map(_teaser, first)),
            tuple(map(Link, first)),
            tuple(Link(item) for batch in later for item in batch),
            parts=(*static_files.urls(site.host), site.url(script), *parts),
        ),
    )
    home = (Link(site.pages[0]),)
    for url in (*site.pages[1:], *items):
        yield site.page(_path(url), links=home)


def _teaser(url: str) -> str:
    return f"{phrase(f'teaser:{url}', 20)}."


def ready(site: Site) -> Iterator[Node]:
    """Pages that look like those of an app, and have all of their content in the HTML."""
    script = "/static/ready.js"
    yield from static_files.static_files(site)
    yield part(site.host, script, source("ready.js"), JAVASCRIPT)
    parts = (*static_files.urls(site.host), site.url(script))
    for page in _pages(site):
        body = f'<div id="root">\n{page.html()}</div>\n{_NEEDS_SCRIPTS}'
        yield Node(
            site.host,
            _path(page.url),
            body=_document(site, f'{body}<script src="{script}" defer></script>\n'),
            links=page.links,
            shown=Shown(parts=parts),
        )


def moves(site: Site) -> Iterator[Node]:
    """Pages that do nothing but lead to another one, by a script or by a meta element."""
    ways = {
        "replace": "<script>location.replace('{url}')</script>",
        "later": "<script>setTimeout(() => {{ location.href = '{url}' }}, 100)</script>",
        "refresh": '<meta http-equiv="refresh" content="0; url={url}">',
    }
    for way, code in ways.items():
        target = site.url(f"/arrived/{way}")
        # A crawler without a browser follows this as a link.
        links = (Link(target),) if way == "refresh" else ()
        body = f"<!DOCTYPE html>\n<title>One moment</title>\n{code.format(url=target)}\n"
        shown = Shown(links=(Link(target),), leads_away=True)
        yield Node(site.host, f"/go/{way}", body=body.encode(), links=links, shown=shown)
        yield site.page(f"/arrived/{way}", linked="")
