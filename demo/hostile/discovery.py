"""Redirects, robots.txt, sitemaps and names of hosts that lead a crawler astray."""

from __future__ import annotations

import zlib
from typing import Final

from demo.hostile.behaviour import DOMAIN, STORED, WAITS, Answer, Behaviour
from demo.hostile.pages import LAUGHS
from demo.hostile.talk import Talk, harmless, head

# A network that the crawl is not let into; see `server.py`.
FORBIDDEN: Final = "127.66.0.1"
ALLOWED: Final = "127.0.0.1"
_XML: Final = "application/xml"


# --- redirects ------------------------------------------------------------------------------------


def _moved(location: str) -> Answer:
    async def answer(talk: Talk) -> None:
        if talk.target != "/":
            await harmless(talk)
        else:
            await talk.send(_redirect(location))

    return answer


def _redirect(location: str) -> bytes:
    return head(302, length=0, fields=f"Location: {location}\r\n")


async def _moves_on(talk: Talk) -> None:
    await talk.send(_redirect(f"{talk.target}1/"))


async def _moves_to_itself(talk: Talk) -> None:
    await talk.send(_redirect(talk.target))


async def _moves_with_body(talk: Talk) -> None:
    if talk.target != "/":
        await harmless(talk)
        return
    await talk.send(head(302, fields="Location: /there\r\n"))
    await talk.endlessly(b"x" * 1000)


_HELD: Final = "private_address"
_INSIDE: Final = f"http://{FORBIDDEN}:9/"


def _moving(name: str, does: str, outcome: str, location: str, ends_at: str = "") -> Behaviour:
    ends_at = ends_at and ends_at.replace("HOST", f"http://{name}.{DOMAIN}")
    return Behaviour(name, does, outcome, _moved(location), ends_at=ends_at)


REDIRECTS: Final = (
    Behaviour(
        "endless-redirects",
        "redirects to a new URL each time",
        "status_302, too_many_redirects",
        _moves_on,
        ends_at=f"http://endless-redirects.{DOMAIN}/{'1/' * 10}",
    ),
    Behaviour(
        "redirect-to-itself",
        "redirects to the same URL",
        "status_302, redirect_loop",
        _moves_to_itself,
    ),
    Behaviour(
        "redirect-with-endless-body",
        "redirects with a body without end",
        "too_big",
        _moves_with_body,
    ),
    _moving("redirect-to-file", "redirects to a file", "status_302", "file:///etc/passwd"),
    _moving("redirect-to-script", "redirects to a script", "status_302", "javascript:alert(1)"),
    _moving("redirect-to-nowhere", "redirects to `http://[`", "status_302", "http://["),
    _moving("redirect-inside", "redirects to a private address", _HELD, _INSIDE, _INSIDE),
    _moving(
        "redirect-of-kilobytes",
        "redirects to a URL of 60 KB",
        "redirect_refused",
        "/" + "x" * 60_000,
    ),
    _moving(
        "redirect-inside-as-number",
        "redirects to a private address, written as one number",
        _HELD,
        f"http://{(127 << 24) + (66 << 16) + 2}:9/",
        "http://127.66.0.2:9/",
    ),
    _moving(
        "response-splitting",
        "hides a second request in a redirect",
        STORED,
        "/there%0d%0aHost:%20victim.test%0d%0a%0d%0aGET%20/\rx\x0bx",
        "HOST/there%0D%0AHost:%20victim.test%0D%0A%0D%0AGET%20/%20x%0Bx",
    ),
    _moving(
        "host-confusion",
        "redirects to an address behind a name and a backslash",
        STORED,
        rf"http://host-confusion.{DOMAIN}/there\@{FORBIDDEN}:9/",
        f"HOST/there/@{FORBIDDEN}:9/",
    ),
    _moving(
        "name-as-user",
        "redirects to a private address behind a name and an @",
        "redirect_refused",
        f"http://name-as-user.{DOMAIN}@127.66.0.3:9/",
    ),
)


# --- robots.txt -----------------------------------------------------------------------------------


def _robots(body: bytes) -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.send(head(length=len(body), kind="text/plain") + body)

    return answer


def _endless_robots(start: bytes, piece: bytes, fields: str = "") -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.send(head(kind="text/plain", fields=fields) + start)
        await talk.endlessly(piece)

    return answer


async def _robots_moves_on(talk: Talk) -> None:
    await talk.send(_redirect(f"/robots.txt?{talk.target.count('1')}1{'1' * len(talk.target)}"))


async def _silent(talk: Talk) -> None:
    await talk.hang()


async def _resets(talk: Talk) -> None:
    talk.reset()


async def _large_robots(talk: Talk) -> None:
    """Send a number of rules that no reader takes all of."""
    lines = (f"Disallow: /{at}/*/{at}$\n" for at in range(100_000))
    await _robots(b"User-agent: *\n" + "".join(lines).encode())(talk)


async def _many_sitemaps(talk: Talk) -> None:
    await _robots("".join(f"Sitemap: /{at}.xml\n" for at in range(20_000)).encode())(talk)


async def _plain_page(talk: Talk) -> None:
    await harmless(talk)


ROBOTS: Final = (
    Behaviour(
        "robots-of-gigabytes",
        "has a robots.txt without end",
        STORED,
        _plain_page,
        robots=_endless_robots(b"User-agent: *\nDisallow: /x\n", b"Disallow: /some/folder\n"),
    ),
    Behaviour(
        "robots-line-of-gigabytes",
        "has a line without end in its robots.txt",
        STORED,
        _plain_page,
        robots=_endless_robots(b"User-agent: *\nDisallow: /x", b"x" * 1000),
    ),
    Behaviour(
        "robots-of-rules",
        "has 100,000 rules with wildcards",
        STORED,
        _plain_page,
        robots=_large_robots,
    ),
    Behaviour(
        "robots-of-wildcards",
        "has rules that take careless matchers for ever",
        STORED,
        _plain_page,
        robots=_robots(b"User-agent: *\n" + (b"Disallow: " + b"/*a" * 500 + b"$\n") * 200),
        path="/" + "a" * 1500 + "b",
    ),
    Behaviour(
        "robots-of-noise",
        "has noise in its robots.txt",
        STORED,
        _plain_page,
        robots=_robots(bytes(range(256)) * 400),
    ),
    Behaviour(
        "robots-of-delays",
        "asks for a delay of 10^308 seconds",
        WAITS,
        _plain_page,
        robots=_robots(b"User-agent: *\nCrawl-delay: 1e308\nCrawl-delay: nan\n"),
    ),
    Behaviour(
        "robots-moves-on",
        "redirects its robots.txt for ever",
        STORED,
        _plain_page,
        robots=_robots_moves_on,
    ),
    Behaviour(
        "robots-silence", "never answers for its robots.txt", WAITS, _plain_page, robots=_silent
    ),
    Behaviour("robots-resets", "resets for its robots.txt", WAITS, _plain_page, robots=_resets),
    Behaviour(
        "robots-of-sitemaps", "names 20,000 sitemaps", STORED, _plain_page, robots=_many_sitemaps
    ),
)


# --- sitemaps -------------------------------------------------------------------------------------


def _sitemap(name: str, does: str, answer: Answer, counted: str = "sitemaps/cut") -> Behaviour:
    """Return a host with an ordinary page whose robots.txt names this sitemap."""

    async def either(talk: Talk) -> None:
        await (answer if "sitemap" in talk.target else harmless)(talk)

    async def robots(talk: Talk) -> None:
        await _robots(f"Sitemap: http://{talk.host}/sitemap.xml\n".encode())(talk)

    return Behaviour(name, does, STORED, either, robots=robots, counted=counted)


def _xml(body: bytes) -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.send(head(length=len(body), kind=_XML) + body)

    return answer


def _endless_xml(start: bytes, piece: bytes) -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.send(head(kind=_XML) + start)
        await talk.endlessly(piece)

    return answer


async def _cycle(talk: Talk) -> None:
    places = (
        f"<sitemap><loc>http://{talk.host}/sitemap{at}.xml</loc></sitemap>" for at in range(3)
    )
    await _xml(f"<sitemapindex>{''.join(places)}</sitemapindex>".encode())(talk)


async def _packed_sitemap(talk: Talk) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    start = packer.compress(b"<urlset>") + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(b"<url></url>" * 100_000) + packer.flush(zlib.Z_FULL_FLUSH)
    # Unpacked it is 100 MB, twice what a sitemap may have.
    body = start + again * 100
    await talk.send(head(length=len(body), kind="application/x-gzip") + body)


async def _deep_sitemap(talk: Talk) -> None:
    await _xml(b"<urlset>" + b"<url>" * (talk.size // 6))(talk)


SITEMAPS: Final = (
    _sitemap(
        "sitemap-of-gigabytes",
        "has a sitemap without end",
        _endless_xml(b"<urlset>", b"<url><loc>/x</loc></url>\n"),
        counted="failed/too_big",
    ),
    _sitemap("sitemap-cycle", "has sitemaps that list each other", _cycle, counted="sitemaps/read"),
    _sitemap("sitemap-bomb", "packs twice as much as a sitemap may have", _packed_sitemap),
    _sitemap(
        "sitemap-of-laughs",
        "has a sitemap of entities in entities",
        _xml(LAUGHS + b"<urlset><url><loc>&e9;</loc></url></urlset>"),
        counted="sitemaps/read",
    ),
    _sitemap(
        "deep-sitemap",
        "opens an entry in an entry in an entry",
        _deep_sitemap,
        counted="sitemaps/read",
    ),
)


# --- names ----------------------------------------------------------------------------------------


def _named(name: str, does: str, outcome: str, *addresses: tuple[str, ...]) -> Behaviour:
    return Behaviour(name, does, outcome, _plain_page, addresses=addresses)


NAMES: Final = (
    _named(
        "dns-rebinding",
        "has a private address after its first answer of DNS",
        STORED,
        (ALLOWED,),
        (FORBIDDEN,),
    ),
    _named("dns-private", "has a private address", "private_address", (FORBIDDEN,)),
    _named("dns-mixed", "has a public and a private address", STORED, (FORBIDDEN, ALLOWED)),
    _named(
        "dns-many",
        "has 200 private addresses",
        "private_address",
        tuple(f"127.66.1.{at}" for at in range(200)),
    ),
    _named("dns-nothing", "has a name that does not exist", "dns_nxdomain", ()),
)
