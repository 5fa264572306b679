"""PDF is read by pdfium."""

from datetime import datetime, timedelta, timezone
from itertools import count

import pypdfium2
import pytest

from crawler.parsing import pdf as pdf_reader
from crawler.parsing import sniff
from crawler.parsing.document import Document, DocumentLimits, Unreadable
from crawler.parsing.documents import HEAVY, read_document
from demo.documents import pdf
from demo.hostile_files import ZOO

URL = "http://h.test/file.pdf"


def read(body: bytes, **limits: int) -> Document:
    return read_document(sniff.PDF, body, URL, limits=DocumentLimits(**limits))


def test_a_file_has_facts_outline_links_and_text() -> None:
    body = pdf(
        ["Hello world (1)\nsecond line, see http://a.test/x?y=1.", "Page # 2, größer"],
        links=["http://h.test/1", "../rel", "http://h.test/1"],
        facts={
            "Title": "Größe 語",
            "Author": " Ann\tSmith ",
            "Subject": "About it",
            "CreationDate": "D:20240131120000-01'30'",
            "ModDate": "D:2024",
        },
        language="de-DE",
        outline=["One", "Two"],
    )
    assert sniff.sniff(body) == sniff.PDF in HEAVY
    found = read(body)
    assert (found.media_type, found.language, found.charset) == (sniff.PDF, "de-DE", "utf-8")
    assert (found.title, found.author, found.description) == ("Größe 語", "Ann Smith", "About it")
    zone = timezone(-timedelta(hours=1, minutes=30))
    assert found.published_at == datetime(2024, 1, 31, 12, tzinfo=zone)
    assert found.updated_at is not None
    assert found.updated_at.year == 2024
    assert found.headings == ["# One", "# Two"]
    assert found.links == ["http://h.test/1", "../rel", "http://a.test/x?y=1"]
    assert found.main_text == (
        "Hello world (1)\nsecond line, see http://a.test/x?y=1.\nPage # 2, größer"
    )
    assert found.text == " ".join(found.main_text.split())
    assert found.markdown.endswith("x?y=1.\n\nPage # 2, größer")
    assert found.cut == ""


@pytest.mark.parametrize(
    ("limits", "text", "cut"),
    [
        ({"max_pages": 2}, "page 0 page 1", "pages"),
        ({"max_text_chars": 10}, "page 0 pag", "text"),
        ({"max_links": 1}, "page 0 page 1 page 2", ""),
    ],
)
def test_beyond_a_limit_the_rest_is_left_out(limits: dict[str, int], text: str, cut: str) -> None:
    found = read(pdf([f"page {n}" for n in range(3)], links=["/a", "/b"]), **limits)
    assert (found.text, found.cut) == (text, cut)
    assert len(found.links) == limits.get("max_links", 2)


@pytest.mark.parametrize("size", [0, 5, 100, 400])
def test_a_damaged_file_is_told(size: int) -> None:
    with pytest.raises(Unreadable, match="damaged"):
        read(pdf(["text"])[:size])


def test_pages_beside_a_damaged_one_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = pypdfium2.PdfPage.get_textpage, count()

    def second_damaged(page: pypdfium2.PdfPage) -> pypdfium2.PdfTextPage:
        if next(calls) == 1:
            raise pypdfium2.PdfiumError("Failed to load text page.")
        return whole(page)

    monkeypatch.setattr(pypdfium2.PdfPage, "get_textpage", second_damaged)
    assert read(pdf(["one", "two", "three"])).text == "one three"


@pytest.mark.parametrize(
    "date",
    [
        *("", "yesterday", "D:20241399", "D:00000000", "20240131T12+25'99"),
        *("D:20240131120000+25'00'", "D:00010101000000+23'00'", "D:99991231235959-01'00'"),
    ],
)
def test_dates_that_are_none(date: str) -> None:
    found = read(pdf(["text"], facts={"CreationDate": date}))
    assert found.text == "text"
    assert found.published_at is None or found.published_at.year == 2024


def test_without_its_package_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_reader, "pypdfium2", None)
    with pytest.raises(Unreadable, match="missing_reader"):
        read(pdf(["text"]))


def test_a_file_without_pages_is_damaged_whatever_was_read_before() -> None:
    zoo = {file.name: file.make for file in ZOO}
    for name, reason in (("encrypted.pdf", "encrypted"), ("boasting-tree.pdf", "damaged")):
        with pytest.raises(Unreadable, match=reason):
            read(zoo[name]())
