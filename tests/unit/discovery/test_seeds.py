"""Seeds: URLs, files, standard input, and every mistake told in one line."""

import gzip
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from crawler.discovery.seeds import BadSeed, parse, parse_sitemaps, read, split_topics
from crawler.errors import ConfigurationError
from crawler.frontier import Entry
from crawler.urls import UrlRules, Urls


def urls(seeds: str) -> list[str]:
    return [seed.url for seed in read(parse(seeds)) if isinstance(seed, Entry)]


def bad(seeds: str) -> list[BadSeed]:
    return [seed for seed in read(parse(seeds)) if isinstance(seed, BadSeed)]


@pytest.mark.parametrize("seeds", ["", "  ", ",", " , ,\n"])
def test_no_seeds_at_all_is_a_mistake(seeds: str) -> None:
    with pytest.raises(ConfigurationError, match=r"seeds is empty; .*-a seeds=https://"):
        parse(seeds)


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        ("not a url", "'not' is neither a URL (http:// or https://) nor a file"),
        ("/no/such/file", "'/no/such/file' is neither a URL"),
        ("example.com", "'example.com' is neither a URL"),
        ("x" * 5000, "is neither a URL"),
        ("ftp://h.test", "'ftp://h.test': only http and https are crawled"),
        ("http://", "'http://': it is no valid URL"),
        ("http://user:pw@h.test", "a URL with a user name or password is not crawled"),
        ("http://h.test/" + "a" * 3000, "it is too long"),
        ("http://h.test ftp://h.test", "'ftp://h.test'"),
    ],
)
def test_a_mistake_is_named(seeds: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(seeds)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sitemaps", "text"),
    [
        (" ", "sitemaps is empty"),
        ("ftp://h.test/", "sitemaps: 'ftp://h.test/': only http and https"),
    ],
)
def test_a_mistake_in_sitemaps_is_named(sitemaps: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse_sitemaps(sitemaps, Urls())


def test_sitemaps_are_canonical_each_once_with_how_they_are_written() -> None:
    given = "http://h.test/a.xml?b=2&a=1, HTTP://h.test/a.xml?a=1&b=2"
    assert parse_sitemaps(given, Urls()) == {"http://h.test/a.xml?a=1&b=2": "?b=2&a=1"}


def test_urls_may_be_as_long_as_the_crawl_lets_them() -> None:
    long = f"http://h.test/{'a' * 3000}"
    longer = Urls(UrlRules(max_length=4000))
    assert parse(long, longer) == [(long, "")]
    assert parse_sitemaps(long, longer) == {long: ""}
    with pytest.raises(ConfigurationError, match=r"sitemaps: .* it is too long"):
        parse_sitemaps(long, Urls())


def test_a_url_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    spelling = Urls.spelling

    def counted(self: Urls, url: str) -> Any:
        parsed.append(url)
        return spelling(self, url)

    monkeypatch.setattr(Urls, "spelling", counted)
    assert urls("http://a.test http://b.test") == ["http://a.test/", "http://b.test/"]
    assert parsed == ["http://a.test", "http://b.test"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("http://h.test/", ("http://h.test/", "")),
        ("kafka://k:9092/a", ("", "kafka://k:9092/a")),
        ("kafka://k:9092,l:9092/a,b", ("", "kafka://k:9092,l:9092/a,b")),
        (
            "http://h.test/ kafka://k/a http://i.test/",
            ("http://h.test/  http://i.test/", "kafka://k/a"),
        ),
        ("", ("", "")),
    ],
)
def test_topics_of_kafka_go_up_to_a_blank(given: str, found: tuple[str, str]) -> None:
    assert split_topics(given) == found


def test_seeds_of_several_clusters_are_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="several kafka:// URLs; give one"):
        split_topics("kafka://k/a kafka://l/b")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="neither a URL"):
        parse(str(tmp_path))


def test_urls_are_separated_by_commas_and_blanks() -> None:
    assert urls("http://a.test,http://b.test \n http://c.test,,") == [
        "http://a.test/",
        "http://b.test/",
        "http://c.test/",
    ]


def test_a_seed_is_of_the_first_queue_at_depth_0_without_a_parent() -> None:
    (seed,) = read(parse("HTTP://A.test#x"))
    assert isinstance(seed, Entry)
    assert (seed.url, seed.queue, seed.depth, seed.parent) == ("http://a.test/", 1, 0, 0)


def test_a_seed_has_the_second_in_which_it_was_read(tmp_path: Path) -> None:
    file, since_s = tmp_path / "seeds.txt", int(time.time())
    file.write_text("http://b.test\n")
    found = [seed for seed in read(parse(f"http://a.test {file}")) if isinstance(seed, Entry)]
    assert len(found) == 2
    for seed in found:
        assert since_s <= seed.discovered_s <= time.time()


def test_a_file_has_one_url_a_line_with_comments_and_blank_lines(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_bytes(
        b"\xef\xbb\xbfhttp://a.test\r\n# a comment\n\n  http://b.test/x  \n"
        b"ftp://c.test\nnonsense\nhttp://caf\xe9.test/\nhttp://d.test"
    )
    assert urls(str(file))[:2] == ["http://a.test/", "http://b.test/x"]
    assert urls(str(file))[-1] == "http://d.test/"
    first, second, *_ = map(str, bad(str(file)))
    assert first == f"{file}, line 5: 'ftp://c.test' was left out: only http and https are crawled."
    assert f"{file}, line 6: 'nonsense' was left out" in second


def test_the_name_of_a_file_may_contain_blanks_and_commas(tmp_path: Path) -> None:
    file = tmp_path / "my seeds, all.txt"
    file.write_text("http://a.test\n")
    assert urls(str(file)) == ["http://a.test/"]


def test_an_empty_file_gives_nothing(tmp_path: Path) -> None:
    file = tmp_path / "none.txt"
    file.touch()
    assert list(read(parse(str(file)))) == []


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("http://a.test\n",))
    writer.start()
    assert urls(str(pipe)) == ["http://a.test/"]
    writer.join()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.touch()
    reader = read(parse(f"http://a.test {file}"))
    assert isinstance(next(reader), Entry)
    file.unlink()
    with pytest.raises(ConfigurationError, match=r"seeds.txt cannot be read: No such file"):
        next(reader)


@contextmanager
def given_as_input(
    folder: Path, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TextIOWrapper]:
    file = folder / "input"
    file.write_bytes(data)
    with file.open(encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield stdin


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_read_as_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    data = b"\xef\xbb\xbfhttp://a.test\r\nhttp://b.test/\xe9\nhttp://c.test"
    with given_as_input(tmp_path, pack(data), monkeypatch) as stdin:
        good, bad_one, last = read(parse("-"))
        assert not stdin.closed
        assert list(read(parse("-"))) == []
    assert isinstance(good, Entry)
    assert isinstance(last, Entry)
    assert (good.url, last.url) == ("http://a.test/", "http://c.test/")
    assert "standard input, line 2: " in str(bad_one)
    assert "it is no UTF-8" in str(bad_one)


def test_standard_input_that_is_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ConfigurationError, match="standard input, but that is closed"):
        list(read(parse("-")))


def test_standard_input_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        given_as_input(tmp_path, b"\x1f\x8bno gzip", monkeypatch),
        pytest.raises(ConfigurationError, match="seeds: standard input cannot be read: "),
    ):
        list(read(parse("-")))


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"me:\*\*\*@h.test.*HTTPAUTH_USER"):
        parse("http://me:secret@h.test/")
    file = tmp_path / "seeds.txt"
    file.write_text("http://me:secret@h.test/\n")
    (found,) = bad(str(file))
    assert "me:***@h.test" in str(found)


@pytest.mark.parametrize("seeds", ["x" * 5000, "http://h.test/" + "a" * 3000, "ftp://" + "a" * 300])
def test_what_is_long_is_shown_in_part(seeds: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(seeds)
    assert len(str(caught.value)) < 400


def test_a_comma_in_a_url_is_told_how_to_write() -> None:
    with pytest.raises(ConfigurationError, match=r"'b' is neither .* as %2C"):
        parse("http://h.test/a,b")
    assert urls("http://h.test/a%2Cb") == ["http://h.test/a%2Cb"]


def test_a_url_may_have_a_comment_behind_it_and_a_mark_before_it(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("\ufeff# all\nhttp://a.test/   # home\n\ufeffhttp://a.test/#top\t#2\n")
    assert urls(str(file)) == ["http://a.test/", "http://a.test/"]
    assert bad(str(file)) == []


@pytest.mark.parametrize("comment", [99_983, 99_984, 99_985])
def test_a_line_without_an_end_is_told_and_not_kept(tmp_path: Path, comment: int) -> None:
    file = tmp_path / "seeds.txt"
    longest = f"http://b.test/ {'#' * comment}"
    file.write_text(f"http://a.test/{'a' * 1_000_000}\n{longest}\nhttp://c.test")
    (found,) = bad(str(file))
    assert "line 1: " in str(found)
    assert "it is too long" in str(found)
    assert len(found.text) <= 100_000
    assert urls(str(file)) == ["http://b.test/", "http://c.test/"]


def test_standard_input_and_the_rest_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("http://file.test\n")
    with given_as_input(tmp_path, b"http://in.test\nnonsense\n", monkeypatch):
        found = list(read(parse(f"http://a.test,- {file}")))
    assert [seed.url for seed in found if isinstance(seed, Entry)] == [
        "http://a.test/",
        "http://in.test/",
        "http://file.test/",
    ]
    assert [seed.where for seed in found if isinstance(seed, BadSeed)] == ["standard input, line 2"]


# --- files that are not what they should be -----------------------------------------------------


def test_a_gzipped_file_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt.gz"
    file.write_bytes(gzip.compress(b"\xef\xbb\xbfhttp://a.test/\n# no\nhttp://b.test/\n"))
    assert urls(str(file)) == ["http://a.test/", "http://b.test/"]


@pytest.mark.parametrize(
    "content",
    [b"\x7fELF\x02\0\0", "http://a.test/\n".encode("utf-16"), gzip.compress(b"\0\0\0")],
    ids=["binary", "UTF-16", "binary, gzipped"],
)
def test_a_file_that_is_no_text_is_a_mistake(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "seeds"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"{file} is no text in UTF-8; give a file"):
        urls(str(file))


@pytest.mark.parametrize("change", [lambda packed: packed[:-9], lambda packed: packed[:10] + b"?"])
def test_a_gzipped_file_that_is_damaged_is_a_mistake(tmp_path: Path, change: Any) -> None:
    file = tmp_path / "seeds.gz"
    file.write_bytes(change(gzip.compress(b"http://a.test/\n" * 100)))
    with pytest.raises(ConfigurationError, match=f"seeds: {file} cannot be read: "):
        urls(str(file))


@pytest.mark.parametrize(
    "line",
    [
        'http://a.test/,"A title"',
        "http://a.test/\tA title",
        "1,http://a.test/",
        "http://a.test/,http://b.test/",
        "http://a.test/ HTTPS://b.test/",
        "http://a.test/ A title",
    ],
)
def test_a_line_with_more_than_a_url_is_left_out(tmp_path: Path, line: str) -> None:
    file = tmp_path / "seeds.csv"
    file.write_text(f"{line}\nhttp://c.test/a,b;c?d=http://e.test/\n")
    (found,) = bad(str(file))
    assert "line 1: " in str(found)
    assert "a line must have one URL and nothing else" in str(found)
    assert urls(str(file)) == ["http://c.test/a,b;c?d=http://e.test/"]


def test_all_lines_of_the_sample_are_seeds() -> None:
    file = Path(__file__).resolve().parents[3] / "examples" / "seeds.txt"
    found = list(read(parse(str(file))))
    assert len(found) > 10
    assert all(isinstance(seed, Entry) for seed in found)
    assert len({seed.url for seed in found if isinstance(seed, Entry)}) == len(found)
