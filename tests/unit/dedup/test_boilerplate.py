"""Blocks that many pages of a host have are its frame; copies of an article are not."""

import pytest

from crawler.dedup import content
from crawler.dedup.content import Boilerplate

NOTICE = "All rights reserved by the Daily News company"
HOST = "news.test"


def article(number: int) -> list[str]:
    return [f"This is what article number {number} says in its part {part}" for part in range(3)]


def learnt(pages: int) -> Boilerplate:
    known = Boilerplate()
    for number in range(pages):
        known.learn(HOST, [NOTICE, *article(number), "Share this"])
    return known


def test_what_three_pages_have_is_left_out_of_the_fourth() -> None:
    assert learnt(3).without(HOST, [NOTICE, *article(9)]) == article(9)


def test_notices_in_languages_without_blanks_are_left_out_too() -> None:
    known = Boilerplate()
    for number in range(3):
        known.learn(HOST, ["本站所有文章版权归作者所有", *article(number)])
    assert known.without(HOST, ["本站所有文章版权归作者所有", *article(9)]) == article(9)


def test_what_two_pages_have_stays() -> None:
    assert learnt(2).without(HOST, [NOTICE, *article(9)]) == [NOTICE, *article(9)]


def test_other_hosts_have_other_frames() -> None:
    assert learnt(5).without("other.test", [NOTICE]) == [NOTICE]


def test_short_texts_stay_for_they_may_stand_in_any_sentence() -> None:
    assert learnt(5).without(HOST, ["Share this"]) == ["Share this"]


def test_a_block_that_a_page_repeats_counts_once() -> None:
    known = Boilerplate()
    for number in range(3):
        known.learn(HOST, [*article(number)])
    known.learn(HOST, [NOTICE] * 5)
    assert known.without(HOST, [NOTICE]) == [NOTICE]


def test_what_only_a_few_of_many_pages_have_is_no_frame() -> None:
    known = learnt(0)
    for number in range(30):
        known.learn(HOST, [*article(number), *([NOTICE] if number % 8 == 0 else [])])
    assert known.without(HOST, [NOTICE]) == [NOTICE]


def test_a_host_may_change_its_frame() -> None:
    known = learnt(200)
    for number in range(200, 400):
        known.learn(HOST, article(number))
    assert known.without(HOST, [NOTICE]) == [NOTICE]


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_HOSTS_KEPT", 10)
    known = Boilerplate()
    for number in range(50):
        known.learn(f"h{number}.test", [f"one of very many blocks {n}" for n in range(5000)])
        known.learn(
            "last.test", [NOTICE, *(f"block {number} {n} of this page" for n in range(5000))]
        )
    assert len(known._hosts) <= 10
    assert max(len(frame.counts) for frame in known._hosts.values()) <= content._BLOCKS_KEPT
    # However much a page has, its frame is found at both ends.
    assert known.without("last.test", [NOTICE]) == []
