"""Are pages found that people would call the same, and others told apart? On real prose.

Articles are made of the documentation of what is installed here. Each is shown in several versions,
as whole pages of several sites: with another date, other advertisements, other related links, with
comments, with a paragraph less, edited, as a print view, and on another site. Others share some of
its paragraphs. Whether two pages are the same is known from their articles alone, never from what
the crawler reads: by the Jaccard similarity of their sets of three-word shingles. From 0.9 on they
are the same, below 0.7 they are different; pairs between are not judged.

The pages are read in any order by the crawler's reader, and what a site's pages share is learnt on
the way, as in a crawl. Then the index in a real Redis gets one version of each article, and every
other page is looked up in it; so for each version. An answer is right if the page that it names is
the same, and wrong if that is different; a page that is the same as one in the index and is not
found counts against the recall. Peer: the simhash package with its defaults, on the text of a page.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import combinations
from statistics import quantiles
from time import process_time
from typing import Any, NamedTuple
from zlib import crc32

from redis.asyncio import Redis
from simhash import Simhash, SimhashIndex

from benchmarks.command import run
from benchmarks.content.index import TAGS, fill_and_check
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.prose import paragraphs
from benchmarks.servers import private_redis
from crawler.dedup.buckets import bits_for
from crawler.dedup.content import Boilerplate, majorities, of_each, shingles_of
from crawler.dedup.index import MINHASH, SIMHASH, ContentIndex
from crawler.dedup.minhash import similarity, sketches
from crawler.dedup.minhash_tables import MinHashTables
from crawler.dedup.near import Content
from crawler.frontier.frontier import tags
from crawler.items import Page
from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader
from crawler.pipelines.duplicates import label

_SAME, _DIFFERENT = 0.9, 0.7
_SHINGLE = 3
_MIN_WORDS = 50
_ARTICLES, _QUICK_ARTICLES = 400, 260
_PARAGRAPHS = 30_000
# Words of an article, at least, and its paragraphs.
_SIZES = (80, 130, 200, 300, 450, 700, 1000)
_LEAST_PARAGRAPHS = 3
_TITLE_WORDS = 8
_PAGES_A_SITE = 100
# Pages that a process hashes together, and answers that it waits for at a time.
_GROUP, _AT_ONCE = 8, 100
# Paragraphs that two articles share, at most. Some of these pairs are nearly as similar as those
# that are not judged any more.
_SHARED_MAX = 0.83
# Versions that are put into the index in turn: the first one, and some in which more is different.
_ROUNDS = (0, 1, 4, 5, 7, 8)
_TIMED_WORDS = 600
# Pages in Redis when its memory is read; buckets are as full as with any number.
_STORED = 60_000


# --- articles ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Article:
    """Article with the words of others around it, from which all its versions are made."""

    title: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """Page of an article: what is shown, and where."""

    article: int
    kind: str
    host: str
    paragraphs: tuple[str, ...]
    html: bytes
    shingles: frozenset[tuple[str, ...]]


def articles(count: int) -> tuple[list[Article], list[str]]:
    """Cut documents into articles; what is left of them serves as comments and advertisements."""
    found: list[Article] = []
    rest: list[str] = []
    for document in paragraphs(_PARAGRAPHS):
        texts: list[str] = []
        words = 0
        for paragraph in document:
            texts.append(paragraph)
            words += len(paragraph.split())
            if (
                len(texts) >= _LEAST_PARAGRAPHS
                and words >= _SIZES[len(found) % len(_SIZES)]
                and len(found) < count
            ):
                title = " ".join(texts[0].split()[:_TITLE_WORDS]).strip(".,:;")
                found.append(Article(title, tuple(texts)))
                texts, words = [], 0
        rest += texts
    return found, rest


def shingles(text: str) -> frozenset[tuple[str, ...]]:
    """List the runs of three words of a text."""
    words = "".join(char if char.isalnum() or char == "_" else " " for char in text.lower()).split()
    return frozenset(zip(*(words[at:] for at in range(_SHINGLE)), strict=False))


def jaccard(one: Version, other: Version) -> float:
    """Compute the similarity of two articles."""
    shared = len(one.shingles & other.shingles)
    return shared / (len(one.shingles) + len(other.shingles) - shared or 1)


# --- pages ------------------------------------------------------------------------------------


class Names(NamedTuple):
    """How a site names its parts; some say it in words, some in abbreviations."""

    comments: str
    comment: str
    ad: str
    related: str
    share: str


_NAMES = (
    Names("comments", "comment", "ad-slot", "related-posts", "share-bar"),
    Names("comment-list", "comment-body", "advertisement", "related", "social-share"),
    Names("disqus_thread", "post", "sponsored", "read-more", "sharing"),
    Names("styles_comments__3xQ1", "styles_comment__9f", "styles_ad__7a", "styles_related__1", "s"),
    Names("responses", "response", "promo", "recommended", "share-buttons"),
)
_MENU = ("Home", "News", "World", "Business", "Sports", "Culture", "Opinion", "Contact us", "About")
_MONTHS = "January February March April May June July August September October November".split()


class Site:
    """Site with a frame of its own."""

    def __init__(self, number: int, prose: Sequence[str]) -> None:
        self.host = f"site{number}.test"
        self._number = number
        self._names = _NAMES[number % len(_NAMES)]
        chance = random.Random(number)
        self._notice, self._cookies, self._about = chance.sample(prose, 3)
        self._ads = chance.sample(prose, 30)

    def page(
        self,
        article: Article,
        chance: random.Random,
        *,
        others: Sequence[Article],
        comments: Sequence[str] = (),
        is_print: bool = False,
    ) -> bytes:
        """Show an article; with another `chance`, the date and all around it is another."""
        date = f"{chance.randint(1, 28)} {chance.choice(_MONTHS)} {chance.randint(2001, 2026)}"
        title = escape(article.title)
        head = f"<!doctype html><html lang=en><head><title>{title} | {self.host}</title></head>"
        if is_print:
            body = self._text(article, ())
            return (
                f"{head}<body><p>{self.host} — printed on {date}</p><h1>{title}</h1>{body}"
                f"<p>© {self.host}. All rights reserved.</p></body></html>"
            ).encode()
        ads = [f"<p>{escape(text)}</p>" for text in chance.sample(self._ads, 3)]
        return (head + self._framed(article, date, ads, others, comments)).encode()

    def _text(self, article: Article, ads: Sequence[str]) -> str:
        """Show the paragraphs, with an advertisement after every third one."""
        parts = []
        waiting = list(ads)
        for number, paragraph in enumerate(article.paragraphs):
            if number % 3 == 2 and waiting:
                parts.append(f'<div class="{self._names.ad}">{waiting.pop()}</div>')
            parts.append(f"<p>{escape(paragraph)}</p>")
        return "\n".join(parts)

    def _framed(
        self,
        article: Article,
        date: str,
        ads: Sequence[str],
        others: Sequence[Article],
        comments: Sequence[str],
    ) -> str:
        names, title = self._names, escape(article.title)
        menu = "".join(f'<li><a href="/{word.lower()}">{word}</a></li>' for word in _MENU)
        text = self._text(article, ads[1:])
        share = f'<div class="{names.share}"><a href="#f">Share</a> <a href="#t">Post</a></div>'
        teasers = "".join(
            f'<li><a href="/{crc32(other.title.encode())}">{escape(other.title)}</a>'
            + (f"<p>{escape(other.paragraphs[0][:150])}…</p>" if self._number % 2 else "")
            + "</li>"
            for other in others
        )
        related = f'<div class="{names.related}"><h3>Related articles</h3><ul>{teasers}</ul></div>'
        said = "".join(
            f'<li class="{names.comment}"><b>Reader {number}</b> says:<p>{escape(text)}</p></li>'
            for number, text in enumerate(comments)
        )
        discussion = (
            f'<section class="{names.comments}" id="{names.comments}"><h2>{len(comments)} '
            f"Comments</h2><ol>{said}</ol></section>"
            if comments
            else ""
        )
        by = f'<p class="byline">By Staff Writer, {date}</p>'
        if self._number % 3 == 0:
            return (
                f"<body><header><nav><ul>{menu}</ul></nav></header><main><article><h1>{title}</h1>"
                f"{by}{text}</article>{share}{discussion}</main><aside>{ads[0]}{related}</aside>"
                f"<footer><p>{escape(self._notice)}</p><p>{escape(self._about)}</p></footer></body>"
            )
        if self._number % 3 == 1:
            return (
                f'<body><div id="cookie-notice"><p>{escape(self._cookies)}</p></div><div id="menu">'
                f'<ul>{menu}</ul></div><div id="content"><h1>{title}</h1>{by}<div class="entry">'
                f'{text}</div>{share}{related}{discussion}</div><div id="sidebar"><div class='
                f'"{names.ad}">{ads[0]}</div><p>{escape(self._about)}</p></div><div id="footer">'
                f"<p>{escape(self._notice)}</p></div></body>"
            )
        return (
            f"<body><table><tr><td colspan=2>{' | '.join(_MENU)}</td></tr><tr><td><div class="
            f'"{names.ad}">{ads[0]}</div>{related}</td><td><h1>{title}</h1>{by}<div>{text}</div>'
            f"{share}{discussion}</td></tr><tr><td colspan=2><p>{escape(self._notice)}</p><p>"
            f"{escape(self._cookies)}</p></td></tr></table></body>"
        )


_KINDS = ("first", "date", "ads", "links", "comments", "shorter", "edited", "print", "elsewhere")
_STORED_KINDS = frozenset(_KINDS[number] for number in _ROUNDS)
# Neighbours on a site that are counted as pairs, by how far they are from each other.
_STEPS = range(11, 17)


def versions(count: int) -> list[Version]:
    """Make the pages of so many articles: the versions of each, and two that share parts of it."""
    found, rest = articles(count)
    chance = random.Random(1)
    pages = len(found) * (len(_KINDS) + 2)
    sites = [Site(number, rest) for number in range(max(6, pages // _PAGES_A_SITE))]
    made = []
    for number, article in enumerate(found):
        home, other = chance.sample(sites, 2)
        neighbours = chance.sample(found, 5)
        for kind in (*_KINDS, "part", "part"):
            site = other if kind in ("elsewhere", "part") else home
            shown = _changed(article, kind, chance, rest)
            comments = chance.sample(rest, chance.randint(3, 8)) if kind == "comments" else ()
            others = neighbours if kind != "links" else chance.sample(found, 5)
            # What is not another in this version is as in the first one.
            seed = number if kind in ("first", "shorter", "edited", "comments") else chance.random()
            html = site.page(
                shown,
                random.Random(seed),
                others=others,
                comments=comments,
                is_print=kind == "print",
            )
            text = " ".join(shown.paragraphs)
            made.append(Version(number, kind, site.host, shown.paragraphs, html, shingles(text)))
    return made


def _changed(article: Article, kind: str, chance: random.Random, rest: Sequence[str]) -> Article:
    """Change an article itself, if that is what a kind of version is about."""
    texts = list(article.paragraphs)
    if kind == "shorter":
        # A short one, or it would be another article.
        at = min(range(1, len(texts)), key=lambda index: len(texts[index]))
        del texts[at]
    elif kind == "edited":
        for _ in range(max(1, len(" ".join(texts).split()) // 100)):
            at = chance.randrange(len(texts))
            words = texts[at].split()
            words[chance.randrange(len(words))] = "changed"
            texts[at] = " ".join(words)
    elif kind == "part":
        kept = max(1, round(len(texts) * chance.uniform(0.3, _SHARED_MAX)))
        places = set(chance.sample(range(len(texts)), kept))
        texts = [text if at in places else chance.choice(rest) for at, text in enumerate(texts)]
    return Article(article.title, tuple(texts))


# --- what is found ----------------------------------------------------------------------------


class Read(NamedTuple):
    """What the crawler made of a page."""

    version: Version
    text: str
    content: Content


async def _crawl(redis: Redis, pages: Sequence[Version], near_by: str) -> list[Read]:
    """Read pages in any order; pages that are no duplicates are learnt from and remembered."""
    reader = DocumentReader(HtmlReader(max_links=0, article=True), max_links=0)
    boilerplate = Boilerplate()
    index = await _opened(redis, f"crawl-{near_by}", near_by)
    order = list(enumerate(pages))
    random.Random(2).shuffle(order)
    found: list[Read | None] = [None] * len(pages)
    for number, version in order:
        url = f"http://{version.host}/{number}"
        document = reader.read(version.html, url, content_type="text/html")
        page = Page(url=url, final_url=url, status=200, crawled_at=None)  # type: ignore[arg-type]
        page.text, page.blocks, page.article = document.text, document.blocks, document.article
        page.title, page.headings = document.title, document.headings
        (simhash,) = of_each(majorities, boilerplate.shingles_of([page], _MIN_WORDS))
        (sketch,) = of_each(sketches, boilerplate.article_shingles_of([page], _MIN_WORDS))
        if sketch is not None:
            sketch += label(page)
        content = Content(hashlib.sha256(version.html).digest(), simhash, sketch)
        if await index.find(_url_id(number), content) is None:
            boilerplate.learn(version.host, document.blocks or [])
            index.remember(_url_id(number), content)
            await index.flush()
        found[number] = Read(version, document.text, content)
    return [each for each in found if each is not None]


@dataclass(slots=True)
class Tally:
    """Answers that are right and wrong, and pages that had to be found."""

    right: int = 0
    wrong: int = 0
    due: int = 0
    missed: Counter[str] = field(default_factory=Counter)

    def count(self, version: Version, target: Version, answer: Version | None) -> None:
        """Count the answer for a page; `target` is the version of its article in the index."""
        is_due = jaccard(version, target) >= _SAME
        self.due += is_due
        alike = jaccard(version, answer) if answer is not None else 0.0
        self.right += is_due and alike >= _SAME
        self.wrong += answer is not None and alike < _DIFFERENT
        if is_due and alike < _SAME:
            self.missed[version.kind] += 1

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.due)


async def _judge(redis: Redis, pages: Sequence[Read], near_by: str) -> Tally:
    """Look all pages up among one version of each article, with each version in turn."""
    tally = Tally()
    for kept in _ROUNDS:
        index = await _opened(redis, f"{near_by}-{kept}", near_by)
        stored = _KINDS[kept]
        originals = {}
        for number, page in enumerate(pages):
            if page.version.kind == stored:
                originals[page.version.article] = page.version
                index.remember(_url_id(number), page.content)
        await index.flush()
        assert not index.lost
        by_id = {_url_id(number): page.version for number, page in enumerate(pages)}
        asked = [(number, page) for number, page in enumerate(pages) if page.version.kind != stored]
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            answers = await asyncio.gather(
                *(index.find(_url_id(number), page.content) for number, page in some)
            )
            for (_, page), answer in zip(some, answers, strict=True):
                found = by_id[answer.original] if answer is not None else None
                tally.count(page.version, originals[page.version.article], found)
    return tally


def _judge_package(pages: Sequence[Read]) -> Tally:
    """The same with the simhash package: its features of the text, its index, its distance."""
    tally = Tally()
    hashes = [Simhash(page.text) for page in pages]
    for kept in _ROUNDS:
        stored = _KINDS[kept]
        numbers = [at for at, page in enumerate(pages) if page.version.kind == stored]
        originals = {pages[at].version.article: pages[at].version for at in numbers}
        index = SimhashIndex([(str(at), hashes[at]) for at in numbers])
        for at, page in enumerate(pages):
            if page.version.kind != stored:
                near = [pages[int(name)].version for name in index.get_near_dups(hashes[at])]
                best = max(near, key=lambda each: jaccard(page.version, each), default=None)
                tally.count(page.version, originals[page.version.article], best)
    return tally


async def _opened(redis: Redis, crawl: str, near_by: str) -> ContentIndex:
    return await ContentIndex.open(
        redis, crawl, tags(crawl, 1), pages=10_000, near_by=near_by, similarity=_SAME
    )


def _url_id(number: int) -> int:
    return int.from_bytes(hashlib.blake2b(b"%d" % number, digest_size=8).digest())


def _pairs(pages: Sequence[Version]) -> tuple[int, int]:
    """Count the judged pairs: of one article, and of neighbours on a site.

    One page of each pair was in the index when the other one was looked up.
    """
    same = different = 0
    of_article: dict[int, list[Version]] = {}
    of_site: dict[str, list[Version]] = {}
    for page in pages:
        of_article.setdefault(page.article, []).append(page)
        of_site.setdefault(page.host, []).append(page)
    for group in of_article.values():
        for one, other in combinations(group, 2):
            if _STORED_KINDS.isdisjoint((one.kind, other.kind)):
                continue
            alike = jaccard(one, other)
            same += alike >= _SAME
            different += alike < _DIFFERENT
    for group in of_site.values():
        for step in _STEPS:
            different += sum(
                jaccard(one, other) < _DIFFERENT
                for one, other in zip(group, group[step:], strict=False)
                if one.article != other.article
                and not _STORED_KINDS.isdisjoint((one.kind, other.kind))
            )
    return same, different


def measure(quick: bool) -> Iterator[Figure]:
    """Judge both methods and the package."""
    made = versions(_QUICK_ARTICLES if quick else _ARTICLES)
    same, different = _pairs(made)
    with private_redis(persistent=False) as server:
        by_minhash, read, by_simhash = asyncio.run(_judge_ours(server.url, made))
    package = _judge_package(read)
    for name, tally in (("minhash", by_minhash), ("simhash", by_simhash), ("package", package)):
        print(f"{name} missed of {tally.due:,}: {dict(tally.missed)}", file=sys.stderr)
    yield Figure("near.precision", by_minhash.precision, "", target=at_least(0.99))
    yield Figure("near.recall", by_minhash.recall, "", target=at_least(0.95))
    yield Figure("near.simhash_precision", by_simhash.precision, "")
    yield Figure("near.simhash_recall", by_simhash.recall, "")
    yield Figure("near.simhash_package_precision", package.precision, "", "simhash")
    yield Figure("near.simhash_package_recall", package.recall, "", "simhash")
    yield Figure("near.pairs", same + different, "pairs", target=at_least(20_000))
    yield Figure("near.pairs_same", same, "pairs")
    yield from _errors(made)
    with private_redis() as server:
        found = asyncio.run(
            fill_and_check(
                server,
                lambda buckets: MinHashTables(
                    buckets, TAGS, bits=bits_for(_STORED), similarity=_SAME
                ),
                _STORED,
            )
        )
    yield Figure("near.bytes_per_page", found[1], "B")


async def _judge_ours(url: str, made: Sequence[Version]) -> tuple[Tally, list[Read], Tally]:
    async with Redis.from_url(url) as redis:
        read = await _crawl(redis, made, MINHASH)
        by_minhash = await _judge(redis, read, MINHASH)
        by_simhash = await _judge(redis, await _crawl(redis, made, SIMHASH), SIMHASH)
    return by_minhash, read, by_simhash


def _errors(made: Sequence[Version]) -> Iterator[Figure]:
    """Compare estimates for the articles alone with the truth, and time the sketches."""
    texts = [" ".join(version.paragraphs) for version in made]
    parts = [part for part in shingles_of(texts, _SHINGLE) if part is not None]
    hashed = sketches(parts)
    off = []
    for at in range(0, len(made) - len(_KINDS), len(_KINDS) + 2):
        for one, other in combinations(range(at, at + len(_KINDS) + 2), 2):
            off.append(similarity(hashed[one], hashed[other]) - jaccard(made[one], made[other]))
    middle = quantiles([abs(each) for each in off], n=20)
    yield Figure("near.error_p95", middle[-1], "")
    chance = random.Random(3)
    words = " ".join(texts).split()
    group = [" ".join(chance.choices(words, k=_TIMED_WORDS)) for _ in range(_GROUP)]
    yield Figure("near.cpu_us", _best_us(group, with_sketch=True), "µs", target=at_most(200))
    yield Figure("near.simhash_cpu_us", _best_us(group, with_sketch=False), "µs")


def _best_us(texts: list[str], *, with_sketch: bool) -> float:
    """Time a page from its text on, of pages that are hashed together: the best of many rounds."""
    best = float("inf")
    for _ in range(100):
        started = process_time()
        parts: list[Any] = shingles_of(texts, _MIN_WORDS)
        majorities(parts)
        if with_sketch:
            sketches(parts)
        best = min(best, process_time() - started)
    return best / len(texts) * 1e6


PARTS = {"near": measure}

if __name__ == "__main__":
    sys.exit(run("benchmarks.near_duplicates", __doc__, PARTS))
