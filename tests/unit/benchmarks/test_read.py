"""The benchmark of reading: its parts, and its pages."""

import pytest

from benchmarks import read
from benchmarks.crawl import markup, pages
from benchmarks.figures import Figure
from crawler.parsing.limits import bounded


def test_the_parts_of_reading_add_up() -> None:
    bodies = [pages.marked_up(1, markup.USUAL, read._SIZE, 80, "http")]
    found = read.parts_us(read.rounds_of(bodies, rounds=1))
    whole = found.pop("read")
    assert set(found) == {"decode", "guard", "parse", "links", "text", "blocks"}
    assert sum(found.values()) == pytest.approx(whole)


def test_a_page_counts_with_the_median_of_its_rounds() -> None:
    ways = ("read", "decode", "guard", "parse", "no links", "no blocks")
    # Two pages in three rounds.
    rounds = {way: [[0.003, 0.001, 0.008], [0.005, 0.007, 0.006]] for way in ways}
    assert read.parts_us(rounds)["read"] == pytest.approx(4500)
    assert read.parts_us(rounds, min)["read"] == pytest.approx(3000)


def test_generated_pages_are_not_changed_by_the_guard() -> None:
    for number in range(20):
        body = pages.marked_up(number, markup.web_shape(number), read._SIZE, 80, "http")
        assert bounded(body) == body


@pytest.mark.parametrize("name", read.HOSTILE)
def test_hostile_pages_are_changed_by_the_guard(name: str) -> None:
    body = read.HOSTILE[name](read._HOSTILE_BYTES).encode()
    assert bounded(body) != body
    # A few times what they take. Without the guard, most of them take longer.
    assert read.hostile_ms(name, read._HOSTILE_BYTES, rounds=1) < 600


def test_large_hostile_pages_have_a_limit_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    took_ms = {300_000: 200.0, 3_000_000: 4_000.0}
    monkeypatch.setattr(read, "hostile_ms", lambda _name, size, _rounds=3: took_ms[size])
    found = {figure.name: figure for figure in read.measure_hostile(False)}
    assert found["read.hostile_nested_growth"].met
    assert found["read.hostile_nested_3mb_ms"].met is False


def test_figures_are_named_by_page_and_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS", "/nowhere")
    names = [found.name for found in read.measure_real(True)]
    assert names == ["read.real_ms_per_page"]
    figures = list(read._figures("usual", [b"<p>x</p>"], True, 1))
    assert all(isinstance(figure, Figure) for figure in figures)
    assert [figure.name for figure in figures][:4] == [
        "read.usual_ms_per_page",
        "read.usual_best_ms_per_page",
        "read.usual_decode_us",
        "read.usual_guard_us",
    ]
