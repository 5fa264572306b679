"""Redirects that lead to no name are not even read."""

import pytest

from crawler.urls.canonical import leads_nowhere


@pytest.mark.parametrize(
    ("location", "found"),
    [
        (b"", False),
        (b"/path", False),
        (b"https://h.test/" + b"x" * 5000, False),
        (b"//h.test?" + b"x" * 5000, False),
        (b"https://user:password@h.test:8080/", False),
        (b"http://" + "\ufdfa".encode() * 5000, True),
        (b" \\\\" + b"a" * 1001 + b"/x", True),
        (b"//" + b"a" * 1000, False),
    ],
)
def test_a_host_longer_than_any_name_is_no_place(location: bytes, found: bool) -> None:
    assert leads_nowhere(location) is found
