"""Request heads, validators, tracking parameters and the clock."""

import pytest

from demo.clock import Clock
from demo.request import parse_request
from demo.tracking import without_tracking
from demo.validators import Validators


def test_a_request_is_read() -> None:
    head = b"GET /a?b HTTP/1.1\r\nHost: S1.TEST:80\r\nUser-Agent: crawler/1\r\nContent-Length: 3"
    request = parse_request(head)
    assert request is not None
    assert request.host == "s1.test"
    assert request.target == "/a?b"
    assert request.agent == "crawler/1"
    assert request.keep_alive
    assert request.validators is None
    assert request.body_bytes == 3


def test_a_proxy_style_request_names_its_host_in_the_target() -> None:
    request = parse_request(b"GET http://s2.test/x HTTP/1.1\r\nHost: other")
    assert request is not None
    assert (request.host, request.target) == ("s2.test", "/x")


@pytest.mark.parametrize("head", [b"", b"GET /", b"GET x HTTP/1.1", b"GET / SPDY/3", b"\xff\x00"])
def test_a_malformed_request_is_refused(head: bytes) -> None:
    assert parse_request(head) is None


@pytest.mark.parametrize(
    ("version", "field", "keep_alive"),
    [("1.1", "", True), ("1.1", "close", False), ("1.0", "", False), ("1.0", "Keep-Alive", True)],
)
def test_connections_are_kept_as_asked(version: str, field: str, keep_alive: bool) -> None:
    request = parse_request(f"GET / HTTP/{version}\r\nConnection: {field}".encode())
    assert request is not None
    assert request.keep_alive is keep_alive


@pytest.mark.parametrize(
    ("match", "since", "holds"),
    [
        ('"a"', "", True),
        ('W/"a", "b"', "", True),
        ("*", "", True),
        ('"b"', "Thu, 01 Jan 2099 00:00:00 GMT", False),
        ("", "Thu, 01 Jan 1970 00:01:40 GMT", True),
        ("", "Thu, 01 Jan 1970 00:01:39 GMT", False),
        ("", "yesterday", False),
    ],
)
def test_validators_hold(match: str, since: str, holds: bool) -> None:
    assert Validators(match, since).hold('"a"', 100) is holds


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("/a", "/a"),
        ("/a?utm_source=x", "/a"),
        ("/a?b=1&utm_source=x&utm_medium=y&c=2", "/a?b=1&c=2"),
        ("/utm_source", "/utm_source"),
        ("/a?", "/a?"),
    ],
)
def test_tracking_parameters_are_dropped(target: str, kept: str) -> None:
    assert without_tracking(target) == kept


def test_the_clock_can_be_moved_and_run_faster() -> None:
    plain, moved = Clock(started_s=0.0), Clock(offset_s=7200.0, started_s=0.0)
    assert moved.version(3600) == plain.version(3600) + 2
    fast = Clock(scale=1e6, started_s=0.0, started_monotonic_s=plain.started_monotonic_s - 1)
    assert fast.now_s() >= 1e6
