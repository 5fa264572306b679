"""Names of formats and columns of an export."""

import gzip
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import bson
import pytest

from crawler.errors import ConfigurationError
from crawler.items import Page
from crawler.storage.export.formats import COLUMNS, Format, format_name, format_of
from crawler.storage.mongo.sink import compressor, documents_of

DOCS = Path(__file__).resolve().parents[3] / "docs" / "pages.md"


def made(
    output: str,
    given: str | None = None,
    *,
    columns: str | None = None,
    with_body: bool = True,
    bare: str | None = None,
) -> Format:
    return format_of(output, given, columns=columns, with_body=with_body, bare=bare)


@pytest.mark.parametrize(
    ("output", "given", "name"),
    [
        ("pages.jsonl", None, "jsonl"),
        ("pages.jsonl.gz", "jsonl", "jsonl"),
        ("a/pages.CSV", None, "csv"),
        ("a.csv.gz", None, "csv"),
        ("s3://bucket/a.parquet", None, "parquet"),
        ("a.warc.gz", None, "warc"),
        ("-", None, "jsonl"),
        ("-", "warc", "warc"),
        ("pages", "parquet", "parquet"),
        ("pages.txt", "csv", "csv"),
    ],
)
def test_the_ending_or_the_option_says_the_format(
    output: str, given: str | None, name: str
) -> None:
    assert format_name(output, given) == name


@pytest.mark.parametrize(
    ("output", "given", "text"),
    [
        ("pages.json", None, r"-o pages.json: the name does not say the format; let it end in \."),
        ("pages.csv", "jsonl", "-o pages.csv is a name for csv, and --format is jsonl; change one"),
        ("-", "parquet", "Parquet cannot be written to standard output: name a file"),
        ("a.warc", "warc", "-o a.warc: its records are compressed; use a.warc.gz"),
        ("a.parquet.gz", "parquet", "Parquet is compressed inside; use a.parquet instead"),
    ],
)
def test_names_that_say_nothing_or_something_else_are_refused(
    output: str, given: str | None, text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        format_name(output, given)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("url,titel", "--columns has 'titel', which is no column; did you mean title"),
        ("url,", "--columns has '', which is no column; use crawl, url, "),
        ("url,title,url", "--columns has 'url' twice"),
        ("url,body", "--columns has body, and --no-body is given"),
    ],
)
def test_columns_that_are_none_are_named(columns: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        made("a.csv", columns=columns, with_body=False)


def test_options_that_make_no_sense_for_warc_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="--columns is not for WARC"):
        made("a.warc.gz", columns="url")
    with pytest.raises(ConfigurationError, match="--no-body is not for WARC"):
        made("a.warc.gz", with_body=False)
    with pytest.raises(ConfigurationError, match="--reason robots is not for WARC"):
        made("a.warc.gz", bare="--reason robots")


def test_a_name_in_capitals_is_compressed_as_it_says() -> None:
    assert gzip.decompress(made("a.CSV.GZ", columns="url").begin()) == b"url\r\n"


def test_a_missing_package_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    with pytest.raises(ConfigurationError) as caught:
        made("a.parquet")
    assert str(caught.value) == (
        "scrapy pages export --format parquet needs the package pyarrow, which is not installed: "
        'pip install "mercator-crawler[parquet]" (in a clone: pip install -r '
        "requirements-parquet.txt)"
    )


def test_a_page_is_stored_with_these_columns_and_no_others() -> None:
    now = datetime.now(UTC)
    page = Page("http://a.test/", "http://a.test/", 200, now)
    page.items, page.places = [{}], {"warc": {}}
    page.media_type, page.text_language, page.author = "text/html", "en", "Ann"
    page.published_at, page.updated_at, page.headings = now, now, ["# Title"]
    page.rights, page.relevance, page.duplicate_similarity = {"meta": ["noai"]}, 0.0, 0.9
    page.rendered = True
    documents = documents_of(page, "none", compressor("none"))
    stored = bson.decode(documents.metadata).keys()
    # `scrapy pages rank` writes the rank.
    others = {"text", "main_text", "markdown", "body", "page_rank"}
    assert stored | others == COLUMNS.keys()


def test_texts_are_made_only_for_columns_that_are_named() -> None:
    assert made("a.csv").made == made("a.jsonl").made == made("a.csv", columns="url").made == set()
    form = made("a.jsonl", columns="markdown,title")
    assert form.made == {"markdown"}
    assert form.reads_content
    # By these fields bodies are read.
    assert {"title", "url", "final_url", "headers", "content_type"} == set(form.fields or ())


def test_the_documentation_has_all_columns_with_their_types() -> None:
    pytest.importorskip("pyarrow")
    table = (
        DOCS.read_text(encoding="utf-8").partition("| type in Parquet |")[2].partition("\n\n")[0]
    )
    types = {
        name: line.split("|")[1].strip()
        for line in table.splitlines()[2:]
        for name in re.findall(r"`(\w+)`", line.split("|")[2])
    }
    schema = made("a.parquet")._schema  # type: ignore[attr-defined]
    shown = {
        "json": "string with JSON",
        "time": "timestamp(ms, UTC)",
        "map": "map<string, string>",
        "versions": "list<struct<at: timestamp, content_hash: string>>",
        "texts": "list<string>",
        "integers": "list<int64>",
    }
    assert types == {
        field.name: shown.get(COLUMNS[field.name], str(field.type)) for field in schema
    }
