"""Requests as they are sent: one line each, whatever their URLs and headers contain."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadFailedError, UnsupportedURLSchemeError

from crawler.download.request_writer import Written, write


def written(url: str, **arguments: Any) -> Written:
    return write(Request(url, **arguments))


@pytest.mark.parametrize(
    ("url", "host", "port", "line", "field"),
    [
        ("http://h.test/a?b=c", "h.test", 80, b"/a?b=c", b"h.test"),
        ("http://h.test", "h.test", 80, b"/", b"h.test"),
        ("http://h.test?a", "h.test", 80, b"/?a", b"h.test"),
        ("http://h.test/a#b?c/d", "h.test", 80, b"/a", b"h.test"),
        ("http://h.test#b@other.test/", "h.test", 80, b"/", b"h.test"),
        ("http://h.test:8080/", "h.test", 8080, b"/", b"h.test:8080"),
        ("http://h.test:80/", "h.test", 80, b"/", b"h.test"),
        ("https://h.test/", "h.test", 443, b"/", b"h.test"),
        ("https://h.test:80/", "h.test", 80, b"/", b"h.test:80"),
        ("HTTP://H.test/A", "h.test", 80, b"/A", b"h.test"),
        ("http://h.test./", "h.test", 80, b"/", b"h.test"),
        ("http://[::1]:81/", "::1", 81, b"/", b"[::1]:81"),
        ("http://h.test/a%7Cb/../c;d?e=%20", "h.test", 80, b"/a%7Cb/../c;d?e=%20", b"h.test"),
        ("http://h.test/a//b?c=http://d.test/", "h.test", 80, b"/a//b?c=http://d.test/", b"h.test"),
    ],
)
def test_a_url_tells_whom_to_ask_for_what(
    url: str, host: str, port: int, line: bytes, field: bytes
) -> None:
    found = written(url)
    assert (found.origin.host, found.origin.port) == (host, port)
    assert found.data == b"GET %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (line, field)


class Unescaped(Request):
    """A request whose URL Scrapy has not made safe."""

    def _set_url(self, url: str) -> None:
        self._url = url


@pytest.mark.parametrize(
    "url",
    [
        "http://h.test/ HTTP/1.1\r\nX: y",
        "http://h.test/a b",
        "http://h.test/\n",
        "http://h.test/\x00",
        "http://h.test/ü",
        "http://h.te\r\nst/",
        "http://h.test\\@other.test/",
        "http://",
        "http:///a",
        "http://:80/",
        "http://h.test:x/",
        "http://h.test:99999/",
        "http://[::1/",
        "ftp://h.test/",
        "h.test/a",
    ],
)
def test_a_url_that_no_line_can_hold_is_refused(url: str) -> None:
    with pytest.raises(UnsupportedURLSchemeError):
        write(Unescaped(url))


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nY: b"},
        {"X": "a\nY: b"},
        {"X": "a\rb"},
        {"X": "a\0b"},
        {"X\r\nY": "a"},
        {"Host": "h.test\r\nX: y"},
        {"X": ["a", "b\n"]},
        # As many of each kind as there should be.
        {"X": "a\nb\r"},
        {"X": "a\r\n", "Y": "b"},
    ],
)
def test_a_header_cannot_begin_another_line(headers: dict[str, Any]) -> None:
    with pytest.raises(DownloadFailedError, match="line break or a zero byte"):
        written("http://h.test/", headers=headers)


def test_a_method_cannot_begin_another_line() -> None:
    with pytest.raises(DownloadFailedError):
        written("http://h.test/", method="GET / HTTP/1.1\r\nX: y\r\n\r\nGET")


def test_the_length_of_a_body_is_told_by_us_alone() -> None:
    headers = {"Content-Length": "99", "Transfer-Encoding": "chunked", "X": "y"}
    data = written("http://h.test/", method="POST", headers=headers, body=b"abc").data
    assert data == b"POST / HTTP/1.1\r\nHost: h.test\r\nX: y\r\nContent-Length: 3\r\n\r\nabc"


@pytest.mark.parametrize(
    ("method", "tells"), [("GET", False), ("HEAD", False), ("POST", True), ("PUT", True)]
)
def test_what_could_have_a_body_says_that_it_has_none(method: str, tells: bool) -> None:
    data = written("http://h.test/", method=method).data
    assert (b"Content-Length: 0\r\n" in data) is tells


def test_a_get_may_have_a_body() -> None:
    assert written("http://h.test/", body=b"q").data.endswith(b"Content-Length: 1\r\n\r\nq")


def test_a_request_may_name_its_host_itself() -> None:
    data = written("http://127.0.0.1/", headers={"X": "y", "Host": "h.test"}).data
    assert data == b"GET / HTTP/1.1\r\nHost: h.test\r\nX: y\r\n\r\n"


def test_the_user_of_a_url_is_told_unless_a_header_does() -> None:
    url = "http://me:p%40ss@h.test/"
    found = written(url)
    assert found.origin.host == "h.test"
    assert b"\r\nHost: h.test\r\nAuthorization: Basic bWU6cEBzcw==\r\n" in found.data
    data = written(url, headers={"Authorization": "Bearer x"}).data
    assert data.count(b"Authorization") == 1
    assert b"Bearer x" in data


@pytest.mark.parametrize(
    ("value", "keeps"), [(None, True), ("keep-alive", True), ("close", False), ("Close, x", False)]
)
def test_a_request_may_ask_for_the_end_of_its_connection(value: str | None, keeps: bool) -> None:
    headers = {} if value is None else {"Connection": value}
    assert written("http://h.test/", headers=headers).keeps is keeps


def test_headers_are_sent_byte_for_byte() -> None:
    data = written("http://h.test/", headers={"X": [b"\xc3\xbc", b"\xfc"]}).data
    assert data == b"GET / HTTP/1.1\r\nHost: h.test\r\nX: \xc3\xbc\r\nX: \xfc\r\n\r\n"
    # As Scrapy spells a text for a server of that time.
    data = written("http://h.test/", headers={"X": "\xfc"}, encoding="latin-1").data
    assert b"\r\nX: \xfc\r\n" in data
