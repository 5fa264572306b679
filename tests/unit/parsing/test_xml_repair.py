"""Bare ampersands of XML are repaired in any pieces, and only where they are wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parsing.feeds import Ampersands, read_feed, repaired
from crawler.parsing.sitemap import read

CASES = [
    ("<a>?x=1&y=2</a>", "<a>?x=1&amp;y=2</a>"),
    ("<a b='?x=1&y=2'/>", "<a b='?x=1&amp;y=2'/>"),
    ("<a>&amp;&#38;&#x26;&lt;</a>", "<a>&amp;&#38;&#x26;&lt;</a>"),
    ("<a>x&</a>", "<a>x&amp;</a>"),
    ("<a>x&", "<a>x&amp;"),
    ("<a>&&amp;&</a>", "<a>&amp;&amp;&amp;</a>"),
    ("<a><![CDATA[x&y]]>&z</a>", "<a><![CDATA[x&y]]>&amp;z</a>"),
    ("<a>&<![CDATA[&]]&]]>&<![CDATA[&", "<a>&amp;<![CDATA[&]]&]]>&amp;<![CDATA[&"),
    ("<a>]]>&<![CDATA &</a>", "<a>]]>&amp;<![CDATA &amp;</a>"),
    ("", ""),
    ("&", "&amp;"),
]


def in_pieces(document: bytes, size: int) -> bytes:
    ampersands = Ampersands()
    pieces = [document[at : at + size] for at in range(0, len(document), size)]
    return b"".join(map(ampersands.feed, pieces)) + ampersands.feed(b"", last=True)


@pytest.mark.parametrize(("text", "wanted"), CASES)
def test_what_is_no_reference_becomes_one_outside_of_cdata(text: str, wanted: str) -> None:
    assert repaired(text.encode()) == wanted.encode()
    for size in range(1, 16):
        assert in_pieces(text.encode(), size) == wanted.encode()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_what_has_two_bytes_a_character_is_left_alone(encoding: str) -> None:
    document = "<a>x&y</a>".encode(encoding)
    assert repaired(document) == document
    assert in_pieces(document, 1) == document


_PARTS = st.sampled_from(["&", "amp;", "#38;", "<![CDATA[", "]]>", "]", "<", "!", "x", " ", "é"])


@given(st.lists(_PARTS, max_size=30), st.integers(1, 12))
def test_pieces_make_no_difference(parts: list[str], size: int) -> None:
    document = "".join(parts).encode()
    assert in_pieces(document, size) == repaired(document)
    # Once is enough.
    assert repaired(repaired(document)) == repaired(document)


ADDRESSES = ["/?x=1&y=2", "/?x=1&amp;y=2", "<![CDATA[/?x=1&y=2]]>", " <![CDATA[/?x=1&y=2]]> "]
WANTED = "http://h.test/?x=1&y=2"


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_sitemap_may_write_its_addresses_in_any_way(address: str) -> None:
    body = f"<urlset><url><loc>{address}</loc></url></urlset>".encode()
    assert [page.url for page in read(body, "http://h.test/").pages] == [WANTED]


def test_a_section_of_a_sitemap_may_lie_across_two_chunks() -> None:
    for at in range(65_480, 65_560, 3):
        space = " " * (at - len("<urlset>"))
        body = f"<urlset>{space}<url><loc><![CDATA[/?x=1&y=2]]></loc></url></urlset>".encode()
        assert [page.url for page in read(body, "http://h.test/").pages] == [WANTED]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_feed_may_write_its_addresses_in_any_way(address: str) -> None:
    body = f"<rss><channel><item><link>{address}</link></item></channel></rss>".encode()
    document = read_feed(body, "http://h.test/", max_links=10)
    assert document is not None
    assert document.links == [WANTED]


def test_an_address_in_an_attribute_of_a_feed_is_mended() -> None:
    body = b"<feed><entry><link href='/?x=1&y=2'/></entry></feed>"
    document = read_feed(body, "http://h.test/", max_links=10)
    assert document is not None
    assert document.links == [WANTED]
