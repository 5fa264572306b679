"""Heads that the parser refuses: what is made of them, and what nobody can make anything of."""

import pytest

from crawler.download.response_parser import NotBegun, Unmendable, mended

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (b"no colon\r\nA: 1", b"A: 1"),
        (b"A: 1\r\n: x\r\n : y", b"A: 1"),
        (b"Na me: x\r\nA: 1", b"A: 1"),
        ("Naïve: x\r\nA: 1".encode(), b"A: 1"),
        (b"Na me: x\r\n more\r\nA: 1\r\n  2\r\n\t3", b"A: 1 2 3"),
        (b"A : \xe9\r\r\nB:", b"A: \xe9\r\nB: "),
        (b"A: 1\rB: 2", b"A: 1 B: 2"),
        (b"A: 1\nB: 2", b"A: 1\r\nB: 2"),
        (b"Content-Length: 3\r\nA: 1\r\ncontent-length:3", b"A: 1\r\nContent-Length: 3"),
        (b"Content-Length: 3, 3,03", b"Content-Length: 3"),
        (b"Content-Length: 000", b"Content-Length: 0"),
        (b"Content-Length: 3,", b"Content-Length: 3"),
        (b"Content-Length: x\r\nContent-Length: 3", b"Content-Length: 3"),
        (b"A: 1\r\nContent-Length: +3", b"A: 1"),
        (b"A: 1\r\nContent-Length: 3\r\n 4", b"A: 1"),
        (b"A: 1\r\nContent-Length: " + b"9" * 5000, b"A: 1"),
        (b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: Chunked\r\nContent-Length: 1, 2", b"Transfer-Encoding: Chunked"),
        (b"Transfer-Encoding: identity\r\nContent-Length: 3", b"Content-Length: 3"),
    ],
)
def test_lines_that_are_no_headers_are_left_out_and_the_end_is_said_once(
    lines: bytes, kept: bytes
) -> None:
    assert mended(OK + lines + b"\r\n\r\nbody\n\n") == OK + kept + b"\r\n\r\nbody\n\n"


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/2 200 OK",
        b"HTTP/1.2 200 OK",
        b"http/1.1 200 OK",
        b"HTTP 200 OK",
        b"HTTP/1.1  200  OK\r",
        b"HTTP/1.1 200OK",
        b"\r\nHTTP/1 200 OK",
    ],
)
def test_the_first_line_needs_a_status(line: bytes) -> None:
    assert mended(line + b"\r\n\r\nbody") == OK + b"\r\nbody"


NO_ANSWERS = [
    b"220 mail.test ESMTP\r\n",
    b"SSH-2.0",
    b"<html>",
    b"HTTPS is wanted\r\n",
    b"HTTP/1.1 OK\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\n\r\n",
    b"HTTP/1.1 99 OK\r\n\r\n",
]


@pytest.mark.parametrize("raw", NO_ANSWERS)
def test_a_status_line_may_come_late(raw: bytes) -> None:
    line = raw.rstrip() + b"\r\n"
    with pytest.raises(NotBegun):
        mended(raw)
    with pytest.raises(NotBegun):
        mended(line + b"HTTP/1.1 20", len(raw))
    assert mended(line + OK, len(line)) is None
    assert mended(line + OK + b"\r\nbody", len(line)) == OK + b"\r\nbody"


def test_a_status_line_does_not_come_so_late() -> None:
    with pytest.raises(Unmendable):
        mended(b"x\r\n" * 2000 + OK + b"\r\n")
    with pytest.raises(Unmendable):
        mended(b"x" * 5000)


@pytest.mark.parametrize(
    "raw",
    [*NO_ANSWERS, *(line + b"\r\n" + OK + b"\r\n" for line in NO_ANSWERS)],
)
def test_what_is_no_answer_stays_refused_where_nothing_may_go_before_it(raw: bytes) -> None:
    with pytest.raises(Unmendable):
        mended(raw, may_begin_late=False)


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 3\r\nContent-Length: 4",
        b"Content-Length: 3, 4",
        b"Content-Length: 3, x, 4",
    ],
)
def test_what_can_be_read_in_two_ways_stays_refused(lengths: bytes) -> None:
    with pytest.raises(Unmendable):
        mended(OK + lengths + b"\r\n\r\n")


def test_a_head_is_waited_for() -> None:
    raw = b"HTTP/2 200 OK\r\nno colon\r\n\r\nbody"
    ends = raw.index(b"body")
    for size in range(1, ends):
        assert mended(raw[:size], known=size - 1) is None
    assert mended(raw[:ends], known=ends - 1) == OK + b"\r\n"


def test_what_goes_before_an_answer_is_kept() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    begun = hints + b"HTTP/1.1 100 \r\n\r\n" + OK + b"no colon\r\n"
    assert mended(begun) is None
    known = len(begun)
    assert mended(begun + b"\r\n", known) == hints + b"HTTP/1.1 100 \r\n\r\n" + OK + b"\r\n"
    assert mended(b"HTTP/2 101 \r\n\r\nbytes") == b"HTTP/1.1 101 \r\n\r\nbytes"


def test_a_line_of_carriage_returns_is_read() -> None:
    # With squares, one of this size would take minutes.
    head = OK + b"bad line\r\nX: " + b"\r" * 600_000 + b"x"
    found = mended(head + b"\r\n\r\n")
    assert found == OK + b"X: x\r\n\r\n"
