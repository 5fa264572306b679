"""Names and contents of the objects of pages."""

import gzip
import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.storage.objects import object_name, pack, unpack

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)


def test_a_name_has_crawl_domain_day_and_hash() -> None:
    name = object_name("web", "example.com", AT, "00ff00ff00ff00ff")
    assert name == "web/example.com/2026/01/02/00ff00ff00ff00ff.json.gz"


def test_the_day_of_a_name_is_in_utc() -> None:
    at = datetime(2026, 1, 1, 23, 0, tzinfo=timezone(-timedelta(hours=5)))
    assert "/2026/01/02/" in object_name("web", "a.test", at, "ab")


@pytest.mark.parametrize(
    ("crawl", "domain", "folders"),
    [
        ("a/b", "a.test", "a%2Fb/a.test"),
        ("..", "a.test", "%2E%2E/a.test"),
        (".", "", "%2E/-"),
        ("web", "[::1]", "web/%5B%3A%3A1%5D"),
        ("wörld", "...", "w%C3%B6rld/%2E%2E%2E"),
        ("web\n", "a\\b", "web%0A/a%5Cb"),
    ],
)
def test_an_odd_name_stays_in_its_folder(crawl: str, domain: str, folders: str) -> None:
    assert object_name(crawl, domain, AT, "ab") == f"{folders}/2026/01/02/ab.json.gz"


def test_an_object_is_gzip_with_json_that_any_tool_reads() -> None:
    document = {
        "url": "http://a.test/ü",
        "crawled_at": AT,
        "next_crawl": None,
        "charset": "utf-8",
        "items": [{"at": AT}],
        "text": "grün",
        "body": "<p>grün".encode(),
    }
    assert json.loads(gzip.decompress(pack(document))) == {
        "url": "http://a.test/ü",
        "crawled_at": "2026-01-02T03:04:05.678000+00:00",
        "next_crawl": None,
        "charset": "utf-8",
        "items": [{"at": "2026-01-02T03:04:05.678000+00:00"}],
        "text": "grün",
        "body": "<p>grün",
    }


def test_the_same_page_gives_the_same_bytes() -> None:
    assert pack({"body": b"a"}) == pack({"body": b"a"})


@pytest.mark.parametrize(
    ("charset", "body", "is_text"),
    [
        ("utf-8", "\ufeffgrün\0".encode(), True),
        ("", b"plain", True),
        (None, b"plain", True),
        ("iso-8859-1", "grün".encode("latin-1"), True),
        ("cp1252", b"\x80 caf\xe9", True),
        ("shift_jis", "日本".encode("shift_jis"), True),
        ("utf-8", b"\xff\xfe", False),
        # Python reads these, and writes other bytes.
        ("utf-16", "\ufeff日本".encode("utf-16-be"), False),
        ("utf-7", b"+2AA-", False),
        ("no-such-charset", b"plain", False),
        ("hex", b"plain", False),
        ("punycode", b"plain", True),
        ("Punycode", b"plain", True),
    ],
)
def test_a_body_is_text_if_its_charset_gives_the_same_bytes_again(
    charset: str | None, body: bytes, is_text: bool
) -> None:
    data = pack({"charset": charset, "body": body})
    written = json.loads(gzip.decompress(data))
    if not is_text:
        assert written["body_base64"] == b64encode(body).decode()
    assert ("body" in written) is is_text
    assert unpack(data) == {"charset": charset, "body": body}


@given(st.binary(), st.sampled_from(["utf-8", "cp1252", "gb18030", "utf-16", "utf-7", "big5"]))
def test_any_body_comes_back_byte_for_byte(body: bytes, charset: str) -> None:
    assert unpack(pack({"charset": charset, "body": body}))["body"] == body


def test_a_document_may_have_no_body() -> None:
    assert unpack(pack({"url": "http://a.test/"})) == {"url": "http://a.test/"}


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"\xff",
        b'{"body_base64": "?"}',
        b'{"body": 1}',
        b'{"body": "a", "charset": "?"}',
    ],
)
def test_other_content_is_no_object_of_a_page(content: bytes) -> None:
    with pytest.raises(ValueError, match="this is no object of a page"):
        unpack(gzip.compress(content))


def test_a_part_of_an_object_is_no_object_of_a_page() -> None:
    data = pack({"text": "a" * 1000})
    for part in (b"", data[:5], data[:-9], data[:-1], b"x" + data):
        with pytest.raises(ValueError, match="this is no object of a page"):
            unpack(part)
