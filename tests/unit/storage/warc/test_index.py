"""CDXJ lines: their keys and order, one line a visit, and the search in sorted files."""

import random
from pathlib import Path
from typing import IO, Any

import pytest

from crawler.storage.warc import index
from crawler.storage.warc.index import (
    Line,
    distinct,
    find,
    line_of,
    merged,
    whole_lines,
    write_sorted,
)
from crawler.storage.warc.keys import surt


def line(url: str, at: str = "2026-11-18T04:25:30Z", visit: str = "1-1", offset: int = 0) -> bytes:
    return line_of(
        url,
        at,
        status=200,
        length=10,
        offset=offset,
        filename="a.warc.gz",
        crawl="web",
        urlhash=f"{hash(url):x}",
        visit=visit,
    ).encoded()


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://s0.test/", "test,s0)/"),
        ("https://www.Example.com:443/A?b=2&a=1", "com,example)/a?a=1&b=2"),
        ("http://a.test:8080/x y", "test,a:8080)/x%20y"),
        ("http://127.0.0.1/", "1,0,0,127)/"),
    ],
)
def test_keys_are_those_of_replay_tools(url: str, key: str) -> None:
    assert surt(url) == key


def test_a_line_is_read_as_it_was_written() -> None:
    given = line("http://a.test/ü", offset=0)
    read = Line.decoded(given)
    assert read.encoded() == given
    assert (read.timestamp, read.offset, read.length) == ("20261118042530", 0, 10)


@pytest.mark.parametrize("text", [b"", b"a b\n", b"a b {}\n", b'a b {"url": "x"}\n'])
def test_what_is_no_line_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"not enough values|is missing|Expecting"):
        Line.decoded(text)


def test_of_the_captures_of_a_visit_the_latest_stays() -> None:
    first, second = (line("http://a.test/", f"2026-11-18T04:25:{n}Z") for n in (30, 31))
    later = line("http://a.test/", "2026-11-19T04:25:30Z", visit="1-2")
    other = line("http://b.test/")
    assert list(distinct(sorted([first, second, later, other]))) == [second, later, other]


def test_captures_of_other_programs_are_kept_as_they_are() -> None:
    lines = [b'test,a)/ 2026 {"url": "u", "offset": "%d", "length": "1", "filename": "f"}\n' % n
             for n in range(3)]  # fmt: skip
    assert list(distinct(lines)) == lines


def test_indexes_are_sorted_and_merged(tmp_path: Path) -> None:
    chance = random.Random(1)
    urls = [f"http://{chance.choice('abc')}.test/{n}" for n in range(12_000)]
    lines = [line(url) for url in urls]
    chance.shuffle(lines)
    paths = []
    for number in range(120):
        path = tmp_path / f"{number}.cdxj"
        assert write_sorted(lines[number::120], path) == 100
        paths.append(path)
    # More than are open at once, and each line once though two files have it.
    assert list(merged([*paths, paths[0]])) == sorted(lines)
    whole = tmp_path / "whole.cdxj"
    write_sorted(iter(lines), whole)
    assert whole.read_bytes() == b"".join(sorted(lines))
    assert not list(tmp_path.glob("*.part"))


def test_a_long_index_needs_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_RUN_LINES", 3)
    monkeypatch.setattr(index, "_MERGED_MAX", 4)
    opened: list[IO[bytes]] = []
    real = index.TemporaryFile

    def counted(**options: Any) -> IO[bytes]:
        opened.append(real(**options))
        assert sum(not file.closed for file in opened) <= 5
        return opened[-1]

    monkeypatch.setattr(index, "TemporaryFile", counted)
    lines = [line(f"http://a.test/{n}") for n in range(100)]
    random.Random(2).shuffle(lines)
    assert write_sorted(lines, tmp_path / "a.cdxj") == 100
    assert (tmp_path / "a.cdxj").read_bytes() == b"".join(sorted(lines))


def test_a_cut_line_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "a.cdxj.open"
    first, second = line("http://a.test/"), line("http://b.test/")
    path.write_bytes(first + second[:-1])
    assert list(whole_lines(path)) == [first]


@pytest.mark.parametrize("number", [0, 1, 50, 3000])
async def test_captures_are_found_in_a_sorted_index(tmp_path: Path, number: int) -> None:
    lines = [
        line(f"http://a.test/{n}", f"2026-11-18T04:25:{at}Z", visit=f"1-{at}")
        for n in range(number)
        for at in (30, 31)
    ]
    path = tmp_path / "a.cdxj"
    write_sorted(lines, path)
    data, reads = path.read_bytes(), []

    async def read(start: int, length: int) -> bytes:
        assert 0 <= start < len(data)
        reads.append(length)
        return data[start : start + length]

    for n in range(0, number, max(1, number // 40)):
        found = await find(read, len(data), surt(f"http://a.test/{n}"))
        assert [each.fields["visit"] for each in found] == ["1-30", "1-31"]
    for missing in ("http://a.test/", "http://a.test/00", "http://z.test/", "http://0.test/"):
        reads.clear()
        assert await find(read, len(data), surt(missing)) == []
        assert sum(reads) <= 16 * 1024 * 16
