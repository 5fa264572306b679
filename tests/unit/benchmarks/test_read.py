"""The benchmark of reading: its parts, and its pages."""

import pytest

from benchmarks import read
from benchmarks.crawl import markup, pages
from benchmarks.figures import Figure
from crawler.parsing.limits import bounded


def test_the_parts_of_reading_add_up() -> None:
    bodies = [pages.marked_up(1, markup.USUAL, read._SIZE, 80, "http")]
    found = read.parts_us(bodies, rounds=1)
    whole = found.pop("read")
    assert set(found) == {"decode", "guard", "parse", "links", "text", "blocks"}
    assert sum(found.values()) == pytest.approx(whole)


def test_generated_pages_are_not_changed_by_the_guard() -> None:
    for number in range(20):
        body = pages.marked_up(number, markup.web_shape(number), read._SIZE, 80, "http")
        assert bounded(body) == body


@pytest.mark.parametrize("name", read.HOSTILE)
def test_hostile_pages_are_changed_by_the_guard(name: str) -> None:
    body = read.HOSTILE[name](read._HOSTILE_BYTES).encode()
    assert bounded(body) != body
    assert read.hostile_ms(name, 30_000, rounds=1) > 0


def test_figures_are_named_by_page_and_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS", "/nowhere")
    names = [found.name for found in read.measure_real(True)]
    assert names == ["read.real_ms_per_page"]
    figures = list(read._figures("usual", [b"<p>x</p>"], True, 1))
    assert all(isinstance(figure, Figure) for figure in figures)
    assert [figure.name for figure in figures][:3] == [
        "read.usual_ms_per_page",
        "read.usual_decode_us",
        "read.usual_guard_us",
    ]
