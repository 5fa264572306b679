"""Books are read chapter by chapter."""

from datetime import UTC, datetime

import pytest

from crawler.parsing import sniff
from crawler.parsing.document import Document, DocumentLimits, Unreadable
from crawler.parsing.documents import read_document
from demo.documents import epub

URL = "http://h.test/book.epub"


def read(body: bytes, **limits: int) -> Document:
    assert sniff.sniff(body, "application/octet-stream") == sniff.EPUB
    return read_document(sniff.EPUB, body, URL, limits=DocumentLimits(**limits))


def test_a_book_has_facts_chapters_and_links_that_leave_it() -> None:
    found = read(
        epub(
            [
                "<h1>Erstes</h1><p>Text mit <a href='http://a.test/?b=1&amp;a=2'>Link</a></p>",
                "<script src='x'/><p>Zweites <a id='here'/> <a href='c1.xhtml#x'>zurück</a></p>",
            ],
            facts={
                "dc:title": "Das Buch",
                "dc:creator": "Ann",
                "dc:language": "de",
                "dc:date": "1999-05",
                "dc:description": "Ein Buch",
            },
        )
    )
    assert (found.title, found.author, found.language) == ("Das Buch", "Ann", "de")
    assert (found.description, found.media_type) == ("Ein Buch", sniff.EPUB)
    assert found.published_at == datetime(1999, 5, 1, tzinfo=UTC)
    assert found.main_text == "Erstes\nText mit Link\nZweites zurück"
    assert found.markdown == (
        "# Erstes\n\nText mit [Link](http://a.test/?b=1&a=2)\n\nZweites zurück"
    )
    assert found.headings == ["# Erstes"]
    assert found.text == "Erstes Text mit Link Zweites zurück"
    # As it is written; the rules of the crawl come later.
    assert found.links == ["http://a.test/?b=1&a=2"]


def test_brackets_that_are_no_links_are_kept_and_cost_little() -> None:
    """Each was once searched for its end through all that followed: this took half an hour."""
    found = read(epub(["[1] <a href='c1.xhtml'>here [2]</a> " + "[3] " * 100_000]))
    assert found.markdown.startswith(r"\[1\] here \[2\] \[3\]")


def test_chapters_and_text_have_limits() -> None:
    book = epub(["one", "two", "three"])
    assert (read(book, max_pages=2).text, read(book, max_pages=2).cut) == ("one two", "pages")
    assert (read(book, max_text_chars=5).text, read(book, max_text_chars=5).cut) == (
        "one t",
        "text",
    )
    assert read(book, max_pages=3).cut == ""


@pytest.mark.parametrize(("locked", "is_read"), [("text/c1.xhtml", False), ("font.otf", True)])
def test_a_protected_book_is_told_but_fonts_do_not_matter(locked: str, is_read: bool) -> None:
    encryption = f'<encryption><CipherReference URI="OEBPS/{locked}"/></encryption>'
    book = epub(["text"], parts={"META-INF/encryption.xml": encryption})
    if is_read:
        assert read(book).text == "text"
    else:
        with pytest.raises(Unreadable, match="encrypted"):
            read(book)


def test_a_book_without_a_description_is_damaged() -> None:
    container = "<container><rootfile full-path='none.opf'/></container>"
    with pytest.raises(Unreadable, match="damaged"):
        read(epub(["text"], parts={"META-INF/container.xml": container}))
