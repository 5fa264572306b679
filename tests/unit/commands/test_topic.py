"""Examples of `scrapy topic train`: which files are taken for what, and what is left out."""

import argparse
import gzip
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawler.commands import _examples
from crawler.commands._examples import Examples, Pages, read_examples, source_of
from crawler.commands.topic import Command
from crawler.errors import ConfigurationError
from crawler.topics.model import TopicModel
from demo.documents import docx, word_paragraph
from tests.support.crawlers import project_crawler

NO_STORE = argparse.Namespace(crawl=None, store=None)


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    found = Pages(project_crawler().settings, NO_STORE)
    yield found
    await found.close()


async def read(pages: Pages, *given: Path) -> Examples:
    sources = [source_of("--positive", str(each)) for each in given]
    steps: list[int] = []
    found = await read_examples(pages, sources, steps.append)
    # As the progress bar has it.
    assert sum(steps) == sum(source.count for source in sources)
    return found


async def test_each_file_of_a_folder_is_an_example_of_any_type(
    tmp_path: Path, pages: Pages
) -> None:
    folder = tmp_path / "good"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.html").write_text("<title>T</title><p>from html", encoding="utf-8")
    (folder / "b.txt").write_text("two\nlines of text", encoding="utf-8")
    (folder / "deep" / "c.docx").write_bytes(docx(word_paragraph("from word")))
    (folder / "d.utf16").write_bytes("from utf".encode("utf-16"))
    (folder / "e.bin").write_bytes(b"\x00\x01" * 100)
    (folder / "f.pdf").write_bytes(b"%PDF-1.7\nnothing")
    (folder / "g.txt").write_text(" \n")
    (folder / "h").write_text("two\nlines of text", encoding="utf-8")
    (folder / ".hidden").write_text("hidden")
    found = await read(pages, folder)
    texts = [" ".join(text.split()) for text in found.texts]
    assert texts == ["T from html", "two lines of text", "from utf", "from word"]
    assert found.left_out == {
        "of a type that is not read": 1,
        "unreadable (damaged)": 1,
        "empty": 1,
        "repeated": 1,
    }
    assert str(found).startswith("4 texts of 8 files (")
    assert "left out: 4 (" in str(found)


async def test_a_file_of_text_has_an_example_a_line(tmp_path: Path, pages: Pages) -> None:
    path = tmp_path / "good.txt"
    path.write_text("\ufeffone text\n\n# a comment\r\nanother https://h.test/ one\n", "utf-8")
    found = await read(pages, path)
    assert [text.strip() for text in found.texts] == ["one text", "another https://h.test/ one"]
    assert str(found) == f"2 texts of 2 lines ({path})"


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.jsonl.gz"])
async def test_lines_of_an_export_are_read_by_their_bodies_or_texts(
    tmp_path: Path, pages: Pages, name: str
) -> None:
    records = [
        {"url": "http://h.test/", "body": "<title>T\u00fc</title><p>from body", "text": "old"},
        {"url": "http://h.test/", "title": "T", "text": "from text"},
        {"text": None},
        [],
    ]
    data = "\n".join(map(json.dumps, records)).encode() + b"\nno json\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    found = await read(pages, path)
    assert found.texts == ["T\u00fc from body", "T from text"]
    assert found.left_out == {
        "neither body nor text nor URL": 1,
        "no JSON object": 1,
        "no JSON": 1,
    }


async def test_a_url_that_is_none_is_left_out(tmp_path: Path, pages: Pages) -> None:
    path = tmp_path / "urls.txt"
    path.write_text("http://[bad\nhttp://\na text\n")
    found = await read(pages, path)
    assert (found.left_out, len(found.texts)) == ({"no valid URL": 2}, 1)
    assert found.first_left_out == "http://[bad"


@pytest.mark.parametrize("size", [5, 40])
def test_an_export_that_is_cut_off_is_refused_by_its_name(tmp_path: Path, size: int) -> None:
    path = tmp_path / "pages.jsonl.gz"
    path.write_bytes((gzip.compress(b'{"text": "a"}\n' * 1000) if size > 10 else b"no gz")[:size])
    with pytest.raises(ConfigurationError, match=r"pages\.jsonl\.gz is damaged or no gzip file"):
        source_of("--positive", str(path))


async def test_a_page_in_a_file_of_its_own_is_one_example(tmp_path: Path, pages: Pages) -> None:
    path = tmp_path / "page.html"
    path.write_text("<p>one\n<p>page")
    assert [text.strip() for text in (await read(pages, path)).texts] == ["one page"]


async def test_examples_beyond_a_number_are_left_out(
    tmp_path: Path, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_examples, "MAX_EXAMPLES", 2)
    path = tmp_path / "good.txt"
    path.write_text("a\nb\nc\nd\n")
    found = await read(pages, path)
    assert (len(found.texts), found.left_out) == (2, {"beyond 2": 2})


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for given, text in (
        ("nowhere", "--negative nowhere: there is no such file or folder; URLs begin with http"),
        (str(tmp_path / "empty"), "there are no files in this folder"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            source_of("--negative", given)


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_examples, "_LINE_BYTES", 10)
    (tmp_path / "long.txt").write_text("x" * 20)
    with pytest.raises(ConfigurationError, match=r"long\.txt has a line of more than 10 bytes"):
        source_of("--positive", str(tmp_path / "long.txt"))


def run(*arguments: str, **settings: object) -> None:
    verb, found = Command.parse(list(arguments))
    verb.run(project_crawler(**settings).settings, found)


def test_a_text_that_is_given_as_both_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a text\n")
    with pytest.raises(ConfigurationError, match="1 of the texts are given as positive and as neg"):
        run("train", "--positive", str(path), "--negative", str(path), "-o", str(tmp_path / "x"))


def test_without_scikit_learn_no_example_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ConfigurationError, match=r"needs the package sklearn.*\[topic\]"):
        run("train", "--positive", "none", "--negative", "none", "-o", "x.topic")


def test_a_folder_for_the_model_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a text\n")
    given = ("train", "--positive", str(path), "--negative", str(path))
    with pytest.raises(ConfigurationError, match="there is no folder"):
        run(*given, "-o", str(tmp_path / "no" / "x.topic"))
    with pytest.raises(ConfigurationError, match="this is a folder"):
        run(*given, "-o", str(tmp_path))


def test_a_page_that_cannot_be_explained_is_named(tmp_path: Path) -> None:
    TopicModel.of(0.5, ["bicycle"], [1], [2]).save(tmp_path / "a.topic")
    (tmp_path / "a.bin").write_bytes(bytes(10))
    for page, why in (("http://[bad", "no valid URL"), (str(tmp_path / "a.bin"), "of a type")):
        with pytest.raises(ConfigurationError, match=f"cannot be read: it is {why}"):
            run("explain", page, "-m", str(tmp_path / "a.topic"))


def test_the_topic_is_the_only_one_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.html"
    page.write_text("<title>Bicycle</title><p>A \x1b[31m stock <a href=/bicycle>b</a>")
    with pytest.raises(ConfigurationError, match="Say which topic: -m FILE; there is no file"):
        run("explain", str(page))

    TopicModel.of(0.5, ["bicycle", "stock"], [1, 1], [2, -1]).save(tmp_path / "a.topic")
    run("explain", str(page))
    shown = capsys.readouterr().out
    assert shown.startswith(f"{page}  Bicycle\n")
    assert "0.770  on topic (0.7 or more is on topic)" in shown
    assert " +1.41  bicycle   -0.71  stock" in shown
    assert "+70 points for each of its 1 link" in shown
    assert " +15 more  http://localhost/bicycle  b" in shown
    TopicModel.of(0.5, ["bicycle"], [1], [2]).save(tmp_path / "b.topic")
    with pytest.raises(ConfigurationError, match=r"there are a\.topic, b\.topic"):
        run("explain", str(page))


def test_a_function_of_the_user_is_explained_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    page.write_text("<title>T</title><p>Text")
    run("explain", str(page), "--json", PAGE_SCORER=lambda page: 0.25 * len(page.title))
    found = json.loads(capsys.readouterr().out)
    assert (found["relevance"], found["topic"], found["link_points"]) == (0.25, "off", -70)
