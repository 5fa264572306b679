"""The type of a body is found where the server's is missing or wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parsing import sniff
from crawler.parsing.sniff import sniff as type_of
from demo.documents import docx, epub, odf, pptx, xlsx, zipped

HTML, XML = b"<!DOCTYPE html><html><body>x</body></html>", b'<?xml version="1.0"?>\n'


@pytest.mark.parametrize(
    ("body", "declared", "found"),
    [
        (HTML, "text/html; charset=utf-8", sniff.HTML),
        (b"just words", "text/html", sniff.HTML),
        (b"<a href=/a>x</a>", "TEXT/HTML", sniff.HTML),
        (XML + b"<html><body/></html>", "text/html", sniff.HTML),
        (XML + b"<html><body/></html>", "application/xhtml+xml", sniff.XHTML),
        (XML + b"<html><body/></html>", "application/xml", sniff.XHTML),
        (XML + b"<rss version='2.0'><channel/></rss>", "text/html", sniff.RSS),
        (b"<feed xmlns='http://www.w3.org/2005/Atom'/>", "text/xml", sniff.ATOM),
        (b"<rdf:RDF xmlns:rdf='x'/>", "application/xml", sniff.RDF),
        (XML + b"<urlset/>", "application/xml", sniff.XML),
        (XML + b"<svg/>", "image/svg+xml", "image/svg+xml"),
        (HTML, "", sniff.HTML),
        (b"", "", ""),
        (b"just words", "", ""),
        # Of several types the first one; an invalid one says nothing.
        (b"just words", "text/html, charset=utf-8", sniff.HTML),
        (b"Junk %PDF-1.4", "application/pdf,application/pdf", sniff.PDF),
        (b"<section>words", "html", sniff.HTML),
        (HTML, "application/octet-stream", sniff.HTML),
        (b"\0\1\2", "application/octet-stream", "application/octet-stream"),
        # What a server declares as plain text stays so, as in browsers, but for binary files.
        (HTML, "text/plain", sniff.PLAIN),
        (b"%PDF-1.4", "text/plain", sniff.PDF),
        (b"%PDF-1.4", "text/html", sniff.PDF),
        (b"%PDF-1.4", "", sniff.PDF),
        (b"junk before it\n%PDF-1.4", "application/pdf", sniff.PDF),
        (b"how a file begins: %PDF-1.4", "text/html", sniff.HTML),
        # Markdown often begins with markup, and pages about a missing file with that of a page.
        (b"<p align=center>text</p>", "text/markdown", sniff.MARKDOWN),
        (HTML, "text/markdown", sniff.HTML),
        # Error pages with the type of the file that is not there.
        (HTML, "application/pdf", sniff.HTML),
        (b"\n <h1>Not found</h1>", "application/json", sniff.HTML),
        (b'{"a": 1}', "application/json", sniff.JSON),
        (b'{"a": 1}', "", sniff.JSON),
        (b"{{ template }} and more", "", ""),
        (b'{"version": "https://jsonfeed.org/version/1.1"}', "application/json", sniff.JSON_FEED),
        (b"", "text/x-markdown", sniff.MARKDOWN),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1....", "application/msword", sniff.OLE),
    ],
)
def test_the_type_is_that_of_the_body(body: bytes, declared: str, found: str) -> None:
    assert type_of(body, declared) == found


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://h.test/README.md", sniff.MARKDOWN),
        ("http://h.test/a.Markdown?raw=1", sniff.MARKDOWN),
        ("http://h.test/a.txt", sniff.PLAIN),
        ("http://h.test/a?b=c.md", sniff.PLAIN),
    ],
)
def test_plain_text_is_markdown_by_its_ending(url: str, found: str) -> None:
    assert type_of(b"# Title", "text/plain", url) == found
    assert type_of(b"# Title", "text/html", url) == sniff.HTML


@given(st.binary(max_size=200), st.text(max_size=30))
def test_any_body_has_a_type(body: bytes, declared: str) -> None:
    for start in (b"", b"PK\x03\x04", b"%PDF-", b"<", b"<?xml", b"{"):
        assert isinstance(type_of(start + body, declared), str)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (docx(""), sniff.DOCX),
        (xlsx({"a": []}), sniff.XLSX),
        (pptx([]), sniff.PPTX),
        (odf(sniff.ODT, ""), sniff.ODT),
        (odf(f"{sniff.ODS}-template", ""), sniff.ODS),
        (epub(["x"]), sniff.EPUB),
        (zipped({"a.txt": "x"}), sniff.ZIP),
        (zipped({"mimetype": "", "a": "x"}), sniff.ZIP),
    ],
)
def test_a_zip_file_is_what_is_in_it(body: bytes, found: str) -> None:
    for declared in ("", "application/octet-stream", "application/zip", "text/html", "text/plain"):
        assert type_of(body, declared) in (found, declared if found == sniff.ZIP else found)
    assert type_of(body) == found
