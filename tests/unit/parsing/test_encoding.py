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


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Железная дорога соединяет большие города страны. Каждый день едут тысячи.", "cp1251"),
        ("Железная дорога соединяет большие города страны. Каждый день едут тысячи.", "koi8-r"),
        ("日本の鉄道は明治時代に始まり、世界でも有数の路線網を持っている。", "cp932"),
        ("日本の鉄道は明治時代に始まり、世界でも有数の路線網を持っている。", "euc_jp"),
        ("中国的铁路网络非常发达，高速铁路里程居世界第一。", "gb18030"),
        ("Ο σιδηρόδρομος συνδέει τις μεγάλες πόλεις της χώρας κάθε μέρα.", "cp1253"),
        ("הרכבת בישראל מחברת בין הערים הגדולות. בכל יום נוסעים אלפי אנשים.", "cp1255"),
        ("Zażółć gęślą jaźń, a potem pójdziemy do kościoła na mszę świętą.", "cp1250"),
        ("Die Straße führt über die Brücke, wo Menschen größere Häuser bauen.", "cp1252"),
        ("A “naïve” café’s bill – £5 – isn’t “cheap”…", "cp1252"),
        ("Zürich", "cp1252"),
    ],
)
def test_an_encoding_that_nothing_names_is_guessed_by_the_bytes(text: str, encoding: str) -> None:
    menu = "<a href=/>menu</a>" * 3_000
    body = f"<title>x</title>{menu}<p>{text}</p>{menu}"
    assert decode(body.encode(encoding), "text/html", "http://h.test/")[0] == body
    assert decode(body.encode(encoding), "text/html; charset=cp874")[1] == "cp874"


def test_a_page_in_utf_8_is_not_copied() -> None:
    body = "<p>é</p>".encode()
    assert as_utf8(body, "text/html; charset=utf-8")[0] is body
