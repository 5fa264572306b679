"""Bytes become text: by mark, header, meta tag, or a guess."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parsing.encoding import as_utf8, decode

RUSSIAN, JAPANESE = "Привет, мир", "日本語のページ"


@pytest.mark.parametrize(
    ("body", "header", "host", "text", "charset"),
    [
        (b"caf\xc3\xa9", "text/html; charset=utf-8", "", "café", "utf-8"),
        (b"caf\xe9", "text/html; charset=ISO-8859-1", "", "café", "cp1252"),
        (b"\x93x\x94", 'text/html; charset="latin1"', "", "“x”", "cp1252"),
        # The mark wins over the header, the header over the page.
        (b"\xef\xbb\xbf\xc3\xa9", "text/html; charset=latin1", "", "é", "utf-8"),
        ("é".encode("utf-16"), "", "", "é", "utf-16-le"),
        (b"<meta charset=latin1>\xc3\xa9", "text/html; charset=utf-8", "", None, "utf-8"),
        (b"<meta charset=koi8-r>\xc1", "text/html", "", "<meta charset=koi8-r>а", "koi8-r"),
        (b"<meta charset=utf-16>x", "", "", "<meta charset=utf-16>x", "utf-8"),
        (b"caf\xc3\xa9", "", "", "café", "utf-8"),
        (b"caf\xe9", "", "h.test", "café", "cp1252"),
        (RUSSIAN.encode("cp1251"), "", "h.ru", RUSSIAN, "cp1251"),
        (JAPANESE.encode("cp932"), "", "h.jp:8080", JAPANESE, "cp932"),
        (JAPANESE.encode("euc_jp"), "", "h.jp", JAPANESE, "euc_jp"),
        (JAPANESE.encode("iso2022_jp"), "", "h.jp", JAPANESE, "iso2022_jp"),
        (JAPANESE.encode(), "", "h.jp", JAPANESE, "utf-8"),
        (b"plain", "text/html; charset=nonsense", "", "plain", "utf-8"),
    ],
)
def test_the_text_of_a_body(
    body: bytes, header: str, host: str, text: str | None, charset: str
) -> None:
    found, name = decode(body, header, f"http://{host}/")
    assert name == charset
    assert text is None or found == text


@pytest.mark.parametrize("name", ["hex", "zlib", "idna", "punycode", "utf-7", "unicode_escape"])
def test_codecs_that_are_no_encodings_of_pages_are_not_used(name: str) -> None:
    assert decode(b"78da", f"text/html; charset={name}") == ("78da", "utf-8")


@given(st.binary(), st.text(), st.sampled_from(["", "h.jp", "h.ru", "h.cn", "h.th"]))
def test_any_bytes_are_text(body: bytes, header: str, host: str) -> None:
    text, encoding = decode(body, header, f"http://{host}/")
    assert isinstance(text.encode(), bytes)
    assert codecs.lookup(encoding)


@given(st.binary(), st.sampled_from(["", "text/html; charset=utf-8", "text/html; charset=latin1"]))
def test_a_page_in_utf_8_has_the_same_text(body: bytes, header: str) -> None:
    html, encoding = as_utf8(body, header)
    assert (html.decode(errors="replace"), encoding) == decode(body, header)


def test_a_page_in_utf_8_is_not_copied() -> None:
    body = "<p>é</p>".encode()
    assert as_utf8(body, "text/html; charset=utf-8")[0] is body
