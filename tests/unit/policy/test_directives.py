"""What pages ask of crawlers by their headers."""

import pytest

from crawler.policy.directives import Directives, of_headers, of_meta


@pytest.mark.parametrize(
    ("values", "noindex", "nofollow"),
    [
        ([], False, False),
        (["noindex"], True, False),
        (["NoFollow , noindex"], True, True),
        (["none"], True, True),
        (["noindex", "nofollow"], True, True),
        (["otherbot: noindex"], False, False),
        (["otherbot: noarchive, noindex"], False, False),
        (["Crawler: noindex"], True, False),
        (["*: nofollow"], False, True),
        (["otherbot: none, crawler: nofollow"], False, True),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST, noindex"], True, False),
        (["max-snippet:-1, nofollow"], False, True),
        (["max-image-preview:none"], False, False),
        ([""], False, False),
    ],
)
def test_headers_speak_to_all_crawlers_or_to_one(
    values: list[str], noindex: bool, nofollow: bool
) -> None:
    assert of_headers(values, "crawler") == Directives(noindex, nofollow)


def test_a_meta_tag_asks_for_both_at_once() -> None:
    assert of_meta("none") == Directives(noindex=True, nofollow=True)
