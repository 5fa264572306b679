"""The codec of entries: what goes in comes out, and nothing else is taken for an entry."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.entry import (
    MAX_ATTEMPTS,
    MAX_DEPTH,
    QUEUES,
    DamagedEntry,
    Entry,
    Kind,
    NewEntries,
    add_tail,
    decode,
    encode,
    host_in,
)

IDS = st.integers(0, 2**64 - 1)
HOSTS = st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z]{2,6}){1,2}(:[0-9]{1,5})?", fullmatch=True)
PATHS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n"), max_size=60)
WRITTEN = st.just("") | st.just("%") | st.builds("{}{}".format, st.sampled_from("?/"), PATHS)
TAILS = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary() | st.text(),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
ENTRIES = st.builds(
    lambda scheme, host, path, **more: Entry(url=f"{scheme}://{host}/{path}", **more),
    st.sampled_from(["http", "https"]),
    HOSTS,
    PATHS,
    id=IDS,
    queue=st.integers(1, QUEUES),
    depth=st.integers(0, MAX_DEPTH),
    parent=IDS,
    attempts=st.integers(0, MAX_ATTEMPTS),
    reclaims=st.integers(0, 255),
    kind=st.sampled_from(Kind),
    written=WRITTEN,
    discovered_s=st.integers(0, 2**32 - 1),
    tail=TAILS,
)
PLAIN = encode(Entry(1, "http://a.test/"))


@given(ENTRIES)
def test_an_entry_survives_its_bytes(entry: Entry) -> None:
    assert decode(encode(entry)) == entry


@given(ENTRIES)
def test_the_host_is_the_urls_authority(entry: Entry) -> None:
    assert entry.host == entry.url.split("/")[2]


@given(ENTRIES, st.integers(0, 3))
def test_a_link_has_the_same_bytes_without_an_entry(entry: Entry, group_skip: int) -> None:
    facts = (entry.id, entry.url, entry.queue, entry.depth, entry.parent)
    skip = min(group_skip, entry.host.index("."))
    seconds = entry.discovered_s
    plain = Entry(*facts, group_skip=skip, written=entry.written, discovered_s=seconds)
    data = NewEntries(plain.depth, plain.parent, seconds + 0.9).encode(
        plain.id, plain.url, plain.queue, plain.group_skip, plain.written
    )
    assert data == encode(plain)
    assert host_in(data) == plain.host.encode()
    assert add_tail(data, {}) == data
    plain.tail = entry.tail
    assert add_tail(data, entry.tail) == encode(plain)


def test_a_link_may_be_deeper_than_an_entry_can_say() -> None:
    data = NewEntries(MAX_DEPTH + 1, 2, 0).encode(1, "http://a.test/", 3, 0)
    assert decode(data) == Entry(1, "http://a.test/", queue=3, depth=MAX_DEPTH, parent=2)


@given(st.binary(max_size=80))
def test_any_bytes_are_an_entry_or_damaged(data: bytes) -> None:
    try:
        entry = decode(data)
    except DamagedEntry:
        return
    assert entry.host is not None
    assert 1 <= entry.queue <= QUEUES


@given(ENTRIES, st.data())
def test_an_entry_that_was_cut_or_changed_is_read_or_damaged(
    entry: Entry, data: st.DataObject
) -> None:
    whole = bytearray(encode(entry))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with suppress(DamagedEntry):
        assert decode(cut).host is not None


def test_a_plain_get_costs_25_bytes_beside_its_url() -> None:
    assert len(PLAIN) == 25 + len("a.test/")


@pytest.mark.parametrize(
    ("url", "written", "fetched", "cost"),
    [
        ("http://a.test/p", "", "http://a.test/p", 0),
        ("http://a.test/p?a&b", "?b&a", "http://a.test/p?b&a", 5),
        ("http://a.test/p", "?utm_id=1", "http://a.test/p?utm_id=1", 10),
        ("http://a.test/%C3%9F", "%", "http://a.test/%c3%9f", 2),
        ("https://a.test/", "/;jsessionid=1", "https://a.test/;jsessionid=1", 15),
    ],
)
def test_how_a_url_is_written_costs_what_differs(
    url: str, written: str, fetched: str, cost: int
) -> None:
    entry = Entry(1, url, written=written)
    assert entry.written_url == fetched
    assert len(encode(entry)) == len(encode(Entry(1, url))) + cost


def version_1(entry: Entry) -> bytes:
    """Pack an entry as releases before the time of discovery did."""
    data = encode(entry)
    return bytes([data[0] - 0x10]) + data[1:21] + data[25:]


def test_entries_of_version_1_are_those_that_earlier_releases_made() -> None:
    made = (
        b'\x13\x00"\x01\x04\xaeV\xe0\x06\xa4\x11\xea\x9f\x00\x00\x00\x00\x00\x00\x00\x00'
        b'www.b.test/q?a&b\n?b&a\n\x81\xa4etag\xa3"1"'
    )
    entry = Entry(
        id=12562474529723640479,
        url="https://www.b.test/q?a&b",
        attempts=2,
        reclaims=1,
        group_skip=4,
        written="?b&a",
        tail={"etag": '"1"'},
    )
    assert version_1(entry) == made
    assert decode(made) == entry
    assert host_in(made) == entry.host.encode() == b"b.test"


@given(ENTRIES)
def test_an_entry_of_version_1_becomes_version_2_without_a_time(entry: Entry) -> None:
    found = decode(version_1(entry))
    assert found == replace(entry, discovered_s=0)
    assert decode(encode(found)) == found
    assert host_in(version_1(entry)) == entry.host.encode()


def earlier(url: str, tail: dict[str, Any]) -> Entry:
    """An entry as releases before kinds and parts made it."""
    plain = version_1(Entry(1, url))
    return decode(bytes([plain[0] | 2]) + plain[1:] + b"\n" + msgpack.packb(tail))


def test_entries_of_earlier_releases_are_fetched_as_they_were_given() -> None:
    entry = earlier("http://a.test/p?a&b", {"url": "http://a.test/p?b&a#c", "method": "PUT"})
    assert (entry.url, entry.written_url) == ("http://a.test/p?a&b", "http://a.test/p?b&a#c")
    assert entry.tail == {"method": "PUT"}
    assert decode(encode(entry)) == entry


SITEMAP_TAIL = {
    "callback": "parse_sitemap",
    "cb_kwargs": {"site": "http://a.test/", "level": 0},
    "meta": {"download_any_type": True, "download_maxsize": 1},
}


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        (SITEMAP_TAIL, Kind.SITEMAP),
        ({"callback": "parse_sitemap"}, Kind.PAGE),
        ({"callback": "parse_sitemap", "cb_kwargs": {"site": 1}, "meta": {"a": 1}}, Kind.PAGE),
        ({**SITEMAP_TAIL, "callback": "parse_item"}, Kind.PAGE),
        ({"callback": "parse_sitemap", "cb_kwargs": [], "meta": 1}, Kind.PAGE),
    ],
)
def test_sitemaps_of_earlier_releases_are_known_by_their_tails(
    tail: dict[str, Any], kind: Kind
) -> None:
    entry = earlier("http://a.test/", tail)
    assert entry.kind is kind
    assert entry.tail == tail


def test_a_group_leaves_out_the_first_part_of_the_host() -> None:
    entry = Entry(1, "https://www.shop.example.com/x", group_skip=len("www.shop."))
    assert entry.host == "example.com"
    assert decode(encode(entry)) == entry


def test_a_depth_beyond_the_byte_stays_at_its_end() -> None:
    assert decode(encode(Entry(1, "http://a.test/", depth=1000))).depth == MAX_DEPTH


def test_attempts_are_counted_up_to_what_fits() -> None:
    entry = Entry(1, "http://a.test/", attempts=MAX_ATTEMPTS - 1)
    assert entry.retried().attempts == MAX_ATTEMPTS
    assert entry.retried().retried().attempts == MAX_ATTEMPTS


def with_byte(index: int, value: int) -> bytes:
    return PLAIN[:index] + bytes([value]) + PLAIN[index + 1 :]


def with_tail(tail: bytes) -> bytes:
    return with_byte(0, 0x22) + b"\n" + tail


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "too short"),
        (PLAIN[:21], "too short"),
        (PLAIN[:25], "no host or no path"),
        (with_byte(0, 0x00), "entry version 0, expected 1 to 2"),
        (with_byte(0, 0x30), "entry version 3, expected 1 to 2"),
        (with_byte(2, 0 << 5), "front queue 0"),
        (PLAIN[:25] + b"no-path", "no host or no path"),
        (with_byte(4, 200), "no host or no path"),
        (PLAIN[:25] + b"a.test/\xff", "unreadable entry"),
        (with_tail(b""), "unreadable entry"),
        (with_tail(b"\xc1"), "unreadable entry"),
        (with_tail(msgpack.packb([1])), "the entry's tail is no map"),
        (with_tail(msgpack.packb({"a": 1}) + b"x"), "unreadable entry"),
        (with_tail(msgpack.packb({"a": 1})[:-1]), "unreadable entry"),
        (with_tail(b"?a\n"), "unreadable entry"),
        (with_tail(b"?\xff"), "unreadable entry"),
        (with_tail(b"%.evil.test/"), "unknown written form"),
        (with_byte(0, 0x28), "entry kind 2"),
    ],
)
def test_damage_is_named(data: bytes, problem: str) -> None:
    with pytest.raises(DamagedEntry, match=problem):
        decode(data)
