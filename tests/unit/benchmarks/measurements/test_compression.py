"""Levels of compression on the same pages."""

from benchmarks.measurements.compression import codecs, figures

PAGES = [b"<p>one page of many words</p>" * 200, b"<li>another</li>" * 300]


def test_every_level_gives_back_what_it_got() -> None:
    for compress, unpack in codecs().values():
        assert [unpack(compress(page)) for page in PAGES] == PAGES


def test_each_level_has_its_time_and_ratio() -> None:
    found = {figure.name: figure.value for figure in figures(PAGES, rounds=1)}
    assert len(found) == 7 * 3
    assert found["compression.zlib_9.ratio"] >= found["compression.zlib_1.ratio"] > 10
    assert all(value >= 0 for value in found.values())
