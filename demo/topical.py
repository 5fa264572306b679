"""A web of two topics, in which it is known what is on topic. Pure; made in memory.

Both topics use the same words, one more often than the other, so no word tells for sure. Most hosts
are about the other topic, some about both, by sections, and few about the topic. Links lead mostly
to pages of the same topic, on the same host or on others. Some links have texts that tell what they
lead to, some say "read more". Some hosts on topic are hidden: no page on topic of another host
links to them, so that a crawl has to pass through others.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from demo.answer import Answer, whole
from demo.words import VOCABULARY

ON, OFF = 0, 1
SECTIONS: Final = 4
# Shares of hosts: on topic, and of both; the others are off topic.
_ABOUT, _MIXED = 0.12, 0.2
_HIDDEN = 0.3
# Shares of articles that are on topic, or off it, against the section that they are in.
_STRAY = 0.05
# How many words, and how much more often one topic uses half of them.
_WORDS = 3000
_TILT = 0.3
# Least share of a page's words that are of its topic; the others are of both.
_PURE = 0.5
# Links to other hosts, and the share of them that keep to the topic.
_LINKS_ACROSS: Final = 3
_NEAR = 0.75
# Shares of links whose texts are titles of their targets, and say nothing; others are any words.
_TELLING, _GENERIC = 0.4, 0.4
_SLUGS = 0.3
_GENERIC_TEXTS: Final = ("read more", "here", "continue", "link", "more", "details")
_HTML: Final = "text/html; charset=utf-8"


@dataclass(slots=True)
class TopicalPage:
    """Page of the web; `links` are numbers of pages, with the texts of the links."""

    url: str
    topic: int
    title: str
    links: list[tuple[int, str]] = field(default_factory=list)


class Speech:
    """Words as pages of either topic use them."""

    def __init__(self) -> None:
        chance = random.Random("speech")
        leanings = [chance.gauss(0, 1) for _ in range(_WORDS)]
        # As in languages, the most frequent words are much more frequent than others.
        common = [1 / (rank + 10) for rank in range(_WORDS)]
        self._words = VOCABULARY[:_WORDS]
        self._both = list(accumulate(common))
        self._own = [
            list(
                accumulate(
                    often * math.exp(sign * _TILT * leaning)
                    for often, leaning in zip(common, leanings, strict=True)
                )
            )
            for sign in (1, -1)
        ]

    def words(self, chance: random.Random, topic: int | None, count: int) -> list[str]:
        """Return words of a topic, or of both."""
        sums = self._both if topic is None else self._own[topic]
        return chance.choices(self._words, cum_weights=sums, k=count)

    def text(self, chance: random.Random, topic: int) -> str:
        """Return the text of a page."""
        count = chance.randrange(120, 300)
        own = round(count * chance.uniform(_PURE, 1))
        words = self.words(chance, topic, own) + self.words(chance, None, count - own)
        chance.shuffle(words)
        return " ".join(words)


class TopicalWeb:
    """Web of so many hosts; equal arguments give equal webs."""

    def __init__(self, hosts: int, articles: int = 16, seed: int = 1) -> None:
        self._speech = Speech()
        self._chance = random.Random(f"topical {seed}")
        self._seed = seed
        # Pages of a host: its home page, its sections, its articles.
        self._size = 1 + SECTIONS + articles
        self._hosts = hosts
        self.pages: list[TopicalPage] = []
        # For each topic, articles that others may link to.
        self._known: list[list[int]] = [[], []]
        self._any: list[int] = []
        # First pages of hosts that are to be found through pages off topic only.
        hidden = self._make_pages()
        self._make_links(hidden)
        self.number_of = {page.url: number for number, page in enumerate(self.pages)}

    def texts(self, topic: int, count: int) -> list[str]:
        """Return texts for training. No page of the web has one of them."""
        chance = random.Random(f"examples {self._seed} {topic}")
        return [self._speech.text(chance, topic) for _ in range(count)]

    def html(self, number: int) -> bytes:
        """Return a page as HTML."""
        page = self.pages[number]
        words = self._speech.text(random.Random(f"text {self._seed} {number}"), page.topic).split()
        step = len(words) // (len(page.links) + 1)
        parts = [
            f"{' '.join(words[at * step : (at + 1) * step])} "
            f'<a href="{self.pages[target].url}">{text}</a>.'
            for at, (target, text) in enumerate(page.links)
        ]
        parts.append(" ".join(words[len(page.links) * step :]))
        body = "".join(f"<p>{part}</p>\n" for part in parts)
        return f"<!doctype html><title>{page.title}</title><body>\n{body}".encode()

    @property
    def seeds(self) -> list[str]:
        """Home pages from which people would start: hosts on topic, and of both."""
        homes = range(0, len(self.pages), self._size)
        shown = [at for at in homes if at in self._homes_shown]
        return [self.pages[at].url for at in shown[:4]]

    def share_on_topic(self) -> float:
        """Return the share of pages that are on topic."""
        return sum(page.topic == ON for page in self.pages) / len(self.pages)

    # --------------------------------------------------------------------------------------------

    def _make_pages(self) -> list[int]:
        chance, hidden = self._chance, []
        self._homes_shown: set[int] = set()
        for host in range(self._hosts):
            kind = chance.random()
            if kind < _ABOUT:
                topics = [ON] * SECTIONS
            elif kind < _ABOUT + _MIXED:
                topics = [ON] + [OFF] * (SECTIONS - 1)
                chance.shuffle(topics)
            else:
                topics = [OFF] * SECTIONS
            is_hidden = kind < _ABOUT * _HIDDEN
            first = len(self.pages)
            if is_hidden:
                hidden.append(first)
            elif ON in topics:
                self._homes_shown.add(first)
            of_home = ON if topics.count(ON) * 2 > SECTIONS else OFF
            for number in range(self._size):
                topic = of_home if number == 0 else topics[(number - 1) % SECTIONS]
                if number > SECTIONS and chance.random() < _STRAY:
                    topic = OFF if topic == ON else ON
                self._add_page(host, number, topic)
                if number == 0 or number > SECTIONS:
                    # A hidden page is only found by chance, from pages off topic.
                    self._any.append(first + number)
                    if not is_hidden:
                        self._known[topic].append(first + number)
        return hidden

    def _add_page(self, host: int, number: int, topic: int) -> None:
        words = self._speech.words(self._chance, topic, 5)
        path = ""
        if number:
            is_told = self._chance.random() < _SLUGS
            path = f"{'-'.join(words)}-{number}" if is_told else f"p/{number}"
        url = f"http://t{host}.test/{path}"
        self.pages.append(TopicalPage(url, topic, " ".join(words).capitalize()))

    def _make_links(self, hidden: list[int]) -> None:
        for number, page in enumerate(self.pages):
            targets = dict.fromkeys(self._inside(number) + self._across(number))
            targets.pop(number, None)
            page.links = [(target, self._text_of(target)) for target in targets]
        # Every hidden host can be reached.
        doors = [number for number in self._known[OFF] if number % self._size]
        for first in hidden:
            for number in self._chance.sample(doors, 2):
                self.pages[number].links.append((first, self._text_of(first)))

    def _inside(self, number: int) -> list[int]:
        """Links to the same host: up, down, and to articles, mostly of the same section."""
        at = number % self._size
        first = number - at
        if at == 0:
            return [first + section for section in range(1, SECTIONS + 1)]
        section = first + 1 + (at - 1) % SECTIONS
        beside = list(range(section + SECTIONS, first + self._size, SECTIONS))
        if at <= SECTIONS:
            return [first, *beside]
        return [first, section, *self._chance.sample(beside, min(2, len(beside)))]

    def _across(self, number: int) -> list[int]:
        """Links to other hosts; only home pages and articles have some."""
        at = number % self._size
        if 0 < at <= SECTIONS:
            return []
        return [self._linked(number) for _ in range(_LINKS_ACROSS)]

    def _linked(self, number: int) -> int:
        chance, topic = self._chance, self.pages[number].topic
        if chance.random() < _NEAR:
            return chance.choice(self._known[topic])
        return chance.choice(self._any if topic == OFF else self._known[OFF])

    def _text_of(self, target: int) -> str:
        chance, kind = self._chance, self._chance.random()
        if kind < _TELLING:
            return self.pages[target].title
        if kind < _TELLING + _GENERIC:
            return chance.choice(_GENERIC_TEXTS)
        return " ".join(self._speech.words(chance, None, 3))


class TopicalAnswers:
    """Answers of a server of such a web, which notes the pages in the order of their fetches."""

    def __init__(self, web: TopicalWeb) -> None:
        self._web = web
        self.fetched: list[int] = []

    def answer(self, host: str, target: str, _validators: object = None) -> Answer:
        """Answer a GET."""
        number = self._web.number_of.get(f"http://{host}{target}")
        if number is None:
            return whole(404, b"There is no such page.\n", {"Content-Type": "text/plain"})
        self.fetched.append(number)
        return whole(200, self._web.html(number), {"Content-Type": _HTML})
