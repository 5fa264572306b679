"""Serve sites that show nothing without a browser: `python -m benchmarks.render.site`.

Each page is an application as bundlers make them: a document without content, two scripts of 150 KB
of which a third runs, a style sheet with 400 rules, an answer of an API, and 20 images. All hosts
have the same files. With `--ready` the documents have the same content, and no scripts.

It says its port on the first line; `GET /account` tells how many requests of which kind came since
the last one.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import signal
import struct
import sys
import zlib
from collections import Counter
from functools import cache
from typing import Any, cast

from demo import event_loop

IMAGES = 20
PAGES_A_HOST = 8
# What the content of a page ends with.
MARK = "All of this page is shown."
_SCRIPT_BYTES = 150_000
_RULES = 400
_LINKS, _PARAGRAPHS, _WORDS = 60, 25, 60
_IMAGES_MADE = 40
_HTML = "text/html; charset=utf-8"
_WORD_LIST = (
    "page site link data time user list item order price stock news story author photo table chart "
    "value water city house music sport train bread paper river stone light window garden"
).split()

_DOCUMENT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Shop</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/site.css">
<script defer src="/static/vendor.js"></script><script defer src="/static/app.js"></script>
</head><body><noscript>You need to enable JavaScript to run this app.</noscript>
<div id="root"></div></body></html>
"""
# Modules by number, of which a third is needed at once, as in a bundle.
_RUNTIME = """(function () {
  const modules = (window.modules = window.modules || {}), made = (window.made = window.made || {});
  window.need = window.need || function (name) {
    if (!made[name]) { made[name] = {}; modules[name](made[name], window.need); }
    return made[name];
  };
"""
_MODULE = """  modules["%(name)s"] = function (exports, need) {
    class Store%(number)d {
      constructor(options) { this.options = options; this.items = new Map(); this.calls = []; }
      set(key, value) { this.items.set(key, { value, at: this.calls.length }); return this; }
      get(key) { const found = this.items.get(key); return found ? found.value : undefined; }
      each(visit) { for (const [key, item] of this.items) visit(key, item.value); return this; }
    }
    const defaults = { name: "%(words)s", size: %(size)d, deep: { list: [1, 2, %(number)d] } };
    function merge(left, right) {
      const merged = Object.assign({}, left);
      Object.keys(right || {}).forEach(function (key) {
        const is = right[key] && typeof right[key] === "object" && !Array.isArray(right[key]);
        merged[key] = is ? merge(left[key] || {}, right[key]) : right[key];
      });
      return merged;
    }
    exports.make = function (options) {
      const store = new Store%(number)d(merge(defaults, options));
      for (let at = 0; at < 40; at++) store.set("%(words)s-" + at, at * %(size)d);
      return store;
    };
    exports.sum = function (store) {
      let sum = 0;
      store.each(function (key, value) { sum += key.length * value; });
      return sum %% 9973;
    };
  };
"""
_START = """  let checked = 0;
  for (let at = 0; at < %(count)d; at += 3) {
    const found = window.need("%(name)s" + at);
    checked += found.sum(found.make({ deep: { at } }));
  }
  window.checked = (window.checked || 0) + checked;
"""
_APP = """  function make(name, properties, children) {
    const element = document.createElement(name);
    for (const key of Object.keys(properties)) element.setAttribute(key, properties[key]);
    for (const child of children) element.append(child);
    return element;
  }
  function link(each) { return make("a", { href: each.url, class: "link" }, [each.text]); }
  function card(each, at) {
    const image = make("img", { src: each.image, width: 240, height: 160, alt: each.text }, []);
    const name = make("h3", { class: "name" }, [each.text]);
    const price = make("span", { class: "price r" + at }, [each.price]);
    return make("div", { class: "card r" + (at + 40), "data-at": at }, [image, name, price]);
  }
  async function show() {
    const answer = await fetch("/api" + location.pathname);
    const page = await answer.json();
    document.title = page.title;
    document.getElementById("root").replaceChildren(
      make("nav", { class: "menu" }, page.links.slice(0, 30).map(link)),
      make("main", { id: "content" }, [
        make("h1", {}, [page.title]),
        ...page.texts.map(text => make("p", { class: "text" }, [text])),
        make("div", { class: "cards" }, page.cards.map(card)),
      ]),
      make("footer", {}, page.links.slice(30).map(link)),
      make("p", { id: "end" }, [page.end]),
    );
  }
  show();
"""


def url_of(number: int, port: int) -> str:
    """Return the URL of a page."""
    return f"http://shop{number // PAGES_A_HOST}.test:{port}/p/{number}"


def _words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(_WORD_LIST, k=count))


def script(name: str, more: str = "") -> bytes:
    """Return a bundle of modules."""
    chance = random.Random(name)
    modules, size = [], len(_RUNTIME) + len(more)
    while size < _SCRIPT_BYTES:
        values = {
            "name": f"{name}{len(modules)}",
            "number": len(modules),
            "words": _words(chance, 3),
            "size": chance.randrange(100, 1000),
        }
        modules.append(_MODULE % values)
        size += len(modules[-1])
    start = _START % {"count": len(modules), "name": name}
    return (_RUNTIME + "".join(modules) + start + more + "})();\n").encode()


def style() -> bytes:
    """Return the style sheet."""
    chance = random.Random("style")
    rules = [
        f".card.r{at} > .name, main .text:nth-of-type({at + 1}) {{ padding: {at % 9}px; "
        f"color: #{chance.randrange(4096):03x}; border-radius: {at % 5}px; }}\n"
        for at in range(_RULES)
    ]
    grid = ".cards { display: grid; grid-template-columns: repeat(4, 1fr); }\n"
    return "".join([grid, *rules]).encode()


def content(number: int) -> dict[str, Any]:
    """Return what the API says of a page."""
    chance = random.Random(number)
    first = number // PAGES_A_HOST * PAGES_A_HOST
    return {
        "title": _words(chance, 5),
        "texts": [_words(chance, _WORDS) for _ in range(_PARAGRAPHS)],
        "links": [
            {"url": f"/p/{first + at % PAGES_A_HOST}", "text": _words(chance, 3)}
            for at in range(_LINKS)
        ],
        "cards": [
            {
                "image": f"/images/{number}-{at}.png",
                "text": _words(chance, 4),
                "price": f"{chance.randrange(100)}.99",
            }
            for at in range(IMAGES)
        ],
        "end": MARK,
    }


def ready(number: int) -> bytes:
    """Return the document of a page that needs no browser."""
    page = content(number)
    links = "".join(f'<a href="{each["url"]}">{each["text"]}</a>' for each in page["links"])
    texts = "".join(f'<p class="text">{text}</p>' for text in page["texts"])
    cards = "".join(
        f'<div class="card"><img src="{each["image"]}" alt="{each["text"]}">'
        f"<h3>{each['text']}</h3><span>{each['price']}</span></div>"
        for each in page["cards"]
    )
    title = f"<title>{page['title']}</title>"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{title}</head><body><nav>'
        f"{links}</nav><main>{texts}{cards}</main><p>{page['end']}</p></body></html>"
    ).encode()


@cache
def image(number: int) -> bytes:
    """Return a picture of 240 by 160, about 20 KB."""
    chance = random.Random(f"image{number}")
    rows = b"".join(
        b"\0" + bytes((x * 3 + y) % 256 ^ chance.getrandbits(2) for x in range(240))
        for y in range(160)
    )
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 240, 160, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )


class Site:
    """Answers for all hosts, made once and packed as servers do."""

    def __init__(self, *, is_ready: bool) -> None:
        self.asked: Counter[str] = Counter()
        self._is_ready = is_ready
        kept = "max-age=3600"
        self._fixed = {
            "/robots.txt": _wire(b"User-agent: *\nDisallow: /private/\n", "text/plain"),
            "/static/vendor.js": _wire(script("vendor"), "text/javascript", kept),
            "/static/app.js": _wire(script("app", _APP), "text/javascript", kept),
            "/static/site.css": _wire(style(), "text/css", kept),
        }
        self._document = _wire(_DOCUMENT.encode(), _HTML)
        self._images = [_wire(image(at), "image/png", kept) for at in range(_IMAGES_MADE)]

    def answer(self, path: str) -> bytes:
        """Return the response for a path, as it goes over the wire."""
        if (found := self._fixed.get(path)) is not None:
            self.asked["robots" if path == "/robots.txt" else "static"] += 1
            return found
        number = _number_in(path)
        if path.startswith("/p/"):
            self.asked["document"] += 1
            return _wire(ready(number), _HTML) if self._is_ready else self._document
        if path.startswith("/api/p/"):
            self.asked["data"] += 1
            return _wire(json.dumps(content(number)).encode(), "application/json")
        if path.startswith("/images/"):
            self.asked["image"] += 1
            return self._images[zlib.crc32(path.encode()) % _IMAGES_MADE]
        if path == "/account":
            said = json.dumps(self.asked).encode()
            self.asked.clear()
            return _wire(said, "application/json")
        self.asked["other"] += 1
        return _wire(b"There is no such page.\n", "text/plain", status="404 Not Found")


def _number_in(path: str) -> int:
    last = path.rpartition("/")[2]
    return int(last) if last.isdecimal() else 0


def _wire(body: bytes, kind: str, cache_control: str = "no-cache", status: str = "200 OK") -> bytes:
    packing = ""
    if not kind.startswith("image/"):
        body, packing = gzip.compress(body, 6, mtime=0), "Content-Encoding: gzip\r\n"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Cache-Control: {cache_control}\r\n{packing}\r\n"
    )
    return head.encode() + body


class _Connection(asyncio.Protocol):
    """Connection that answers one GET after the other."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *requests, self._received = (self._received + data).split(b"\r\n\r\n")
        for request in requests:
            self._transport.write(self._site.answer(request.split(b" ", 2)[1].decode()))


async def serve(site: Site) -> int:
    """Serve until SIGTERM."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    server = await loop.create_server(lambda: _Connection(site), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(event_loop.run(serve(Site(is_ready="--ready" in sys.argv))))
