"""Near duplicates are near in SimHash; different pages are far apart."""

import hashlib
import re
from itertools import combinations

from parsel import Selector

from demo.answers import Answers
from demo.clock import Clock
from demo.truth import truth
from demo.web import Web, WebOptions

OPTIONS = WebOptions(hosts=64, pages=6)


def simhash(body: bytes) -> int:
    # Without the frame, which one version of five has.
    frame = " or ".join(f"ancestor::{tag}" for tag in ("script", "aside", "header", "footer"))
    text = " ".join(Selector(body.decode()).xpath(f"//body//text()[not({frame})]").getall())
    words = re.findall(r"\w+", text.lower())
    weights = [0] * 64
    for at in range(len(words) - 2):
        digest = hashlib.blake2b(" ".join(words[at : at + 3]).encode(), digest_size=8).digest()
        value = int.from_bytes(digest)
        for bit in range(64):
            weights[bit] += 1 if value >> bit & 1 else -1
    return sum(1 << bit for bit in range(64) if weights[bit] > 0)


def fetch(answers: Answers, url: str) -> bytes:
    host, _, path = url.removeprefix("http://").partition("/")
    answer = answers.answer(host, "/" + path)
    return answer.wire[answer.head_bytes :]


def test_exact_groups_have_equal_bodies() -> None:
    answers = Answers(Web(OPTIONS), Clock())
    for group in truth(OPTIONS).exact_groups:
        assert len({fetch(answers, url) for url in group}) == 1


def test_near_groups_are_different_but_near() -> None:
    answers = Answers(Web(OPTIONS), Clock())
    for group in truth(OPTIONS).near_groups:
        bodies = [fetch(answers, url) for url in group]
        assert len(set(bodies)) == len(bodies) == 5
        hashes = [simhash(body) for body in bodies]
        near = [min((one ^ two).bit_count() for two in hashes if two is not one) for one in hashes]
        assert max(near) <= 3


def test_different_pages_are_far_apart() -> None:
    web = Web(OPTIONS)
    answers = Answers(web, Clock())
    urls = [web.page_url(number, index) for number in (0, 4, 8) for index in range(3)]
    hashes = [simhash(fetch(answers, url)) for url in urls]
    assert min((one ^ two).bit_count() for one, two in combinations(hashes, 2)) >= 10


def test_pages_alike_by_their_frame_alone_are_in_no_group() -> None:
    found = truth(OPTIONS)
    framed = {url for url in found.must_store if "/framed/" in url}
    assert len(framed) >= 4
    assert not any(group & framed for group in found.near_groups + found.exact_groups)
